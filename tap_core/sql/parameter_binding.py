"""Conversion of record values that the database driver does not accept.

The conversions of a column are chosen once, by its JSON Schema, its type and the database. Values
that the driver accepts stay unchanged. An adapter (converter) that a target registers with the
driver takes precedence. Datetimes are converted to UTC if the column stores no offset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect

from tap_core.schema.type_variants import get_allowed_types
from tap_core.types import JsonSchema

__all__ = ["ConvertingType", "ValueConverters", "make_binder"]

ValueConverters: TypeAlias = Mapping[type, Callable[[Any], Any]]
"""Conversion functions by the class of a value."""

_NESTED: Final = frozenset({"object", "array"})
_NUMBERS: Final = frozenset({"number", "integer"})


class ConvertingType(sa.types.UserDefinedType[Any]):
    """SQLAlchemy type that converts values for the database driver, depending on their class.

    Args:
        converters: Conversion functions by class. Values of other classes stay unchanged.
    """

    cache_ok = False

    def __init__(self, converters: ValueConverters) -> None:
        self.converters = converters

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:  # noqa: ARG002
        """Return the conversion function that SQLAlchemy calls for each value."""
        converters = self.converters

        def convert_value(value: Any) -> Any:
            convert = converters.get(value.__class__)
            return value if convert is None else convert(value)

        return convert_value


def make_binder(
    schema: JsonSchema,
    column_type: sa.types.TypeEngine[Any],
    dialect: Dialect,
    dump: Callable[[object], str],
) -> sa.types.TypeEngine[Any]:
    """Return a SQLAlchemy type that converts the values of a property for an INSERT statement.

    Args:
        schema: JSON Schema of the property.
        column_type: Type of the column.
        dialect: SQLAlchemy dialect of the database.
        dump: Function that returns an object or array as JSON text, for text columns.
    """
    kinds = get_allowed_types(schema)
    if kinds & _NESTED and (column_binding := _get_column_binding(column_type, dialect)):
        return column_binding
    converters: dict[type, Callable[[Any], Any]] = {}
    if kinds & _NESTED:
        converters = {dict: dump, list: dump}
    if dialect.name == "sqlite":
        converters |= _sqlite_converters(kinds)
        converters = {
            kind: converter
            for kind, converter in converters.items()
            if not _has_adapter(dialect, kind)
        }
    elif _lacks_time_zone(column_type):
        converters[datetime] = _to_utc
    return ConvertingType(converters) if converters else sa.types.NullType()


def _get_column_binding(
    column_type: sa.types.TypeEngine[Any], dialect: Dialect
) -> sa.types.TypeEngine[Any] | None:
    """Return the type by which SQLAlchemy passes dicts and lists to the driver, such as JSON.

    Return None if ``column_type`` does not accept them. Objects and arrays are then written as JSON
    text.
    """
    if isinstance(column_type, sa.JSON):  # None becomes the SQL NULL, not the JSON null
        return column_type.adapt(type(column_type), none_as_null=True)
    if isinstance(column_type, (sa.ARRAY, sa.TypeDecorator)):
        return column_type
    if isinstance(column_type, sa.String):
        return None
    return column_type if column_type.dialect_impl(dialect).bind_processor(dialect) else None


# Rules of specific databases


def _sqlite_converters(kinds: frozenset[str]) -> dict[type, Callable[[Any], Any]]:
    """Return conversion functions by Python class, for values that SQLite's driver rejects.

    ``kinds`` are the JSON types that the property allows, such as ``string``.
    """
    converters: dict[type, Callable[[Any], Any]] = {}
    if "string" in kinds:
        converters = {datetime: _format_with_space, date: date.isoformat, time: time.isoformat}
    if kinds & _NUMBERS:
        converters[Decimal] = str
    return converters


def _format_with_space(instant: datetime) -> str:
    return instant.isoformat(" ")


def _has_adapter(dialect: Dialect, kind: type) -> bool:
    """Return True if a target has registered a conversion for ``kind`` with SQLite's driver."""
    driver: Any = dialect.dbapi
    adapters = getattr(driver, "adapters", {})
    adapter = adapters.get((kind, getattr(driver, "PrepareProtocol", None)))
    return adapter is not None and getattr(adapter, "__module__", "") != "sqlite3.dbapi2"


def _lacks_time_zone(column_type: sa.types.TypeEngine[Any]) -> bool:
    return isinstance(column_type, sa.DateTime) and not column_type.timezone


def _to_utc(instant: datetime) -> datetime:
    """Convert a datetime with a time zone to a naive one in UTC; return a naive one unchanged."""
    if instant.tzinfo is None:
        return instant
    return instant.astimezone(timezone.utc).replace(tzinfo=None)
