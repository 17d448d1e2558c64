"""Every column type in every format: values are stored exactly or quarantined."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from tap_core.protocols.singer.reader import SingerReader
from target_spark.columns import ColumnOptions, diff_with_table, schema_from_json_schema
from target_spark.storage.spool import RECORD_BYTES
from target_spark.tables.table import Table
from target_spark.writers import get_writer
from tests.target.warehouse import FORMATS, Warehouse, feed, record, schema, state

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

BAD = object()
UTC = timezone.utc

INT: dict[str, Any] = {"type": ["null", "integer"]}
TIME: dict[str, Any] = {"type": ["null", "string"], "format": "date-time"}
TYPES: dict[str, dict[str, Any]] = {
    "i": INT,
    "big": {"type": "integer", "maximum": 10**30},
    "d9": {"type": "number", "multipleOf": 1e-9},
    "d0": {"type": "number", "multipleOf": 1},
    "money": {"type": "string", "format": "x-singer.decimal", "precision": 12, "scale": 2},
    "f": {"type": "number"},
    "at": TIME,
    "day": {"type": "string", "format": "date"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "flag": {"type": "boolean"},
    "text": {"type": "string"},
    "clock": {"type": "string", "format": "time"},
    "any": {},
    "free": {"type": "object"},
    "tuple": {"type": "array", "prefixItems": [INT, TIME]},
    "l": {"type": "array", "items": {"anyOf": [TIME, {"type": "null"}]}},
    "s": {
        "type": "object",
        "properties": {"x": {"type": "number", "multipleOf": 0.01}, "at": TIME},
    },
}


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


CASES: list[tuple[str, str, Any]] = [
    # Values that Spark's reader would change.
    ("at", '"12:30"', BAD),
    ("at", '"2024"', BAD),
    ("at", "1700000000000", BAD),
    ("at", '"2024-02-30T00:00:00Z"', BAD),
    ("day", '"2024-01-01T12:00:00Z"', BAD),
    ("day", '"2024-1-1"', BAD),
    ("d9", "1.1234567890123", BAD),
    ("d9", "1.123456789", Decimal("1.123456789")),
    ("d9", "1.1234567890000", Decimal("1.123456789")),
    ("d0", "1.7", BAD),
    ("d0", "1.0", Decimal(1)),
    ("f", "1e400", BAD),
    ("f", "1e308", 1e308),
    ("f", '"NaN"', BAD),
    ("i", "1.0", 1),
    ("i", "1e3", 1000),
    ("i", "1.5", BAD),
    ("i", "9223372036854775807", 2**63 - 1),
    ("i", "9223372036854775808", BAD),
    ("i", '"5"', 5),
    ("i", "true", BAD),
    ("big", "123456789012345678901234567890", Decimal(123456789012345678901234567890)),
    ("big", "1" * 39, BAD),
    ("money", '"1234567890.10"', Decimal("1234567890.10")),
    ("money", "0.105", BAD),
    ("money", '"12345678901"', BAD),
    ("flag", '"true"', BAD),
    ("flag", "1", BAD),
    ("bytes", '"QUJD"', b"ABC"),
    ("bytes", '"QUJ"', BAD),
    # Timestamps as taps write them.
    ("at", '"2024-01-01T12:00:00Z"', utc(2024, 1, 1, 12)),
    ("at", '"2024-01-01t12:00:00z"', utc(2024, 1, 1, 12)),
    ("at", '"2024-01-01 12:00:00"', utc(2024, 1, 1, 12)),
    ("at", '"2024-01-01T12:00:00+0000"', utc(2024, 1, 1, 12)),
    ("at", '"2024-01-01T12:00:00+00"', utc(2024, 1, 1, 12)),
    ("at", '"2024-01-01 12:00:00.25-05:30"', utc(2024, 1, 1, 17, 30, 0, 250_000)),
    ("at", '"2024-01-01T12:00:00.123456000Z"', utc(2024, 1, 1, 12, 0, 0, 123_456)),
    ("at", '"2024-01-01T12:00:00.123456789Z"', BAD),
    ("at", '"2024-W01-1T00:00:00Z"', BAD),
    ("at", '"2016-12-31T23:59:60Z"', BAD),
    ("at", '"2024-01-01T24:00:00Z"', BAD),
    ("at", '"10000-01-01T00:00:00Z"', BAD),
    ("at", '"-0001-01-01T00:00:00Z"', BAD),
    ("at", '"0000-01-01T00:00:00Z"', BAD),
    ("at", '"1500-02-28T00:00:00Z"', utc(1500, 2, 28)),
    ("at", '"9999-12-31T23:59:59.999999Z"', utc(9999, 12, 31, 23, 59, 59, 999_999)),
    ("at", '"2024-01-01"', utc(2024, 1, 1)),
    ("at", '"2024-01-01 12:00 +01:00"', utc(2024, 1, 1, 11)),
    ("day", '"2024-01-01T00:00:00+00:00"', date(2024, 1, 1)),
    ("day", '"0001-01-01"', date(1, 1, 1)),
    ("day", '"9999-12-31"', date(9999, 12, 31)),
    ("day", '"2024-W01-1"', BAD),
    # Values that are stored as text.
    ("text", '"a\\r\\n\\u0000 \\u2028 \'\\\\"', "a\r\n\x00 \u2028 '\\"),
    ("clock", '"12:30:00Z"', "12:30:00Z"),
    ("any", "1.50", "1.50"),
    ("any", '{"b": 1.50, "a":[1e400, null]}', '{"b": 1.50, "a":[1e400, null]}'),
    ("free", '{"a.b":{"c":12345678901234567890.10}}', '{"a.b":{"c":12345678901234567890.10}}'),
    ("tuple", '[1, "2024"]', '[1, "2024"]'),
    # Nested values.
    ("l", '["2024-01-01T00:00:00Z",null]', [utc(2024, 1, 1), None]),
    ("l", '["2024-01-01T00:00:00Z","2024"]', BAD),
    ("s", '{"x":1.005}', BAD),
    (
        "s",
        '{"x":"1.50","at":"2024-01-01T00:00:00+01:00"}',
        (Decimal("1.50"), utc(2023, 12, 31, 23)),
    ),
    ("s", "[]", BAD),
]


def load_raw(
    warehouse: Warehouse, schema_message: dict[str, Any], *records: str, **config: Any
) -> None:
    """Load records from their JSON text."""
    loader, spool = warehouse.open(**config)
    decoder = SingerReader()
    try:
        feed(loader, schema_message)
        for text in records:
            line = f'{{"type":"RECORD","stream":"t","record":{text}}}\n'
            for event in decoder.feed(line.encode()):
                loader.process_event(event)
        loader.finish(whole=True)
    finally:
        loader.close()
        spool.close()


def to_plain_value(value: Any) -> Any:
    """Return a value as plain Python, datetimes in UTC."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, tuple):
        return tuple(map(to_plain_value, value))
    return [to_plain_value(item) for item in value] if isinstance(value, list) else value


