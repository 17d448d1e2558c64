"""Comparison of one SQL target on tap_core and singer_sdk: tables, rows, names and errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.peers import missing_reason, peer_python
from tests.target_base.messages import activate, record, schema, state

PEER = peer_python("singer_sdk")
ROOT = Path(__file__).resolve().parents[2]
TARGETS = Path(__file__).with_name("peer_sql_targets.py")
SIDES = ("tap_core", "singer_sdk")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]

WHOLE = {"type": ["integer", "null"]}
NUMBER = {"type": ["number", "null"]}
TEXT = {"type": ["string", "null"]}
SHORT = {"type": ["string", "null"], "maxLength": 5}
INSTANT = {"type": ["string", "null"], "format": "date-time"}
DATE = {"type": ["string", "null"], "format": "date"}
TIME = {"type": ["string", "null"], "format": "time"}
TYPES = {
    "whole": (WHOLE, [1, None]),
    "number": (NUMBER, [1.5, 2, None]),
    "text": (TEXT, ["x", ""]),
    "short": (SHORT, ["x"]),
    "instant": (INSTANT, ["2024-01-31T12:00:00.5+02:00", "2024-01-31T12:00:00"]),
    "date": (DATE, ["2024-01-31"]),
    "time": (TIME, ["12:30:00"]),
    "bool": ({"type": "boolean"}, [True, False]),
    "object": ({"type": "object"}, [{"a": [1, None]}]),
    "array": ({"type": "array"}, [[1, "x"]]),
    "any": ({}, [1, "x", True, {"a": 1}, [1]]),
    "several": ({"type": ["integer", "string"]}, [1, "x"]),
    "email": ({"type": "string", "format": "email"}, ["a@b.c"]),
    "uuid": ({"type": "string", "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"]),
    "decimal": ({"type": "string", "format": "x-singer.decimal"}, ["1.10"]),
    "branches": ({"anyOf": [{"type": "null"}, WHOLE]}, [1, None]),
}


def rows(values: list[Any], start: int = 1) -> list[str]:
    return [record(id=number, x=value) for number, value in enumerate(values, start)]


def with_x(known: Any) -> str:
    return schema(id={"type": "integer"}, x=known)


KINDS = {
    f"a column of type {name}": {"runs": [[with_x(known), *rows(values), state({"n": 1})]]}
    for name, (known, values) in TYPES.items()
}
CHANGES = {
    f"{before} to {after}": {
        "runs": [
            [with_x(TYPES[before][0]), *rows(TYPES[before][1])],
            [with_x(TYPES[after][0]), *rows(TYPES[after][1], 50), state({"n": 1})],
        ]
    }
    for before in ("whole", "number", "text", "short", "instant")
    for after in ("whole", "number", "text", "short", "instant")
}
VERSIONED = [schema(), activate("a", 7), record(id=1, name="x", v=7), state({"n": 1})]
NEXT = [schema(), activate("a", 8), record(id=2, name="y", v=8), activate("a", 8), state({"n": 2})]
MIDDLE = [schema(id=WHOLE), record(id=1), schema(id=WHOLE, x=TEXT), record(id=2, x="y")]
CASES: dict[str, dict[str, Any]] = {
    **KINDS,
    **CHANGES,
    "a schema that changes": {"runs": [[*MIDDLE, state({"n": 1})]]},
    "overwrite": {
        "runs": [[*MIDDLE, state({"n": 1})]] * 2,
        "config": {"load_method": "overwrite"},
    },
    "append": {"runs": [[schema(keys=()), record(id=1, name="x")]] * 2},
    "upsert": {
        "runs": [[schema(keys=()), record(id=1, name="x")]] * 2,
        "config": {"load_method": "upsert"},
    },
    "a clash of names": {"runs": [[schema(keys=(), aB=TEXT, Ab=TEXT)]]},
    "a clash in a record": {"runs": [[schema(keys=(), aB=TEXT), record(aB="x", Ab="y")]]},
    "another spelling in a record": {"runs": [[schema(keys=(), Id=TEXT), record(iD="x")]]},
    "keys of other names": {
        "runs": [
            [schema("My Stream", ("The Id", "gone"), **{"The Id": WHOLE, "n": TEXT})],
            [schema("My Stream", (), **{"The Id": WHOLE}), record("My Stream", **{"The Id": 1})],
        ]
    },
    "a schema that SQLite has not": {"runs": [[schema("shop-orders")]]},
    "the schema that SQLite has": {
        "runs": [[schema("a-b-orders"), record("a-b-orders", id=1)]],
        "config": {"default_target_schema": "main"},
    },
    "many dashes": {"runs": [[schema("a-b-c-d"), record("a-b-c-d", id=1)]]},
    "a key twice": {"runs": [[schema(), record(id=1), record(id=1)]]},
    "versions, marked": {"runs": [VERSIONED, NEXT], "config": {"add_record_metadata": True}},
    "versions, deleted": {
        "runs": [VERSIONED, NEXT],
        "config": {"add_record_metadata": True, "hard_delete": True},
    },
    "versions without metadata": {"runs": [VERSIONED]},
    "versions that are off": {
        "runs": [VERSIONED],
        "config": {"process_activate_version_messages": False},
    },
}
NAMES = [
    *("name with spaces", "NameIsCamelCase", "name-with-dashes", "Name-with-Dashes-and.Dots"),
    *("5name", "0", "__x__", "name-with-emoji-😈", "a\tb", " padded ", "UPPER", "a__b", "ab_"),
    *("naïve", "x²", "9-9", "-", "_sdc_table_version", "a/b", 'a"b'),
]


class Side:
    """The results of one SDK: its databases, states and errors."""

    def __init__(self, sdk: str, folder: Path) -> None:
        folder = folder / sdk
        folder.mkdir()
        inputs = {"cases": CASES | FIXTURES, "names": NAMES}
        (folder / "cases.json").write_text(json.dumps(inputs))
        (folder / "targets.py").write_text(TARGETS.read_text().replace("tap_core", sdk))
        python = sys.executable if sdk == "tap_core" else str(PEER)
        process = subprocess.run(
            [python, "-W", "ignore", "targets.py", "."],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT) if sdk == "tap_core" else ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        self.results = json.loads((folder / "results.json").read_text())


def fixtures() -> dict[str, Any]:
    """Return singer_sdk's test messages for targets, by file name."""
    if PEER is None:
        return {}
    home = PEER.parents[1].glob("lib/python*/site-packages/singer_sdk/testing/target_test_streams")
    return {
        path.name: {"runs": [path.read_text().splitlines(keepends=True)]}
        for folder in home
        for path in sorted(folder.glob("*.singer"))
    }


