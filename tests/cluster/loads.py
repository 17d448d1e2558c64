"""Loads on a cluster: target-spark as a process, with Singer messages on its standard input."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.tables import read_tables
from tests.target.loader.table_counts import checked_counts

if TYPE_CHECKING:
    from tests.cluster.standalone import StandaloneCluster

__all__ = ["Load", "TargetProcess", "record", "schema", "state"]

_ROOT: Final = Path(__file__).parents[2]
_COMMAND: Final = [sys.executable, "-m", "target_spark"]
PATIENCE: Final = 1200
"""Seconds; long, since other tests may keep the machine busy."""


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def schema(stream: str, *keys: str, **types: str) -> bytes:
    """Return a SCHEMA message with properties by their JSON types."""
    properties = {name: {"type": [kind, "null"]} for name, kind in types.items()}
    json_schema = {"properties": properties}
    return _line(
        {"type": "SCHEMA", "stream": stream, "schema": json_schema, "key_properties": keys}
    )


def record(stream: str, **values: Any) -> bytes:
    """Return a RECORD message."""
    return _line({"type": "RECORD", "stream": stream, "record": values})


def state(value: Any) -> bytes:
    """Return a STATE message."""
    return _line({"type": "STATE", "value": value})


def batch(stream: str, *files: Path) -> bytes:
    """Return a BATCH message for files of JSON lines."""
    encoding = {"format": "jsonl"}
    manifest = [file.as_uri() for file in files]
    return _line({"type": "BATCH", "stream": stream, "encoding": encoding, "manifest": manifest})


@dataclass
class Load:
    """One job: its folder, the cluster and its settings."""

    folder: Path
    cluster: StandaloneCluster
    form: str = "delta"
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def tables(self) -> Path:
        """The folder of the job's tables."""
        return self.folder / "tables"

    @property
    def staging(self) -> Path:
        """The staging folder of the job."""
        return self.folder / "staging"

    def config(self, **kwargs: Any) -> Path:
        """Write the job's settings; return the path of the file."""
        settings = {
            "path": str(self.tables),
            "format": self.form,
            "master": self.cluster.master,
            "staging": str(self.staging),
            "small_runs": True,
            **self.settings,
            **kwargs,
        }
        settings["spark"] = {**self.cluster.small_application_conf, **settings.get("spark", {})}
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "config.json"
        path.write_text(json.dumps({key: value for key, value in settings.items() if value}))
        return path

    @contextlib.contextmanager
    def running(self, **kwargs: Any) -> Iterator[TargetProcess]:
        """Start the job; kill it at the end of the context if it still runs."""
        run = TargetProcess(self, self.config(**kwargs))
        try:
            yield run
        finally:
            run.kill()

    def run(self, *messages: bytes, code: int = 0, **kwargs: Any) -> TargetProcess:
        """Run the job to its end; the report of a complete load must agree with the tables."""
        with checked_counts(self.tables) as ended:
            with self.running(**kwargs) as run:
                run.send(*messages)
                assert run.end() == code, run.read_log()
            ended.code, ended.errors = code, run.read_log()
        return run

    def word(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run another command of target-spark for the job, such as doctor or last-state."""
        return subprocess.run(
            [*_COMMAND, *arguments, "--config", str(self.config())],
            input=stdin,
            capture_output=True,
            env=_environment(),
            cwd=self.folder,
            timeout=PATIENCE,
            check=False,
        )

    def rows(self, *names: str) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of the job's tables."""
        return read_tables(self.tables, self.form, *names)

    def list_staging(self) -> list[str]:
        """Return the names in the staging folder."""
        return sorted(path.name for path in self.staging.glob("*"))


class TargetProcess:
    """One process of target-spark whose standard input stays open."""

    def __init__(self, load: Load, config: Path) -> None:
        """Start the process; its output goes to files."""
        self._files = load.folder / "out", load.folder / "errors"
        self.tables = load.tables
        with self._files[0].open("wb") as out, self._files[1].open("wb") as errors:
            self.process = subprocess.Popen(
                [*_COMMAND, "--config", str(config)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=errors,
                env=_environment(),
                cwd=load.folder,
            )

    def send(self, *messages: bytes) -> None:
        """Send messages."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(b"".join(messages))
            self.process.stdin.flush()

    def states(self) -> list[Any]:
        """Return the states emitted so far."""
        complete_lines = self._files[0].read_bytes().rpartition(b"\n")[0]
        return [json.loads(line) for line in complete_lines.splitlines()]

    def read_log(self) -> str:
        """Return the standard error so far."""
        return self._files[1].read_text(errors="replace")

    def report(self) -> dict[str, Any]:
        """Return the report of the ended process."""
        (text,) = (line for line in self.read_log().splitlines() if line.startswith("REPORT: "))
        report_document: dict[str, Any] = json.loads(text.removeprefix("REPORT: "))
        return report_document

    def wait_until(self, holds: Callable[[], Any]) -> None:
        """Wait for a condition while the process runs."""
        end = time.monotonic() + PATIENCE
        while not holds():
            assert self.process.poll() is None, self.read_log()
            assert time.monotonic() < end, self.read_log()
            time.sleep(0.05)

    def until_state(self, value: Any) -> None:
        """Wait until a state is emitted."""
        self.wait_until(lambda: value in self.states())

    def jvm(self) -> int | None:
        """Return the process id of its JVM, once it is known."""
        for lease in (self.tables / "_target_spark").glob("*.lease"):
            with contextlib.suppress(ValueError):
                owner = json.loads(lease.read_bytes())
                if owner.get("pid") == self.process.pid and "jvm" in owner:
                    return int(owner["jvm"])
        return None

    def end(self) -> int:
        """Close the input, and return the exit code."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Kill the driver's Python process; its JVM ends then."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.end()


def _environment() -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("TARGET_")}
    return {**inherited, "PYTHONPATH": str(_ROOT), "PYTHONWARNINGS": "once"}
