r"""Spark SQL that converts scalar values from text to their exact column type.

The SQL returns null if the text is not exactly a value of the type. Nothing is rounded, truncated
or guessed: the text must match a pattern from the JSON grammar or RFC 3339 before it is cast.

Spark's JSON reader returns strings without quotes, so ``"5"`` and ``5`` are the same text, and both
are the integer 5. Rules:

- integers may be written ``1.0`` or ``1e3``; ``1.7`` is not an integer;
- a decimal may have as many decimal places as its scale, followed by zeros;
- a double may be any number in its range, and is the only type that is rounded;
- a date-time is ``YYYY-MM-DDThh:mm:ss`` (or a space for ``T``), with optional decimal places of a
  second and an optional ``Z`` or offset. The default zone is UTC. Decimal places after the sixth
  must be zeros, unless ``truncate`` is set. Missing seconds are 0, and a missing time is midnight;
- dates are ``YYYY-MM-DD``, or midnight in UTC of that day as a date-time; years are 0001 to 9999,
  for date-times in UTC;
- base64 is the standard alphabet, padded.

Patterns end in ``\z`` because ``$`` also matches before a final newline.
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

_BIGINT_BITS = 64
"""Size in bits of the integers that Spark's JSON reader returns (BIGINT)."""

_WHOLE = "-?(0|[1-9][0-9]*)"
_EXPONENT = "[eE][+-]?[0-9]{1,4}"
_DAY = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "[0-9]{2}:[0-9]{2}:[0-9]{2}"
_EXACT_FRACTION = "([.][0-9]{1,6}0*)?"
"""Regular expression for the decimal places of a second, to the microsecond."""
_ANY_FRACTION = "([.][0-9]+)?"
"""Regular expression for the decimal places of a second, if digits after the sixth are dropped."""
_OFFSET = "[+-][0-9]{2}(:?[0-9]{2})?"

_ANY_NUMBER = f"{_WHOLE}([.][0-9]+)?([eE][+-]?[0-9]+)?"
_FINITE_NUMBER = "-?(0|[1-9][0-9]{0,199})([.][0-9]+)?([eE][+-]?[0-9]{1,2})?"
"""Regular expression for numbers that are too short to exceed the range of a double."""

_DATE_TIME = rf"(?!(0001|9999).*{_OFFSET}\z){_DAY}[T ]{_CLOCK}%s(Z|{_OFFSET})?"
_RARE_DATE_TIME = f"{_DAY}([Tt ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}%s)?( ?([Zz]|{_OFFSET}))?)?"
"""Regular expression for date-times in unusual forms: in lower case, without a time or seconds,
with a space before the offset, or with an offset in the year 0001 or 9999. ``%s`` stands for the
pattern of the decimal places of a second."""

_MIDNIGHT = f"{_DAY}[Tt ]00:00(:00([.]0+)?)?( ?([Zz]|[+-]00(:?00)?))?"
"""Regular expression for a date written as a date-time at midnight in UTC."""


class _Conversion(NamedTuple):
    """SQL that converts a text to a scalar type, with a fast case for the common form of a value.

    Attributes:
        pattern: A regular expression that matches values in the common form, such as ``5`` or
            ``5.0`` for an integer.
        value: The SQL that converts a text that matches ``pattern``.
        rare: The SQL that converts any other text, such as ``5e3``. Its result is null if the text
            is not a value of the type.
    """

    pattern: str
    value: str
    rare: str = "NULL"


def is_converted(type_: ColumnType) -> bool:
    """Return True if values of a type need a conversion after Spark's JSON reader has read them.

    An example is a timestamp, which is read as text. Booleans and text need no conversion.
    """
    if isinstance(type_, Array):
        return is_converted(type_.element)
    if isinstance(type_, Struct):
        return True  # its fields may have other names in the table
    return is_scalar(type_)


def is_scalar(type_: ColumnType) -> bool:
    """Return True for scalar types that `exact_cast` supports: numbers, dates, times and binary.

    Return False for booleans and text, which need no conversion, and for structs and arrays.
    """
    return isinstance(
        type_, Integer | Decimal | Double | Timestamp | LocalTimestamp | Date | Binary
    )


def exact_cast(text: str, type_: ColumnType, *, truncate: bool = False) -> str:
    """Return the SQL that converts a text to a type; it yields null if the text is not valid.

    Args:
        text: The SQL expression of the text.
        type_: The type to convert to.
        truncate: True to drop the digits after the microseconds of a date-time. False to return
            null if these digits are not all zeros.
    """
    conversion = _get_conversion(text, type_, truncate=truncate)
    return _if_match(text, conversion.pattern, conversion.value, conversion.rare)


def fast_cast(value: str, type_: ColumnType, *, truncate: bool = False) -> str:
    """Return short SQL that converts values in the most common form of their type.

    The SQL yields null for other values, such as a date-time without seconds. `exact_cast` converts
    all valid forms, with SQL that is about four times as long.

    Args:
        value: The SQL expression of the value: a number for integers and doubles, and a text for
            other types.
        type_: The type to convert to.
        truncate: True to drop the digits after the microseconds of a date-time. False to return
            null if these digits are not all zeros.
    """
    if isinstance(type_, Integer):
        return value if type_.bits == _BIGINT_BITS else _try_cast(value, type_)
    if isinstance(type_, Double):
        return f"if(abs({value}) < double('Infinity'), {value}, NULL)"
    conversion = _get_conversion(value, type_, truncate=truncate)
    return _if_match(value, conversion.pattern, conversion.value)


