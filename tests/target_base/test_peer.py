"""Comparison of the same targets on tap_core and singer_sdk: files, errors, warnings, last state.

Allowed differences: tap_core may write states earlier, and it drains a replaced sink at another
time relative to its successor's setup.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.peers import missing_reason, peer_python
from tests.target_base.messages import ID, NAME, activate, batch, record, schema, state

PEER = peer_python("singer_sdk")
ROOT = Path(__file__).resolve().parents[2]
TARGETS = Path(__file__).with_name("peer_targets.py")
SIDES = ("tap_core", "singer_sdk")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]

DATETIME = {"type": ["string", "null"], "format": "date-time"}
DATE = {"type": ["string", "null"], "format": "date"}
TIME = {"anyOf": [{"type": "string", "format": "time"}, {"type": "null"}]}
DATES = {"id": ID, "at": DATETIME, "day": DATE, "hour": TIME}
GOOD_DATES = [
    record("a", id=1, at="2024-01-31T12:00:00+02:00", day="2024-01-31", hour="12:30:00"),
    record("a", id=2, at="2024-01-31T12:00:00Z", day=None),
    record("a", id=3, at="2024-01-31", hour=None),
]
BAD_DATES = [
    record("a", id=4, hour="25:00", at="0000-00-00", day="2024-02-30"),
    record("a", id=5, at="2024-01-31T12:00:00"),
]
ADDRESS = {"type": "object", "properties": {"city": NAME, "zip": {"type": "string"}}}
RICH = {
    "id": ID,
    "kind": {"type": "string", "enum": ["x", "y"]},
    "amount": {"type": ["number", "null"], "minimum": 0, "multipleOf": 0.01},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}},
    "address": ADDRESS,
}
GOOD_RICH = record("a", id=1, kind="x", amount=0.25, tags=["red"], address={"city": "Ulm"})
SDC = {"_sdc_deleted_at": "2024-01-01T00:00:00Z", "_sdc_sequence": 7, "_sdc_extracted_at": None}


def some(stream: str) -> list[str]:
    return [record(stream, id=n, name=f"{stream}{n}") for n in range(5)]


CASES: dict[str, dict[str, Any]] = {
    "several streams": {
        "lines": [schema("a"), schema("b"), *some("a"), state({"n": 1}), *some("b"), state([2])],
        "config": {"batch_size_rows": 2},
    },
    "nothing but a schema": {"lines": [schema("a")]},
    "no input": {"lines": []},
    "single records": {"lines": [schema("single"), *some("single"), state({"n": 1})]},
    "a sink of its own kind": {"lines": [schema("bare"), *some("bare"), state({"n": 1})]},
    "hooks": {"lines": [schema("hooked"), *some("hooked"), state({"n": 1})]},
    "hooks of the target": {
        "target": "hooked",
        "lines": [schema("a"), schema("odd"), *some("a"), state({"n": 1})],
    },
    "the same schema again": {"lines": [schema("a"), *some("a"), schema("a"), *some("a")]},
    "a schema that changes": {
        "lines": [schema("a"), *some("a"), schema("a", id=ID), *some("a"), state({"n": 1})],
    },
    "keys that change": {
        "lines": [schema("a"), *some("a"), schema("a", ("id", "name")), *some("a")],
    },
    "no keys": {"lines": [schema("a", None), record("a", name="x")]},
    "metadata": {
        "lines": [
            schema("a"),
            record("a", id=1, extracted="2024-05-01T00:00:00.5Z", v=3),
            record("a", id=2, **SDC),
        ],
        "config": {"add_record_metadata": True},
    },
    "metadata that the tap sends": {
        "lines": [schema("a", id=ID, _sdc_sequence=ID), record("a", id=1, **SDC)],
    },
    "dates": {"lines": [schema("a", **DATES), *GOOD_DATES]},
    **{
        f"dates that are none, {treatment}": {
            "lines": [schema("a", **DATES), *BAD_DATES],
            "config": {"treatment": treatment},
        }
        for treatment in ("ERROR", "MAX", "NULL")
    },
    "a date that is a number": {
        "lines": [
            schema("a", id=ID, at={"type": ["string", "integer"], "format": "date-time"}),
            record("a", id=1, at=5),
        ],
    },
    "numbers": {
        "lines": [
            schema("a", id=ID, n={"type": "number"}, **{"x y": {}}),
            record("a", id=10**30, n=1),
            '{"type":"RECORD","stream":"a","record":{"id":1,"n":0.10,"x y":1e400}}\n',
            '{"type":"RECORD","stream":"a","record":{"id":2,"n":12345678901234567890.123}}\n',
        ],
    },
    "half of a letter": {
        "lines": [
            schema("a"),
            '{"type":"RECORD","stream":"a","record":{"id":1,"name":"\\ud83d"}}\n',
        ],
    },
    "strangers": {"lines": [schema("a"), record("a", id=1, z=1), record("a", id=2, z=2, y=None)]},
    "rich records": {"lines": [schema("a", **RICH), GOOD_RICH]},
    **{
        f"an invalid record: {values}": {
            "lines": [schema("a", **RICH), GOOD_RICH, record("a", **{"id": 2, **values})],
        }
        for values in (
            {"id": "x"},
            {"id": 1.0},
            {"kind": "z"},
            {"kind": 1},
            {"amount": -1.5},
            {"amount": 0.255},
            {"tags": ["long one"]},
            {"tags": [None]},
            {"address": {"city": 5}},
            {"address": []},
            {"id": True},
        )
    },
    "validation is off": {
        "lines": [schema("a"), record("a", id="x")],
        "config": {"validate_records": False},
    },
    "invalid records are tolerated": {
        "lines": [schema("tolerant"), *some("tolerant"), record("tolerant", id="x")],
    },
    "formats are validated": {
        "lines": [schema("strict", id=ID, day=DATE), record("strict", id=1, day="2024-02-30")],
    },
    "a reference": {
        "lines": [schema("a", id=ID, b={"$ref": "#/properties/id"}), record("a", id=1, b="x")],
    },
    "no schema at all": {"lines": [schema("a", id={"type": "text"}), record("a", id=1)]},
    "a key is missing": {"lines": [schema("a"), record("a", id=1), record("a", name="x")]},
    "a record before its schema": {"lines": [schema("a"), *some("a"), record("b", id=1)]},
    "a version": {
        "lines": [schema("a"), activate("a", 7), record("a", id=1, v=7), state({"n": 1})],
        "config": {"add_record_metadata": True},
    },
    "a version without metadata": {"lines": [schema("single"), activate("single", 7)]},
    "versions are off": {
        "lines": [schema("a"), activate("a", 7)],
        "config": {"process_activate_version_messages": False},
    },
    "stream maps": {
        "lines": [schema("a"), schema("b"), schema("c"), *some("a"), *some("b"), *some("c")],
        "config": {
            "stream_maps": {
                "a": {"name": "name.upper()", "long": "md5(name)", "__filter__": "id > 1"},
                "copy": {"__source__": "a", "__else__": None, "id": "id"},
                "b": {"__alias__": "renamed"},
                "c": None,
            }
        },
    },
    "flattening": {
        "lines": [schema("a", **RICH), GOOD_RICH],
        "config": {"flattening_enabled": True, "flattening_max_depth": 1},
    },
}

ANOTHER_WORDING = {"ValueError", "KeyError", "RecordsWithoutSchemaException", "InvalidJSONSchema"}
"""Errors of which only the class is compared, not the message."""


class Side:
    """The results of one SDK: files, states, warnings and errors of its targets."""

    def __init__(self, sdk: str, folder: Path, cases: dict[str, dict[str, Any]]) -> None:
        self.folder = folder / sdk
        self.folder.mkdir()
        (self.folder / "cases.json").write_text(json.dumps(cases))
        (self.folder / "targets.py").write_text(TARGETS.read_text().replace("tap_core", sdk))
        python = sys.executable if sdk == "tap_core" else str(PEER)
        process = subprocess.run(
            [python, "-W", "ignore", "targets.py", "."],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT) if sdk == "tap_core" else ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        self.results = json.loads((self.folder / "results.json").read_text())

    def files(self, name: str) -> dict[str, list[Any]]:
        return {
            path.name: [mask_times(json.loads(text)) for text in path.read_text().splitlines()]
            for path in sorted((self.folder / name).iterdir())
        }

    def error(self, name: str) -> list[str] | None:
        error: list[str] | None = self.results[name]["error"]
        if error is not None:
            error = [OF_THE_TREE.get(error[0], error[0]), *error[1:]]
        if error is not None and error[0] in ANOTHER_WORDING | {"MissingKeyPropertiesError"}:
            return error[:1]
        return error


def mask_times(value: Any) -> Any:
    """Replace times, which differ between runs, by their types."""
    if isinstance(value, list):
        return [mask_times(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    passing = ("_sdc_received_at", "_sdc_batched_at", "_sdc_sequence", "_sdc_sync_started_at")
    return {
        key: type(item).__name__ if key in passing else mask_times(item)
        for key, item in value.items()
    }


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peer")
    (folder / "plain.jsonl").write_text('{"id":1}\n{"id":2}\n')
    (folder / "packed.jsonl.gz").write_bytes(gzip.compress(b'{"id":3}\n'))
    plain, packed = (folder / "plain.jsonl").as_uri(), (folder / "packed.jsonl.gz").as_uri()
    CASES["batch files"] = {
        "lines": [
            schema("a"),
            batch("a", plain, format="jsonl", compression="none"),
            batch("a", packed, format="jsonl", compression="gzip"),
            state({"n": 1}),
        ],
    }
    CASES["batch files of another kind"] = {
        "lines": [schema("a"), batch("a", plain, format="csv")],
    }
    return [Side(sdk, folder, CASES) for sdk in SIDES]


OF_THE_TREE = {
    "InvalidDateTimeError": "ValueError",
    "UnsupportedBatchEncodingError": "NotImplementedError",
}
"""Errors of tap_core by the builtin that singer_sdk raises instead."""

PLACE = re.compile(r": stream '\w+': (?:[\w.\[\]]+: )?")
"""Stream and property of an invalid record, which errors of singer_sdk do not name."""

NAMES = [*CASES, "batch files", "batch files of another kind"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_files_are_those_of_singer_sdk(sides, name):
    ours, theirs = (side.files(name) for side in sides)
    for item in (ours, theirs):  # the order of drain and setup may differ
        for notes in item.values():
            notes.sort(key=lambda note: note[0] == "setup", reverse=True)
    assert ours == theirs


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_those_of_singer_sdk(sides, name):
    ours, theirs = (side.error(name) for side in sides)
    if ours is not None and ours[0] == "InvalidRecord":
        ours[1], replacements = PLACE.subn(": ", ours[1], count=1)
        assert replacements == 1, "the error of an invalid record names its stream"
    assert ours == theirs


@pytest.mark.parametrize("name", NAMES)
def test_last_state_is_that_of_singer_sdk(sides, name):
    ours, theirs = (side.results[name]["states"][-1:] for side in sides)
    assert ours == theirs


@pytest.mark.parametrize("name", ["strangers", "versions are off"])
def test_warnings_are_those_of_singer_sdk(sides, name):
    ours, theirs = (side.results[name]["warnings"] for side in sides)
    assert ours == theirs
    assert ours
