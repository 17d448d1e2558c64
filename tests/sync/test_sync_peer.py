"""Taps write the same records, schemas and states on tap_core and on singer_sdk.

Only the import lines of the taps differ. Allowed differences are stated at each comparison: the
number of states, signposts during a sync, and versions at the end.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.peers import missing_reason, peer_python
from tests.sync.syncing import (
    count_records,
    metric_points,
    parse_messages,
    read_counts,
    select_messages,
)

PEER = peer_python("singer_sdk")
ROOT = Path(__file__).resolve().parents[2]
TAPS = Path(__file__).with_name("peer_taps.py")
SIDES = ("tap_core", "singer_sdk")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]


class Side:
    """One SDK: its interpreter, its copy of the taps and their output."""

    def __init__(self, sdk: str, folder: Path) -> None:
        self.sdk = sdk
        self.folder = folder / sdk
        self.folder.mkdir()
        self.python = sys.executable if sdk == "tap_core" else str(PEER)
        self.codes: dict[str, Any] = {}
        self.logs: dict[str, str] = {}
        (self.folder / "taps.py").write_text(TAPS.read_text().replace("tap_core", sdk))

    def run(self, scenarios: dict[str, dict[str, Any]]) -> None:
        """Run scenarios in one process."""
        calls = {name: self._call(name, scenario) for name, scenario in scenarios.items()}
        (self.folder / "scenarios.json").write_text(json.dumps(calls))
        process = subprocess.run(
            [self.python, "-W", "ignore", "taps.py", "scenarios.json"],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT) if self.sdk == "tap_core" else ""},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        for part in process.stderr.split("SCENARIO ")[1:]:
            name, *lines = part.splitlines()
            # singer_sdk adds a log handler per tap, so it repeats each line.
            self.logs[name] = "\n".join(line for line, _ in groupby(lines))
        self.codes |= json.loads((self.folder / "codes.json").read_text())

    def _call(self, name: str, scenario: dict[str, Any]) -> list[Any]:
        args = list(scenario.get("args", ()))
        for flag in ("config", "catalog", "state"):
            if flag in scenario:
                path = self.folder / f"{name}.{flag}.json"
                path.write_text(json.dumps(scenario[flag]))
                args += [f"--{flag}", str(path)]
        return [scenario.get("tap", "tap-both"), args]

    def text(self, scenario: str) -> bytes:
        return (self.folder / f"{scenario}.out").read_bytes()

    def messages(self, scenario: str) -> list[dict[str, Any]]:
        return parse_messages(self.text(scenario))

    def state(self, scenario: str) -> dict[str, Any]:
        return select_messages(self.messages(scenario), "STATE")[-1]["value"]


def bookmark(value: Any, key: str = "id", **fields: Any) -> dict[str, Any]:
    return {"replication_key": key, "replication_key_value": value, **fields}


LEFT_OVER = {
    "starting_replication_value": 1,
    "replication_key_signpost": 3,
    "progress_markers": {"Note": "Progress is not resumable if interrupted.", **bookmark(99)},
}

STATE = {
    "bookmarks": {
        "sorted": bookmark(5, **LEFT_OVER),
        "unsorted": bookmark(4, **LEFT_OVER),
        "unchecked": bookmark("old", "other_key"),
        "future": bookmark("2024-01-15T00:00:00+00:00", "at"),
        "parted": {
            "partitions": [
                {"context": {"p": "y"}, **bookmark(7, **LEFT_OVER)},
                {"context": {"p": "gone"}, **bookmark(3)},
            ]
        },
        "some_keys": {"partitions": [{"context": {"p": "x"}, **bookmark(3)}]},
        "no_keys": bookmark(3),
        "from_state": {"partitions": [{"context": {"s": 1}}, {"context": {"s": 2}}]},
        "child": {"partitions": [{"context": {"parent": 1, "kind": "c"}, **bookmark(6)}]},
        "one_bookmark": bookmark(6),
        "gone": bookmark(1),
        "empty": {},
    },
    "currently_syncing": "sorted",
}

SCENARIOS: dict[str, dict[str, Any]] = {
    "plain": {},
    "state": {"state": STATE},
    "start": {
        "config": {"start_date": "2024-01-03T00:00:00Z", "only": ["future", "times", "values"]},
        "state": STATE,
    },
    "legacy": {"config": {"legacy": True}, "state": {"positions": {"sorted": 8, "unsorted": 7}}},
    "versions": {"config": {"emit_activate_version_messages": True}},
    "discover": {"args": ["--discover"]},
    "discover_some": {"args": ["--discover"], "config": {"only": ["sorted", "values"]}},
    "test": {"args": ["--test"]},
    "schemas": {"args": ["--test=schema"]},
    "loop": {"tap": "tap-loop", "state": STATE},
    "aside": {"tap": "tap-aside", "state": {"bookmarks": {"aside": bookmark(1)}}},
    "broken": {"tap": "tap-broken"},
}


def root(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a stream itself."""
    [metadata] = [item["metadata"] for item in entry["metadata"] if not item["breadcrumb"]]
    return metadata


