"""Comparison of one SQL tap run by singer_sdk and by `tap-core run`."""

from __future__ import annotations

import copy
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.peers import missing_reason, peer_python

PEER = peer_python("singer_sdk")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]
TAP = Path(__file__).with_name("sqlite_tap.py")
ROOT = TAP.parents[2]
TABLES = """
create table "Odd ""N"".x y" ("Ä b" int primary key, "select" text, "UPPER" boolean, "a.b" date);
insert into "Odd ""N"".x y" values (1, 'a', 1, '2024-01-01'), (2, 'b', 0, null);
create table many (
  id integer primary key, name varchar(9), ok boolean, score double, price decimal(9,2),
  at datetime, day date, clock time, big bigint, raw blob, doc json, odd foo);
create view some as select id, name, at from many where id < 4;
create table bare (a int not null, b text);
create unique index lone on bare (a);
insert into bare values (1, null), (2, 'x');
create table none (a int);
"""
ROW = (
    "insert into many values (:i, 'n' || :i, :i % 2, :i / 3.0, :i * 1.25,"
    " '2024-01-0' || :i || ' 10:00:00.500000', '2024-02-0' || :i, '10:0' || :i || ':00.000000',"
    " :i * 10000000000, x'00ff', '{\"a\": [1, 2.5, null]}', :i)"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("sql")
    with sqlite3.connect(tmp_path / "data.db") as connection:
        connection.executescript(TABLES)
        connection.executemany(ROW, [{"i": number} for number in range(1, 10)])
        connection.execute("insert into many (id) values (100)")
    connection.close()
    (tmp_path / "config.json").write_text(json.dumps({"path": str(tmp_path / "data.db")}))
    return tmp_path


def output(command: list[str], folder: Path, *arguments: str) -> list[dict[str, Any]]:
    process = subprocess.run(
        [*command, "--config", "config.json", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(TAP.parent), str(ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    if "--discover" in arguments:
        return [json.loads(process.stdout)]
    return [json.loads(line) for line in process.stdout.splitlines()]


def run_both(folder: Path, *arguments: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    ours = [sys.executable, "-m", "tap_core", "run", "sqlite_tap:TapFiles"]
    return output([str(PEER), str(TAP)], folder, *arguments), output(ours, folder, *arguments)


def per_stream(messages: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    by_stream: dict[str, list[dict[str, Any]]] = {}
    for message in messages:
        message.pop("time_extracted", None)
        if message["type"] != "STATE":
            by_stream.setdefault(message["stream"], []).append(message)
    return by_stream


@pytest.fixture(scope="module")
def discovered(folder):
    return run_both(folder, "--discover")


def test_tap_core_and_singer_sdk_discover_the_same_catalog(discovered):
    theirs, ours = discovered
    assert ours == theirs
    assert len(ours[0]["streams"]) == 5


@pytest.mark.parametrize("key", [None, "at", "score"])
def test_tap_core_and_singer_sdk_write_the_same_records_and_state(folder, discovered, key):
    catalog = copy.deepcopy(discovered[0][0])
    for entry in catalog["streams"]:
        replication_key = key if entry["tap_stream_id"] == "main-many" else None
        entry["replication_key"] = replication_key
        entry["replication_method"] = "INCREMENTAL" if replication_key else "FULL_TABLE"
        for item in entry["metadata"]:
            if not item["breadcrumb"]:
                item["metadata"] |= {"selected": True, "replication-key": replication_key}
    (folder / "catalog.json").write_text(json.dumps(catalog))
    theirs, ours = run_both(folder, "--catalog", "catalog.json")
    assert per_stream(ours) == per_stream(theirs)
    states = [[m["value"] for m in messages if m["type"] == "STATE"] for messages in (theirs, ours)]
    assert states[0][-1] == states[1][-1]