def test_values_are_stored_exactly_or_quarantined(warehouse: Warehouse) -> None:
    records = [f'{{"n":{n},\r"{name}": {raw}}}' for n, (name, raw, _) in enumerate(CASES)]
    load_raw(warehouse, schema("t", {"n": INT, **TYPES}), *records)
    rows = {row.n: row for row in warehouse.read("t").collect()}
    aside = {row.raw: row.reasons for row in warehouse.read("t__quarantine").collect()}
    for n, (name, raw, expected) in enumerate(CASES):
        if expected is BAD:
            assert n not in rows, (name, raw, rows.get(n))
            assert aside[records[n]][0].startswith(name), (name, raw)
        else:
            assert to_plain_value(rows[n][name]) == expected, (name, raw)
            other_columns = [other for other in TYPES if other != name]
            assert all(rows[n][other] is None for other in other_columns)
    assert len(rows) + len(aside) == len(CASES)


def test_timestamps_are_truncated_to_microseconds_by_option(warehouse: Warehouse) -> None:
    spellings = {
        "2024-01-01T12:00:00.123456789Z": 123_456,
        "2024-01-01T12:00:00.9999999+00:00": 999_999,
        "2024-01-01 12:00:00.1234567890123": 123_456,
        "2024-01-01t12:00:00.123456789z": 123_456,
    }
    records = [record("t", id=n, at=text, l=[text]) for n, text in enumerate(spellings)]
    schema_message = schema("t", {"id": INT, "at": TIME, "l": {"type": "array", "items": TIME}})
    warehouse.load(schema_message, *records, truncate_timestamps=True)
    assert [to_plain_value(row.at) for row in warehouse.read("t").orderBy("id").collect()] == [
        utc(2024, 1, 1, 12, 0, 0, micros) for micros in spellings.values()
    ]
    assert not warehouse.exists("t__quarantine")


