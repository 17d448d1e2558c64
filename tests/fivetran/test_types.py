"""Conversion of JSON Schema to the types of Fivetran's columns."""

from __future__ import annotations

import pytest

from tap_core import typing as th
from tap_core.events import SchemaEvent, StreamId
from tap_core.protocols.fivetran.column_types import ColumnType, to_column_type, to_key_type
from tap_core.protocols.fivetran.columns import build_columns
from tap_core.protocols.fivetran.enums import DataType

NULL = {"type": "null"}
CENTS = {"type": "number", "multipleOf": 0.01}


@pytest.mark.parametrize(
    "schema, expected",
    [
        ({"type": "boolean"}, "BOOLEAN"),
        ({"type": ["null", "integer"]}, "LONG"),
        ({"type": "integer", "minimum": 0, "maximum": 32_767}, "SHORT"),
        ({"type": "integer", "minimum": -32_769, "maximum": 2**31 - 1}, "INT"),
        ({"type": "integer", "minimum": 1, "maximum": 30}, "LONG"),
        ({"type": "integer", "exclusiveMinimum": -(2**31) - 1, "maximum": 2**31 - 1}, "INT"),
        ({"type": "integer", "minimum": 0}, "LONG"),
        ({"type": "integer", "maximum": 2**31, "minimum": 0}, "LONG"),
        ({"type": "number"}, "DOUBLE"),
        ({"type": "number", "format": "float"}, "DOUBLE"),
        ({"type": "string", "format": "date-time"}, "UTC_DATETIME"),
        ({"type": "string", "format": "date"}, "NAIVE_DATE"),
        ({"type": "string", "format": "time"}, "STRING"),
        ({"type": "string", "contentEncoding": "base64"}, "BINARY"),
        ({"type": "string", "contentMediaType": "application/xml"}, "XML"),
        ({"type": "string", "contentMediaType": ["odd"]}, "STRING"),
        ({"type": "string", "format": {"odd": 1}}, "STRING"),
        ({"type": "object", "properties": {}}, "JSON"),
        ({"type": "array", "items": {"type": "integer"}}, "JSON"),
        ({}, "JSON"),
        (True, "JSON"),
        (NULL, "JSON"),
        ({"type": ["string", "integer"]}, "JSON"),
        ({"type": ["number", "integer"]}, "DOUBLE"),
        ({"anyOf": [{"type": "string", "format": "date-time"}, NULL]}, "UTC_DATETIME"),
        ({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string"}]}, "STRING"),
        ({"oneOf": [{"type": "integer"}, {"type": "integer", "maximum": 5, "minimum": 0}]}, "LONG"),
        ({"enum": ["a", "b", None]}, "STRING"),
        ({"const": 7}, "LONG"),
    ],
)
def test_column_type_follows_the_schema(schema, expected):
    assert to_column_type(schema) == ColumnType(DataType[expected])


def test_date_time_without_a_time_zone_is_naive():
    schema = {"type": "string", "format": "date-time", "airbyte_type": "timestamp_without_timezone"}
    assert to_column_type(schema).type == DataType.NAIVE_DATETIME


@pytest.mark.parametrize(
    "schema, digits",
    [
        (CENTS, (38, 2)),
        ({**CENTS, "multipleOf": 1}, (38, 0)),
        ({**CENTS, "multipleOf": 1e-30}, (38, 18)),
        ({"type": "number", "multipleOf": 1e-30, "minimum": 0, "maximum": 9999999}, (38, 30)),
        ({"type": "string", "format": "x-singer.decimal", "precision": 12, "scale": 3}, (12, 3)),
        ({"type": "string", "format": "x-singer.decimal"}, (38, 18)),
        ({"type": "number", "format": "singer.decimal", "precision": 5}, (5, 0)),
        ({"type": "string", "format": "x-singer.decimal", "precision": 38, "scale": 38}, (38, 37)),
        ({"type": "string", "format": "x-singer.decimal", "precision": 60, "scale": 2}, (38, 2)),
        ({"type": "integer", "maximum": 2**70}, (38, 0)),
        ({"anyOf": [CENTS, {"type": "integer", "minimum": 0, "maximum": 9}]}, (38, 2)),
    ],
)
def test_number_with_declared_precision_is_a_decimal(schema, digits):
    assert to_column_type(schema) == ColumnType(DataType.DECIMAL, *digits)


def test_key_is_never_json():
    assert to_key_type({"type": ["integer", "string"]}).type == DataType.STRING
    assert to_key_type({"type": "integer"}).type == DataType.LONG


def test_columns_are_in_schema_order_without_system_columns():
    """F11: no system column, unless it is a key."""
    schema = th.PropertiesList(
        th.Property("b", th.StringType),
        th.Property("_sdc_row", th.IntegerType),
        th.Property("_sdc_deleted_at", th.DateTimeType),
        th.Property("_fivetran_synced", th.DateTimeType),
        th.Property("a", th.IntegerType),
    ).to_dict()
    columns = build_columns(SchemaEvent(StreamId("rows"), schema, ("_sdc_row", "unknown")))
    assert [(column.name, column.kind.type.name, column.is_key) for column in columns] == [
        ("unknown", "STRING", True),
        ("b", "STRING", False),
        ("_sdc_row", "LONG", True),
        ("a", "LONG", False),
    ]


def test_references_are_resolved():
    schema = {
        "properties": {"at": {"$ref": "#/definitions/time"}, "odd": {"$ref": "#/nowhere"}},
        "definitions": {"time": {"type": "string", "format": "date-time"}},
    }
    columns = build_columns(SchemaEvent(StreamId("rows"), schema))
    assert [column.kind.type.name for column in columns] == ["UTC_DATETIME", "JSON"]


def test_stream_without_properties_has_one_column_for_the_record():
    columns = build_columns(SchemaEvent(StreamId("rows"), {"type": "object"}, ("record",)))
    assert [(column.name, column.kind.type.name, column.has_record) for column in columns] == [
        ("record", "STRING", False),
        ("_record", "JSON", True),
    ]