def has_no_timezone(text: str) -> str:
    """Return a SQL condition that is true if a date-time has neither ``Z`` nor a UTC offset.

    Args:
        text: The SQL expression of a text that is a valid date-time or null.
    """
    zoned = (
        f"endswith({text}, 'Z') OR contains({text}, '+') OR endswith({text}, 'z')"
        f" OR locate('-', {text}, 11) > 0"  # after the date
    )
    return f"({text} IS NOT NULL AND NOT ({zoned}))"


def _if_match(text: str, pattern: str, value: str, otherwise: str = "NULL") -> str:
    """Return SQL that yields ``value`` if ``text`` matches ``pattern``, and else ``otherwise``."""
    return rf"CASE WHEN {text} RLIKE r'\A{pattern}\z' THEN {value} ELSE {otherwise} END"


def _get_conversion(text: str, type_: ColumnType, *, truncate: bool) -> _Conversion:
    if isinstance(type_, Integer):
        return _convert_integer(text, type_)
    if isinstance(type_, Decimal):
        return _convert_decimal(text, type_)
    if isinstance(type_, Timestamp | LocalTimestamp):
        return _convert_timestamp(text, type_, _ANY_FRACTION if truncate else _EXACT_FRACTION)
    return _CONVERSIONS[type(type_)](text)


def _convert_integer(text: str, type_: Integer) -> _Conversion:
    """Return the SQL that converts a text such as ``5``, ``1.0`` or ``1e3`` to an integer type."""
    return _Conversion(
        f"{_WHOLE}([.]0+)?",
        f"try_cast(substring_index({text}, '.', 1) AS {type_.ddl})",
        f"try_cast({_convert_scientific(text, Decimal(38, 0))} AS {type_.ddl})",
    )


def _convert_decimal(text: str, type_: Decimal) -> _Conversion:
    places = f"[.][0-9]{{1,{type_.scale}}}0*" if type_.scale else "[.]0+"
    return _Conversion(
        f"{_WHOLE}({places})?", _try_cast(text, type_), _convert_scientific(text, type_)
    )


def _convert_scientific(text: str, type_: Decimal) -> str:
    """Return the SQL that converts a number with an exponent, such as ``1.5e3``, to a decimal type.

    Its result is null if the number does not fit the precision and scale of the type.
    """
    mantissa = f"substring_index(lower({text}), 'e', 1)"
    exponent = f"int(substring_index(lower({text}), 'e', -1))"
    digits = f"replace({mantissa}, '.', '')"
    significant = f"rtrim('0', {digits})"
    places = f"if(contains({mantissa}, '.'), length(substring_index({mantissa}, '.', -1)), 0)"
    zeros = f"(length({digits}) - length({significant}))"
    fits = f"({significant} IN ('', '-') OR {places} - {exponent} - {zeros} <= {type_.scale})"
    value = f"if({fits}, {_try_cast(text, type_)}, NULL)"
    return _if_match(text, f"{_WHOLE}([.][0-9]+)?{_EXPONENT}", value)


def _try_cast(text: str, type_: ColumnType) -> str:
    return f"try_cast({text} AS {type_.ddl})"


def _convert_double(text: str) -> _Conversion:
    cast = _try_cast(text, Double())
    finite = f"nullif(nullif({cast}, double('Infinity')), double('-Infinity'))"
    return _Conversion(_FINITE_NUMBER, cast, _if_match(text, _ANY_NUMBER, finite))


def _convert_timestamp(text: str, type_: Timestamp | LocalTimestamp, fraction: str) -> _Conversion:
    compact = f"regexp_replace(upper({text}), ' (?=[-+Z])', '')"
    seconds = f"regexp_replace({compact}, r'([T ][0-9]{{2}}:[0-9]{{2}})(?!:)', '$1:00')"
    instant = _try_cast(seconds, Timestamp())
    in_range = f"if(year({instant}) BETWEEN 1 AND 9999, {instant}, NULL)"
    # UTC is the zone of the session, so `Z` and `+00:00` are cut off: parsing a zone is slow.
    local = f"substring_index(substring_index({text}, 'Z', 1), '+00:00', 1)"
    value = _try_cast(local, Timestamp())
    rare = _if_match(text, _RARE_DATE_TIME % fraction, in_range)
    if isinstance(type_, LocalTimestamp):
        value, rare = (f"CAST({each} AS TIMESTAMP_NTZ)" for each in (value, rare))
    return _Conversion(_DATE_TIME % fraction, value, rare)


def _convert_date(text: str) -> _Conversion:
    day = _if_match(text, _MIDNIGHT, _try_cast(f"left({text}, 10)", Date()))
    return _Conversion(_DAY, _try_cast(text, Date()), day)


def _convert_binary(text: str) -> _Conversion:
    decoded = f"if(length({text}) % 4 = 0, try_to_binary({text}, 'base64'), NULL)"
    return _Conversion("[A-Za-z0-9+/]*+={0,2}", decoded)


_CONVERSIONS: Mapping[type[ColumnType], Callable[[str], _Conversion]] = MappingProxyType(
    {Double: _convert_double, Date: _convert_date, Binary: _convert_binary}
)
