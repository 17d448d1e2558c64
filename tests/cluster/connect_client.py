"""The target as a client of Spark Connect: an environment without Spark's jars, and no Java.

Rules of the room: each run is a process of the peer's Python, with a PATH that has nothing in
it. Tables are read back in the same way, through the server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.peers import missing_reason, peer_python

__all__ = ["PEER", "Client", "lines_of", "needs_connect"]

ROOT: Final = Path(__file__).parents[2]
PEER: Final = peer_python("spark_connect")
TARGET: Final = "from target_spark.target import TargetSpark; TargetSpark.cli()"

needs_connect = pytest.mark.skipif(PEER is None, reason=missing_reason("spark_connect"))
"""The mark of a test that runs such a client."""


class Client:
    """Runs the target with one configuration in one folder."""

    def __init__(self, folder: Path, url: str, table_format: str = "delta", **more: Any) -> None:
        self.folder = folder
        self.config: dict[str, Any] = {
            "remote": url,
            "staging": str(folder / "staging"),
            "path": str(folder / "tables"),
            "format": table_format,
            **more,
        }

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Begin a run that reads messages from a pipe; errors go to ``errors``."""
        (self.folder / "config.json").write_text(json.dumps(self.config))
        with (self.folder / "errors").open("ab") as errors:
            return subprocess.Popen(
                [str(PEER), "-c", TARGET, *words, "--config", "config.json"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self.folder,
                env=_environment(),
            )

    def run(self, messages: Iterable[Mapping[str, Any]] = (), *words: str) -> tuple[int, list[Any]]:
        """Load messages; return the exit code and the states that came out."""
        process = self.start(*words)
        out, _ = process.communicate(lines_of(messages), timeout=1800)
        return process.returncode, [json.loads(line) for line in out.splitlines()]

    def errors(self) -> str:
        """Return what all runs so far said."""
        return (self.folder / "errors").read_text()

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return a table's rows, in order, as JSON knows their values."""
        asked = {**self.config, "table": table, "columns": list(columns)}
        done = subprocess.run(
            [str(PEER), __file__, json.dumps(asked)],
            capture_output=True,
            text=True,
            env=_environment(),
            timeout=1800,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return sorted((tuple(row) for row in json.loads(done.stdout)), key=repr)


def lines_of(messages: Iterable[Mapping[str, Any]]) -> bytes:
    """Return messages as they stand on a wire."""
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def _environment() -> dict[str, str]:
    return {"PATH": "/nowhere", "HOME": os.environ["HOME"], "PYTHONPATH": str(ROOT)}


def _read(asked: Mapping[str, Any]) -> list[list[Any]]:
    """Read a table as its writer does; run in the peer's environment."""
    from target_spark.remote import RemoteSession
    from target_spark.session import SparkSettings
    from target_spark.tables import Table
    from target_spark.writers import writer_for

    session = RemoteSession.start(SparkSettings(remote=asked["remote"], format=asked["format"]))
    table = Table(f"{asked['path']}/{asked['table']}", asked["table"])
    try:
        rows = writer_for(asked["format"]).rows(session.spark(), table)
        found = rows.selectExpr(*asked["columns"]).collect()
        return [[_plain(value) for value in row] for row in found]
    finally:
        session.stop()


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float) else str(value)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_read(json.loads(sys.argv[1]))))
