"""Runs of target-spark with engines of their own: real processes, and a cache for each test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from target_spark.spark.jvm import cache_folder
from tests.target.cli.test_target_cli import Running, line, read_report, state

__all__ = [
    "COMMAND",
    "PATIENCE",
    "EngineHome",
    "get_application_id",
    "make_record_messages",
    "make_schema_message",
    "wait_until",
]

ROOT = Path(__file__).parents[3]
PATIENCE = 300
COMMAND = [sys.executable, "-m", "target_spark"]


def make_schema_message(stream: str = "a") -> bytes:
    """Return the SCHEMA message of a stream with a key and a text."""
    properties = {"id": {"type": "integer"}, "text": {"type": "string"}}
    return line(
        {
            "type": "SCHEMA",
            "stream": stream,
            "schema": {"properties": properties},
            "key_properties": ["id"],
        }
    )


def make_record_messages(first: int, last: int, text: str = "x", stream: str = "a") -> bytes:
    """Return RECORD messages with the keys from ``first`` to ``last``, and a STATE."""
    return b"".join(
        line({"type": "RECORD", "stream": stream, "record": {"id": n, "text": text}})
        for n in range(first, last + 1)
    ) + state(last)


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@dataclass(frozen=True)
class EngineHome:
    """A folder with configurations, tables and the cache that holds the engines of one test."""

    folder: Path

    def __post_init__(self) -> None:
        """Create the cache, with the jars that are on this machine."""
        cache = self.folder / "cache" / "target-spark"
        cache.mkdir(parents=True, mode=0o700)
        (cache / "ivy").symlink_to(cache_folder() / "ivy")

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the runs."""
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith("TARGET_")
        }
        return {
            **inherited,
            "PYTHONPATH": str(ROOT),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }

    def config(self, **kwargs: Any) -> str:
        """Write a configuration; return its path."""
        settings = {
            "path": str(self.folder / "tables"),
            "master": "local[2]",
            "small_runs": True,
            "engine": "keep",
            "engine_idle_seconds": 600,
            **kwargs,
        }
        path = self.folder / f"{abs(hash(json.dumps(settings, sort_keys=True)))}.json"
        path.write_text(json.dumps(settings))
        return str(path)

    def load(self, data: bytes, **kwargs: Any) -> subprocess.CompletedProcess[bytes]:
        """Load messages to the end. The pipes of the run must be closed by then."""
        return self.call("--config", self.config(**kwargs), data=data)

    def command(self, action: str, **kwargs: Any) -> subprocess.CompletedProcess[bytes]:
        """Run `target-spark engine`."""
        return self.call("engine", action, "--config", self.config(**kwargs))

    def call(self, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run target-spark to its end."""
        return subprocess.run(
            [*COMMAND, *arguments],
            input=data,
            capture_output=True,
            env=self.environment,
            cwd=self.folder,
            timeout=PATIENCE,
            check=False,
        )

    @contextmanager
    def running(self, **kwargs: Any) -> Iterator[Running]:
        """Yield a run whose standard input stays open."""
        with subprocess.Popen(
            [*COMMAND, "--config", self.config(**kwargs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            cwd=self.folder,
        ) as process:
            run = Running(process)
            try:
                yield run
            finally:
                if process.poll() is None:
                    process.kill()
                run.stdin.close()
                run.end()

    def engines(self) -> list[int]:
        """Return the process ids of the engines."""
        pids = []
        for path in self.folder.glob("cache/target-spark/engines/*/engine.json"):
            with suppress(ValueError, FileNotFoundError):
                pids.append(int(json.loads(path.read_bytes())["pid"]))
        return pids

    def jvm(self, tables: str = "tables") -> int | None:
        """Return the process id of the JVM that the lock file of the job names."""
        for lease in (self.folder / tables / "_target_spark").glob("*.lease"):
            with suppress(ValueError):
                pid: int | None = json.loads(lease.read_bytes()).get("jvm")
                return pid
        return None

    def keys(self, tables: str = "tables", stream: str = "a", column: str = "id") -> list[int]:
        """Return the sorted keys of a Delta table."""
        table = DeltaTable(str(self.folder / tables / stream)).to_pyarrow_table(columns=[column])
        return sorted(table[column].to_pylist())

    def texts(self, tables: str = "tables", stream: str = "a") -> set[str]:
        """Return the texts in a Delta table."""
        table = DeltaTable(str(self.folder / tables / stream)).to_pyarrow_table(columns=["text"])
        return set(table["text"].to_pylist())

    def end(self) -> None:
        """Kill all engines of the test, and wait for the end of their JVMs."""
        for pid in self.engines():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.processes())

    def processes(self) -> list[str]:
        """Return the processes that have the cache of the test in their environment."""
        names = []
        variable = f"XDG_CACHE_HOME={self.folder / 'cache'}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if variable in (process / "environ").read_bytes().split(b"\0"):
                    names.append(process.name)
        return names


def get_application_id(process: subprocess.CompletedProcess[bytes]) -> str:
    """Return the id of the Spark application that a run used."""
    assert process.returncode == 0, process.stderr.decode()
    application_id: str = read_report(process.stderr)["application"]
    return application_id
