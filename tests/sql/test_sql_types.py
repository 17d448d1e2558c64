"""Conversion of column types to JSON Schema and back."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from tap_core import typing as th
from tap_core.sql import SQLConnector
from tap_core.sql.connector import JSONSchemaToSQL, JSONtoSQLHandler, SQLToJSONSchema


class Upper(sa.TypeDecorator[str]):
    """A custom column type."""

    impl = sa.LargeBinary
    cache_ok = True


@pytest.mark.parametrize(
    "column_type, schema",
    [
        (sa.VARCHAR(), {"type": ["string"]}),
        (sa.VARCHAR(20), {"type": ["string"], "maxLength": 20}),
        (sa.Text(), {"type": ["string"]}),
        (sa.Integer(), {"type": ["integer"]}),
        (sa.BigInteger(), {"type": ["integer"]}),
        (sa.Numeric(10, 2), {"type": ["number"]}),
        (sa.Float(), {"type": ["number"]}),
        (sa.Boolean(), {"type": ["boolean"]}),
        (sa.DateTime(), {"type": ["string"], "format": "date-time"}),
        (sa.TIMESTAMP(timezone=True), {"type": ["string"], "format": "date-time"}),
        (sa.Date(), {"type": ["string"], "format": "date"}),
        (sa.Time(), {"type": ["string"], "format": "time"}),
        (sa.JSON(), {"type": ["string"]}),
        (sa.LargeBinary(), {"type": ["string"]}),
        (postgresql.UUID(), {"type": ["string"]}),
        (sa.types.NullType(), {"type": ["string"]}),
        (Upper(), {"type": ["string"]}),
    ],
    ids=str,
)
def test_column_type_is_converted_to_json_schema(column_type, schema):
    assert SQLToJSONSchema().to_jsonschema(column_type) == schema


@pytest.mark.parametrize("column_type", [sa.Numeric(10, 2), sa.Float()])
def test_use_singer_decimal_makes_numbers_decimal_strings(column_type):
    connector = SQLConnector({"use_singer_decimal": True})
    schema = connector.to_jsonschema_type(column_type)
    assert schema == {"type": ["string"], "format": "singer.decimal"}


def test_changing_a_returned_schema_does_not_change_later_ones():
    types = SQLToJSONSchema()
    types.to_jsonschema(sa.Integer())["type"].append("null")
    assert types.to_jsonschema(sa.Integer()) == {"type": ["integer"]}


def test_subclass_adds_and_replaces_type_conversions():
    class MyTypes(SQLToJSONSchema):
        @functools.singledispatchmethod
        def to_jsonschema(self, column_type: Any) -> dict[str, Any]:
            return super().to_jsonschema(column_type)

        @to_jsonschema.register
        def json_to_jsonschema(self, column_type: sa.JSON) -> dict[str, Any]:
            return {"type": ["object"]}

        def date_to_jsonschema(self, column_type: sa.Date) -> dict[str, Any]:
            return {"type": ["integer"]}

    class MyConnector(SQLConnector):
        sql_to_jsonschema_converter = MyTypes

    convert = MyConnector().to_jsonschema_type
    assert convert(sa.JSON()) == {"type": ["object"]}
    assert convert(sa.Integer()) == {"type": ["integer"]}
    assert MyConnector().sql_to_jsonschema.date_to_jsonschema(sa.Date()) == {"type": ["integer"]}


@pytest.mark.parametrize("name", ["varchar", sa.VARCHAR])
def test_type_names_and_type_classes_as_argument_are_deprecated(name):
    old_name_warning = pytest.warns(
        PendingDeprecationWarning, match="Use `SQLToJSONSchema` instead"
    )
    with (
        old_name_warning,
        pytest.warns(PendingDeprecationWarning, match="Please pass a SQLAlchemy type"),
    ):
        assert SQLConnector().to_jsonschema_type(name) == {"type": ["string"]}


@pytest.mark.parametrize("not_a_type", [1, None, int])
def test_argument_that_is_not_a_type_is_rejected(not_a_type):
    with pytest.raises(ValueError, match=r"Unexpected type received: '(int|NoneType)'"):
        SQLConnector().to_jsonschema_type(not_a_type)


@pytest.mark.parametrize(
    "schema, sql",
    [
        ({"type": ["string", "null"]}, "VARCHAR"),
        ({"type": "string", "maxLength": 10}, "VARCHAR(10)"),
        ({"type": "string", "maxLength": 9999}, "VARCHAR(500)"),
        ({"type": ["integer", "null"]}, "INTEGER"),
        ({"type": "number"}, "DECIMAL"),
        ({"type": ["null", "boolean"]}, "BOOLEAN"),
        ({"type": "object", "properties": {}}, "VARCHAR"),
        ({"type": "array"}, "VARCHAR"),
        ({"type": ["string", "null"], "format": "date-time"}, "DATETIME"),
        ({"type": "string", "format": "date"}, "DATE"),
        ({"type": "string", "format": "time"}, "TIME"),
        ({"type": "string", "format": "uuid"}, "UUID"),
        ({"type": "string", "format": "email"}, "VARCHAR(254)"),
        ({"type": "string", "format": "uri"}, "VARCHAR(2083)"),
        ({"type": "string", "format": "hostname"}, "VARCHAR(253)"),
        ({"type": "string", "format": "ipv4"}, "VARCHAR(15)"),
        ({"type": "string", "format": "ipv6"}, "VARCHAR(45)"),
        ({"type": "string", "format": "unheard of"}, "VARCHAR"),
        ({"type": "string", "format": "x-singer.decimal"}, "DECIMAL"),
        (
            {"type": "string", "format": "x-singer.decimal", "precision": 9, "scale": 2},
            "DECIMAL(9, 2)",
        ),
        ({"type": ["string", "integer", "null"]}, "VARCHAR"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, "INTEGER"),
        ({"anyOf": [{}, {"type": "string", "format": "date-time"}]}, "DATETIME"),
        ({"type": ["null"]}, "VARCHAR"),
        ({"type": "unheard of"}, "VARCHAR"),
        ({}, "VARCHAR"),
    ],
    ids=str,
)
def test_json_schema_is_converted_to_a_column_type(schema, sql):
    assert str(JSONSchemaToSQL(max_varchar_length=500).to_sql_type(schema)) == sql


def test_registered_handlers_may_be_classes_or_functions():
    to_sql = JSONSchemaToSQL()
    to_sql.register_type_handler("object", sa.JSON)
    to_sql.register_format_handler("ipv4", postgresql.INET)
    handler: JSONtoSQLHandler = lambda schema: sa.CHAR(schema["maxLength"])  # noqa: E731
    to_sql.register_format_handler("code", handler)
    to_sql.register_sql_datatype_handler("smallint", sa.SMALLINT)
    to_sql.fallback_type = sa.CLOB
    assert str(to_sql.to_sql_type({"type": ["object", "null"]})) == "JSON"
    assert isinstance(to_sql.to_sql_type({"type": "string", "format": "ipv4"}), postgresql.INET)
    code = {"type": ["string", "null"], "format": "code", "maxLength": 3}
    assert str(to_sql.to_sql_type(code)) == "CHAR(3)"
    small = {"type": "string", "x-sql-datatype": "smallint"}
    assert str(to_sql.to_sql_type(small)) == "SMALLINT"
    assert str(to_sql.to_sql_type({"const": 1})) == "CLOB"
    assert to_sql.fallback_type is sa.CLOB


def test_unknown_x_sql_datatype_warns_and_is_ignored():
    with pytest.warns(UserWarning, match="does not support the x-sql-datatype 'odd'"):
        sql_type = JSONSchemaToSQL().to_sql_type({"type": "integer", "x-sql-datatype": "odd"})
    assert str(sql_type) == "INTEGER"


def test_converter_gets_config_and_max_varchar_length_from_the_connector():
    class Mine(JSONSchemaToSQL):
        @classmethod
        def from_config(cls, config, *, max_varchar_length):
            converter = cls(max_varchar_length=max_varchar_length)
            converter.fallback_type = sa.JSON if config["as_json"] else sa.CLOB
            return converter

    class MyConnector(SQLConnector):
        max_varchar_length = 7
        jsonschema_to_sql_converter = Mine

    convert = MyConnector({"as_json": True}).to_sql_type
    assert str(convert({"type": "string", "maxLength": 100})) == "VARCHAR(7)"
    assert str(convert({})) == "JSON"


def test_column_types_survive_conversion_to_json_schema_and_back():
    connector = SQLConnector()
    for kind in (sa.INTEGER(), sa.DECIMAL(), sa.BOOLEAN(), sa.DATE(), sa.TIME(), sa.DATETIME()):
        schema = connector.to_jsonschema_type(kind)
        assert type(connector.to_sql_type(schema)) is type(kind)
    assert connector.to_sql_type(th.StringType(max_length=5).type_dict).length == 5
