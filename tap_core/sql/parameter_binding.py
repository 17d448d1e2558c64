"""How the values of records reach a driver: as they are, but for those that it would not take.

Rules of the room: decided once per column, from what its property may hold, its type and the
database. A value that the driver takes is not touched, and what an author has taught the
driver goes before what stands here. Instants lose nothing: where a column has no place for
an offset, they are written in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect

from tap_core.types import JsonSchema

__all__ = ["TextFallback", "TypeDecorators", "get_python_types", "make_binder"]

TypeDecorators: TypeAlias = Mapping[type, Callable[[Any], Any]]
"""By the class of a value, what the driver gets in its place."""

_ALL: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_NESTED: Final = frozenset({"object", "array"})
_NUMBERS: Final = frozenset({"number", "integer"})


class TextFallback(sa.types.UserDefinedType[Any]):
    """The type of a bound value of which some are written in other words."""

    cache_ok = False

    def __init__(self, words: TypeDecorators) -> None:
        self.words = words

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:  # noqa: ARG002
        """Return what SQLAlchemy does to each value."""
        words = self.words

        def spoken(value: Any) -> Any:
            word = words.get(value.__class__)
            return value if word is None else word(value)

        return spoken


def make_binder(
    schema: JsonSchema,
    column_type: sa.types.TypeEngine[Any],
    dialect: Dialect,
    dump: Callable[[object], str],
) -> sa.types.TypeEngine[Any]:
    """Return the type that the values of a property are bound with.

    ``dump`` writes objects and arrays for columns that hold text.
    """
    kinds = get_python_types(schema)
    if kinds & _NESTED and (own := _own_binding(column_type, dialect)):
        return own
    words: dict[type, Callable[[Any], Any]] = {}
    if kinds & _NESTED:
        words = {dict: dump, list: dump}
    if dialect.name == "sqlite":
        words |= _sqlite_words(kinds)
        words = {kind: word for kind, word in words.items() if not _is_taught(dialect, kind)}
    elif _lacks_zone(column_type):
        words[datetime] = _in_utc
    return TextFallback(words) if words else sa.types.NullType()


def get_python_types(schema: Any) -> frozenset[str]:
    """Return the JSON types that a property may have; all where nothing says which."""
    if not isinstance(schema, dict):
        return _ALL
    if isinstance(named := schema.get("type"), str):
        return frozenset({named})
    if named:
        return frozenset(named)
    branches = [one for word in ("anyOf", "oneOf") for one in schema.get(word, ())]
    return frozenset().union(*map(get_python_types, branches)) if branches else _ALL


def _own_binding(
    column_type: sa.types.TypeEngine[Any], dialect: Dialect
) -> sa.types.TypeEngine[Any] | None:
    """Return the column's own type where that knows what to do with objects and arrays."""
    if isinstance(column_type, sa.JSON):  # a null is the database's, not JSON's
        return column_type.adapt(type(column_type), none_as_null=True)
    if isinstance(column_type, (sa.ARRAY, sa.TypeDecorator)):
        return column_type
    if isinstance(column_type, sa.String):
        return None
    knows = column_type.dialect_impl(dialect).bind_processor(dialect)
    return column_type if knows else None


# What single databases need


def _sqlite_words(kinds: frozenset[str]) -> dict[type, Callable[[Any], Any]]:
    """Return the words for what Python's driver refuses, or takes with a warning."""
    words: dict[type, Callable[[Any], Any]] = {}
    if "string" in kinds:
        words = {datetime: _spaced, date: date.isoformat, time: time.isoformat}
    if kinds & _NUMBERS:
        words[Decimal] = str
    return words


def _spaced(instant: datetime) -> str:
    return instant.isoformat(" ")


def _is_taught(dialect: Dialect, kind: type) -> bool:
    """Whether an author has registered an adapter of their own for a class."""
    driver: Any = dialect.dbapi
    known = getattr(driver, "adapters", {})
    adapter = known.get((kind, getattr(driver, "PrepareProtocol", None)))
    return adapter is not None and getattr(adapter, "__module__", "") != "sqlite3.dbapi2"


def _lacks_zone(column_type: sa.types.TypeEngine[Any]) -> bool:
    return isinstance(column_type, sa.DateTime) and not column_type.timezone


def _in_utc(instant: datetime) -> datetime:
    """Return an instant without offset; one that has none stays as it is."""
    if instant.tzinfo is None:
        return instant
    return instant.astimezone(timezone.utc).replace(tzinfo=None)