def test_second_run_needs_no_schema_changes(warehouse: Warehouse) -> None:
    schema_message = schema("t", {"n": INT, **TYPES})
    warehouse.load(schema_message, record("t", n=1))
    table = Table(f"{warehouse.folder}/t", "t")
    writer = get_writer(warehouse.format)
    types = writer.get_column_types(warehouse.spark, table)
    assert types is not None
    expected_rows = schema_from_json_schema(schema_message["schema"], (), ColumnOptions())
    merged, changes = diff_with_table(expected_rows, types, writer.can_widen)
    assert changes == ()
    assert merged == expected_rows


# Type changes


GROWTH: list[tuple[str, dict[str, Any], Any, dict[str, Any], Any, dict[str, str]]] = [
    (
        "an integer beyond 64 bits",
        INT,
        1,
        {"type": "integer", "maximum": 10**30},
        10**25,
        {"delta": "a", "iceberg": "a__decimal_38_0", "parquet": "a__decimal_38_0"},
    ),
    (
        "more digits before the point",
        {"type": "string", "format": "singer.decimal", "precision": 5, "scale": 2},
        "123.45",
        {"type": "string", "format": "singer.decimal", "precision": 12, "scale": 2},
        "1234567890.12",
        {"delta": "a", "iceberg": "a", "parquet": "a__decimal_12_2"},
    ),
    (
        "more digits after the point",
        {"type": "string", "format": "singer.decimal", "precision": 5, "scale": 2},
        "123.45",
        {"type": "string", "format": "singer.decimal", "precision": 9, "scale": 4},
        "12345.6789",
        {"delta": "a", "iceberg": "a__decimal_9_4", "parquet": "a__decimal_9_4"},
    ),
    (
        "an integer to a double",
        INT,
        2**60 + 1,
        {"type": "number"},
        1.5,
        dict.fromkeys(FORMATS, "a__double"),
    ),
    ("an integer to text", INT, 1, {"type": "string"}, "x", dict.fromkeys(FORMATS, "a__string")),
    (
        "a date to an instant",
        {"type": "string", "format": "date"},
        "2024-01-01",
        TIME,
        "2024-01-01T00:00:00Z",
        dict.fromkeys(FORMATS, "a__timestamp"),
    ),
    ("text to an integer", {"type": "string"}, "x", INT, 5, dict.fromkeys(FORMATS, "a")),
    ("a double to an integer", {"type": "number"}, 1.5, INT, 5, dict.fromkeys(FORMATS, "a")),
]


def same(stored: Any, sent: Any) -> bool:
    """Return True if a stored value equals the one that was sent as JSON."""
    if isinstance(stored, datetime):
        return bool(to_plain_value(stored) == datetime.fromisoformat(sent.replace("Z", "+00:00")))
    if isinstance(stored, Decimal):
        return stored == Decimal(str(sent))
    return str(stored) in {str(sent), f"{sent}.0"}


@pytest.mark.parametrize("between_runs", [True, False])
def test_type_change_widens_the_column_or_adds_another(
    warehouse: Warehouse, between_runs: bool
) -> None:
    names = [f"{n}" for n in range(len(GROWTH))]
    before = {"id": INT, **{f"a{n}": case[1] for n, case in zip(names, GROWTH, strict=True)}}
    after = {"id": INT, **{f"a{n}": case[3] for n, case in zip(names, GROWTH, strict=True)}}
    old = [
        schema("t", before),
        record("t", id=1, **{f"a{n}": case[2] for n, case in zip(names, GROWTH, strict=True)}),
    ]
    new = [
        schema("t", after),
        record("t", id=2, **{f"a{n}": case[4] for n, case in zip(names, GROWTH, strict=True)}),
    ]
    if between_runs:
        warehouse.load(*old)
        warehouse.load(*new)
    else:
        warehouse.load(*old, *new)
    assert warehouse.counts("t")["quarantined"] == 0
    first, second = (row.asDict() for row in warehouse.read("t").orderBy("id").collect())
    notes = "\n".join(warehouse.counts("t")["notes"])
    for n, (description, _, was, _, is_now, homes) in zip(names, GROWTH, strict=True):
        home = homes[warehouse.format].replace("a", f"a{n}", 1)
        assert same(first[f"a{n}"], was), description
        assert second[home] is not None, description
        if home != f"a{n}":
            assert second[f"a{n}"] is None, description
            assert first[home] is None, description
            assert f"new column {home} (" in notes, description
            assert f"because column a{n} cannot be widened" in notes, description
        assert same(second[home], is_now), description


