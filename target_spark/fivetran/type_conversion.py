"""SQL expressions that convert a column's values to another type without loss.

No value is rounded or truncated: if the new type cannot represent a value, `Conversion.lost` is
true, and the caller leaves the table unchanged. Text has the format of Fivetran's batch files, so
that a converted value equals the text that Fivetran sends for it: timestamps in ISO 8601 with
``T``, and with ``Z`` if they are in UTC; decimals without exponents; bytes in base64. The session's
time zone must be UTC.

A float or double equals a decimal if its shortest decimal text is the same. Thus the double 0.1
equals the decimal 0.1, but no double equals 9007199254740993.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from target_spark.columns import Double, LocalTimestamp
from target_spark.columns.ddl_parser import parse_ddl
from target_spark.frames.sql_casts import exact_cast, has_no_timezone

__all__ = ["Conversion", "get_conversion"]

_BEYOND_BIGINT: Final = "9.223372036854775807E18D"
"""The double 2^63 in SQL, the smallest double that is greater than every bigint.

A cast of it to bigint returns the greatest bigint. So values are compared with it before a cast.
"""

_NON_FINITE: Final = "('NaN', 'Infinity', '-Infinity')"
"""SQL list of the texts for NaN and infinity in Fivetran's batch files."""


class Conversion(NamedTuple):
    """SQL expressions that convert a column's value to another DDL type.

    ``value`` is the expression of the new value. ``lost`` is a condition that is true if the new
    type cannot represent the old value.
    """

    value: str
    lost: str


class _ConversionStep(NamedTuple):
    """SQL expressions that convert a non-null value to another DDL type.

    Attributes:
        value: The expression of the new value.
        same: A condition that is true if the new value equals the old value. It is false or null if
            the new type cannot represent the old value.
    """

    value: str
    same: str


_Converter: TypeAlias = Callable[[str, str, str], _ConversionStep]
"""Function of the SQL of a non-null value, its DDL type, and the DDL type to convert to."""


def get_conversion(value: str, old: str, new: str) -> Conversion:
    """Return the SQL expressions that convert a value from one DDL type to another.

    Args:
        value: The SQL expression of the value, such as a quoted column name.
        old: The DDL type of the value.
        new: The DDL type to convert to.
    """
    step = _get_converter(_get_kind(old), _get_kind(new))(value, old.lower(), new)
    # Spark fails on a coalesce of conditions that it pushes down to Iceberg.
    lost = f"(CASE WHEN {value} IS NULL OR {step.same} THEN 0 ELSE 1 END = 1)"
    return Conversion(step.value, lost)


def _get_converter(old: str, new: str) -> _Converter:
    """Return the function that builds SQL to convert values of kind ``old`` to kind ``new``."""
    if new == "text":
        return _to_text
    return _from_text if old == "text" else _CONVERTERS.get((old, new), _lose_all)


def _get_kind(ddl: str) -> str:
    """Return the kind of a DDL type, such as ``integer``; ``other`` if it is not in `_KINDS`."""
    word = ddl.lower().partition("(")[0].partition("<")[0].strip()
    return _KINDS.get(word, "other")


# Text


def _to_text(value: str, old: str, _new: str) -> _ConversionStep:
    text = f"CAST({value} AS STRING)"
    kind = _get_kind(old)
    if kind == "bytes":  # Spark adds line breaks to long texts
        text = f"translate(base64({value}), chr(13) || chr(10), '')"
    elif kind == "nested":
        text = f"to_json({value}, map('ignoreNullFields', 'false'))"
    elif kind == "timestamp_ntz":
        text = f"replace({text}, ' ', 'T')"
    elif kind == "timestamp":
        text = f"concat(replace({text}, ' ', 'T'), 'Z')"
    return _exact_step(text)


def _from_text(value: str, _old: str, new: str) -> _ConversionStep:
    kind, type_ = _get_kind(new), parse_ddl(new)
    if kind == "float":
        return _text_to_float(value, new)
    if kind == "boolean":
        lowered = f"lower({value})"
        return _exact_step(f"CASE {lowered} WHEN 'true' THEN true WHEN 'false' THEN false END")
    converted = exact_cast(value, type_)
    if isinstance(type_, LocalTimestamp):
        converted = f"if({has_no_timezone(value)}, {converted}, NULL)"
    return _exact_step(converted)


def _text_to_float(text: str, new: str) -> _ConversionStep:
    """Return the SQL that converts a text to the type ``new``, which is ``float`` or ``double``.

    The conversion is exact if the shortest decimal text of the new value has the same digits.
    """
    number = f"if({exact_cast(text, Double())} IS NOT NULL, try_cast({text} AS {new}), NULL)"
    is_non_finite = f"{text} IN {_NON_FINITE}"
    value = f"CASE WHEN {is_non_finite} THEN CAST({text} AS {new}) ELSE {number} END"
    digits, new_digits = _build_digits_sql(text), _build_digits_sql(f"CAST({number} AS STRING)")
    return _ConversionStep(value, f"({is_non_finite} OR {digits} = {new_digits})")


