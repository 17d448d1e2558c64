"""One pipeline in a folder, run on a cluster or on one machine, and the rows of its tables.

Both ways run the user's commands as processes. Tables are read without target-spark
(`tests.cluster.tables`).
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
from tests.cluster.standalone import list_descendants
from tests.cluster.tables import read_tables

if TYPE_CHECKING:
    from tests.cluster.standalone import StandaloneCluster

__all__ = ["FinishedRun", "Job", "RunProcess", "compare_tables", "sort_bookmarks", "wait_until"]

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 1800
TARGET: Final = "from target_spark.target import TargetSpark; TargetSpark.cli()"
FAULTY: Final = "tests.cluster.faulty_taps:FaultyTap"
SMALL: Final = {"spark.executor.cores": "2", "spark.driver.memory": "640m"}


@dataclass(frozen=True)
class FinishedRun:
    """The exit code and the output of a process."""

    code: int
    out: str
    err: str

    def check(self, code: int = 0) -> FinishedRun:
        """Check the exit code."""
        assert self.code == code, f"exit code {self.code}\n{self.err[-8000:]}"
        return self

    @property
    def state(self) -> dict[str, Any]:
        """The last emitted state; only complete lines count."""
        lines = self.out.rpartition("\n")[0].splitlines()
        last_state: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return last_state


@dataclass
class Job:
    """A tap, a target and the folder of their tables; ``cluster`` runs it when distributed."""

    folder: Path
    cluster: StandaloneCluster
    config: dict[str, Any] = field(default_factory=dict)
    target: dict[str, Any] = field(default_factory=dict)
    tap: str = FAULTY
    catalog: dict[str, Any] | None = None
    environ: dict[str, str] = field(default_factory=dict)
    path: tuple[Path, ...] = (ROOT,)
    """The module search path on all machines."""
    processes: list[RunProcess] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Create the folder, and fill in the settings that every job has."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.tap == FAULTY:
            self.config = {"faults": str(self.folder / "faults"), **self.config}
        self.target = {"format": "delta", "small_runs": True, "flush_rows": 100_000, **self.target}
        self._number = sum(1 for _ in self.folder.glob("*.json"))

    @property
    def faults(self) -> Faults:
        """The faults of this job's contexts."""
        return Faults(self.folder / "faults")

    @property
    def one_machine_job(self) -> Job:
        """The same job in another folder, for one machine."""
        folder = self.folder.with_name(f"{self.folder.name}-one-machine")
        config = dict(self.config)
        if self.tap == FAULTY:
            config["faults"] = str(folder / "faults")
        return replace(self, folder=folder, config=config, target=dict(self.target))

    @property
    def tables(self) -> Path:
        """The folder of its tables."""
        return self.folder / "tables"

    # Runs

    def start(self, name: str = "run", **target: Any) -> RunProcess:
        """Start a run on the cluster; its output goes to files with that name."""
        spark = {
            **self.cluster.small_application_conf,
            **SMALL,
            "spark.executorEnv.PYTHONPATH": self._path(),
        }
        staging = self.folder / "staging"
        staging.mkdir(exist_ok=True)
        settings = self._target_settings(
            **{"master": self.cluster.master, "staging": str(staging), **target}
        )
        settings["spark"] = {**spark, **self.target.get("spark", {}), **target.get("spark", {})}
        arguments = ["run", "--tap", self.tap, "--tap-config", self._file("tap", self.config)]
        if self.catalog is not None:
            arguments += ["--catalog", self._file("catalog", self.catalog)]
        arguments += ["--config", self._file("target", settings)]
        self.processes.append(RunProcess(self, name, [sys.executable, "-c", TARGET, *arguments]))
        return self.processes[-1]

    def close(self) -> None:
        """Kill the runs that have not ended, after a failed test."""
        for running in self.processes:
            if running.alive:
                running.kill()

    def run(self, **target: Any) -> FinishedRun:
        """Run the job on the cluster to its end."""
        return self.start(**target).end()

    def pipe(self, state: Mapping[str, Any] | None = None) -> FinishedRun:
        """Run the job on one machine: ``tap | target``."""
        settings = self._target_settings(
            master="local[1]", spark={"spark.sql.shuffle.partitions": "1"}
        )
        module, _, name = self.tap.partition(":")
        tap = f"from {module} import {name}; {name}.cli()"
        arguments = ["--config", self._file("tap", self.config)]
        if self.catalog is not None:
            arguments += ["--catalog", self._file("catalog", self.catalog)]
        if state:
            arguments += ["--state", self._file("state", dict(state))]
        common: dict[str, Any] = {"cwd": self.folder, "env": self._env(), "stderr": subprocess.PIPE}
        with (self.folder / "messages").open("w+b") as messages:
            read = subprocess.run(
                [sys.executable, "-c", tap, *arguments], check=False, stdout=messages, **common
            )
            assert read.returncode == 0, read.stderr.decode()[-4000:]
            messages.seek(0)
            loaded = subprocess.run(
                [sys.executable, "-c", TARGET, "--config", self._file("target", settings)],
                check=False,
                stdin=messages,
                stdout=subprocess.PIPE,
                timeout=PATIENCE,
                **common,
            )
        return FinishedRun(loaded.returncode, loaded.stdout.decode(), loaded.stderr.decode())

    def _target_settings(self, **kwargs: Any) -> dict[str, Any]:
        return {"path": str(self.tables), **self.target, **kwargs}

    def _path(self) -> str:
        return os.pathsep.join(map(str, self.path))

    def _env(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": self._path(), **self.environ}

    def _file(self, name: str, content: dict[str, Any]) -> str:
        self._number += 1
        path = self.folder / f"{name}-{self._number}.json"
        path.write_text(json.dumps(content))
        return str(path)

    # Results

    def rows(self, stream: str) -> Counter[str]:
        """Return the number of occurrences of each row of a table, without metadata columns."""
        table_rows = read_tables(self.tables, str(self.target["format"]), stream)[stream]
        return Counter(_encode_row(row) for row in table_rows)

    def state(self) -> dict[str, Any]:
        """Return the last state in the tables; empty if there is none."""
        config = self._target_settings()
        recoverable = find_recoverable_tables(settings.load_options(config), _no_spark)
        last = get_job_metadata([settings.get_job_name(config)], recoverable)
        state: dict[str, Any] = json.loads(last.state) if last and last.state else {}
        return state

    def list_staging(self) -> list[str]:
        """Return the names left in the staging folder."""
        staging = self.folder / "staging"
        return sorted(path.name for path in staging.iterdir()) if staging.exists() else []


class RunProcess:
    """One process of ``target-spark run``."""

    def __init__(self, job: Job, name: str, arguments: list[str]) -> None:
        """Start the process; its output goes to files in the job's folder."""
        self.job = job
        self._out = job.folder / f"{name}.out"
        self._err = job.folder / f"{name}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                arguments, cwd=job.folder, env=job._env(), stdout=out, stderr=err
            )

    @property
    def alive(self) -> bool:
        """Return True if the process has not ended."""
        return self.process.poll() is None

    def read_log(self) -> str:
        """Return the standard error so far."""
        return self._err.read_text(errors="replace")

    def wait_for_visits(self, stream: str, count: int = 1) -> None:
        """Wait until ``count`` contexts of a stream were started."""
        self.wait_until(lambda: self.job.faults.visits(stream) >= count)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait for a condition; fail if the process ends before."""
        wait_until(lambda: holds() or not self.alive)
        assert self.alive, self.read_log()[-8000:]

    def signal(self, number: int) -> None:
        """Send a signal to the driver's Python process."""
        self.process.send_signal(number)

    def jvm(self) -> int:
        """Return the process id of the driver's JVM, once it is known."""
        leases = self.job.tables / "_target_spark"
        pids: list[int] = []

        def is_known() -> bool:
            for lease in leases.glob("*.lease"):
                with contextlib.suppress(ValueError, OSError):
                    owner = json.loads(lease.read_bytes())
                    if owner.get("pid") == self.process.pid and "jvm" in owner:
                        pids.append(int(owner["jvm"]))
            return bool(pids)

        self.wait_until(is_known)
        return pids[0]

    def kill(self) -> None:
        """Kill the driver and its JVM, as if the machine had failed."""
        below = list_descendants(self.process.pid)
        for pid in (self.process.pid, *below):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def end(self) -> FinishedRun:
        """Wait for the end of the process."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(self.read_log()[-8000:]) from None
        return FinishedRun(code, self._out.read_text(), self.read_log())


def wait_until(holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "The condition was not met in time."
        time.sleep(0.05)


def sort_bookmarks(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bookmarks of a state, with their partitions sorted by context."""
    return {
        stream: {
            **bookmark,
            "partitions": sorted(
                bookmark.get("partitions", []), key=lambda entry: str(entry["context"])
            ),
        }
        for stream, bookmark in state.get("bookmarks", {}).items()
    }


def compare_tables(job: Job, other: Job, streams: tuple[str, ...]) -> dict[str, Any]:
    """Return the differences between two jobs' tables, by stream, and between their states."""
    by_stream: dict[str, Any] = {}
    for stream in streams:
        rows, expected = job.rows(stream), other.rows(stream)
        if rows != expected:
            by_stream[stream] = {"more": rows - expected, "less": expected - rows}
    if (actual_state := sort_bookmarks(job.state())) != (
        expected_state := sort_bookmarks(other.state())
    ):
        by_stream["state"] = {"is": actual_state, "should be": expected_state}
    return by_stream


def _no_spark() -> Any:
    raise AssertionError("these tables can be read without Spark")


def _encode_row(row: Mapping[str, Any]) -> str:
    without_metadata = {name: value for name, value in row.items() if not name.startswith("_sdc_")}
    return json.dumps(without_metadata, sort_keys=True, default=str)