def test_structs_in_lists_get_new_fields(warehouse: Warehouse) -> None:
    def described(**fields: Any) -> dict[str, Any]:
        inner = {"type": ["null", "object"], "properties": fields}
        lists = {"type": "array", "items": {"type": "array", "items": inner}}
        return schema(
            "t", {"id": INT, "s": inner, "l": {"type": "array", "items": inner}, "ll": lists}
        )

    struct_value = {"x": 1}
    two = {"x": "two", "y": {"z": 1.5}}
    warehouse.load(
        described(x=INT), record("t", id=1, s=struct_value, l=[struct_value], ll=[[struct_value]])
    )
    wider = described(
        x={"type": "string"}, y={"type": "object", "properties": {"z": {"type": "number"}}}
    )
    warehouse.load(wider, record("t", id=2, s=two, l=[two, None], ll=[[two]]))
    rows = warehouse.read("t").orderBy("id").collect()
    old, new = rows[0], rows[1]
    assert (old.s.x, old.l[0].x, old.ll[0][0].x, old.s.y) == (1, 1, 1, None)
    for struct in (new.s, new.l[0], new.ll[0][0]):
        assert (struct.x, struct.x__string, struct.y.z) == (None, "two", 1.5)
    assert new.l[1] is None
    warehouse.load(
        described(x=INT), record("t", id=3, s=struct_value, l=[struct_value], ll=[[struct_value]])
    )
    last = warehouse.read("t").where("id = 3").collect()[0]
    assert (last.s.x, last.s.x__string, last.l[0].x) == (1, None, 1)


def test_column_removed_from_the_schema_is_kept_and_null(warehouse: Warehouse) -> None:
    warehouse.load(schema("t", {"id": INT, "a": INT}), record("t", id=1, a=1))
    warehouse.load(schema("t", {"id": INT}), record("t", id=2), state(1))
    warehouse.load(schema("t", {"a": INT, "id": INT}), record("t", id=3, a=3))
    assert warehouse.rows("t", "id", "a") == [(1, 1), (2, None), (3, 3)]


def test_alternating_schemas_add_each_column_once(warehouse: Warehouse) -> None:
    messages = []
    for n in range(4):
        kind, value = (INT, n) if n % 2 else ({"type": "boolean"}, True)
        messages += [schema("t", {"id": INT, "a": kind}), record("t", id=n, a=value)]
    warehouse.load(*messages)
    names = set(warehouse.read("t").columns)
    assert names == {"id", "a", "a__bigint"}
    warehouse.load(*messages)
    assert set(warehouse.read("t").columns) == names
    values = {row.id: (row.a, row.a__bigint) for row in warehouse.read("t").collect()}
    assert values == {n: (None, n) if n % 2 else (True, None) for n in range(4)}


def test_text_of_more_than_20_million_characters_is_stored(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(RECORD_BYTES), "value", 30_000_000)
    long = "x" * 20_000_001
    warehouse.load(schema("t", {"id": INT, "a": {"type": "string"}}), record("t", id=1, a=long))
    assert warehouse.read("t").selectExpr("length(a)").collect() == [(len(long),)]


@pytest.mark.parametrize("warehouse", ["parquet"], indirect=True)
def test_two_thousand_columns_are_stored_and_extended(warehouse: Warehouse) -> None:
    def described(count: int) -> dict[str, Any]:
        kinds = [INT, TIME, {"type": "string"}, {"type": "number", "multipleOf": 0.01}]
        return schema("t", {f"c{n}": kinds[n % 4] for n in range(count)})

    warehouse.load(described(2000), record("t", c0=1, c1999=1.5))
    warehouse.load(described(2004), record("t", c0=2, c2003=2.5))
    rows = warehouse.rows("t", "c0", "c1999", "c2003")
    assert rows == [(1, Decimal("1.50"), None), (2, None, Decimal("2.50"))]


def test_record_that_is_no_json_object_is_an_invalid_line(warehouse: Warehouse) -> None:
    from tap_core.exceptions import InvalidInputLine

    schema_message = schema("t", {"id": INT})
    for text in ("[]", "'x'", "{'id':1}", "5"):
        with pytest.raises(InvalidInputLine):
            load_raw(warehouse, schema_message, text)
