"""Comparison of stream maps with singer_sdk: schemas, records, filters and states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.peers import missing_reason, peer_python

PEER = peer_python("singer_sdk")
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("peer_maps.py")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]

TEXT = {"type": ["string", "null"]}
SCHEMA = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "email": {**TEXT, "description": "where to write"},
        "amount": {"type": ["number", "null"]},
        "class": TEXT,
        "a": {
            "type": "object",
            "properties": {"b": {"type": ["object", "null"], "properties": {"c": TEXT}}, "d": TEXT},
        },
        "list": {"type": ["array", "null"], "items": {"type": "integer"}},
        "choice": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "objects": {"oneOf": [{"type": "object"}, {"type": "null"}]},
        "lists": {"oneOf": [{"type": "array"}, {"type": "null"}]},
        "numbers": {"oneOf": [{"type": "integer"}]},
        "anything": {},
        "described": {"description": "anything at all"},
    },
}
RECORDS: list[dict[str, Any]] = [
    {
        "id": 1,
        "name": "Ada",
        "email": "Ada@X.org",
        "amount": 12.5,
        "class": "c",
        "a": {"b": {"c": "x", "more": {"deep": [1]}}, "d": None},
        "list": [1, 2],
        "choice": "x",
        "objects": {"o": 1},
        "lists": [],
        "numbers": 3,
        "anything": {"free": {"er": 1.5}},
        "described": None,
    },
    {"id": 2, "name": "Bob", "a": {}, "list": None, "amount": None},
    {"id": 3, "name": "Cyd", "email": "", "self": "own", "fake": 7, "a": {"b": None}},
    {"name": "no id", "list": {}},
    {},
]
CONFIG = {"salt": "pepper", "limit": 2}
KEYS = ["id"]


def make_map_settings(**definition: Any) -> dict[str, Any]:
    """Return the settings of one map of the stream `s`."""
    return {"stream_maps": {"s": definition}, "stream_map_config": CONFIG}


def case(
    config: dict[str, Any], keys: list[str] | None = KEYS, names: tuple[str, ...] = ("s",)
) -> list[Any]:
    return [config, {name: [SCHEMA, keys] for name in names}, RECORDS]


FLAT = {"flattening_enabled": True, "flattening_max_depth": 1}
FLATTER = {"flattening_enabled": True, "flattening_max_depth": 3, "flattening_separator": "."}

MAPS = {
    "nothing": case({}),
    "keys none": case({}, None),
    "computed": case(
        make_map_settings(
            new="id + 1",
            other="name",
            copied="email",
            text="'text'",
            as_float="float(id)",
            as_int="int(amount or 0)",
            as_text="str(id)",
            as_bool="bool(id)",
            dumped="json.dumps(a)",
            day="datetime.date(2024, 1, id)",
            day_of="datetime.date.fromisoformat('2024-01-02')",
            moment="datetime.datetime(2024, 1, id)",
            parsed="datetime.datetime.strptime('2024-01-02', '%Y-%m-%d').date()",
            hashed="md5(config['salt'] + name)",
            longer="sha256(name)",
            whole="record",
            stream="__stream_name__",
            first="__original_stream_name__",
            pair="[id, name]",
            both="{'id': id}",
            reserved="_['class']",
            odd="_.get('missing', 'none')",
        )
    ),
    "changed": case(
        make_map_settings(name="name.upper()", email="self.lower() if self else None", id="id * 10")
    ),
    "self": case(make_map_settings(fresh="self", name="self")),
    "fake": case(make_map_settings(fresh="fake")),
    "removed": case(make_map_settings(name=None, email="__NULL__", amount=None, missing=None)),
    "renamed": case(make_map_settings(mail="email", email=None, again="email")),
    "chained": case(make_map_settings(a="amount", amount="name", last="a")),
    "filter": case(make_map_settings(__filter__="id > 1")),
    "filter of text": case(make_map_settings(__filter__="name in ('Ada', 'Bob')", x="id")),
    "filter none": case(make_map_settings(__filter__=None)),
    "filter by config": case(make_map_settings(__filter__="_.get('id', 0) <= config['limit']")),
    "else": case(make_map_settings(__else__=None, id="id", x="name")),
    "else by word": case(make_map_settings(__else__="__NULL__", id="id", email="email")),
    "else without keys": case(make_map_settings(__else__=None, x="name"), None),
    "keys": case(make_map_settings(__key_properties__=["name"], id=None)),
    "no keys": case(make_map_settings(__key_properties__=[], id=None)),
    "keys null": case(make_map_settings(__key_properties__=None, id=None)),
    "new key": case(make_map_settings(__key_properties__=["key"], key="md5(name)")),
    "alias": case(make_map_settings(__alias__="t", x="__stream_name__ + __original_stream_name__")),
    "alias quoted": case(make_map_settings(__alias__="'t'")),
    "alias of words": case(make_map_settings(__alias__="my-new.stream")),
    "alias computed": case(make_map_settings(__alias__="f'x_{__stream_name__}'")),
    "alias by concatenation": case(make_map_settings(__alias__=" __stream_name__ + '_v2' ")),
    "duplicated": case(
        {"stream_maps": {"copy": {"__source__": "s", "x": "id"}, "more": {"__source__": "s"}}}
    ),
    "duplicated only": case(
        {"stream_maps": {"s": None, "copy": {"__source__": "s", "x": "__stream_name__"}}}
    ),
    "others out": case(
        {"stream_maps": {"__else__": None, "s1": {"x": "id"}}}, names=("s1", "s2", "t")
    ),
    "out": case({"stream_maps": {"s": None}}),
    "out by word": case({"stream_maps": {"s": "__NULL__"}}),
    "wildcard": case(
        {"stream_maps": {"s*": {"x": "__stream_name__"}, "t?": None}}, names=("s1", "s2", "t1", "u")
    ),
    "wildcard alias": case(
        {"stream_maps": {"s*": {"__alias__": "__stream_name__ + '_x'", "x": "id"}}},
        names=("s1", "s2", "t"),
    ),
    "wildcard source": case({"stream_maps": {"all": {"__source__": "s*"}}}, names=("s1", "s2")),
    "exact after wildcard": case(
        {"stream_maps": {"*": {"x": "1"}, "s1": {"y": "2"}}}, names=("s1", "s2")
    ),
    "flat": case(FLAT),
    "flatter": case(FLATTER),
    "flat off": case({"flattening_enabled": False, "flattening_max_depth": 2}),
    "flat by nothing": case({"flattening_enabled": True, "flattening_max_depth": 0}),
    "flat short": case({**FLATTER, "flattening_max_key_length": 5, "flattening_separator": "__"}),
    "flat and mapped": case(
        {
            **FLAT,
            **make_map_settings(new={}, x="a")["stream_map_config"],
            **make_map_settings(x="a"),
        }
    ),
    "flat and computed": case(
        {**FLATTER, **make_map_settings(x="{'p': {'q': [1]}}", y="record", z="[1]")}
    ),
    "flat and filtered": case(
        {**FLAT, **make_map_settings(__filter__="id == 1", __else__=None, id="id")}
    ),
    # Invalid configurations
    "wrong else": case({"stream_maps": {"__else__": "x"}}),
    "wrong option": case({"stream_maps": {"__other__": {}}}),
    "wrong text": case({"stream_maps": {"s": "x"}}),
    "wrong type": case({"stream_maps": {"s": 5}}),
    "wrong property else": case(make_map_settings(__else__="x")),
    "wrong property": case(make_map_settings(x=5)),
    "wrong removal": case(make_map_settings(id=None)),
    "wrong keys": case(make_map_settings(__key_properties__=["gone"])),
    "wrong expression": case(make_map_settings(x="1 +")),
    "wrong filter": case(make_map_settings(__filter__="1 +")),
    "wrong alias": case(make_map_settings(__alias__="two words")),
    "wrong alias function": case(make_map_settings(__alias__="foo(1)")),
    "wrong depth": case({"flattening_enabled": True}),
    "else lacks keys": case(make_map_settings(__else__=None, x="name")),
    "unknown name": case(make_map_settings(x="gone + 1")),
    "unknown in filter": case(make_map_settings(__filter__="gone")),
}

DEEP = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "foo": {
            "type": ["object", "null"],
            "properties": {
                "bar": {
                    "type": ["object", "null"],
                    "properties": {"baz": {"type": "object", "properties": {"qux": TEXT}}},
                },
                "free": {"type": "object"},
            },
        },
    },
}
DEEP_RECORD = {"id": "1", "foo": {"bar": {"baz": {"qux": "x", "new": {"er": 1}}}, "free": {"y": 1}}}
CLASH = {
    "type": "object",
    "properties": {
        "a__b": TEXT,
        "a": {"type": "object", "properties": {"b": TEXT}},
    },
}
FLATS = [
    *([DEEP, DEEP_RECORD, {"max_level": level}] for level in range(5)),
    *([SCHEMA, record, {"max_level": 2, "separator": "-"}] for record in RECORDS),
    [DEEP, DEEP_RECORD, {"max_level": 4, "max_key_length": 9}],
    [CLASH, {}, {"max_level": 1}],
    [{"type": "object"}, {"a": {"b": 1}}, {"max_level": 1}],
]
FLAT_KEYS = [
    [key, parents, "__", length]
    for key, parents in (
        ("foo", []),
        ("foo", ["bar", "baz"]),
        ("someVeryLongName", ["another_long_name", "XMLThing", "x"]),
        ("_x_y", ["ABC", "a1b2"]),
    )
    for length in (255, 30, 20, 10, 3)
]


def catalog(**selected: bool) -> dict[str, Any]:
    """Return a catalog of the stream `people`, with some properties selected or not."""
    from tests.mapper import peer_maps

    return {
        "streams": [
            {
                "tap_stream_id": "people",
                "stream": "people",
                "key_properties": ["id"],
                "replication_key": "at",
                "schema": peer_maps.People.schema,
                "metadata": [
                    {"breadcrumb": [], "metadata": {"selected": True}},
                    *(
                        {"breadcrumb": ["properties", name], "metadata": {"selected": is_selected}}
                        for name, is_selected in selected.items()
                    ),
                ],
            },
            {
                "tap_stream_id": "plain",
                "stream": "plain",
                "schema": peer_maps.Plain.schema,
                "metadata": [{"breadcrumb": [], "metadata": {"selected": False}}],
            },
        ]
    }


PEOPLE = {"name": "name.upper()", "high": "bool(score and score > 2)", "secret": None}
TAPS: dict[str, list[Any]] = {
    "plain": [{}, None],
    "mapped": [{"stream_maps": {"people": PEOPLE}}, None],
    "filtered children": [{"stream_maps": {"people": {"__filter__": "id % 2 == 0"}}}, None],
    "filtered to nothing": [{"stream_maps": {"people": {"__filter__": "False"}}}, None],
    "parent out": [{"stream_maps": {"people": None}}, None],
    "child out": [{"stream_maps": {"pets": "__NULL__"}}, None],
    "others out": [{"stream_maps": {"__else__": None, "plain": {"m": "n * 2"}}}, None],
    "renamed": [{"stream_maps": {"*": {"__alias__": "'x_' + __stream_name__"}}}, None],
    "several": [
        {
            "stream_maps": {
                "people": {"__filter__": "id > 3", **PEOPLE},
                "cities": {
                    "__source__": "people",
                    "__else__": None,
                    "__key_properties__": ["city"],
                    "__filter__": "address",
                    "city": "address['city']",
                },
                "all": {"__source__": "people", "where": "__stream_name__"},
            }
        },
        None,
    ],
    "flat": [FLAT, None],
    "flat and mapped": [
        {**FLATTER, "stream_maps": {"people": PEOPLE, "n": {"__source__": "plain"}}},
        None,
    ],
    "mutating": [{"stream_maps": {"people": {"n": "tags.pop()", "m": "tags"}}}, None],
    "versions": [
        {
            "emit_activate_version_messages": True,
            "stream_maps": {"copy": {"__source__": "plain"}, "pets": None},
        },
        None,
    ],
    "selected": [{"stream_maps": {"people": PEOPLE}}, catalog(tags=False, secret=False)],
    "deselected is used": [{"stream_maps": {"people": {"x": "score"}}}, catalog(score=False)],
}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("maps")
    cases = {"maps": MAPS, "flat": FLATS, "keys": FLAT_KEYS, "taps": TAPS}
    (folder / "cases.json").write_text(json.dumps(cases))
    return {sdk: run(sdk, folder) for sdk in ("tap_core", "singer_sdk")}


def run(sdk: str, folder: Path) -> dict[str, Any]:
    program_folder = folder / sdk
    program_folder.mkdir()
    (program_folder / "maps.py").write_text(PROGRAM.read_text().replace("tap_core", sdk))
    process = subprocess.run(
        [
            sys.executable if sdk == "tap_core" else str(PEER),
            *("-W", "ignore", "maps.py", "../cases.json", "results.json"),
        ],
        cwd=program_folder,
        env={**os.environ, "PYTHONPATH": str(ROOT) if sdk == "tap_core" else ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    results: dict[str, Any] = json.loads((program_folder / "results.json").read_text())
    return results


@pytest.mark.parametrize("name", MAPS)
def test_maps_give_the_result_of_singer_sdk(results, name):
    ours, theirs = (results[sdk]["maps"][name] for sdk in results)
    assert ours == theirs


def test_flattening_gives_the_result_of_singer_sdk(results):
    assert results["tap_core"]["flat"] == results["singer_sdk"]["flat"]
    assert results["tap_core"]["keys"] == results["singer_sdk"]["keys"]


@pytest.mark.parametrize("name", TAPS)
def test_tap_with_maps_writes_the_messages_of_singer_sdk(results, name):
    ours, theirs = (results[sdk]["taps"][name] for sdk in results)
    if isinstance(theirs, str):
        assert ours == theirs
        return
    assert rows(ours) == rows(theirs)
    assert schemas(ours) == schemas(theirs)
    assert last_state(ours) == last_state(theirs)
    assert versions(ours) == versions(theirs)


def rows(messages: list[dict[str, Any]]) -> dict[str, list[Any]]:
    records: dict[str, list[Any]] = {}
    for message in messages:
        if message["type"] == "RECORD":
            records.setdefault(message["stream"], []).append(message["record"])
    return records


def schemas(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        message["stream"]: [
            message.get(field) or []
            for field in ("schema", "key_properties", "bookmark_properties")
        ]
        for message in messages
        if message["type"] == "SCHEMA"
    }


def last_state(messages: list[dict[str, Any]]) -> Any:
    return [message["value"] for message in messages if message["type"] == "STATE"][-1]


def versions(messages: list[dict[str, Any]]) -> set[str]:
    return {message["stream"] for message in messages if message["type"] == "ACTIVATE_VERSION"}
