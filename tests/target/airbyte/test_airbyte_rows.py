"""Rows of an Airbyte stream in a DataFrame: an invalid value becomes null and its row is kept."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's world does

from target_spark.columns import ColumnOptions, TableSchema, schema_from_json_schema
from target_spark.frames import SpoolFrame
from tests.target.frames.test_frames import (
    BATCHED,
    EVERYWHERE,
    GOOD,
    RECEIVED,
    TYPES,
    BatchMetadata,
    FrameFactory,
    bad_rows,
    good_rows,
    places,
    record,
    strict_rows,
    utc,
)

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark

INT: dict[str, Any] = {"type": "integer"}
OURS = ("_airbyte_raw_id", "_airbyte_extracted_at", "_airbyte_meta", "_airbyte_generation_id")


@pytest.fixture
def spooled(spark: SparkSession, tmp_path: Path) -> FrameFactory:
    return FrameFactory(spark, tmp_path)


def table_schema(
    properties: dict[str, Any],
    *keys: str,
    nested: dict[str, tuple[str, ...]] | None = None,
    **options: Any,
) -> TableSchema:
    column_options = ColumnOptions(airbyte=True, **options)
    return schema_from_json_schema({"properties": properties}, keys, column_options, nested or {})


def changes(row: Row) -> list[tuple[str, str]]:
    changes = json.loads(row._airbyte_meta)["changes"]
    assert all(change["change"] == "NULLED" for change in changes)
    return [(change["field"], change["reason"]) for change in changes]


def values(row: Row) -> dict[str, Any]:
    """Return the record's values of a row, without Airbyte's columns."""
    return {name: value for name, value in row.asDict(recursive=True).items() if name not in OURS}


# --------------------------------------------------------------- one bad value at a time


@pytest.mark.thorough
def test_invalid_value_becomes_null_at_any_depth_and_others_are_kept(spooled: FrameFactory):
    """D6: the row is kept, the field is null, and the row's meta names it."""
    valid = {name: GOOD[name] for name in GOOD}
    cases: list[tuple[str, str]] = []
    for name, (_, _, invalid) in TYPES.items():
        for around, path in places(name):
            top = path.partition(".")[0].partition("[")[0]
            others = record(**{n: v for n, v in valid.items() if n != top})[1:-1]
            cases += [(f"{(around % bad)[:-1]},{others}}}", path) for bad in invalid]
    frame = spooled.frame(table_schema(EVERYWHERE), [case[0] for case in cases])
    good = {row[-1]: row for row in good_rows(frame)}
    assert set(good) == set(range(len(cases)))
    assert bad_rows(frame) == {}
    assert frame.counts().nulled == frame.counts().rows == len(cases)
    expected = values(good_rows(spooled.frame(table_schema(EVERYWHERE), [record(**valid)]))[0])
    for n, (raw, path) in enumerate(cases):
        top = path.partition(".")[0].partition("[")[0]
        (changed,) = {field.partition(".")[0].partition("[")[0] for field, _ in changes(good[n])}
        assert changed == top, (raw, good[n]._airbyte_meta)
        row_values = values(good[n])
        for name in valid:
            if name != top:
                assert row_values[name] == expected[name], (raw, name)
        assert _is_null_at(row_values, path), (raw, path, row_values)


def _is_null_at(value: Any, path: str) -> bool:
    """Return True if the value at a path, or one that contains it, is null."""
    for part in path.replace("[]", ".[]").split("."):
        if value is None:
            return True
        value = value[-1] if part == "[]" else value[part]
    return value is None or value in ({"x": None}, [None])


