"""Conversion between database column types and JSON Schema, in both directions.

The rule for each type is a method or a registered handler, which a tap or target can replace. Types
without a rule become text. Names and results are those of singer_sdk's SQL types.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import singledispatchmethod
from typing import Any, TypeAlias

from sqlalchemy import types as sqltypes
from sqlalchemy.types import TypeEngine

from tap_core import typing as th
from tap_core.types import JsonSchema

__all__ = ["JSONSchemaToSQL", "JSONtoSQLHandler", "SQLToJSONSchema"]

JSONtoSQLHandler: TypeAlias = type[TypeEngine[Any]] | Callable[[JsonSchema], TypeEngine[Any]]
"""SQLAlchemy type, or a function that returns one for a property's JSON Schema."""


class SQLToJSONSchema:
    """Converter from a column's SQLAlchemy type to the JSON Schema of its values.

    To support a further type, override a method or register a new one:

        class MyTypes(SQLToJSONSchema):
            @functools.singledispatchmethod
            def to_jsonschema(self, column_type):
                return super().to_jsonschema(column_type)

            @to_jsonschema.register
            def interval_to_jsonschema(self, column_type: INTERVAL):
                return th.DurationType.type_dict
    """

    def __init__(self, *, use_singer_decimal: bool = False) -> None:
        """Create a converter from column types to JSON Schema.

        Args:
            use_singer_decimal: True to declare non-integer numbers as text with the format
                ``singer.decimal``.
        """
        self.use_singer_decimal = use_singer_decimal

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> SQLToJSONSchema:
        """Return a converter to JSON Schema with the tap's setting ``use_singer_decimal``.

        Override it to use further settings.
        """
        return cls(use_singer_decimal=config.get("use_singer_decimal", False))

    @singledispatchmethod
    def to_jsonschema(self, column_type: TypeEngine[Any]) -> JsonSchema:  # noqa: ARG002
        """Return the JSON Schema of a column type. Types without a registered method are text."""
        return _get_schema(th.StringType)

    @to_jsonschema.register
    def datetime_to_jsonschema(self, column_type: sqltypes.DateTime) -> JsonSchema:  # noqa: ARG002
        """Return the JSON Schema of a column of datetimes."""
        return _get_schema(th.DateTimeType)

    @to_jsonschema.register
    def date_to_jsonschema(self, column_type: sqltypes.Date) -> JsonSchema:  # noqa: ARG002
        """Return the JSON Schema of a column of dates."""
        return _get_schema(th.DateType)

    @to_jsonschema.register
    def time_to_jsonschema(self, column_type: sqltypes.Time) -> JsonSchema:  # noqa: ARG002
        """Return the JSON Schema of a column of times of day."""
        return _get_schema(th.TimeType)

    @to_jsonschema.register
    def integer_to_jsonschema(self, column_type: sqltypes.Integer) -> JsonSchema:  # noqa: ARG002
        """Return the JSON Schema of a column of integers."""
        return _get_schema(th.IntegerType)

    @to_jsonschema.register
    def float_to_jsonschema(self, column_type: sqltypes.Float[Any]) -> JsonSchema:  # noqa: ARG002
        """Return the JSON Schema of a column of floating-point numbers."""
        return self._get_number_schema()

    @to_jsonschema.register
    def numeric_to_jsonschema(
        self,
        column_type: sqltypes.Numeric[Any],  # noqa: ARG002
    ) -> JsonSchema:
        """Return the JSON Schema of a column of decimal numbers."""
        return self._get_number_schema()

    @to_jsonschema.register
    def string_to_jsonschema(self, column_type: sqltypes.String) -> JsonSchema:
        """Return the JSON Schema of a text column, including its maximum length, if any."""
        if column_type.length:
            return dict(th.StringType(max_length=column_type.length).type_dict)
        return _get_schema(th.StringType)

    @to_jsonschema.register
    def boolean_to_jsonschema(self, column_type: sqltypes.Boolean) -> JsonSchema:  # noqa: ARG002
        """Return the JSON Schema of a column of booleans."""
        return _get_schema(th.BooleanType)

    def _get_number_schema(self) -> JsonSchema:
        """Return the JSON Schema of non-integer numbers.

        It is ``number``, or a string with a decimal if ``use_singer_decimal`` is True.
        """
        return _get_schema(th.SingerDecimalType if self.use_singer_decimal else th.DecimalType)


