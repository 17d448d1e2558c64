"""Rules for the column types that a table format can widen in place.

Types are given as DDL. If a type cannot be changed, the new values go to another column. Sources:
the Delta protocol, "Type Widening"; the Iceberg table specification, "Schema Evolution".
"""

from __future__ import annotations

import re

from target_spark.columns.ddl_parser import LIMITED_TEXT

__all__ = ["delta_widens", "iceberg_widens"]

_INTEGER_DIGITS = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
"""Integer types from small to large. The number is the digits before the point that a decimal type
needs, so that Delta can widen the integer type to the decimal type."""

_DELTA_WIDENINGS = {
    ("float", "double"),
    ("tinyint", "double"),
    ("smallint", "double"),
    ("int", "double"),
    ("date", "timestamp_ntz"),
}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def delta_widens(old: str, new: str) -> bool:
    """Return True if Delta can change a column's type from ``old`` to ``new`` (DDL) in place.

    An example is ``int`` to ``bigint``.
    """
    old, new = old.lower(), new.lower()
    if (old, new) in _DELTA_WIDENINGS or (new == "string" and LIMITED_TEXT.fullmatch(old)):
        return True
    digits = _get_decimal_digits(new)
    if digits is None:
        order = list(_INTEGER_DIGITS)
        return (
            old in _INTEGER_DIGITS
            and new in _INTEGER_DIGITS
            and order.index(old) < order.index(new)
        )
    if old in _INTEGER_DIGITS:
        return digits[0] >= _INTEGER_DIGITS[old]
    before = _get_decimal_digits(old)
    if before is None or before == digits:
        return False
    return before[0] <= digits[0] and before[1] <= digits[1]


def iceberg_widens(old: str, new: str) -> bool:
    """Return True if Iceberg can change a column's type from ``old`` to ``new`` (DDL) in place.

    Iceberg can change ``int`` to ``bigint``, ``float`` to ``double``, and raise the precision of a
    decimal.
    """
    old, new = old.lower(), new.lower()
    if (old, new) in {("int", "bigint"), ("float", "double")}:
        return True
    before, digits = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if before is None or digits is None:
        return False
    return before[2] == digits[2] and int(before[1]) < int(digits[1])


def _get_decimal_digits(type_: str) -> tuple[int, int] | None:
    """Return a decimal type's digits before and after the point: ``decimal(5,2)`` -> ``(3, 2)``.

    Return None if the DDL is of another type.
    """
    match = _DECIMAL.fullmatch(type_)
    return (int(match[1]) - int(match[2]), int(match[2])) if match else None