def test_meta_lists_every_invalid_value_of_a_row(spooled: FrameFactory):
    schema = {**{name: TYPES[name][0] for name in ("i", "at", "flag", "obj")}, "s": {}}
    columns = table_schema(schema, "k")
    raw = '{"k":"a","i":"x","at":"noon","flag":"yes","obj":{"x":"y"},"s":[1, 2.50]}'
    (row,) = good_rows(spooled.frame(columns, [raw]))
    assert sorted(changes(row)) == [
        ("at", "DESTINATION_TYPECAST_ERROR"),
        ("flag", "DESTINATION_SERIALIZATION_ERROR"),
        ("i", "DESTINATION_TYPECAST_ERROR"),
        ("obj.x", "DESTINATION_TYPECAST_ERROR"),
    ]
    assert (row.k, row.i, row.at, row.flag, row.s) == ("a", None, None, None, "[1, 2.50]")
    assert row.obj.x is None


def test_valid_row_has_no_changes_in_strict_and_checked_reads(spooled: FrameFactory):
    columns = table_schema({name: schema for name, (schema, _, _) in TYPES.items()})
    frame = spooled.frame(columns, [record(**GOOD), "{}"])
    strict = good_rows(frame, strict=True)
    careful = good_rows(frame, strict=False)
    assert [values(row) for row in strict] == [values(row) for row in careful]
    assert {row._airbyte_meta for row in strict + careful} == {'{"changes":[]}'}
    assert (frame.counts().rows, frame.counts().nulled) == (2, 0)
    ids = {uuid.UUID(row._airbyte_raw_id) for row in strict + careful}
    assert len(ids) == 4
    assert {(id_.version, id_.variant) for id_ in ids} == {(4, uuid.RFC_4122)}
    assert {row._airbyte_extracted_at for row in strict} == {
        RECEIVED.astimezone().replace(tzinfo=None)
    }


def test_row_with_an_invalid_value_is_quarantined_by_option(spooled: FrameFactory):
    schema = table_schema({"i": INT}, quarantines_invalid_rows=True)
    frame = spooled.frame(schema, ['{"i":1}', '{"i":"x"}'])
    assert [row.i for row in good_rows(frame)] == [1]
    assert bad_rows(frame)[1].reasons == ["i: not an integer of 64 bits"]


def test_row_without_an_object_valid_key_or_deletion_time_is_quarantined(spooled: FrameFactory):
    """Such a row cannot be merged, or its deletion would be missed."""
    mark = {"type": "string", "format": "date-time"}
    schema = {"k": INT, "n": INT, "flag": {"type": "boolean"}, "_ab_cdc_deleted_at": mark}
    unfit = [
        *("5", '"text"', "[]", "null", '{"n":1}', '{"k":null}', '{"k":"x"}'),
        '{"k":1,"_ab_cdc_deleted_at":"soon"}',
        '{"flag":7}',
    ]
    frame = spooled.frame(table_schema(schema, "k"), [*unfit, '{"k":1,"n":"x","flag":7}'])
    assert strict_rows(frame) is None
    assert [(row.k, row.n, row.flag) for row in good_rows(frame)] == [(1, None, None)]
    assert [row.raw for _, row in sorted(bad_rows(frame).items())] == [
        raw.strip('"') for raw in unfit
    ]


def test_without_keys_any_object_is_loaded(spooled: FrameFactory):
    frame = spooled.frame(table_schema({"k": INT}), ['{"k":"x"}', "{}", "[]"])
    assert [row.k for row in good_rows(frame)] == [None, None]
    assert set(bad_rows(frame)) == {2}


# ---------------------------------------------------------------------------- the meta


def spool_line(n: int, body: str, meta: str, extracted: str | None = None) -> str:
    return f'{{"n":{n},"t":{json.dumps(extracted)},"v":4,"m":{meta},"r":{body}}}\n'


