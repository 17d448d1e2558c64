"""Concurrent writes of target processes and other tools to one Delta table.

The moments are random; the seed of each race is printed.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.target.cli.test_target_cli import environment
from tests.target.loader.concurrent_loads import (
    OTHER_TOOL,
    ConcurrentLoad,
    append_as_other_tool,
    create_as_other_tool,
    list_staging_folders,
    read_rows,
    until,
)
from tests.target.loader.crash_run import PATIENCE

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEYS = [(), ("id",)]
SMALL, LARGE = 3_000, 200_000
COUNT = 120_000


def make_random(*race: object) -> random.Random:
    seed = f"{race} {time.time_ns()}"
    print("seed:", seed)
    return random.Random(seed)


# Two jobs


def race(tmp_path: Path, keys: tuple[str, ...], sizes: tuple[int, int], late: float) -> None:
    """Load one table by two jobs, the second while the first writes its first batch.

    The second job has committed a row of another table before, so that its JVM has started.
    """
    a = ConcurrentLoad(tmp_path, "a", target_file_size=2_000_000)
    b = ConcurrentLoad(tmp_path, "b", target_file_size=2_000_000, flush_seconds=1)

    def is_warm() -> bool:
        return (b.folder / "states").stat().st_size > 0

    def input_of_b() -> Iterator[bytes]:
        yield from b.messages(range(1), stream="warm")
        yield b""
        until(is_warm, [b])
        until(lambda: list_staging_folders(a), [a])
        time.sleep(late)
        yield from b.messages(range(sizes[1]), keys)

    def input_of_a() -> Iterator[bytes]:
        yield from a.messages(range(sizes[0]), keys)
        yield b""
        until(is_warm, [b])

    b.start(input_of_b())
    a.start(input_of_a())
    codes = [a.end(), b.end()]
    print("exits:", codes)
    assert 0 in codes, a.errors() + b.errors()
    rows_found = read_rows(a.table)
    if keys:
        assert set(Counter(row_id for _, row_id in rows_found).values()) == {1}
    for load, rows in zip((a, b), sizes, strict=True):
        load.check_end(rows, may_fail="is loaded by job")
        theirs = [row_id for sender, row_id in rows_found if sender == load.job]
        assert len(theirs) == len(set(theirs))
        if load.code == 0 and not keys:
            assert theirs == list(range(rows))
            load.check_report(rows)
        if load.code == 0 and keys:
            assert {row_id for _, row_id in rows_found} >= set(range(rows))
    assert not list(a.table.glob(".target-spark-*"))


@pytest.mark.thorough
def test_two_jobs_creating_one_table_concurrently_lose_no_rows(tmp_path: Path) -> None:
    race(tmp_path, (), (5_000, 10_000), 0)


@pytest.mark.thorough
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("sizes", [(LARGE, LARGE), (LARGE, SMALL), (SMALL, LARGE)])
def test_two_jobs_writing_the_first_rows_concurrently_lose_no_rows(
    tmp_path: Path, keys: tuple[str, ...], sizes: tuple[int, int]
) -> None:
    race(tmp_path, keys, sizes, make_random(keys, sizes).choice((0.0, 0.1, 0.5, 1.0)))


# Another tool


@pytest.mark.thorough
@pytest.mark.parametrize("time_", range(2))
@pytest.mark.parametrize("before", ["no table", "an empty table", "a table with rows"])
def test_keys_of_another_tool_are_merged_not_duplicated(
    tmp_path: Path, before: str, time_: int
) -> None:
    """The tool creates the table, or appends to it, at a random moment of the first batch."""
    chance = make_random(before, time_)
    ours = ConcurrentLoad(tmp_path, "ours")
    if before != "no table":
        rows = range(0) if before == "an empty table" else range(COUNT, COUNT + 10)
        append_as_other_tool(ours.table, rows)
    closing: list[float] = []

    def lines() -> Iterator[bytes]:
        yield from ours.messages(range(COUNT), ("id",))
        yield b""
        until(ours.run.jvm, [ours])
        closing.append(1)

    ours.start(lines())
    until(lambda: closing, [ours])
    if chance.random() < 0.5:
        until(lambda: list_staging_folders(ours), [ours])
        time.sleep(chance.random())
    else:
        time.sleep(4 * chance.random())
    create_as_other_tool(ours.table, range(10))
    assert ours.end() == 0, ours.errors()
    ours.check_end(COUNT)
    counts = Counter(row_id for _, row_id in read_rows(ours.table))
    assert counts.keys() >= set(range(COUNT))
    commits = DeltaTable(ours.table).history()
    first = next(
        commit for commit in commits if commit.get("tool") == OTHER_TOOL
    )  # the other tool's newest commit
    is_after = any(
        commit["version"] < first["version"] and has_our_rows(commit) for commit in commits
    )
    print("theirs came after ours:", is_after)
    twice = sorted(row_id for row_id, count in counts.items() if count > 1)
    assert twice == (list(range(10)) if is_after else [])


def has_our_rows(commit: dict[str, object]) -> bool:
    return "userMetadata" in commit and commit["operation"] in {"WRITE", "MERGE"}


@pytest.mark.thorough
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("is_new", [True, False])
def test_continuous_appends_of_another_tool_lose_no_rows(
    tmp_path: Path, keys: tuple[str, ...], *, is_new: bool
) -> None:
    chance = make_random(keys, is_new)
    ours, count = ConcurrentLoad(tmp_path, "ours", flush_rows=2_000), 20_000
    if not is_new:
        append_as_other_tool(ours.table, range(count, count + 10))
    ours.start(ours.messages(range(count), keys, state_every=500))
    first = count + 10
    until((ours.table / "_delta_log").is_dir, [ours])
    for number in range(20):
        append_as_other_tool(ours.table, range(first + number * 10, first + number * 10 + 10))
        time.sleep(chance.random())
    assert ours.end() == 0, ours.errors()
    ours.check_end(count)
    ours.check_report(count)
    theirs = range(first if is_new else count, first + 200)
    expected = [("ours", row_id) for row_id in range(count)]
    assert read_rows(ours.table) == expected + [(OTHER_TOOL, row_id) for row_id in theirs]


@pytest.mark.thorough
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("columns", ["ours", "others"])
def test_table_replaced_by_another_tool_is_not_changed(
    tmp_path: Path, keys: tuple[str, ...], columns: str
) -> None:
    chance = make_random(keys, columns)
    ours = ConcurrentLoad(tmp_path, "ours", flush_rows=2_000)
    replaced: list[dict[Path, bytes]] = []

    def lines() -> Iterator[bytes]:
        yield from ours.messages(range(4_000), keys, state_every=1_000)
        yield b""
        until(ours.acknowledged, [ours])
        time.sleep(chance.random())
        shutil.rmtree(ours.table)
        if columns == "ours":
            append_as_other_tool(ours.table, range(3))
        else:
            write_deltalake(ours.table, pa.table({"id": ["x"], "s": [0.5]}))
        replaced.append(read_content(ours.table))
        yield from list(ours.messages(range(4_000, 10_000), keys, state_every=1_000))[1:]

    ours.start(lines())
    assert ours.end() == 1, ours.errors()
    ours.check_end(10_000, may_fail="while it was loaded")  # it may have seen the removal
    assert ours.acknowledged() <= 4_000
    assert [read_content(ours.table)] == replaced


def read_content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Failures and kills

UNCLEAR = """
import threading, time
from deltalake import DeltaTable

