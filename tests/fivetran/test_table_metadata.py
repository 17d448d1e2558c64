"""Fivetran's types, keys and names in table metadata, reconciled with the actual columns."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.protocols.fivetran.enums import DataType
from target_spark.fivetran.table_metadata import dump_metadata, load_metadata, reconcile
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from target_spark.fivetran.type_mapping import column_from_ddl, to_ddl, to_fivetran_type

TYPES = [type_ for type_ in DataType if type_ is not DataType.UNSPECIFIED]
FORMATS = ("delta", "iceberg")


@st.composite
def columns(draw: st.DrawFn) -> DestinationColumn:
    type_ = draw(st.sampled_from(TYPES))
    scale = draw(st.integers(0, 37))
    digits = (draw(st.integers(max(scale, 1), 38)), scale)
    name = draw(st.text(min_size=1, max_size=5))
    decimal = digits if type_ is DataType.DECIMAL else None
    return DestinationColumn(name, type_, draw(st.booleans()), decimal, name)


SHAPES = st.lists(columns(), min_size=1, max_size=6, unique_by=lambda c: c.column).map(
    lambda columns: FivetranSchema(tuple(columns))
)


def read_types(shape: FivetranSchema, table_format: str) -> dict[str, str]:
    return {column.column: to_ddl(column, table_format) for column in shape.columns}


@given(SHAPES, SHAPES, st.sampled_from(FORMATS))
def test_fivetran_schema_round_trips(
    first: FivetranSchema, other: FivetranSchema, table_format: str
) -> None:
    """DescribeTable returns every type as it was created, also those that Spark lacks."""
    text = dump_metadata(first, other)
    assert re.fullmatch("[0-9a-f]+", text)
    assert load_metadata(text) == (first, other)
    assert reconcile(read_types(first, table_format), [first, other], table_format) == first
    assert reconcile(read_types(other, table_format), [other], table_format) == other


@given(SHAPES, SHAPES)
def test_planned_schema_is_used_only_once_the_table_has_it(
    after: FivetranSchema, now: FivetranSchema
) -> None:
    types = read_types(now, "delta")
    if types != read_types(after, "delta"):
        assert reconcile(types, [after, now], "delta") == now


def test_columns_changed_by_others_have_their_current_type() -> None:
    key = DestinationColumn("Id", DataType.INT, True, column="id")  # noqa: FBT003
    declared = FivetranSchema(
        (
            key,
            DestinationColumn("doc", DataType.JSON, column="doc"),
            DestinationColumn("x", DataType.XML),
        )
    )
    types = {"id": "bigint", "doc": "string", "theirs": "decimal(5,2)"}
    result = reconcile(types, [declared], "delta")
    assert [(c.name, to_fivetran_type(c), c.is_key) for c in result.columns] == [
        ("Id", "LONG", True),
        ("doc", "JSON", False),
        ("theirs", "DECIMAL(5, 2)", False),
    ]


def test_decimal_without_digits_is_stored_with_the_default_digits() -> None:
    shape = FivetranSchema((DestinationColumn("n", DataType.DECIMAL, column="n"),))
    assert load_metadata(dump_metadata(shape))[0].columns[0].decimal == (38, 10)


@pytest.mark.parametrize(
    "text", ["", "zz", "00", dump_metadata().replace("7", "8"), b"[[1]]".hex()]
)
def test_invalid_metadata_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        load_metadata(text)


def test_table_without_metadata_is_described_by_its_spark_types() -> None:
    assert load_metadata(None) == ()
    types = {
        "a": "tinyint",
        "b": "smallint",
        "c": "decimal(38,18)",
        "d": "struct<`x`: int>",
        "e": "varchar(10)",
        "f": "map<string, array<int>>",
        "g": "timestamp_ntz",
        "h": "interval day to second",
    }
    result = [to_fivetran_type(column) for column in reconcile(types, (), "delta").columns]
    assert result == [
        "SHORT",
        "SHORT",
        "DECIMAL(38, 18)",
        "JSON",
        "STRING",
        "JSON",
        "NAIVE_DATETIME",
        "STRING",
    ]


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("table_format", FORMATS)
def test_type_without_metadata_has_the_same_column_type(type_: DataType, table_format: str) -> None:
    column = DestinationColumn("c", type_, column="c")
    back = column_from_ddl("c", to_ddl(column, table_format))
    assert to_ddl(back, table_format) == to_ddl(column, table_format)
