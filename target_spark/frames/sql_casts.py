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
  second (and zeros after those, or with ``cut`` whatever comes), then ``Z``, an offset or
  nothing, which is UTC; seconds that are left out are none, a time that is left out is
  midnight;
- dates are ``YYYY-MM-DD``, or that day's midnight in UTC as a date-time; years run from
  0001 to 9999, for date-times in UTC;
- base64 is the plain alphabet, padded.

Patterns end in ``\z`` because ``$`` also matches before a last line end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from target_spark.columns import (
    Array,
    Binary,
    ColumnType,
    Date,
    Decimal,
    Double,
    Integer,
    LocalTimestamp,
    Struct,
    Timestamp,
)

__all__ = ["exact_cast", "fast_cast", "has_no_timezone", "is_converted", "is_scalar"]

_READ_BITS = 64
"""Of the integers that JSON's reader gives."""

_WHOLE = "-?(0|[1-9][0-9]*)"
_EXPONENT = "[eE][+-]?[0-9]{1,4}"
_DAY = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "[0-9]{2}:[0-9]{2}:[0-9]{2}"
_MICROS = "([.][0-9]{1,6}0*)?"
_CUT = "([.][0-9]+)?"
_OFFSET = "[+-][0-9]{2}(:?[0-9]{2})?"

_ANY_NUMBER = f"{_WHOLE}([.][0-9]+)?([eE][+-]?[0-9]+)?"
_FINITE_NUMBER = "-?(0|[1-9][0-9]{0,199})([.][0-9]+)?([eE][+-]?[0-9]{1,2})?"
"""Numbers that are finite in a double by their length alone."""

_DATE_TIME = rf"(?!(0001|9999).*{_OFFSET}\z){_DAY}[T ]{_CLOCK}%s(Z|{_OFFSET})?"
_RARE_DATE_TIME = f"{_DAY}([Tt ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}%s)?( ?([Zz]|{_OFFSET}))?)?"
"""Lower case, offsets after a space or such as may lead out of the years that there are,
and less than seconds."""

_MIDNIGHT = f"{_DAY}[Tt ]00:00(:00([.]0+)?)?( ?([Zz]|[+-]00(:?00)?))?"
"""A day as sources write it that know date-times alone."""


class _Conversion(NamedTuple):
    """How a text becomes a value: where it matches, ``value``; else what ``rare`` gives."""

    pattern: str
    value: str
    rare: str = "NULL"


def is_converted(type_: ColumnType) -> bool:
    """Tell whether anything in the type is not just what JSON's reader gives."""
    if isinstance(type_, Array):
        return is_converted(type_.element)
    if isinstance(type_, Struct):
        return True  # its fields may have other names in the table
    return is_scalar(type_)


def is_scalar(type_: ColumnType) -> bool:
    """Tell whether `strict` does anything to values of the type."""
    return isinstance(
        type_, Integer | Decimal | Double | Timestamp | LocalTimestamp | Date | Binary
    )


def exact_cast(text: str, type_: ColumnType, *, cut: bool = False) -> str:
    """Return the SQL of the value that a text stands for; null where it stands for none.

    With ``cut`` a date-time loses what it says beyond microseconds.
    """
    how = _conversion(text, type_, cut=cut)
    return _when(text, how.pattern, how.value, how.rare)


def fast_cast(value: str, type_: ColumnType, *, cut: bool = False) -> str:
    """Return the same for the spellings that are met every day; null for all others.

    It is a quarter of the SQL, and what is null here may still have a strict value. The
    value of an integer or a double has been read as such.
    """
    if isinstance(type_, Integer):
        return value if type_.bits == _READ_BITS else _cast(value, type_)
    if isinstance(type_, Double):
        return f"if(abs({value}) < double('Infinity'), {value}, NULL)"
    how = _conversion(value, type_, cut=cut)
    return _when(value, how.pattern, how.value)