def select(entry: dict[str, Any], *path: str, selected: bool) -> None:
    """Set the selection of a breadcrumb in a catalog entry."""
    for item in entry["metadata"]:
        if item["breadcrumb"] == list(path):
            item["metadata"]["selected"] = selected


class Catalogs:
    """Catalogs that users may create from the discovered one."""

    def __init__(self, discovered: dict[str, Any]) -> None:
        self._entries = {entry["stream"]: entry for entry in discovered["streams"]}

    def select(self, *names: str, **off: bool) -> dict[str, Any]:
        """Return a catalog of some streams; those that are ``name=False`` are deselected."""
        entries = [copy.deepcopy(self._entries[name]) for name in (*names, *off)]
        for entry in entries:
            select(entry, selected=off.get(entry["stream"], True))
        return {"streams": entries}

    def properties(self) -> dict[str, Any]:
        """Return a catalog that deselects properties."""
        catalog = self.select("selected", sorted=False)
        for path in (("a",), ("o", "properties", "d")):
            select(catalog["streams"][0], "properties", *path, selected=False)
        return catalog

    def methods(self) -> dict[str, Any]:
        """Return a catalog that changes replication methods and keys."""
        catalog = self.select("sorted", "unsorted", "values", "future", "times")
        changes: list[dict[str, Any]] = [
            {"replication_method": "FULL_TABLE"},
            {"replication_key": None},
            {"replication_method": "LOG_BASED", "key_properties": ["id", "big"]},
            {"replication_key": "id", "replication_method": "INCREMENTAL"},
            {"key_properties": []},
        ]
        for entry, change in zip(catalog["streams"], changes, strict=True):
            entry.update(change)
            root(entry).pop("forced-replication-method", None)
        return catalog

    def bare(self) -> dict[str, Any]:
        """Return a catalog whose keys are only in the metadata."""
        catalog = self.select("sorted", "unsorted", "child", "parent")
        metadata = {"selected": True, "table-key-properties": ["id"], "replication-key": "id"}
        for entry in catalog["streams"]:
            for key in ("replication_key", "replication_method", "key_properties"):
                entry.pop(key, None)
            entry["metadata"] = [{"breadcrumb": [], "metadata": metadata}]
        return catalog

    def schemas(self) -> dict[str, Any]:
        """Return a catalog with a changed schema and an unknown stream."""
        catalog = self.select("values", "sorted", "unsorted")
        catalog["streams"][0]["schema"]["properties"] = {
            "id": {"type": "string"},
            "text": {"type": "string"},
            "new": {"type": "boolean"},
        }
        catalog["streams"][2] |= {"stream": "nobody", "tap_stream_id": "nobody"}
        return catalog

    def all(self) -> dict[str, Any]:
        """Return all catalogs by name."""
        return {
            "properties": self.properties(),
            "methods": self.methods(),
            "bare": self.bare(),
            "schemas": self.schemas(),
            "one_child": self.select("child", parent=False),
            "grandchild": self.select("grandchild", parent=False, child=False),
            "all": self.select(*self._entries),
        }


