"""One pipeline in a folder: run on a cluster, or on one machine, and what its tables hold then.

Both ways are the commands that people use, as processes of their own. Tables
are read without target-spark (`tests.cluster.tables`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from target_spark.cli.last_state import find_recoverable_tables, get_job_metadata
from target_spark.config import settings
from tests.cluster.faulty_taps import Faults
from tests.cluster.tables import rows_of

if TYPE_CHECKING:
    from tests.cluster.standalone import Standalone

__all__ = ["Done", "Job", "Running", "differences", "ordered", "until"]

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 1800
TARGET: Final = "from target_spark.target import TargetSpark; TargetSpark.cli()"
FAULTY: Final = "tests.cluster.faulty_taps:FaultyTap"
SMALL: Final = {"spark.executor.cores": "2", "spark.driver.memory": "640m"}


@dataclass(frozen=True)
class Done:
    """How a process ended, and what it said."""

    code: int
    out: str
    err: str

    def check(self, code: int = 0) -> Done:
        """Hold its exit code against what it should be."""
        assert self.code == code, f"exit code {self.code}\n{self.err[-8000:]}"
        return self

    @property
    def state(self) -> dict[str, Any]:
        """The last state that left, whole lines only."""
        lines = self.out.rpartition("\n")[0].splitlines()
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return found


@dataclass
class Job:
    """A tap, a target and where their tables lie; ``cluster`` is where it runs when spread."""

    folder: Path
    cluster: Standalone
    config: dict[str, Any] = field(default_factory=dict)
    target: dict[str, Any] = field(default_factory=dict)
    tap: str = FAULTY
    catalog: dict[str, Any] | None = None
    environ: dict[str, str] = field(default_factory=dict)
    path: tuple[Path, ...] = (ROOT,)
    """Where modules are found, on all machines."""
    begun: list[Running] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Make the folder, and fill in what every job says."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.tap == FAULTY:
            self.config = {"faults": str(self.folder / "faults"), **self.config}
        self.target = {"format": "delta", "small_runs": True, "flush_rows": 100_000, **self.target}
        self._number = sum(1 for _ in self.folder.glob("*.json"))

    @property
    def faults(self) -> Faults:
        """What befalls the contexts of this job."""
        return Faults(self.folder / "faults")

    @property
    def alone(self) -> Job:
        """The same job in another folder, for one machine."""
        folder = self.folder.with_name(f"{self.folder.name}-alone")
        config = dict(self.config)
        if self.tap == FAULTY:
            config["faults"] = str(folder / "faults")
        return replace(self, folder=folder, config=config, target=dict(self.target))

    @property
    def tables(self) -> Path:
        """Where its tables lie."""
        return self.folder / "tables"

    # Running it

    def start(self, name: str = "run", **target: Any) -> Running:
        """Begin to run it on the cluster; files of that name get what it says."""
        spark = {**self.cluster.spark, **SMALL, "spark.executorEnv.PYTHONPATH": self._path()}
        staging = self.folder / "staging"
        staging.mkdir(exist_ok=True)
        told = self._told(**{"master": self.cluster.master, "staging": str(staging), **target})
        told["spark"] = {**spark, **self.target.get("spark", {}), **target.get("spark", {})}
        words = ["run", "--tap", self.tap, "--tap-config", self._file("tap", self.config)]
        if self.catalog is not None:
            words += ["--catalog", self._file("catalog", self.catalog)]
        words += ["--config", self._file("target", told)]
        self.begun.append(Running(self, name, [sys.executable, "-c", TARGET, *words]))
        return self.begun[-1]

    def close(self) -> None:
        """Kill what was begun and has not ended: a test has failed."""
        for running in self.begun:
            if running.alive:
                running.kill()

    def run(self, **target: Any) -> Done:
        """Run it on the cluster to its end."""
        return self.start(**target).end()

    def pipe(self, state: Mapping[str, Any] | None = None) -> Done:
        """Run it on one machine: ``tap | target``."""
        told = self._told(master="local[1]", spark={"spark.sql.shuffle.partitions": "1"})
        module, _, name = self.tap.partition(":")
        tap = f"from {module} import {name}; {name}.cli()"
        words = ["--config", self._file("tap", self.config)]
        if self.catalog is not None:
            words += ["--catalog", self._file("catalog", self.catalog)]
        if state:
            words += ["--state", self._file("state", dict(state))]
        common: dict[str, Any] = {"cwd": self.folder, "env": self._env(), "stderr": subprocess.PIPE}
        with (self.folder / "messages").open("w+b") as messages:
            read = subprocess.run(
                [sys.executable, "-c", tap, *words], check=False, stdout=messages, **common
            )
            assert read.returncode == 0, read.stderr.decode()[-4000:]
            messages.seek(0)
            loaded = subprocess.run(
                [sys.executable, "-c", TARGET, "--config", self._file("target", told)],
                check=False,
                stdin=messages,
                stdout=subprocess.PIPE,
                timeout=PATIENCE,
                **common,
            )
        return Done(loaded.returncode, loaded.stdout.decode(), loaded.stderr.decode())

    def _told(self, **more: Any) -> dict[str, Any]:
        return {"path": str(self.tables), **self.target, **more}

    def _path(self) -> str:
        return os.pathsep.join(map(str, self.path))

    def _env(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": self._path(), **self.environ}

    def _file(self, name: str, content: dict[str, Any]) -> str:
        self._number += 1
        path = self.folder / f"{name}-{self._number}.json"
        path.write_text(json.dumps(content))
        return str(path)

    # What it has made

    def rows(self, stream: str) -> Counter[str]:
        """Return how often each row stands in a table, the loader's own columns apart."""
        found = rows_of(self.tables, str(self.target["format"]), stream)[stream]
        return Counter(_plain(row) for row in found)

    def state(self) -> dict[str, Any]:
        """Return the last state that the tables hold; empty where they hold none."""
        config = self._told()
        found = find_recoverable_tables(settings.load_options(config), _no_spark)
        last = get_job_metadata([settings.get_job_name(config)], found)
        state: dict[str, Any] = json.loads(last.state) if last and last.state else {}
        return state

    def left_behind(self) -> list[str]:
        """Return what is left of it in the folder that workers write to."""
        staging = self.folder / "staging"
        return sorted(path.name for path in staging.iterdir()) if staging.exists() else []


