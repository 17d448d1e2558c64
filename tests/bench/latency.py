"""A benchmark of latency: the delay from a commit to its state, and from a row to its commit.

The time of a commit is the modification time of its file in Delta's log, which also contains the
number of its rows and its state. The program itself measures nothing.
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

from tests.bench.programs_under_test import our_program, write_json
from tests.bench.table import Row

__all__ = ["states"]

FLUSH_SECONDS = 10
_ROWS_PER_SECOND = 50
_SCHEMA = {
    "type": "SCHEMA",
    "stream": "a",
    "schema": {"properties": {"id": {"type": "integer"}}},
    "key_properties": [],
}


@dataclass(frozen=True)
class _Commit:
    """A commit of the table.

    Attributes:
        at: The time of the commit, in seconds since 1970.
        rows: The number of its rows.
        state: The number in its state.
    """

    at: float
    rows: int
    state: int


def states(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A tap that does not end and writes a state after every row: delays of states and rows."""
    state_delays, row_ages = [], []
    for number in range(rounds):
        sent, received, commits = _load(folder / str(number), records)
        state_delays.append(max(_state_delays(received, commits)))
        row_ages.append(max(_row_ages(sent, commits)))
    seconds = records // _ROWS_PER_SECOND
    title = f"target, {records:,} rows in {seconds} s, flush_seconds {FLUSH_SECONDS}"
    delay, age = max(state_delays), max(row_ages)
    yield Row(f"{title}: delay of a state after its commit", "", delay, None, "value", 1, "wall s")
    limit = 2 * FLUSH_SECONDS
    yield Row(f"{title}: age of the oldest row", "", age, None, "value", limit, "wall s")


def _load(folder: Path, records: int) -> tuple[list[float], list[tuple[int, float]], list[_Commit]]:
    """Run the target.

    Returns:
        The times at which rows were sent, the states with the times at which they were received,
        and the commits.
    """
    folder.mkdir()
    settings = {"path": str(folder / "tables"), "format": "delta", "write_mode": "append"}
    config = write_json(folder / "config.json", {**settings, "flush_seconds": FLUSH_SECONDS})
    program = our_program("target.py", "--config", config)
    received: list[tuple[int, float]] = []
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
        reader = threading.Thread(target=_read, args=(process.stdout, received))
        reader.start()
        sent = _write(process.stdin, records)
        reader.join()
    if process.returncode:
        raise AssertionError((folder / "errors").read_text()[-3000:])
    commits = list(_read_commits(folder / "tables" / "a" / "_delta_log"))
    if sum(commit.rows for commit in commits) != records or received[-1][0] != records:
        raise AssertionError(f"{records} rows were sent; {commits}, {received[-1:]}")
    return sent, received, commits


def _write(stdin: IO[bytes], records: int) -> list[float]:
    """Write rows at a constant rate, each followed by a state; return the time of each write."""
    sent = []
    started = time.time()
    stdin.write(json.dumps(_SCHEMA).encode() + b"\n")
    for number in range(1, records + 1):
        time.sleep(max(0.0, started + number / _ROWS_PER_SECOND - time.time()))
        record = b'{"type":"RECORD","stream":"a","record":{"id":%d}}\n' % number
        stdin.write(record + b'{"type":"STATE","value":{"at":%d}}\n' % number)
        stdin.flush()
        sent.append(time.time())
    stdin.close()
    return sent


def _read(stdout: IO[bytes], received: list[tuple[int, float]]) -> None:
    received.extend((json.loads(line)["at"], time.time()) for line in stdout)


def _read_commits(log: Path) -> Iterator[_Commit]:
    """Yield the commits of a table in their order."""
    for file in sorted(log.glob("*.json")):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        files = [json.loads(action["add"]["stats"]) for action in actions if "add" in action]
        info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
        marker = json.loads(info.get("userMetadata") or "{}").get("target_spark") or {}
        state = json.loads(marker.get("state") or "{}").get("at", 0)
        rows = sum(stats["numRecords"] for stats in files)
        yield _Commit(file.stat().st_mtime, rows, state)


def _state_delays(received: list[tuple[int, float]], commits: list[_Commit]) -> Iterator[float]:
    """Yield, for each received state, the seconds since the first commit that covers it."""
    for number, received_at in received:
        yield received_at - min(commit.at for commit in commits if commit.state >= number)


def _row_ages(sent: list[float], commits: list[_Commit]) -> Iterator[float]:
    """Yield, for each commit, the age in seconds of its oldest row."""
    committed = 0
    for commit in commits:
        if commit.rows:
            yield commit.at - sent[committed]
            committed += commit.rows
