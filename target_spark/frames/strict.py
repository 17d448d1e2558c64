r"""Conversions of a scalar from the text that JSON's reader gave, in Spark SQL.

Rules of the room: pure functions from an expression to an expression, both as SQL text.
The result is null where the text is not exactly a value of the type; whether it was
null before is the caller's to see. Nothing is rounded, cut or guessed: first a pattern,
which JSON's grammar or RFC 3339 gives, then a cast that can only be exact.

What the reader gives for a string has lost its quotes, so ``"5"`` and ``5`` are the same
text, and both are the integer 5. Everything else that JSON Schema tells apart is told
apart by the pattern:

- whole numbers may be written ``1.0`` or ``1e3``; ``1.7`` is none;
- a decimal takes as many places as it has, and zeros after those;
- a double takes every number but those too large for it; it is the one type that rounds;
- a date-time is ``YYYY-MM-DD``, ``T`` or a space, ``hh:mm:ss``, at most six places of a
  second (and zeros after those), then ``Z``, an offset or nothing, which is UTC;
- dates are ``YYYY-MM-DD``; years run from 0001 to 9999, for date-times in UTC;
- base64 is the plain alphabet, padded.

Patterns end in ``\z`` because ``$`` also matches before a last line end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from target_spark.columns import (
    Array,
    Binary,
    ColumnType,
    Date,
    Decimal,
    Double,
    Integer,
    Struct,
    Timestamp,
)

__all__ = ["is_converted", "strict", "without_zone"]

_WHOLE = r"-?(0|[1-9][0-9]*)"
_EXPONENT = r"[eE][+-]?[0-9]{1,4}"
_YEAR = "(?!0000)[0-9]{4}"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6}0*)?"
_ZONE = "[+-][0-9]{2}(:?[0-9]{2})?"

_DATE_TIME = rf"(?!0001|9999){_YEAR}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}(Z|{_ZONE})?"
_RARE_DATE_TIME = rf"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}[Tt ]{_CLOCK}([Zz]|{_ZONE})?"

_SAFE_DOUBLE = r"-?(0|[1-9][0-9]{0,199})([.][0-9]+)?([eE][+-]?[0-9]{1,2})?"
"""Numbers that are finite in a double by their length alone."""


def is_converted(type_: ColumnType) -> bool:
    """Tell whether anything in the type is not just what JSON's reader gives."""
    if isinstance(type_, Array):
        return is_converted(type_.element)
    if isinstance(type_, Struct):
        return True  # its fields may have other names in the table
    return isinstance(type_, Integer | Decimal | Double | Timestamp | Date | Binary)


def strict(text: str, type_: ColumnType) -> str:
    """Return the SQL of the value that a text stands for; null where it stands for none."""
    if isinstance(type_, Integer):
        return _integer(text, type_)
    if isinstance(type_, Decimal):
        return _decimal(text, type_)
    convert = _UNSIZED.get(type(type_))
    return convert(text) if convert else text


def without_zone(text: str) -> str:
    """Return the SQL of the condition that a good date-time says no zone."""
    signs = " OR ".join(f"substring({text}, {at}, 1) IN ('+', '-')" for at in (-6, -5, -3))
    return f"({text} IS NOT NULL AND NOT (endswith(lower({text}), 'z') OR {signs}))"


def _when(text: str, pattern: str, value: str, otherwise: str = "NULL") -> str:
    return rf"CASE WHEN {text} RLIKE r'\A{pattern}\z' THEN {value} ELSE {otherwise} END"


def _integer(text: str, type_: Integer) -> str:
    """Plain digits directly; other spellings of a whole number by way of a decimal."""
    other = f"try_cast({_decimal(text, Decimal(38, 0))} AS {type_.ddl})"
    return _when(text, _WHOLE, f"try_cast({text} AS {type_.ddl})", other)


def _decimal(text: str, type_: Decimal) -> str:
    places = f"[.][0-9]{{1,{type_.scale}}}0*" if type_.scale else "[.]0+"
    cast = f"try_cast({text} AS {type_.ddl})"
    return _when(text, f"{_WHOLE}({places})?", cast, _scientific(text, type_, cast))


def _scientific(text: str, type_: Decimal, cast: str) -> str:
    """Return the value of ``1.5e3`` and its like, if it needs no more places than there are.

    The places that it needs: those of the mantissa, less the exponent, less the zeros at
    the mantissa's end.
    """
    mantissa = f"substring_index(lower({text}), 'e', 1)"
    exponent = f"int(substring_index(lower({text}), 'e', -1))"
    digits = f"replace({mantissa}, '.', '')"
    significant = f"rtrim('0', {digits})"
    places = f"if(contains({mantissa}, '.'), length(substring_index({mantissa}, '.', -1)), 0)"
    zeros = f"(length({digits}) - length({significant}))"
    fits = f"({significant} IN ('', '-') OR {places} - {exponent} - {zeros} <= {type_.scale})"
    return _when(text, f"{_WHOLE}([.][0-9]+)?{_EXPONENT}", f"if({fits}, {cast}, NULL)")


def _double(text: str) -> str:
    cast = f"try_cast({text} AS DOUBLE)"
    finite = f"nullif(nullif({cast}, double('Infinity')), double('-Infinity'))"
    any_number = f"{_WHOLE}([.][0-9]+)?([eE][+-]?[0-9]+)?"
    return _when(text, _SAFE_DOUBLE, cast, _when(text, any_number, finite))


def _timestamp(text: str) -> str:
    cast = f"try_cast({text} AS TIMESTAMP)"
    upper = f"try_cast(upper({text}) AS TIMESTAMP)"
    inside = f"year({upper}) BETWEEN 1 AND 9999"
    rare = _when(text, _RARE_DATE_TIME, f"if({inside}, {upper}, NULL)")
    return _when(text, _DATE_TIME, cast, rare)


def _date(text: str) -> str:
    return _when(text, f"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}", f"try_cast({text} AS DATE)")


def _binary(text: str) -> str:
    decoded = f"if(length({text}) % 4 = 0, try_to_binary({text}, 'base64'), NULL)"
    return _when(text, "[A-Za-z0-9+/]*+={0,2}", decoded)


_UNSIZED: Mapping[type[ColumnType], Callable[[str], str]] = MappingProxyType(
    {Double: _double, Timestamp: _timestamp, Date: _date, Binary: _binary}
)