class Running:
    """One process of ``target-spark run``."""

    def __init__(self, job: Job, name: str, words: list[str]) -> None:
        """Start it; what it says goes to files of the job's folder."""
        self.job = job
        self._out = job.folder / f"{name}.out"
        self._err = job.folder / f"{name}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                words, cwd=job.folder, env=job._env(), stdout=out, stderr=err
            )

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def said(self) -> str:
        """Return what it said to people until now."""
        return self._err.read_text(errors="replace")

    def wait_for_visits(self, stream: str, count: int = 1) -> None:
        """Wait until so many contexts of a stream were begun."""
        self.wait_until(lambda: self.job.faults.visits(stream) >= count)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; it may not end meanwhile."""
        until(lambda: holds() or not self.alive)
        assert self.alive, self.said()[-8000:]

    def signal(self, number: int) -> None:
        """Send a signal to the driver's own process."""
        self.process.send_signal(number)

    def jvm(self) -> int:
        """Return the process id of the driver's JVM, once it is known."""
        leases = self.job.tables / "_target_spark"
        found: list[int] = []

        def is_known() -> bool:
            for lease in leases.glob("*.lease"):
                with contextlib.suppress(ValueError, OSError):
                    owner = json.loads(lease.read_bytes())
                    if owner.get("pid") == self.process.pid and "jvm" in owner:
                        found.append(int(owner["jvm"]))
            return bool(found)

        self.wait_until(is_known)
        return found[0]

    def kill(self) -> None:
        """Kill the driver, and its JVM with it, as if its machine were gone."""
        below = _below(self.process.pid)
        for pid in (self.process.pid, *below):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def end(self) -> Done:
        """Wait for its end."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(self.said()[-8000:]) from None
        return Done(code, self._out.read_text(), self.said())


def until(holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "It did not come to be."
        time.sleep(0.05)


def ordered(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state with its partitions in one order, whatever order they were begun in."""
    return {
        stream: {
            **own,
            "partitions": sorted(own.get("partitions", []), key=lambda each: str(each["context"])),
        }
        for stream, own in state.get("bookmarks", {}).items()
    }


def differences(job: Job, other: Job, streams: tuple[str, ...]) -> dict[str, Any]:
    """Return what one has and the other has not, by stream, and whether the states are one."""
    found: dict[str, Any] = {}
    for stream in streams:
        rows, expected = job.rows(stream), other.rows(stream)
        if rows != expected:
            found[stream] = {"more": rows - expected, "less": expected - rows}
    if (here := ordered(job.state())) != (there := ordered(other.state())):
        found["state"] = {"is": here, "should be": there}
    return found


def _no_spark() -> Any:
    raise AssertionError("these tables can be read without Spark")


def _below(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they did."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {pid})


def _plain(row: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in row.items() if not name.startswith("_sdc_")}
    return json.dumps(kept, sort_keys=True, default=str)