def test_changes_of_the_source_precede_those_of_the_loader(
    spooled: FrameFactory, spark: SparkSession, tmp_path: Path
):
    """The changes in a record's meta are kept; those of the loader are appended."""
    cut = '{"field":"a","change":"TRUNCATED","reason":"SOURCE_FIELD_SIZE_LIMITATION"}'
    lines = [
        spool_line(0, '{"i":1}', f'{{"changes":[{cut}]}}', "2024-01-01T00:00:00.5Z"),
        spool_line(1, '{"i":"x"}', f'{{"changes": [ {cut} ]}}'),
        spool_line(2, '{"i":"x"}', '{"changes":null}'),
        spool_line(3, '{"i":1}', "{}"),
        spool_line(4, '{"i":1}', "null"),
    ]
    path = tmp_path / "spooled"
    path.write_text("".join(lines))
    frame = SpoolFrame(
        spark, [str(path)], table_schema({"i": INT}), BatchMetadata(RECEIVED, BATCHED, 1, 12)
    )
    rows = good_rows(frame)
    assert {json.loads(row._airbyte_meta)["sync_id"] for row in rows} == {12}
    loader_change = ("i", "NULLED", "DESTINATION_TYPECAST_ERROR")
    source_change = ("a", "TRUNCATED", "SOURCE_FIELD_SIZE_LIMITATION")
    assert [_changes(row) for row in rows] == [
        [source_change],
        [source_change, loader_change],
        [loader_change],
        [],
        [],
    ]
    assert {row._airbyte_generation_id for row in rows} == {4}
    only_good = SpoolFrame(
        spark,
        [_with(tmp_path, lines[0], *lines[3:])],
        table_schema({"i": INT}),
        BatchMetadata(RECEIVED, BATCHED, 1),
    )
    assert [_changes(row) for row in good_rows(only_good, strict=True)] == [[source_change], [], []]
    assert good_rows(only_good, strict=True)[0]._airbyte_extracted_at.astimezone(
        BATCHED.tzinfo
    ) == utc(2024, 1, 1, 0, 0, 0, 500000)


def _with(folder: Path, *lines: str) -> str:
    path = folder / "only-good"
    path.write_text("".join(lines))
    return str(path)


def _changes(row: Row) -> list[tuple[str, ...]]:
    return [tuple(change.values()) for change in json.loads(row._airbyte_meta)["changes"]]


# ----------------------------------------------------------------- inside a property


def test_nested_values_are_read_into_their_columns(spooled: FrameFactory):
    time = {"type": "string", "format": "date-time"}
    inner = {"id": INT, "at": time, "f": {"type": "number"}, "ok": {"type": "boolean"}, "t": {}}
    deep = {"type": "object", "properties": {"id": INT}}
    open_ended = {"type": "object", "properties": {"in": deep}, "additionalProperties": True}
    schema = {"m": {"type": "object", "properties": {**inner, "d": deep}}, "o": open_ended}
    paths: dict[str, tuple[str, ...]] = {f"m.{name}": ("m", name) for name in inner}
    paths |= {"m.d.id": ("m", "d", "id"), "o.in.id": ("o", "in", "id")}
    columns = table_schema(schema, "m.id", nested=paths)
    body = {"id": 7, "at": "2024-01-01T00:00:00Z", "f": 1e300, "ok": True, "t": {"x": [1]}}
    raw = json.dumps({"m": {**body, "d": {"id": 8}}, "o": {"in": {"id": 9}, "x": 1}})
    frame = spooled.frame(columns, [raw, '{"m":{"id":1}}', '{"m":{"id":2},"o":7}'])
    for rows in (good_rows(frame, strict=True), good_rows(frame)):
        first = rows[0].asDict()
        assert (first["m_id"], first["m_f"], first["m_ok"]) == (7, 1e300, "true")
        assert (first["m_t"], first["m_d_id"], first["o_in_id"]) == ('{"x": [1]}', 8, 9)
        assert first["m_at"] == first["m"].at
        assert first["m"].id == 7
        assert [row["o_in_id"] for row in rows] == [9, None, None]
    (row,) = good_rows(spooled.frame(columns, ['{"m":{"id":3,"at":"noon"}}']))
    assert (row["m_id"], row["m_at"], row["m"].at) == (3, None, None)
    assert changes(row) == [("m.at", "DESTINATION_TYPECAST_ERROR")]