@pytest.fixture(scope="module")
def sides(tmp_path_factory) -> dict[str, Side]:
    """Run all scenarios on both SDKs, then those that resume from their states."""
    folder = tmp_path_factory.mktemp("sides")
    sdk_sides = {sdk: Side(sdk, folder) for sdk in SIDES}
    for side in sdk_sides.values():
        side.run(SCENARIOS)
    discovered = json.loads(sdk_sides["singer_sdk"].text("discover"))
    scenarios = {
        f"catalog_{name}": {"catalog": catalog, "state": STATE}
        for name, catalog in Catalogs(discovered).all().items()
    }
    for sdk, side in sdk_sides.items():
        for scenario in ("plain", "state", "catalog_bare"):
            if scenario in side.codes:
                scenarios[f"resumed_{scenario}_of_{sdk}"] = {"state": plain(side.state(scenario))}
        interim = [message["value"] for message in select_messages(side.messages("plain"), "STATE")]
        for number in range(0, len(interim), 9):
            scenarios[f"interrupted_{number}_of_{sdk}"] = {"state": plain(interim[number])}
    for side in sdk_sides.values():
        side.run(scenarios)
    return sdk_sides


def plain(state: Any) -> Any:
    """Return a state whose numbers JSON can encode."""
    return json.loads(json.dumps(state, default=float))


SYNCS = [name for name in SCENARIOS if not name.startswith(("discover", "schemas"))]


def syncs(sides: dict[str, Side]) -> list[str]:
    return [name for name in sides["tap_core"].codes if not name.startswith("discover")]


def by_stream(messages: list[dict[str, Any]], kind: str) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for message in select_messages(messages, kind):
        fields = {key: value for key, value in message.items() if key != "time_extracted"}
        grouped.setdefault(message["stream"], []).append(fields)
    return grouped


def compare(sides: dict[str, Side], look: Any) -> None:
    """Compare the result of `look` for the messages of each sync of both SDKs."""
    names = syncs(sides)
    assert len(names) > 20
    for name in names:
        ours, theirs = (look(sides[sdk].messages(name)) for sdk in SIDES)
        assert ours == theirs, name


@pytest.mark.thorough
def test_exit_codes_equal_those_of_singer_sdk(sides):
    assert sides["tap_core"].codes == sides["singer_sdk"].codes
    assert sides["tap_core"].codes["broken"] == "InvalidStreamSortException"
    assert sides["tap_core"].codes["plain"] == 0


def test_records_and_their_order_equal_those_of_singer_sdk(sides):
    compare(sides, lambda messages: by_stream(messages, "RECORD"))
    assert len(select_messages(sides["tap_core"].messages("plain"), "RECORD")) > 150


def test_schemas_equal_those_of_singer_sdk(sides):
    """Two differences: keys that are only in the metadata, and tests of a deselected stream.

    singer_sdk then writes no keys, and a schema without properties.
    """

    def first(messages):
        schemas = by_stream(messages, "SCHEMA")
        return {
            name: schema_messages[0] for name, schema_messages in schemas.items() if name != "off"
        }

    for name in syncs(sides):
        ours, theirs = (first(sides[sdk].messages(name)) for sdk in SIDES)
        for stream, schema in ours.items():
            keys = theirs[stream].setdefault("key_properties", ["id"])
            if not keys and name == "catalog_methods" and stream == "times":
                theirs[stream]["key_properties"] = ["id"]
            assert schema == theirs[stream], (name, stream)
        assert ours.keys() == theirs.keys()
    assert len(first(sides["tap_core"].messages("schemas"))) == 27


def test_schema_message_is_written_once_per_stream(sides):
    for name in syncs(sides):
        for stream, messages in by_stream(sides["tap_core"].messages(name), "SCHEMA").items():
            assert len(messages) == 1, (name, stream)


def test_last_states_equal_those_of_singer_sdk(sides):
    def last(messages):
        return [message["value"] for message in select_messages(messages, "STATE")][-1:]

    for name in syncs(sides):
        ours, theirs = (last(sides[sdk].messages(name)) for sdk in SIDES)
        if name not in {"test", "broken"}:  # what was aborted keeps its markers and signposts
            assert ours == theirs, name
    [broken] = last(sides["tap_core"].messages("broken"))
    assert broken == {
        "bookmarks": {
            "broken": {"starting_replication_value": None, **bookmark(5)},
        },
        "currently_syncing": "broken",
    }


