"""How soon a state leaves behind the commit that covers it, and how long a row waits for one.

A commit's time is that of its file in Delta's log, and which rows and which
state it has stands in that file; nothing is asked of the program that is measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.bench.places import ours, written
from tests.bench.table import Row

__all__ = ["states"]

FLUSH_SECONDS = 10
_PER_SECOND = 50
_SCHEMA = {
    "type": "SCHEMA",
    "stream": "a",
    "schema": {"properties": {"id": {"type": "integer"}}},
    "key_properties": [],
}


@dataclass(frozen=True)
class _Commit:
    """When it was made, how many rows it has, and the number of the state in it."""

    at: float
    rows: int
    state: int


def states(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A tap that writes on and on, a state after every row: ages of rows and of states."""
    late, old = [], []
    for number in range(rounds):
        sent, left, commits = _load(folder / str(number), records)
        late.append(max(_waits(left, commits)))
        old.append(max(_ages(sent, commits)))
    what = f"target, {records} rows in {records // _PER_SECOND} s, flush_seconds {FLUSH_SECONDS}"
    yield Row(f"{what}: state behind its commit", "", max(late), None, "below", 1, "wall s")
    yield Row(f"{what}: oldest row", "", max(old), None, "below", 2 * FLUSH_SECONDS, "wall s")


def _load(folder: Path, records: int) -> tuple[list[float], list[tuple[int, float]], list[_Commit]]:
    """Run the target; return when rows were sent, when states left, and the commits."""
    folder.mkdir()
    settings = {"path": str(folder / "tables"), "format": "delta", "write_mode": "append"}
    config = written(folder / "config.json", {**settings, "flush_seconds": FLUSH_SECONDS})
    program = ours("target.py", "--config", config)
    left: list[tuple[int, float]] = []
    with (
        (folder / "errors").open("wb") as errors,
        subprocess.Popen(
            program.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **program.environment},
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        reader = threading.Thread(target=_read, args=(process.stdout, left))
        reader.start()
        sent = _write(process.stdin, records)
        reader.join()
    if process.returncode:
        raise AssertionError((folder / "errors").read_text()[-3000:])
    commits = list(_commits(folder / "tables" / "a" / "_delta_log"))
    if sum(commit.rows for commit in commits) != records or left[-1][0] != records:
        raise AssertionError(f"{records} rows were sent; {commits}, {left[-1:]}")
    return sent, left, commits


def _write(stdin: IO[bytes], records: int) -> list[float]:
    """Write rows at an even pace, each with its state; return when each went out."""
    sent = []
    started = time.time()
    stdin.write(json.dumps(_SCHEMA).encode() + b"\n")
    for number in range(1, records + 1):
        time.sleep(max(0.0, started + number / _PER_SECOND - time.time()))
        record = b'{"type":"RECORD","stream":"a","record":{"id":%d}}\n' % number
        stdin.write(record + b'{"type":"STATE","value":{"at":%d}}\n' % number)
        stdin.flush()
        sent.append(time.time())
    stdin.close()
    return sent


def _read(stdout: IO[bytes], left: list[tuple[int, float]]) -> None:
    left.extend((json.loads(line)["at"], time.time()) for line in stdout)


def _commits(log: Path) -> Iterator[_Commit]:
    """Yield the commits that have rows, or a newer state, in their order."""
    for file in sorted(log.glob("*.json")):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        files = [json.loads(action["add"]["stats"]) for action in actions if "add" in action]
        info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
        marker = json.loads(info.get("userMetadata") or "{}").get("target_spark") or {}
        state = json.loads(marker.get("state") or "{}").get("at", 0)
        rows = sum(stats["numRecords"] for stats in files)
        yield _Commit(file.stat().st_mtime, rows, state)


def _waits(left: list[tuple[int, float]], commits: list[_Commit]) -> Iterator[float]:
    """Yield, for each state that left, the seconds since the first commit that has it."""
    for number, at in left:
        yield at - min(commit.at for commit in commits if commit.state >= number)


def _ages(sent: list[float], commits: list[_Commit]) -> Iterator[float]:
    """Yield how old the oldest row of each commit was when it was committed."""
    done = 0
    for commit in commits:
        if commit.rows:
            yield commit.at - sent[done]
            done += commit.rows