def has_no_timezone(text: str) -> str:
    """Return the SQL of the condition that a good date-time says no zone."""
    zoned = (
        f"endswith({text}, 'Z') OR contains({text}, '+') OR endswith({text}, 'z')"
        f" OR locate('-', {text}, 11) > 0"
    )
    return f"({text} IS NOT NULL AND NOT ({zoned}))"


def _when(text: str, pattern: str, value: str, otherwise: str = "NULL") -> str:
    return rf"CASE WHEN {text} RLIKE r'\A{pattern}\z' THEN {value} ELSE {otherwise} END"


def _conversion(text: str, type_: ColumnType, *, cut: bool) -> _Conversion:
    if isinstance(type_, Integer):
        return _integer(text, type_)
    if isinstance(type_, Decimal):
        return _decimal(text, type_)
    if isinstance(type_, Timestamp | LocalTimestamp):
        return _timestamp(text, type_, _CUT if cut else _MICROS)
    return _UNSIZED[type(type_)](text)


def _integer(text: str, type_: Integer) -> _Conversion:
    """Return digits, and zeros after a point; an exponent goes by way of a decimal."""
    return _Conversion(
        f"{_WHOLE}([.]0+)?",
        f"try_cast(substring_index({text}, '.', 1) AS {type_.ddl})",
        f"try_cast({_scientific(text, Decimal(38, 0))} AS {type_.ddl})",
    )


def _decimal(text: str, type_: Decimal) -> _Conversion:
    places = f"[.][0-9]{{1,{type_.scale}}}0*" if type_.scale else "[.]0+"
    return _Conversion(f"{_WHOLE}({places})?", _cast(text, type_), _scientific(text, type_))


def _scientific(text: str, type_: Decimal) -> str:
    """Return ``1.5e3`` and its like, if it needs no more places than there are.

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
    value = f"if({fits}, {_cast(text, type_)}, NULL)"
    return _when(text, f"{_WHOLE}([.][0-9]+)?{_EXPONENT}", value)


def _cast(text: str, type_: ColumnType) -> str:
    return f"try_cast({text} AS {type_.ddl})"


def _double(text: str) -> _Conversion:
    cast = _cast(text, Double())
    finite = f"nullif(nullif({cast}, double('Infinity')), double('-Infinity'))"
    return _Conversion(_FINITE_NUMBER, cast, _when(text, _ANY_NUMBER, finite))


def _timestamp(text: str, type_: Timestamp | LocalTimestamp, fraction: str) -> _Conversion:
    close = f"regexp_replace(upper({text}), ' (?=[-+Z])', '')"
    seconds = f"regexp_replace({close}, r'([T ][0-9]{{2}}:[0-9]{{2}})(?!:)', '$1:00')"
    upper = _cast(seconds, Timestamp())
    inside = f"if(year({upper}) BETWEEN 1 AND 9999, {upper}, NULL)"
    local = f"substring_index(substring_index({text}, 'Z', 1), '+00:00', 1)"
    value = _cast(local, Timestamp())  # in UTC anyway; a zone costs more than all the rest
    rare = _when(text, _RARE_DATE_TIME % fraction, inside)
    if isinstance(type_, LocalTimestamp):
        value, rare = (f"CAST({instant} AS TIMESTAMP_NTZ)" for instant in (value, rare))
    return _Conversion(_DATE_TIME % fraction, value, rare)


def _date(text: str) -> _Conversion:
    day = _when(text, _MIDNIGHT, _cast(f"left({text}, 10)", Date()))
    return _Conversion(_DAY, _cast(text, Date()), day)


def _binary(text: str) -> _Conversion:
    decoded = f"if(length({text}) % 4 = 0, try_to_binary({text}, 'base64'), NULL)"
    return _Conversion("[A-Za-z0-9+/]*+={0,2}", decoded)


_UNSIZED: Mapping[type[ColumnType], Callable[[str], _Conversion]] = MappingProxyType(
    {Double: _double, Date: _date, Binary: _binary}
)
