"""From a column's type to the JSON Schema that each of its values keeps."""

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
    """What the SDK's rules do not know of PostgreSQL; whatever nobody knows is text."""

    def __init__(
        self, *, dates_as_string: bool = False, json_as_object: bool = False, **kwargs: Any
    ) -> None:
        """Take the two settings that decide over types."""
        super().__init__(**kwargs)
        self.dates_as_string = dates_as_string
        self.json_as_object = json_as_object

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> PostgresSQLToJSONSchema:
        """Return one for the settings of a tap."""
        names = ("dates_as_string", "json_as_object", "use_singer_decimal")
        return cls(**{name: bool(config.get(name)) for name in names})

    @singledispatchmethod
    def to_jsonschema(self, column_type: TypeEngine[Any]) -> JsonSchema:
        """Return the schema of a type: that of a method below, else the SDK's."""
        return dict(super().to_jsonschema(column_type))

    @to_jsonschema.register
    def numeric_to_jsonschema(self, column_type: sqltypes.Numeric[Any]) -> JsonSchema:
        """Return the schema of a decimal, which says its places: ``multipleOf`` 0.01 for two."""
        schema, places = self._or_no_number(column_type), column_type.scale
        if places is None or self.use_singer_decimal:
            return schema
        return {**schema, "multipleOf": Decimal(1).scaleb(-places) if places > 0 else 10**-places}

    @to_jsonschema.register
    def float_to_jsonschema(self, column_type: sqltypes.Float[Any]) -> JsonSchema:
        """Return the schema of a binary fraction."""
        return self._or_no_number(column_type)

    @to_jsonschema.register
    def date_to_jsonschema(self, column_type: sqltypes.Date) -> JsonSchema:
        """Return the schema of a date, or of the text that the server writes for it."""
        return self._date_or_text(column_type)

    @to_jsonschema.register
    def datetime_to_jsonschema(self, column_type: sqltypes.DateTime) -> JsonSchema:
        """Return the schema of a date-time, or of the text that the server writes for it."""
        return self._date_or_text(column_type)

    @to_jsonschema.register
    def array_to_jsonschema(self, column_type: pg.ARRAY[Any]) -> JsonSchema:
        """Return the schema of an array of as many dimensions as the column declares."""
        schema = _or_null(self.to_jsonschema(column_type.item_type))
        for _ in range(column_type.dimensions or 1):
            schema = {"type": ["array", "null"], "items": schema}
        return {**schema, "type": ["array"]}

    @to_jsonschema.register
    def json_to_jsonschema(self, column_type: sqltypes.JSON) -> JsonSchema:
        """Return the schema of whatever JSON a column has; null is a value of it too."""
        if self.json_as_object:
            return {"type": ["object", "null"], "additionalProperties": True}
        return {"type": [*ANY_JSON], "additionalProperties": True}

    @to_jsonschema.register
    def hstore_to_jsonschema(self, column_type: pg.HSTORE) -> JsonSchema:
        """Return the schema of an object of texts."""
        return {"type": ["object"], "additionalProperties": {"type": ["string", "null"]}}

    @to_jsonschema.register
    def enum_to_jsonschema(self, column_type: sqltypes.Enum) -> JsonSchema:
        """Return the schema of text: another label may be added any day."""
        return dict(th.StringType.type_dict)

    @to_jsonschema.register
    def domain_to_jsonschema(self, column_type: pg.DOMAIN) -> JsonSchema:
        """Return the schema of the type that the domain is made of."""
        return self.to_jsonschema(column_type.data_type)

    @to_jsonschema.register
    def oid_to_jsonschema(self, column_type: pg.OID) -> JsonSchema:
        """Return the schema of an object's number."""
        return dict(th.IntegerType.type_dict)

    @to_jsonschema.register
    def uuid_to_jsonschema(self, column_type: sqltypes.Uuid[Any]) -> JsonSchema:
        """Return the schema of a UUID."""
        return dict(th.UUIDType.type_dict)

    def _or_no_number(self, column_type: TypeEngine[Any]) -> JsonSchema:
        """Return the schema of a number: null is what JSON has for NaN and infinity."""
        schema: JsonSchema = dict(super().to_jsonschema(column_type))
        return {**schema, "type": [*schema["type"], "null"]}

    def _date_or_text(self, column_type: TypeEngine[Any]) -> JsonSchema:
        if self.dates_as_string:
            return dict(th.StringType.type_dict)
        return dict(super().to_jsonschema(column_type))


def _or_null(schema: JsonSchema) -> JsonSchema:
    """Return the schema of an array's item: each may be null."""
    types = schema["type"]
    return schema if "null" in types else {**schema, "type": [*types, "null"]}