commit, left = DeltaTable.create_write_transaction, [{good}]

def late(*args, **named):
    time.sleep({seconds})
    try:
        commit(*args, **named)
    except Exception as error:
        print("late:", error, flush=True, file=__import__("sys").stderr)

def unclear(self, *args, **named):
    left[0] -= 1
    if left[0] != -1:
        return commit(self, *args, **named)
    if {when!r} == "after":
        commit(self, *args, **named)
    if {when!r} == "late":
        threading.Thread(target=late, args=(self, *args), kwargs=named).start()
    raise OSError(110, "Connection timed out")

DeltaTable.create_write_transaction = unclear
from target_spark.target import TargetSpark; TargetSpark.cli()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("when", ["before", "after", "late"])
def test_commit_that_fails_early_or_late_is_made_once(
    tmp_path: Path, when: str, keys: tuple[str, ...]
) -> None:
    chance = make_random(when, keys)
    seconds = chance.choice((0.3, 3 * chance.random()))
    program = UNCLEAR.format(good=0 if keys else chance.randrange(3), when=when, seconds=seconds)
    ours, count = ConcurrentLoad(tmp_path, "ours", flush_rows=2_000), 8_000
    ours.start(ours.messages(range(count), keys, state_every=1_000), program)
    assert ours.end() == 0, ours.errors()
    assert "Connection timed out" in ours.errors()
    ours.check_end(count)
    ours.check_report(count)
    assert read_rows(ours.table) == [("ours", row_id) for row_id in range(count)]


@pytest.mark.thorough
@pytest.mark.parametrize("time_", range(3))
def test_run_after_a_kill_removes_uncommitted_files(tmp_path: Path, time_: int) -> None:
    """Python and its JVM are killed while a later batch of a new table is written."""
    chance = make_random(time_)
    ours, count = ConcurrentLoad(tmp_path, "ours", flush_rows=30_000), 120_000
    ours.start(ours.messages(range(count), state_every=10_000))
    until(ours.acknowledged, [ours])
    until(lambda: list_staging_folders(ours), [ours])
    time.sleep(0.3 * chance.random())
    ours.run.kill("both", chance)
    print("staging is left:", bool(list_staging_folders(ours)))
    ours.end()
    state = last_state(ours)
    assert state >= ours.acknowledged()
    assert len(read_rows(ours.table)) == state
    ours.start(ours.messages(range(state, count), state_every=10_000))
    assert ours.end() == 0, ours.errors()
    assert read_rows(ours.table) == [("ours", row_id) for row_id in range(count)]
    names = {path.name for path in ours.table.iterdir() if path.suffix != ".parquet"}
    assert names == {"_delta_log"}
    assert not [path for path in ours.table.rglob("*") if "temporary" in path.name]


def last_state(load: ConcurrentLoad) -> int:
    """Return the number of rows that the newest state in the table covers."""
    command = [sys.executable, "-m", "target_spark", "last-state", "--config", "config.json"]
    process = subprocess.run(
        command,
        cwd=load.folder,
        env=environment(),
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    rows: int = json.loads(process.stdout)["rows"]
    return rows