def _get_schema(type_helper: type[th.JSONTypeHelper[Any]]) -> JsonSchema:
    """Return the JSON Schema of a type from `tap_core.typing` as a new dict."""
    return dict(type_helper.type_dict)


class JSONSchemaToSQL:
    """Converter from a property's JSON Schema to the SQLAlchemy type of its column.

    The type is chosen by ``x-sql-datatype``, else by ``format`` of a string, else by ``type``. If
    these have no handler, the options of ``anyOf`` are tried in order, and then `fallback_type` is
    used. A registered handler replaces the default one.
    """

    def __init__(self, *, max_varchar_length: int | None = None) -> None:
        """Create a converter from JSON Schema to column types, with the default handlers.

        Args:
            max_varchar_length: Maximum length of text columns in characters; None for no maximum.
        """
        self._max_varchar_length = max_varchar_length
        self._type_mapping: dict[str, JSONtoSQLHandler] = {
            "string": self._handle_string_type,
            "integer": sqltypes.INTEGER,
            "number": sqltypes.DECIMAL,
            "boolean": sqltypes.BOOLEAN,
            "object": sqltypes.VARCHAR,
            "array": sqltypes.VARCHAR,
        }
        self._format_handlers: dict[str, JSONtoSQLHandler] = {
            "date-time": sqltypes.DATETIME,
            "time": sqltypes.TIME,
            "date": sqltypes.DATE,
            "uuid": sqltypes.UUID,
            "email": lambda _: sqltypes.VARCHAR(254),  # RFC 5321, section 4.5.3.1
            "uri": lambda _: sqltypes.VARCHAR(2083),  # the maximum of common browsers
            "hostname": lambda _: sqltypes.VARCHAR(253),  # RFC 1035, section 2.3.4
            "ipv4": lambda _: sqltypes.VARCHAR(15),
            "ipv6": lambda _: sqltypes.VARCHAR(45),
            "x-singer.decimal": self._handle_singer_decimal,
        }
        self._sql_datatype_mapping: dict[str, JSONtoSQLHandler] = {}
        self._fallback_type: type[TypeEngine[Any]] = sqltypes.VARCHAR

    @classmethod
    def from_config(
        cls,
        config: dict[str, Any],  # noqa: ARG003 - for overrides
        *,
        max_varchar_length: int | None,
    ) -> JSONSchemaToSQL:
        """Return a converter from JSON Schema to column types.

        Override it to use further settings of the target in ``config``.
        """
        return cls(max_varchar_length=max_varchar_length)

    @property
    def fallback_type(self) -> type[TypeEngine[Any]]:
        """Column type for a property without a known type, format or ``x-sql-datatype``."""
        return self._fallback_type

    @fallback_type.setter
    def fallback_type(self, value: type[TypeEngine[Any]]) -> None:
        self._fallback_type = value

    # Registration of handlers

    def register_type_handler(self, json_type: str, handler: JSONtoSQLHandler) -> None:
        """Register a column type for a JSON type, in place of the default.

        Args:
            json_type: Name of the JSON type, such as ``object``.
            handler: SQLAlchemy type, or a function that takes a property's schema and returns a
                type.
        """
        self._type_mapping[json_type] = handler

    def register_format_handler(self, format_name: str, handler: JSONtoSQLHandler) -> None:
        """Register a column type for strings with a ``format``, in place of the default.

        Args:
            format_name: Value of ``format``, such as ``date-time``.
            handler: SQLAlchemy type, or a function that takes a property's schema and returns a
                type.
        """
        self._format_handlers[format_name] = handler

    def register_sql_datatype_handler(self, sql_datatype: str, handler: JSONtoSQLHandler) -> None:
        """Register a column type for an ``x-sql-datatype``, which overrides type and format.

        Args:
            sql_datatype: Value of ``x-sql-datatype``.
            handler: SQLAlchemy type, or a function that takes a property's schema and returns a
                type.

        Examples:
            >>> from sqlalchemy.types import SMALLINT
            >>> to_sql = JSONSchemaToSQL()
            >>> to_sql.register_sql_datatype_handler("smallint", SMALLINT)
            >>> to_sql.to_sql_type({"type": "integer", "x-sql-datatype": "smallint"})
            SMALLINT()
        """
        self._sql_datatype_mapping[sql_datatype] = handler

    # Overridable methods

    def to_sql_type(self, schema: JsonSchema) -> TypeEngine[Any]:
        """Return the column type for a property's JSON Schema."""
        options = [
            option
            for option in schema.get("anyOf", ())
            if isinstance(option, dict) and option.get("type") != "null"
        ]
        for candidate in (schema, *options):
            if sql_type := self._get_type_from_schema(candidate):
                return sql_type
        return self.fallback_type()

    def handle_multiple_types(self, types: Sequence[str]) -> TypeEngine[Any]:  # noqa: ARG002
        """Return the column type for a property with several types besides null: VARCHAR."""
        return sqltypes.VARCHAR()

    def handle_raw_string(self, schema: JsonSchema) -> TypeEngine[Any]:
        """Return VARCHAR with the schema's ``maxLength``, for a string without a known format.

        The length is at most ``max_varchar_length``.
        """
        length: int | None = schema.get("maxLength")
        if length and self._max_varchar_length:
            length = min(length, self._max_varchar_length)
        return sqltypes.VARCHAR(length)

    def _get_type_from_schema(self, schema: JsonSchema) -> TypeEngine[Any] | None:
        """Return the column type by ``x-sql-datatype``, ``format`` or ``type``; None if unknown.

        An ``x-sql-datatype`` without a handler causes a warning.
        """
        if name := schema.get("x-sql-datatype"):
            if handler := self._sql_datatype_mapping.get(name):
                return self._invoke_handler(handler, schema)
            warnings.warn(
                f"This target does not support the x-sql-datatype '{name}'",
                UserWarning,
                stacklevel=2,
            )
        kind = schema.get("type")
        if kind == "string" and (format_type := self._handle_format(schema)) is not None:
            return format_type
        if isinstance(kind, (list, tuple)):
            kinds = [type_name for type_name in kind if type_name != "null"]
            if len(kinds) > 1:
                return self.handle_multiple_types(kinds)
            kind = kinds[0] if kinds else None
        handler_of_type = self._type_mapping.get(kind) if kind else None
        return self._invoke_handler(handler_of_type, schema) if handler_of_type else None

    def _handle_format(self, schema: JsonSchema) -> TypeEngine[Any] | None:
        """Return the column type for the schema's ``format``, or None for an unknown format."""
        handler = self._format_handlers.get(schema.get("format", ""))
        return self._invoke_handler(handler, schema) if handler else None

    def _handle_string_type(self, schema: JsonSchema) -> TypeEngine[Any]:
        """Return the column type for a string by its ``format``; VARCHAR for an unknown format."""
        return self._handle_format(schema) or self.handle_raw_string(schema)

    def _handle_singer_decimal(self, schema: JsonSchema) -> TypeEngine[Any]:
        """Return DECIMAL with the schema's ``precision`` and ``scale``, for decimals in strings."""
        return sqltypes.DECIMAL(schema.get("precision"), schema.get("scale"))

    def _invoke_handler(self, handler: JSONtoSQLHandler, schema: JsonSchema) -> TypeEngine[Any]:
        """Return the column type that a handler creates.

        A handler is a SQLAlchemy type class, or a function that is called with the schema.
        """
        return handler() if isinstance(handler, type) else handler(schema)
