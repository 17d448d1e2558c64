"""Checks of a commit before it is made."""

from __future__ import annotations

import pytest

from target_spark.columns import ColumnOptions, schema_from_json_schema
from target_spark.errors import ConflictError
from target_spark.loader.commit_attempt import check_column_types
from target_spark.tables.table import Table

OBJECT = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}}
PROPERTIES = {"n": {"type": "integer"}, "s": OBJECT, "l": {"type": "array", "items": OBJECT}}
ROWS = schema_from_json_schema({"properties": PROPERTIES}, (), ColumnOptions())


@pytest.mark.parametrize(
    "types",
    [
        {},
        {"n": "bigint", "s": "struct<x:bigint,y:string>"},
        {"s": "struct<`x`: bigint>", "l": "array<struct<y:string>>"},
    ],
    ids=["new columns", "same types", "new fields"],
)
def test_present_types_with_fewer_columns_and_fields_fit(types: dict[str, str]) -> None:
    check_column_types(Table("/t", "t"), types, ROWS)


@pytest.mark.parametrize(
    "types",
    [
        {"n": "int"},
        {"s": "struct<x:int,y:string>"},
        {"s": "struct<x:bigint,y:string,z:string>"},
        {"l": "array<struct<x:int>>"},
        {"l": "array<string>"},
        {"s": "map<string,string>"},
    ],
)
def test_other_present_type_is_a_conflict(types: dict[str, str]) -> None:
    with pytest.raises(ConflictError, match=f"type of column {next(iter(types))} of table t"):
        check_column_types(Table("/t", "t"), types, ROWS)
