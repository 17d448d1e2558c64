"""Concurrent writes of the target and pyiceberg to one Iceberg table of a catalog.

The moments are random; the seed of each race is printed.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.peers import missing_reason, peer_python
from tests.target.loader.concurrent_loads import OTHER_TOOL, ConcurrentLoad, until
from tests.target.loader.crash_run import PATIENCE
from tests.target.loader.test_races import KEYS, make_random
from tests.target.writers.test_iceberg_catalogs import in_catalog

PYTHON = peer_python("pyiceberg")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.skipif(PYTHON is None, reason=missing_reason("pyiceberg")),
]

PROGRAM = Path(__file__).with_name("pyiceberg_writer.py")
COUNT, MOST = 12_000, 100_000
CONFLICT = "Another writer repeatedly changed the table at the same time"


def start_pyiceberg(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    """Start the pyiceberg program; its input stays open."""
    command = [str(PYTHON), str(PROGRAM), str(folder), *map(str, arguments)]
    with (folder / "theirs.log").open("a") as errors:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )


def read_output(process: subprocess.Popen[str]) -> list[Any]:
    """Close the program's input and return its output."""
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("before", ["no table", "no table until ours", "a table"])
def test_concurrent_pyiceberg_writes_lose_no_rows_and_duplicate_no_keys(
    tmp_path: Path, keys: tuple[str, ...], before: str
) -> None:
    """With keys, half of those that pyiceberg writes are also written by the target."""
    chance = make_random(keys, before)
    read_output(start_pyiceberg(tmp_path, "init"))
    existing = [] if before != "a table" else list(range(MOST, MOST + 10))
    if existing:
        read_output(start_pyiceberg(tmp_path, "write", MOST, MOST + 10, "false", "true", 0))
    start = COUNT - 150 if keys else COUNT
    stop = COUNT + 150 if keys else MOST
    options = (str(bool(keys)).lower(), str(before == "no table").lower(), 6 if keys else 0.5)
    other = start_pyiceberg(tmp_path, "write", start, stop, *options)
    config = in_catalog(tmp_path) | {"path": str(tmp_path / "tables"), "database": "db"}
    ours = ConcurrentLoad(tmp_path, "ours", flush_rows=1_000, **config)
    ours.start(ours.messages(range(COUNT), keys, state_every=500))
    until(ours.run.jvm, [ours])
    time.sleep(8 * chance.random())
    assert other.stdin is not None
    other.stdin.write("begin\n")
    other.stdin.flush()
    ours.end()
    added = [id_ for ids in read_output(other) for id_ in ids]
    ours.check_end(COUNT, may_fail=CONFLICT if keys else "")
    (stored,) = read_output(start_pyiceberg(tmp_path, "read"))
    print("exit:", ours.code, "commits of theirs:", len(added) // 10)
    acknowledged = ours.acknowledged()
    if keys:
        ids = Counter(id_ for _, id_ in stored)
        assert set(ids.values()) == {1}
        assert ids.keys() >= {*range(acknowledged), *added, *existing}
        assert {sender for sender, id_ in stored if id_ < min(acknowledged, start)} <= {"ours"}
    else:
        ours.check_report(COUNT)
        rows = [
            *(("ours", id_) for id_ in range(COUNT)),
            *((OTHER_TOOL, id_) for id_ in existing + added),
        ]
        assert Counter(map(tuple, stored)) == Counter(rows)