FIXTURES = fixtures()


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peer")
    return [Side(sdk, folder) for sdk in SIDES]


PASSING = ("_sdc_received_at", "_sdc_batched_at", "_sdc_sequence", "_sdc_sync_started_at")


def mask_times(content: dict[str, Any]) -> dict[str, Any]:
    """Replace times, which differ between runs, by their types in the tables' rows."""
    tables = {}
    for name, (sql, rows) in content.items():
        columns = [part.split()[0].strip('"(') for part in sql.split("(", 1)[1].split(",")]
        indexes = [number for number, column in enumerate(columns) if column in PASSING]
        marks = [number for number, column in enumerate(columns) if column == "_sdc_deleted_at"]
        for row in rows:
            for index in indexes:
                row[index] = type(row[index]).__name__
            for mark in marks:
                row[mark] = row[mark] is not None
        tables[name] = [sql, rows]
    return tables


def test_singer_sdk_test_streams_are_found():
    assert len(FIXTURES) > 15


@pytest.mark.parametrize("name", [*CASES, *FIXTURES])
def test_tables_rows_states_and_errors_are_those_of_singer_sdk(sides, name):
    ours, theirs = (side.results["cases"][name] for side in sides)
    assert mask_times(ours["content"]) == mask_times(theirs["content"])
    assert ours["ends"] == theirs["ends"]


@pytest.mark.parametrize("name", NAMES)
def test_conformed_names_are_those_of_singer_sdk(sides, name):
    ours, theirs = (side.results["names"][name] for side in sides)
    assert ours == theirs


@pytest.mark.parametrize("kind", ["settings", "capabilities"])
def test_settings_and_capabilities_are_those_of_singer_sdk(sides, kind):
    ours, theirs = (side.results[kind] for side in sides)
    assert ours == theirs
