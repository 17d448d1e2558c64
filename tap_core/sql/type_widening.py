"""Comparison of column types, to decide whether and how the type of a column must change.

Types are compared by the Python type of their values, not by their names.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect

__all__ = ["adapt_type", "infer_value_type", "is_text", "is_wider", "loses_precision", "type_rank"]

_Type: TypeAlias = sa.types.TypeEngine[Any]

_RANKS: Final[tuple[tuple[tuple[type, ...], int], ...]] = (
    ((str, bytes), 900),
    ((datetime,), 600),
    ((float,), 400),
    ((int,), 300),
)

_WITHOUT_DATETIME: Final = frozenset({"cockroachdb", "postgresql", "redshift"})
"""Databases that support TIMESTAMP, but not the type name DATETIME."""

_UNLIMITED_DECIMALS: Final = frozenset({"cockroachdb", "postgresql", "sqlite"})
"""Databases whose DECIMAL without a precision does not round fractions to a fixed scale."""


def adapt_type(sql_type: _Type, dialect: Dialect) -> _Type:
    """Return a column type, or a similar type if the database does not support it.

    PostgreSQL has no type name DATETIME, so TIMESTAMP is returned. DECIMAL without a precision is
    one of whole numbers in MySQL, SQL Server and other databases, so DOUBLE is returned.
    """
    if type(sql_type) is sa.DATETIME and dialect.name in _WITHOUT_DATETIME:
        return sa.DateTime(timezone=sql_type.timezone)
    if _is_plain_decimal(sql_type) and dialect.name not in _UNLIMITED_DECIMALS:
        return sa.Double()
    return sql_type


def _is_plain_decimal(sql_type: _Type) -> bool:
    """Return True for SQLAlchemy's DECIMAL and NUMERIC without a precision."""
    is_decimal = type(sql_type) in {sa.DECIMAL, sa.NUMERIC, sa.Numeric}
    return is_decimal and getattr(sql_type, "precision", None) is None


def infer_value_type(sql_type: _Type) -> type:
    """Return the Python type of a column's values, or `object` if it is not known."""
    try:
        return sql_type.python_type
    except NotImplementedError:  # types that only one database has
        return object


def type_rank(sql_type: _Type) -> tuple[int, int]:
    """Return a (rank, length) sort key for a column type; a more general type has a higher rank.

    Ordered from the highest rank: text, date-times, floats, integers, others.
    """
    length = int(getattr(sql_type, "length", None) or 0)
    python_type = infer_value_type(sql_type)
    for kinds, number in _RANKS:
        if issubclass(python_type, kinds):
            return number, length
    return 0, length


def is_text(sql_type: _Type) -> bool:
    """Return True if a column of this type holds text."""
    return isinstance(_unwrap(sql_type), sa.String)


def loses_precision(current: _Type, new: _Type) -> bool:
    """Return True if a column of type ``current`` would round or truncate values of ``new``."""
    before, after = _unwrap(current), _unwrap(new)
    if isinstance(before, sa.Integer):
        return isinstance(after, (sa.Numeric, sa.Float))
    return isinstance(before, sa.Date) and isinstance(after, sa.DateTime)


def is_wider(current: _Type, new: _Type) -> bool:
    """Return True if ``new`` is a larger integer type, or a longer text type, than ``current``.

    Any text type is wider than a type that is not text.
    """
    before, after = _unwrap(current), _unwrap(new)
    if isinstance(before, sa.Integer) and isinstance(after, sa.Integer):
        return _get_byte_size(after) > _get_byte_size(before)
    if not is_text(after):
        return False
    return not is_text(before) or _get_length(after) > _get_length(before)


def _get_length(text: _Type) -> float:
    """Return the maximum length of a text type in characters, or infinity without a limit."""
    return getattr(text, "length", None) or math.inf


def _get_byte_size(integer_type: sa.Integer) -> int:
    """Return the size of an integer type in bytes: 2, 4 or 8."""
    if isinstance(integer_type, sa.BigInteger):
        return 8
    return 2 if isinstance(integer_type, sa.SmallInteger) else 4


def _unwrap(sql_type: _Type) -> _Type:
    """Return the type that a `TypeDecorator` wraps; return any other type unchanged."""
    return sql_type.impl_instance if isinstance(sql_type, sa.TypeDecorator) else sql_type
