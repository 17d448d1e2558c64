"""Conversion of record values of any Python type to the values of a Fivetran column type.

There is one function per type. For common values, `record_encoder` has faster functions. Values are
converted exactly or rejected: an integer may be ``1.0`` or a string, and a boolean may be 0, 1 or a
string. Only DOUBLE rounds, as JSON numbers do. In a string column, other values become JSON. The
result None means null, for values that JSON does not support, such as NaN.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final

import msgspec

from tap_core.records.conform import (
    UnmappedCallback,
    compile_conformer,
    conform_primitive,
    to_json_compatible,
)
from tap_core.records.serializer import ENCODING_ERRORS
from tap_core.records.value_rules import build_value_rule
from tap_core.types import JsonSchema
from tap_core.typing.inspect import TypeConformanceLevel

__all__ = [
    "make_decimal_encoder",
    "make_json_encoder",
    "to_bool",
    "to_bytes",
    "to_double",
    "to_int",
    "to_text",
    "utf8",
]

_encode: Final = msgspec.json.Encoder(decimal_format="number").encode

_NUMBER: Final = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_NON_FINITE: Final = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
_BLANKS: Final = re.compile(r"\s+", re.ASCII)
_DOUBLE_FORMAT: Final = ".14e"
"""Format with the 15 digits that a double guarantees. Further ones may be rounding errors."""

_MAX_EXPONENT: Final = 400
_TRUE: Final = frozenset(("true", "1"))
_FALSE: Final = frozenset(("false", "0"))


def to_bool(value: Any) -> bool:
    """Convert a value to a boolean: True, False, 0, 1, "true", "false", "0", "1", or bytes.

    Bytes are the value of a bit column in some databases: False if all bytes are zero.

    Raises:
        ValueError: The value is not one of these.
    """
    if isinstance(value, (int, float, Decimal)) and value in {0, 1}:
        return bool(value)
    if isinstance(value, (bytes, bytearray)):
        return any(value)
    word = str(value).strip().lower()
    if word in _TRUE | _FALSE:
        return word in _TRUE
    raise ValueError("neither true nor false")


def to_int(value: Any) -> int:
    """Convert a number or a numeric string to an integer: ``5.0`` -> 5, ``"5"`` -> 5.

    Raises:
        ValueError: The value is not an integer.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    number = _to_decimal(value)
    if not number.is_finite() or number.adjusted() > _MAX_EXPONENT:
        raise ValueError("not an integer")
    integer = int(number)
    if integer != number:
        raise ValueError("not an integer")
    return integer


def to_double(value: Any) -> float:
    """Convert a number or a numeric string to the nearest double. NaN and infinity are accepted.

    Raises:
        ValueError: The value is not a number, or exceeds the range of doubles.
    """
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str) and _NON_FINITE.fullmatch(value.strip()):
        return float(value)
    number = float(_to_decimal(value))
    if math.isinf(number) and not (isinstance(value, Decimal) and value.is_infinite()):
        raise ValueError("beyond the range of doubles")
    return number


def make_decimal_encoder(precision: int, scale: int) -> Callable[[Any], str]:
    """Return a function that formats a number as text for a decimal column: 5 -> "5.00".

    A float with a rounding error, such as 0.1 + 0.2, becomes the nearest value of the column. The
    function raises ValueError for other numbers that exceed the precision or scale.
    """
    context = Context(prec=precision + 1, traps=[])
    step, limit = Decimal(1).scaleb(-scale), Decimal(10) ** (precision - scale)
    tolerance = step / 10

    def fit(number: Decimal) -> Decimal | None:
        """Return a number with the column's scale, or None if it does not fit exactly."""
        if not number.is_finite() or number.copy_abs() >= limit:
            return None
        context.clear_flags()
        rounded = number.quantize(step, context=context)
        return None if context.flags[Inexact] or context.flags[InvalidOperation] else rounded

    def fit_float(value: float) -> Decimal | None:
        """Return the column's value that a float means, apart from a rounding error, or None."""
        number = Decimal(repr(float(value)))
        if number.copy_abs() >= limit:
            return None
        rounded = number.quantize(step, context=context)
        is_same = format(rounded, _DOUBLE_FORMAT) == format(number, _DOUBLE_FORMAT)
        return fit(rounded) if is_same and abs(number - rounded) <= tolerance else None

    def format_number(value: Any) -> str:
        decimal = fit(_to_decimal(value))
        if decimal is None and isinstance(value, float) and math.isfinite(value):
            decimal = fit_float(value)
        if decimal is None:
            raise ValueError("more digits than the column has")
        return format(decimal or abs(decimal), "f")  # -0 becomes 0

    return format_number


def _to_decimal(value: Any) -> Decimal:
    if isinstance(value, bool):
        raise ValueError("not a number")  # noqa: TRY004  ValueError is documented
    if isinstance(value, float):
        return Decimal(repr(float(value)))
    if isinstance(value, (int, Decimal)):
        return Decimal(value)
    text = str(value).strip()  # also for number types of other packages
    if not _NUMBER.fullmatch(text):
        raise ValueError("not a number")
    return Decimal(text)


def to_bytes(value: Any) -> bytes:
    """Convert bytes or a base64 string to bytes.

    Raises:
        ValueError: The value is neither bytes nor base64.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if not isinstance(value, str):
        raise ValueError("not binary")  # noqa: TRY004  ValueError is documented
    try:
        return base64.b64decode(_BLANKS.sub("", value), validate=True)
    except ValueError:
        raise ValueError("not base64") from None


def to_text(value: Any) -> bytes | None:
    """Convert a value to UTF-8 text for a string column: a string as it is, others as JSON.

    Return None for values that JSON does not support, such as NaN. They become null.
    """
    if isinstance(value, str):
        return utf8(value)
    plain = to_json_compatible(conform_primitive(value, {}))
    if plain is None:
        return None
    return utf8(plain) if isinstance(plain, str) else _encode(plain)


def utf8(text: str) -> bytes:
    """Encode a string as UTF-8. Lone surrogates become question marks."""
    return str.encode(text, "utf-8", "replace")


def make_json_encoder(
    name: str, definition: JsonSchema, level: TypeConformanceLevel, unmapped: UnmappedCallback
) -> Callable[[Any], bytes | None]:
    """Return a function that encodes the values of a JSON column as JSON text in UTF-8.

    The function converts a value to the schema first, and returns None if the result is null.
    Decimals keep all their digits.

    Args:
        name: Name of the property with the values.
        definition: JSON Schema of the property.
        level: Nesting depth down to which values are converted to the types of the schema.
        unmapped: Called with the names of undeclared properties in a value, which are dropped.
    """
    is_valid = build_value_rule(definition, level).accepts
    conform = compile_conformer({"properties": {name: definition}}, level, unmapped)

    def encode(value: Any) -> bytes | None:
        if is_valid(value):
            try:
                text = _encode(value)
            except ENCODING_ERRORS:
                text = _encode(to_json_compatible(value))
        else:
            text = _encode(to_json_compatible(conform({name: value})[name]))
        return None if text == b"null" else text

    return encode