def test_row_with_a_missing_or_invalid_nested_key_is_quarantined(spooled: FrameFactory):
    schema = {"m": {"type": "object", "properties": {"id": INT}}, "n": INT}
    frame = spooled.frame(
        table_schema(schema, "m.id", nested={"m.id": ("m", "id")}),
        [
            '{"m":{"id":1},"n":"x"}',
            "{}",
            '{"m":{}}',
            '{"m":5}',
            '{"m":{"id":"x"}}',
            '{"m":{"id":"3"}}',
        ],
    )
    assert strict_rows(frame) is None
    assert [row["m_id"] for row in good_rows(frame)] == [1, 3]
    assert set(bad_rows(frame)) == {1, 2, 3, 4}
    assert "m.id: a key must have a value" in bad_rows(frame)[1].reasons


# ------------------------------------------------------------------- odd spellings


@pytest.mark.thorough
def test_record_with_an_invalid_value_keeps_all_others_exactly(spooled: FrameFactory):
    """JSON's reader rejects one value; the others are as in a valid record."""
    deep = {
        "type": "object",
        "properties": {"n": {"type": "number"}, "free": {}, "flag": {"type": "boolean"}},
    }
    schema = {
        "flag": {"type": "boolean"},
        "free": {"type": "object"},
        "big": {"type": "integer", "maximum": 10**30},
        "deep": deep,
        "list": {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}},
        "text": {"type": "string"},
    }
    other_fields = (
        '"free":{"z":1.50,"a":[{"q":123456789012345678901234567890.10}]},'
        '"big":123456789012345678901234567890,"deep":{"n":1e-7,"free":{"b":1,"a":2}},'
        '"text":"\\u00e9\\n{\\"x\\":1}","list":[[true,null],[]]'
    )
    invalid = ['"flag":"x"', '"flag":[[1,{"text":"no"}]]', '"flag":{"text":"no","free":1}']
    frame = spooled.frame(
        table_schema(schema),
        [f"{{{bad},{other_fields}}}" for bad in invalid]
        + [f"{{{other_fields},{bad}}}" for bad in invalid],
    )
    clean = values(good_rows(spooled.frame(table_schema(schema), [f"{{{other_fields}}}"]))[0])
    rows = good_rows(frame)
    assert len(rows) == 6
    for row in rows:
        assert changes(row) == [("flag", "DESTINATION_SERIALIZATION_ERROR")]
        assert {**values(row), "__target_spark_ordinal": 0} == {
            **clean,
            "__target_spark_ordinal": 0,
        }
    broken = (
        '"list":[[true,"x",{"text":"no"}],[false]]',
        '"list":[[true],{"flag":true}]',
        '"deep":{"n":1,"flag":["x",{"text":"no"}],"free":3}',
    )
    front = '"flag":true,"free":{},"big":1,'
    after = ',"text":"yes"'
    for n, row in enumerate(
        good_rows(
            spooled.frame(table_schema(schema), [f"{{{front}{bad}{after}}}" for bad in broken])
        )
    ):
        name = broken[n].split('"')[1]
        assert changes(row) == [(name, "DESTINATION_SERIALIZATION_ERROR")]
        assert (row[name], row.flag, row.free, int(row.big), row.text) == (
            None,
            True,
            "{}",
            1,
            "yes",
        )


def test_strict_read_has_no_error_columns_in_its_plan(spooled: FrameFactory):
    """Valid rows are read in one pass."""
    frame = spooled.frame(table_schema({"i": INT, "flag": {"type": "boolean"}}), ['{"i":1}'])
    plan = frame.good(strict=True)._jdf.queryExecution().optimizedPlan().toString()
    assert "_nulled" not in plan
    assert "_faults" not in plan
    assert frame.good(strict=True).select(F.count(F.lit(1))).collect()[0][0] == 1