def _build_digits_sql(number: str) -> str:
    """Return the SQL of a number's significant digits, such as ``12`` for -0.120 and for 1.2e5.

    Two texts with the same digits differ at most in sign and magnitude. ``number`` is the SQL of
    such a text.
    """
    mantissa = f"substring_index(lower({number}), 'e', 1)"
    return f"rtrim('0', ltrim('0', replace(replace({mantissa}, '.', ''), '-', '')))"


# Numbers


def _cast(value: str, _old: str, new: str) -> _ConversionStep:
    """Return the SQL that casts ``value`` to the type ``new``; null if it does not fit exactly."""
    return _exact_step(f"try_cast({value} AS {new})")


def _cast_and_compare(value: str, old: str, new: str) -> _ConversionStep:
    """Return the SQL that casts ``value`` to ``new``, and a condition that nothing was rounded."""
    converted = f"try_cast({value} AS {new})"
    return _ConversionStep(converted, f"try_cast({converted} AS {old}) = {value}")


def _integer_to_float(value: str, _old: str, new: str) -> _ConversionStep:
    converted = f"CAST({value} AS {new})"
    return _ConversionStep(
        converted, f"({converted} < {_BEYOND_BIGINT} AND try_cast({converted} AS BIGINT) = {value})"
    )


def _float_to_integer(value: str, _old: str, new: str) -> _ConversionStep:
    converted = f"try_cast({value} AS {new})"
    same = f"CAST({converted} AS DOUBLE) = CAST({value} AS DOUBLE)"
    return _ConversionStep(converted, f"({value} < {_BEYOND_BIGINT} AND {same})")


def _decimal_to_float(value: str, old: str, new: str) -> _ConversionStep:
    converted = f"CAST({value} AS {new})"
    return _ConversionStep(converted, f"try_cast(CAST({converted} AS STRING) AS {old}) = {value}")


def _float_to_decimal(value: str, old: str, new: str) -> _ConversionStep:
    converted = f"try_cast(CAST({value} AS STRING) AS {new})"
    return _ConversionStep(converted, f"CAST({converted} AS {old}) = {value}")


def _to_boolean(value: str, _old: str, _new: str) -> _ConversionStep:
    return _exact_step(f"CASE WHEN {value} = 0 THEN false WHEN {value} = 1 THEN true END")


def _lose_all(_value: str, _old: str, new: str) -> _ConversionStep:
    """Return the SQL of an impossible conversion, such as from a date to an integer.

    The new value is null, and the condition ``same`` is always false.
    """
    return _ConversionStep(f"CAST(NULL AS {new})", "false")


def _exact_step(converted: str) -> _ConversionStep:
    """Return a conversion step for the SQL ``converted``, whose value is exact or else null."""
    return _ConversionStep(converted, f"({converted}) IS NOT NULL")


_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"),
        **dict.fromkeys(("float", "double"), "float"),
        **dict.fromkeys(("string", "char", "varchar"), "text"),
        **dict.fromkeys(("struct", "array", "map", "variant"), "nested"),
        "boolean": "boolean",
        "decimal": "decimal",
        "date": "date",
        "timestamp": "timestamp",
        "timestamp_ntz": "timestamp_ntz",
        "binary": "bytes",
    }
)
"""Kind of each DDL type, by the first word of the type. Types of a kind share conversions."""

_CONVERTERS: Final[Mapping[tuple[str, str], _Converter]] = MappingProxyType(
    {
        ("integer", "integer"): _cast,
        ("integer", "decimal"): _cast,
        ("integer", "float"): _integer_to_float,
        ("integer", "boolean"): _to_boolean,
        ("decimal", "decimal"): _cast_and_compare,
        ("decimal", "integer"): _cast_and_compare,
        ("decimal", "float"): _decimal_to_float,
        ("decimal", "boolean"): _to_boolean,
        ("float", "float"): _cast_and_compare,
        ("float", "integer"): _float_to_integer,
        ("float", "decimal"): _float_to_decimal,
        ("float", "boolean"): _to_boolean,
        ("boolean", "integer"): _cast,
        ("boolean", "decimal"): _cast,
        ("boolean", "float"): _cast,
        ("date", "timestamp"): _cast,
        ("date", "timestamp_ntz"): _cast,
        ("timestamp", "timestamp_ntz"): _cast,
        ("timestamp_ntz", "timestamp"): _cast,
        ("timestamp", "date"): _cast_and_compare,
        ("timestamp_ntz", "date"): _cast_and_compare,
    }
)
"""Functions that build the SQL of a conversion, by the kinds of the old and the new type.

Conversions from and to text are not listed. All other missing pairs cannot be converted.
"""
