"""The target as a client of Spark Connect: an environment without Spark's jars and Java.

Each run is a process of the peer's Python with an empty PATH. Tables are read back in the same way,
through the server.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.peers import missing_reason, peer_python

__all__ = ["PEER", "ConnectClient", "encode_lines", "needs_connect"]

ROOT: Final = Path(__file__).parents[2]
PEER: Final = peer_python("spark_connect")
READER: Final = Path(__file__).with_name("connect_rows.py")
TARGET: Final = "from target_spark.target import TargetSpark; TargetSpark.cli()"

needs_connect = pytest.mark.skipif(PEER is None, reason=missing_reason("spark_connect"))
"""The mark of tests that run such a client."""


class ConnectClient:
    """Run the target with one configuration in one folder."""

    def __init__(self, folder: Path, url: str, table_format: str = "delta", **kwargs: Any) -> None:
        self.folder = folder
        self.config: dict[str, Any] = {
            "remote": url,
            "staging": str(folder / "staging"),
            "path": str(folder / "tables"),
            "format": table_format,
            **kwargs,
        }

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a run that reads messages from a pipe; its errors go to the file ``errors``."""
        (self.folder / "config.json").write_text(json.dumps(self.config))
        with (self.folder / "errors").open("ab") as errors:
            return subprocess.Popen(
                [str(PEER), "-c", TARGET, *arguments, "--config", "config.json"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self.folder,
                env=_environment(),
            )

    def run(
        self, messages: Iterable[Mapping[str, Any]] = (), *arguments: str
    ) -> tuple[int, list[Any]]:
        """Load messages; return the exit code and the emitted states."""
        process = self.start(*arguments)
        out, _ = process.communicate(encode_lines(messages), timeout=1800)
        return process.returncode, [json.loads(line) for line in out.splitlines()]

    def errors(self) -> str:
        """Return the standard error of all runs so far."""
        return (self.folder / "errors").read_text()

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return a table's rows in order, with values as JSON has them."""
        request = {**self.config, "table": table, "columns": list(columns)}
        process = subprocess.run(
            [str(PEER), str(READER), json.dumps(request)],
            capture_output=True,
            text=True,
            env=_environment(),
            timeout=1800,
            check=False,
        )
        assert process.returncode == 0, process.stderr[-3000:]
        return sorted((tuple(row) for row in json.loads(process.stdout)), key=repr)


def encode_lines(messages: Iterable[Mapping[str, Any]]) -> bytes:
    """Return messages as JSON lines."""
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def _environment() -> dict[str, str]:
    return {"PATH": "/nowhere", "HOME": os.environ["HOME"], "PYTHONPATH": str(ROOT)}
