"""Conversion of column types to JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import singledispatchmethod
from typing import Any

from sqlalchemy import types as sqltypes
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.types import TypeEngine

from tap_core import typing as th
from tap_core.sql.connector import SQLToJSONSchema

__all__ = ["PostgresSQLToJSONSchema"]

JsonSchema = dict[str, Any]

ANY_JSON = ["string", "number", "integer", "array", "object", "boolean", "null"]


class PostgresSQLToJSONSchema(SQLToJSONSchema):
    """Converter of column types to JSON Schemas, with the types of PostgreSQL.

    Other types are converted by the SDK's rules; unknown types are text.
    """

    def __init__(
        self, *, dates_as_string: bool = False, json_as_object: bool = False, **kwargs: Any
    ) -> None:
        """Initialize the converter.

        Args:
            dates_as_string: True for dates and date-times as text without a format.
            json_as_object: True for JSON columns of type object; False for any type.
            kwargs: Arguments of the SDK's converter.
        """
        super().__init__(**kwargs)
        self.dates_as_string = dates_as_string
        self.json_as_object = json_as_object

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> PostgresSQLToJSONSchema:
        """Return the converter for the settings of a tap."""
        names = ("dates_as_string", "json_as_object", "use_singer_decimal")
        return cls(**{name: bool(config.get(name)) for name in names})

    @singledispatchmethod
    def to_jsonschema(self, column_type: TypeEngine[Any]) -> JsonSchema:
        """Return the schema of a type, from the method registered for it or from the SDK."""
        return dict(super().to_jsonschema(column_type))

    @to_jsonschema.register
    def numeric_to_jsonschema(self, column_type: sqltypes.Numeric[Any]) -> JsonSchema:
        """Return the schema of a decimal; ``multipleOf`` is 0.01 for two decimal places."""
        schema, scale = self._make_nullable_number(column_type), column_type.scale
        if scale is None or self.use_singer_decimal:
            return schema
        return {**schema, "multipleOf": Decimal(1).scaleb(-scale) if scale > 0 else 10**-scale}

    @to_jsonschema.register
    def float_to_jsonschema(self, column_type: sqltypes.Float[Any]) -> JsonSchema:
        """Return the schema of a floating-point number."""
        return self._make_nullable_number(column_type)

    @to_jsonschema.register
    def date_to_jsonschema(self, column_type: sqltypes.Date) -> JsonSchema:
        """Return the schema of a date, or of text with ``dates_as_string``."""
        return self._make_date_schema(column_type)

    @to_jsonschema.register
    def datetime_to_jsonschema(self, column_type: sqltypes.DateTime) -> JsonSchema:
        """Return the schema of a date-time, or of text with ``dates_as_string``."""
        return self._make_date_schema(column_type)

    @to_jsonschema.register
    def array_to_jsonschema(self, column_type: pg.ARRAY[Any]) -> JsonSchema:
        """Return the schema of an array, nested to the number of dimensions of the column."""
        schema = _allow_null(self.to_jsonschema(column_type.item_type))
        for _ in range(column_type.dimensions or 1):
            schema = {"type": ["array", "null"], "items": schema}
        return {**schema, "type": ["array"]}

    @to_jsonschema.register
    def json_to_jsonschema(self, column_type: sqltypes.JSON) -> JsonSchema:
        """Return the schema of a JSON column; its values may be a JSON null."""
        if self.json_as_object:
            return {"type": ["object", "null"], "additionalProperties": True}
        return {"type": [*ANY_JSON], "additionalProperties": True}

    @to_jsonschema.register
    def hstore_to_jsonschema(self, column_type: pg.HSTORE) -> JsonSchema:
        """Return the schema of an object whose values are strings or null."""
        return {"type": ["object"], "additionalProperties": {"type": ["string", "null"]}}

    @to_jsonschema.register
    def enum_to_jsonschema(self, column_type: sqltypes.Enum) -> JsonSchema:
        """Return the schema of text; the labels are not listed, because new ones may be added."""
        return dict(th.StringType.type_dict)

    @to_jsonschema.register
    def domain_to_jsonschema(self, column_type: pg.DOMAIN) -> JsonSchema:
        """Return the schema of the domain's base type."""
        return self.to_jsonschema(column_type.data_type)

    @to_jsonschema.register
    def oid_to_jsonschema(self, column_type: pg.OID) -> JsonSchema:
        """Return the schema of an object identifier, which is an integer."""
        return dict(th.IntegerType.type_dict)

    @to_jsonschema.register
    def uuid_to_jsonschema(self, column_type: sqltypes.Uuid[Any]) -> JsonSchema:
        """Return the schema of a UUID."""
        return dict(th.UUIDType.type_dict)

    def _make_nullable_number(self, column_type: TypeEngine[Any]) -> JsonSchema:
        """Return the schema of a number or null; JSON lacks NaN and infinity, which become null."""
        schema: JsonSchema = dict(super().to_jsonschema(column_type))
        return {**schema, "type": [*schema["type"], "null"]}

    def _make_date_schema(self, column_type: TypeEngine[Any]) -> JsonSchema:
        if self.dates_as_string:
            return dict(th.StringType.type_dict)
        return dict(super().to_jsonschema(column_type))


def _allow_null(schema: JsonSchema) -> JsonSchema:
    """Return a schema that also allows null, as each item of an array may be null."""
    types = schema["type"]
    return schema if "null" in types else {**schema, "type": [*types, "null"]}
