"""Unusual but valid messages as other people's taps print them, and invalid ones.

Each case is a stream, so that one load takes all of them. The lines of a case are messages, or
bytes that no JSON writer would produce.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LOADING", "REFUSED", "Case", "encode_cases"]

ID = {"id": {"type": "integer"}}
TEXT = {"type": ["null", "string"]}
ID_AND_TEXT = {**ID, "text": TEXT}


@dataclass(frozen=True)
class Case:
    """Lines of one stream, and the expected rows of its table.

    ``columns`` are compared (all, if none); ``quarantined`` is the number of quarantined rows.
    """

    stream: str
    lines: tuple[Any, ...]
    rows: list[tuple[Any, ...]]
    columns: tuple[str, ...] = ()
    quarantined: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)


def encode_cases(*cases: Case) -> bytes:
    """Return the lines of cases, in order."""
    return b"".join(line + b"\n" for case in cases for line in _encoded(case))


def _encoded(case: Case) -> Iterator[bytes]:
    for line in case.lines:
        yield line if isinstance(line, bytes) else json.dumps(line).encode()


def schema(stream: str, properties: Any, *keys: str, **fields: Any) -> dict[str, Any]:
    json_schema = {"type": "object", "properties": properties}
    message = {"type": "SCHEMA", "stream": stream, "schema": json_schema, "key_properties": keys}
    return {**message, **fields}


def record(stream: str, values: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "RECORD", "stream": stream, "record": values, **fields}


def raw(stream: str, body: str) -> bytes:
    return f'{{"type":"RECORD","stream":"{stream}","record":{body}}}'.encode()


def _nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def _nested_schema(levels: int) -> dict[str, Any]:
    nested: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        nested = {"type": "object", "properties": {"a": nested}}
    return nested


def _schemas() -> Iterator[Case]:
    bare = {"type": "SCHEMA", "stream": "no_keys", "schema": {"properties": ID}}
    yield Case("no_keys", (bare, record("no_keys", {"id": 1})), [(1,)])
    yield Case(
        "null_keys",
        (schema("null_keys", ID, key_properties=None), record("null_keys", {"id": 1})),
        [(1,)],
    )
    yield Case(
        "lost_keys",
        (
            schema("lost_keys", ID_AND_TEXT, "id"),
            record("lost_keys", {"id": 1}),
            record("lost_keys", {"text": "no key"}),
            record("lost_keys", {"id": None, "text": "no key"}),
        ),
        [(1, None)],
        quarantined=2,
    )
    empty = {"type": "SCHEMA", "stream": "empty", "schema": {}, "key_properties": []}
    yield Case("empty", (empty, record("empty", {"id": 1})), [('{"id": 1}',)])
    keys_alone = {"type": "SCHEMA", "stream": "keys_alone", "schema": {"type": "object"}}
    yield Case(
        "keys_alone",
        (
            {**keys_alone, "key_properties": ["_id", "record"]},
            raw("keys_alone", '{"_id":"a","record":1,"n":1.50}'),
            raw("keys_alone", '{"record":2,"n":[1, 2],"_id":7}'),
            raw("keys_alone", r'{"record":1,"_id":"a","n":"\u00e9"}'),
            raw("keys_alone", '{"n":"no key"}'),
            raw("keys_alone", r'{"_id":"\ud83d","record":1}'),
            raw("keys_alone", r'{"_id":"?","record":"\ud83d\ude00"}'),
        ),
        [
            ("?", "😀", r'{"_id":"?","record":"\ud83d\ude00"}'),
            ("7", "2", '{"record":2,"n":[1, 2],"_id":7}'),
            ("a", "1", r'{"record":1,"_id":"a","n":"\u00e9"}'),
        ],
        ("_id", "record", "record_2"),
        quarantined=2,
    )
    none = {"type": "SCHEMA", "stream": "propertyless", "schema": {"type": "object"}}
    yield Case("propertyless", (none, record("propertyless", {"id": 1})), [('{"id": 1}',)])
    properties = {
        **ID,
        "never": {"type": "null"},
        "order": {"type": ["integer", "null", "string"]},
        "flag": {"type": ["boolean", "null"], "enum": [True, None]},
        "any": True,
        "none": {},
        "text": {"type": ["string"]},
        "untyped": {"description": "of no type"},
        "many": {"type": ["null", "array", "object", "string"]},
    }
    yield Case(
        "odd_types",
        (
            schema("odd_types", properties),
            record("odd_types", {"id": 1}),
            raw(
                "odd_types",
                '{"id":2,"never":null,"order":3,"flag":true,"any":[1.50],"none":{"a":1},'
                '"text":"x","untyped":1.0,"many":"y"}',
            ),
        ),
        [
            (1, None, None, None, None, None, None, None, None),
            (2, None, "3", True, "[1.50]", '{"a":1}', "x", "1.0", "y"),
        ],
        tuple(properties),
    )
    definitions = {
        "node": {
            "type": "object",
            "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/definitions/node"}},
        }
    }
    json_schema = {"properties": {**ID, "n": {"$ref": "#/definitions/node"}}}
    circle = {
        "type": "SCHEMA",
        "stream": "circle",
        "schema": {**json_schema, "definitions": definitions},
    }
    yield Case(
        "circle", (circle, raw("circle", '{"id":1,"n":{"v":1,"next":{"v":2}}}')), [(1,)], ("id",)
    )
    extended = {**ID_AND_TEXT, "more": TEXT}
    yield Case(
        "alternating",
        (
            schema("alternating", ID_AND_TEXT),
            record("alternating", {"id": 1, "text": "a"}),
            schema("alternating", extended),
            record("alternating", {"id": 2, "more": "m"}),
            schema("alternating", ID_AND_TEXT),
            schema("alternating", ID_AND_TEXT),
            record("alternating", {"id": 3, "text": "c"}),
        ),
        [(1, "a", None), (2, None, "m"), (3, "c", None)],
    )
    yield Case(
        "other_keys",
        (
            schema("other_keys", {**ID, "code": TEXT, "text": TEXT}, "id"),
            record("other_keys", {"id": 1, "code": "a", "text": "x"}),
            schema("other_keys", {**ID, "code": TEXT, "text": TEXT}, "code"),
            record("other_keys", {"id": 2, "code": "a", "text": "y"}),
            record("other_keys", {"id": 2, "code": "b", "text": "z"}),
        ),
        [(2, "a", "y"), (2, "b", "z")],
    )
    yield Case("only_described", (schema("only_described", ID_AND_TEXT),), [])


def _values() -> Iterator[Case]:
    yield Case(
        "zeros",
        (
            schema("zeros", ID_AND_TEXT, "text"),
            raw("zeros", r'{"id":1,"text":"a\u0000b"}'),
            raw("zeros", r'{"id":2,"text":"\u0000"}'),
            raw("zeros", r'{"id":3,"text":"\u0000"}'),
        ),
        [(1, "a\0b"), (3, "\0")],
        ("id", "text"),
    )
    yield Case(
        "halves",
        (
            schema("halves", ID_AND_TEXT),
            raw("halves", r'{"id":1,"text":"\ud83d\ude00"}'),
            raw("halves", r'{"id":2,"text":"\ud83d"}'),
            raw("halves", r'{"id":3,"text":"\ude00\ud83d"}'),
            raw("halves", r'{"id":4,"text":"\\ud83d"}'),
        ),
        [(1, "😀"), (4, r"\ud83d")],
        quarantined=2,
    )
    numbers = {
        "id": {"type": "integer"},
        "number": {"type": ["number", "null"]},
        "price": {"type": ["number", "null"], "multipleOf": 0.01},
    }
    yield Case(
        "huge",
        (
            schema("huge", numbers),
            raw("huge", '{"id":9223372036854775807,"number":1e308,"price":12.50}'),
            raw("huge", '{"id":9223372036854775808}'),
            raw("huge", f'{{"id":{"9" * 60}}}'),
            raw("huge", '{"id":1,"number":1e400}'),
            raw("huge", '{"id":1,"price":0.001}'),
            raw("huge", f'{{"id":2,"number":{"1" * 2000}}}'),
            raw("huge", '{"id":-9223372036854775808,"number":-0.0,"price":1e2}'),
        ),
        [(-(2**63), "100.00"), (2**63 - 1, "12.50")],
        ("id", "CAST(price AS STRING)"),
        quarantined=5,
    )
    yield Case(
        "nan",
        (
            schema("nan", numbers),
            raw("nan", '{"id":1,"number":NaN}'),
            raw("nan", '{"id":2,"number":-Infinity,"price":Infinity}'),
        ),
        [(1, None, None), (2, None, None)],
    )
    times = {"at": {"type": "string", "format": "date-time"}}
    days = {"day": {"type": ["null", "string"], "format": "date"}}
    yield Case(
        "moments",
        (
            schema("moments", {**ID, **times, **days}),
            record("moments", {"id": 1, "at": "2024-01-31", "day": "2024-01-31T00:00:00Z"}),
            record(
                "moments", {"id": 2, "at": "2024-01-31T12:30", "day": "2024-01-31 00:00:00.000"}
            ),
            record("moments", {"id": 3, "at": "2024-01-31 12:30:00.5 +01:00"}),
            record("moments", {"id": 4, "day": "2024-01-31T12:00:00Z"}),
            record("moments", {"id": 5, "at": "31/01/2024"}),
        ),
        [
            (1, "2024-01-31 00:00:00", "2024-01-31"),
            (2, "2024-01-31 12:30:00", "2024-01-31"),
            (3, "2024-01-31 11:30:00.5", None),
        ],
        ("id", "CAST(at AS STRING)", "CAST(day AS STRING)"),
        quarantined=2,
    )
    large = "x" * 3_000_000
    yield Case(
        "large",
        (schema("large", ID_AND_TEXT), record("large", {"id": 1, "text": large})),
        [(3_000_000,)],
        ("length(text)",),
    )
    yield Case(
        "deep",
        (
            schema("deep", {**ID, "free": {"type": "object"}}),
            raw("deep", f'{{"id":1,"free":{_nested(200)}}}'),
        ),
        [(1, _nested(200))],
    )
    yield Case(
        "declared_deep",
        (
            schema("declared_deep", {**ID, "tree": _nested_schema(30)}),
            raw("declared_deep", f'{{"id":1,"tree":{_nested(30)}}}'),
        ),
        [(1,)],
        ("tree" + ".a" * 30,),
    )
    yield Case(
        "declared_too_deep",
        (
            schema("declared_too_deep", {**ID, "tree": _nested_schema(120)}, "id"),
            raw("declared_too_deep", f'{{"id":1,"tree":{_nested(120)}}}'),
            raw("declared_too_deep", f'{{"id":"one","tree":{_nested(120)}}}'),
        ),
        [(_nested(69),)],
        ("tree" + ".a" * 51,),
        quarantined=1,
    )
    yield Case(
        "same_key_twice",
        (
            schema("same_key_twice", ID_AND_TEXT, "id", "id"),
            record("same_key_twice", {"id": 1, "text": "a"}),
            record("same_key_twice", {"id": 1, "text": "b"}),
        ),
        [(1, "b")],
    )
    yield Case(
        "twice",
        (schema("twice", ID_AND_TEXT, "id"), raw("twice", '{"id":1,"id":2,"text":"a","text":"b"}')),
        [(2, "b")],
    )
    yield Case(
        "undeclared",
        (schema("undeclared", ID), record("undeclared", {"id": 1, "other": {"a": [1]}})),
        [(1,)],
    )
    yield Case(
        "wrong_kinds",
        (
            schema("wrong_kinds", {**ID_AND_TEXT, "flag": {"type": "boolean"}}),
            record("wrong_kinds", {"id": "one"}),
            record("wrong_kinds", {"id": [1]}),
            record("wrong_kinds", {"id": 1, "flag": "true"}),
            record("wrong_kinds", {"id": "2", "text": {"a": 1}}),
            record("wrong_kinds", {"id": 3.0, "text": 4}),
        ),
        [(2, '{"a": 1}', None), (3, "4", None)],
        quarantined=3,
    )


def _names() -> Iterator[Case]:
    names = ["", "a.b", 'q"u', "b`t", "😀", "n" * 300, "Case", "case", " s ", "e\u0000", "$x", "\\"]
    properties = {**ID, **{name: {"type": "integer"} for name in names}}
    values = {name: number for number, name in enumerate(names)}
    yield Case(
        "names",
        (schema("names", properties), record("names", {"id": 100, **values})),
        [(sorted([100, *range(len(names))]),)],
        ("array_sort(array(*))",),
    )
    streams = ["a/b", "..", "../ünï 😀*", "s" * 300, "UPPER", "upper"]
    for number, stream in enumerate(streams):
        yield Case(stream, (schema(stream, ID), record(stream, {"id": number})), [(number,)])


def _messages() -> Iterator[Case]:
    yield Case(
        "more",
        (
            {**schema("more", ID), "extra": 1, "bookmark_properties": [None]},
            {**record("more", {"id": 1}), "extra": {"a": 1}, "time_extracted": None},
            {"type": "STATE", "value": None},
            {"type": "STATE", "value": {}},
            b"",
            b"   ",
            b"\t\r",
            json.dumps(record("more", {"id": 2})).encode() + b"\r",
            b" " + json.dumps(record("more", {"id": 3})).encode(),
            {"type": "ACTIVATE_VERSION", "stream": "nobody", "version": 1},
        ),
        [(1,), (2,), (3,)],
    )
    times = ["2024-01-01T00:00:00Z", "2024-01-01", "yesterday", "", None]
    yield Case(
        "times",
        (
            schema("times", ID),
            *(record("times", {"id": n}, time_extracted=time) for n, time in enumerate(times)),
            record("times", {"id": 5}),
        ),
        [(n,) for n in range(6)],
        ("id",),
    )


LOADING: tuple[Case, ...] = (*_schemas(), *_values(), *_names(), *_messages())
"""Input that loads; rows that do not fit are quarantined."""

_A = (schema("a", ID), record("a", {"id": 1}), {"type": "STATE", "value": {"at": 1}})

REFUSED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "a record before its schema": (
        (record("b", {"id": 1}),),
        "stream b came before the SCHEMA message",
    ),
    "a record that is a list": ((raw("a", "[1]"),), "a record must be an object"),
    "a record that is a text": ((raw("a", '"x"'),), "a record must be an object"),
    "a record that is null": ((raw("a", "null"),), "a record must be an object"),
    "no record": (({"type": "RECORD", "stream": "a"},), "missing required field `record`"),
    "no stream": (({"type": "RECORD", "record": {}},), "missing required field `stream`"),
    "an unknown type": (({"type": "CONTROL", "x": 1},), "its type is 'CONTROL'"),
    "a type in lower case": (
        ({**record("a", {"id": 2}), "type": "record"},),
        "its type is 'record'",
    ),
    "no type": (({"stream": "a"},), "it has no type"),
    "a type that is no text": (({"type": 1},), "its type is 1"),
    "a line that is no JSON": ((b"2024-01-01 INFO starting",), "is not a Singer message"),
    "a line that is cut": ((b'{"type":"RECORD","stream":"a","rec',), "is not a Singer message"),
    "zeros where a message should be": ((b"\0\0",), r"is not a Singer message .*: \\x00\\x00"),
    "two messages on a line": ((b'{"type":"STATE","value":{}}' * 2,), "is not a Singer message"),
    "a line of other bytes": ((b'{"type":"RECORD","stream":"a","record":{"id":"\xff"}}',), "UTF-8"),
    "a schema that is true": (
        ({"type": "SCHEMA", "stream": "b", "schema": True, "key_properties": []},),
        "Expected `object`, got `bool`",
    ),
    "no schema": (({"type": "SCHEMA", "stream": "b", "key_properties": []},), "`schema`"),
    "a version that is a text": (
        ({"type": "ACTIVATE_VERSION", "stream": "a", "version": "v1"},),
        r"Expected `int`, got `str` - at `\$.version`",
    ),
    "a version with a fraction": (
        (record("a", {"id": 2}, version=1.5),),
        r"Expected `int.*at `\$.version`",
    ),
    "a key that is declared nowhere": (
        (schema("b", {"text": TEXT, "ident": TEXT}, "idnet"),),
        "Stream b: its schema does not declare the key 'idnet'. Did you mean 'ident'?",
    ),
    "a reference to nothing": (
        ({"type": "SCHEMA", "stream": "b", "schema": {"properties": {"x": {"$ref": "#/y"}}}},),
        "schema of stream b cannot be resolved: The schema has nothing at '#/y'",
    ),
    "a reference that is a number": (
        ({"type": "SCHEMA", "stream": "b", "schema": {"properties": {"x": {"$ref": 5}}}},),
        r"schema of stream b cannot be resolved: A .\$ref. must be text, and this one is 5",
    ),
    "a state without a value": (({"type": "STATE"},), "missing required field `value`"),
}
"""Invalid input: lines after a valid start, and the text of their error."""

GOOD_START = _A