def test_record_counts_equal_those_of_singer_sdk(sides):
    """One difference: the record out of order is written and therefore counted."""
    for name in syncs(sides):
        ours, theirs = (read_counts(sides[sdk].logs[name]) for sdk in SIDES)
        if name == "broken":
            theirs = {stream: count + 1 for stream, count in theirs.items()}
        assert ours == theirs, name
        assert ours == count_records(sides["tap_core"].messages(name)), name


def test_metrics_have_the_structure_of_singer_sdk(sides):
    """The tag ``context`` is empty: one line covers all contexts of a stream."""
    for metric in ("record_count", "sync_duration"):
        ours, theirs = (metric_points(sides[sdk].logs["plain"], metric) for sdk in SIDES)
        forms = [{(*point, *point["tags"]) for point in points} for points in (ours, theirs)]
        assert forms[0] == forms[1]
        assert all(point["tags"]["context"] == {} for point in ours)
        streams = [point["tags"]["stream"] for point in ours]
        assert len(streams) == len(set(streams))


def test_states_after_the_same_records_equal_those_of_singer_sdk(sides):
    """Compared wherever both SDKs write a state after the same number of records."""
    comparisons = 0
    for name in syncs(sides):
        ours, theirs = (states_by_record_count(sides[sdk].messages(name)) for sdk in SIDES)
        shared = ours.keys() & theirs.keys()
        comparisons += len(shared)
        for record_count in shared:
            assert any(state in theirs[record_count] for state in ours[record_count]), (
                name,
                record_count,
            )
    assert comparisons > 500


def states_by_record_count(messages: list[dict[str, Any]]) -> dict[int, list[Any]]:
    """Return the states by the number of records before them, without signposts."""
    states: dict[int, list[Any]] = {}
    records = 0
    for message in messages:
        records += message["type"] == "RECORD"
        if message["type"] == "STATE":
            states.setdefault(records, []).append(without_signposts(message["value"]))
    return states


def without_signposts(state: Any) -> Any:
    if isinstance(state, dict):
        return {
            key: without_signposts(value)
            for key, value in state.items()
            if key not in {"replication_key_signpost", "currently_syncing"}
        }
    return [without_signposts(item) for item in state] if isinstance(state, list) else state


def test_discovered_catalogs_equal_those_of_singer_sdk(sides):
    for name in ("discover", "discover_some"):
        ours, theirs = (json.loads(sides[sdk].text(name)) for sdk in SIDES)
        assert ours == theirs
    assert len(ours["streams"]) == 2


def test_activate_version_is_written_before_and_after_the_rows(sides):
    """singer_sdk writes it before the rows of each context and never at the end."""
    ours, theirs = (by_stream(sides[sdk].messages("versions"), "ACTIVATE_VERSION") for sdk in SIDES)
    assert ours.keys() == theirs.keys()
    for name, messages in ours.items():
        assert messages == [theirs[name][0]] * 2
    assert by_stream(sides["tap_core"].messages("plain"), "ACTIVATE_VERSION") == {}


def test_starting_values_equal_those_of_singer_sdk(sides):
    """Compared for all streams of all scenarios, also with states of the other SDK."""
    ours, theirs = ((sides[sdk].folder / "starts.txt").read_text().splitlines() for sdk in SIDES)
    assert ours == theirs
    assert len(ours) > 300
    assert len([line for line in ours if not line.endswith("None")]) > 100


def test_numbers_are_written_exactly(sides):
    [first, *_] = by_stream(sides["tap_core"].messages("plain"), "RECORD")["values"]
    assert first["record"]["price"] == Decimal("12345678901234567890.1234567890")
    assert first["record"]["big"] == 2**200


def test_bookmark_is_limited_by_the_start_of_the_sync(sides):
    value = sides["tap_core"].state("plain")["bookmarks"]["future"]["replication_key_value"]
    assert value == "2024-05-06T07:08:09.000000+00:00"
