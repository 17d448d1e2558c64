"""Records as Arrow columns: the same conversions and errors as for rows of tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from target_spark.columns import (
    ColumnOptions,
    OnSchemaChange,
    TableSchema,
    schema_from_json_schema,
)
from target_spark.frames import BatchMetadata, SpoolFrame
from target_spark.frames.arrow_conversion import ArrowConverter, ConversionError
from tests.extract.sample_taps import KINDS, KINDS_SCHEMA
from tests.target.columns.widening_of_all_types import diff_with_table
from tests.target.frames.test_conversions import (
    BAD,
    NEAR_MISSES,
    NOW,
    NUMBER,
    OTHERS,
    REFERENCE,
    VALUES,
    read_text,
    spool,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = schema_from_json_schema(
    {"properties": {name: each for name, (each, _) in REFERENCE.items()}}, (), ColumnOptions()
)

STRICT, WITH_NULLS = ArrowConverter(ALL), ArrowConverter(ALL, nulls=True)


def make_layout(schema: Any, keys: tuple[str, ...] = (), **options: Any) -> TableSchema:
    return schema_from_json_schema({"properties": schema}, keys, ColumnOptions(**options))


def bodies(*records: Any) -> list[bytes]:
    return [json.dumps(record).encode() for record in records]


def values(table_schema: TableSchema, *records: Any, nulls: bool = False) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        ArrowConverter(table_schema, nulls=nulls).batch(bodies(*records)).to_pylist()
    )
    return rows


def read_column(column: pa.Array) -> list[Any]:
    """Return the values of a column, timestamps as microseconds."""
    array = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column
    items: list[Any] = array.to_pylist()
    return items


def expected(name: str, raw: str) -> Any:
    text = read_text(raw)
    return None if text is None else REFERENCE[name][1](text)


def check(raws: Sequence[str]) -> None:
    """Convert values to each type; invalid values must become null."""
    for name in REFERENCE:
        converted = read_column(
            WITH_NULLS.batch([f'{{"{name}":{raw}}}'.encode() for raw in raws])[name]
        )
        expected_values = [expected(name, raw) for raw in raws]
        with_nulls = [None if value is BAD else value for value in expected_values]
        assert [(type(value), value) for value in converted] == [
            (type(v), v) for v in with_nulls
        ], name


def test_almost_valid_values_are_converted_as_in_the_reference():
    """Values that are almost of a type are accepted or refused as in the reference."""
    numbers = [text for text in NEAR_MISSES if NUMBER.fullmatch(text)]
    check([*map(json.dumps, NEAR_MISSES), *numbers, *OTHERS])


@settings(max_examples=60, deadline=None)
@given(raws=st.lists(VALUES, min_size=1, max_size=8))
def test_any_json_value_is_converted_as_in_the_reference(raws: list[str]):
    """The result does not depend on the other values of the column."""
    check(raws)


@settings(max_examples=20, deadline=None)
@given(raw=VALUES)
def test_invalid_value_is_an_error_in_strict_mode(raw: str):
    """Exactly the values that the reference refuses raise an error."""
    for name in REFERENCE:
        record = f'{{"{name}":{raw}}}'.encode()
        if expected(name, raw) is BAD:
            with pytest.raises(ConversionError, match=f"^{name}: not "):
                STRICT.batch([record])
        else:
            assert STRICT.batch([record]).num_rows == 1


def test_datetimes_of_mixed_formats_are_converted():
    """A date-time without a zone or in another format does not change the other values."""
    table_schema = make_layout({"at": {"type": "string", "format": "date-time"}})
    texts = [
        "2024-01-01T00:00:00Z",
        "2024-01-01T01:00:00+01:00",
        "2024-01-01 00:00:00",
        "2024-01-01",
    ]
    converted = read_column(
        ArrowConverter(table_schema).batch(bodies(*({"at": text} for text in texts))).column("at")
    )
    assert set(converted) == {1704067200000000}


def test_undeclared_properties_are_ignored():
    """Properties that the schema does not declare are ignored, missing ones are null."""
    assert values(make_layout({"a": {"type": "integer"}}), {"b": 1}, {"a": 2}) == [
        {"a": None},
        {"a": 2},
    ]


def test_values_that_do_not_fit_a_kept_column_are_errors():
    """A column that ``on_schema_change: ignore`` keeps accepts only values of its type."""
    schema = {"n": {"type": "integer"}, "d": {"type": "string"}, "s": {"type": "object"}}
    table = {"n": "int", "d": "date", "s": "struct<`x`: smallint>"}
    kept_schema, _ = diff_with_table(
        replace(make_layout(schema), on_change=OnSchemaChange.IGNORE), table
    )
    good = {"n": -(2**31), "d": "2024-02-29", "s": {"x": 1.0, "y": "left out"}}
    (row,) = values(kept_schema, good)
    assert (row["n"], str(row["d"]), row["s"]) == (-(2**31), "2024-02-29", {"x": 1})
    for bad in ({"n": 2**31}, {"d": "soon"}, {"s": {"x": 2**15}}, {"s": "text"}):
        with pytest.raises(ConversionError):
            values(kept_schema, {**good, **bad})
    assert values(kept_schema, {"n": 2**31, "d": "soon"}, nulls=True) == [
        {"n": None, "d": None, "s": None}
    ]


def test_objects_and_lists_keep_their_nulls():
    """A null object is not an object of nulls, and a null list is not an empty one."""
    inner = {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "additionalProperties": False,
    }
    table_schema = make_layout({"o": inner, "l": {"type": "array", "items": inner}})
    records = [
        {"o": None, "l": None},
        {"o": {}, "l": []},
        {"o": {"x": None}, "l": [None, {}, {"x": 1}]},
    ]
    assert values(table_schema, *records) == [
        {"o": None, "l": None},
        {"o": {"x": None}, "l": []},
        {"o": {"x": None}, "l": [None, {"x": None}, {"x": 1}]},
    ]


def test_string_columns_keep_other_values_as_json_text():
    """A value that is not a string becomes its JSON text, in this and in later chunks."""
    conversion = ArrowConverter(
        make_layout(
            {
                "t": {"type": ["string", "object"]},
                "l": {"type": "array", "items": {"type": "string"}},
            }
        )
    )
    records = [
        b'{"t":{"a":1.50},"l":["x",1e3]}',
        b'{"t":"\\u00fc","l":["\\u00fc",null]}',
        b'{"t":null}',
    ]
    for _ in range(2):
        assert conversion.batch(records).to_pylist() == [
            {"t": '{"a":1.50}', "l": ["x", "1e3"]},
            {"t": "\u00fc", "l": ["\u00fc", None]},
            {"t": None, "l": None},
        ]


def test_stream_without_properties_has_the_record_as_one_column():
    """Without declared properties the value is the JSON text of the record, byte by byte."""
    table_schema = schema_from_json_schema({}, ("id",), ColumnOptions())
    body = b'{"id":"a","x":[1.50]}'
    assert ArrowConverter(table_schema).batch([body]).to_pylist() == [
        {"id": "a", "record": body.decode()}
    ]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"n": 1.5}, "n: not an integer of 64 bits"),
        ({"items": [{"at": "2024-01-01"}, {"at": "soon"}]}, "items[].at: not a date-time"),
        ({"items": "none"}, "items: not of the declared type array<struct<`at`: timestamp>>"),
        ({"yes": "true"}, "yes: not of the declared type boolean"),
        ({"k": None}, "k: a key must have a value"),
    ],
)
def test_conversion_error_names_row_and_property(record: dict[str, Any], reason: str):
    """The error has the row number and the property of the first invalid record, but no value."""
    item = {
        "type": "object",
        "properties": {"at": {"type": "string", "format": "date-time"}},
        "additionalProperties": False,
    }
    schema = {
        "k": {"type": "integer"},
        "n": {"type": "integer"},
        "yes": {"type": "boolean"},
        "items": {"type": "array", "items": item},
    }
    good = {"k": 1, "n": 1, "items": [], "yes": False}
    with pytest.raises(ConversionError) as error:
        values(make_layout(schema, ("k",)), good, good, {**good, **record}, {**good, **record})
    assert error.value.row == 2
    assert str(error.value).startswith(reason)
    assert "soon" not in str(error.value)
    rows = values(make_layout(schema, ("k",)), {**good, **record}, nulls=True)
    expected = {**good, **dict.fromkeys(record)}
    assert rows == [expected | ({"items": rows[0]["items"]} if "items[]" in reason else {})]


def test_lone_surrogate_is_rejected_as_invalid_json():
    """A record that is not valid JSON is refused also with ``nulls=True``."""
    conversion = ArrowConverter(make_layout({"t": {"type": "string"}}), nulls=True)
    with pytest.raises(ConversionError, match="cannot be read as JSON"):
        conversion.batch([b'{"t":"\\ud800"}'])


def test_nanoseconds_are_an_error_or_truncated_by_option():
    """A date-time with nanoseconds is invalid, or truncated with ``cut_timestamps``."""
    schema = {"at": {"type": "string", "format": "date-time"}}
    record = {"at": "1970-01-01T00:00:00.0000019Z"}
    with pytest.raises(ConversionError):
        values(make_layout(schema), record)
    cut = ArrowConverter(make_layout(schema, truncate_timestamps=True)).batch(bodies(record))
    assert read_column(cut.column("at")) == [1]


@pytest.mark.spark
def test_arrow_values_equal_those_of_the_dataframe_for_tables(spark: SparkSession, tmp_path: Path):
    """A record of every type has the same types and values in both."""
    table_schema = schema_from_json_schema(KINDS_SCHEMA, ("id",), ColumnOptions())
    records = [json.dumps(KINDS, default=float), '{"id":2}', '{"id":3,"items":[],"list":null}']
    frame = SpoolFrame(
        spark, [spool(tmp_path / "lines", records)], table_schema, BatchMetadata(NOW, NOW, 0)
    )
    columns = [f"`{name}`" for name in table_schema.types]
    from_arrow = spark.createDataFrame(
        pa.Table.from_batches([ArrowConverter(table_schema).batch([r.encode() for r in records])])
    )
    assert (
        from_arrow.schema.simpleString()
        == frame.good(strict=False).select(columns).schema.simpleString()
    )
    assert from_arrow.collect() == frame.good(strict=False).select(columns).collect()
