"""Values of records as a column's type has them, whatever the source made of them.

Rules of the room: the careful way, one function for each type; `encode` takes the quick way for
what is met every day. A value is exact or refused, and never changed: whole numbers may come as
``1.0`` or as text, booleans as 0 and 1 or as the words, date-times in any ISO 8601 spelling. The
one type that rounds is DOUBLE, as JSON's numbers do. What is no text becomes its JSON in a
column of text. None is returned for what JSON has no value for: it is null then.
"""

from __future__ import annotations

import base64
import binascii
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
from tap_core.records.serializer import ENCODING_ERRORS, make_value_check
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
_NO_NUMBER: Final = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
_BLANKS: Final = re.compile(r"\s+", re.ASCII)
_DIGITS_OF_A_DOUBLE: Final = 15
"""Decimal digits that a double always keeps; what it says beyond may be noise."""

_LONGEST_EXPONENT: Final = 400
_TRUE: Final = frozenset(("true", "1"))
_FALSE: Final = frozenset(("false", "0"))


def to_bool(value: Any) -> bool:
    """Return true or false: also for 0 and 1, bits, and the words as text.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, (int, float, Decimal)) and value in {0, 1}:
        return bool(value)
    if isinstance(value, (bytes, bytearray)):  # a bit, as some databases give it
        return any(value)
    word = str(value).strip().lower()
    if word in _TRUE | _FALSE:
        return word in _TRUE
    raise ValueError("neither true nor false")


def to_int(value: Any) -> int:
    """Return a whole number.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    number = _number(value)
    if not number.is_finite() or number.adjusted() > _LONGEST_EXPONENT:
        raise ValueError("no whole number")
    whole = int(number)
    if whole != number:
        raise ValueError("no whole number")
    return whole


def to_double(value: Any) -> float:
    """Return the double next to a number; NaN and the infinities pass.

    Raises:
        ValueError: it is no number, or beyond all doubles.
    """
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str) and _NO_NUMBER.fullmatch(value.strip()):
        return float(value)
    found = float(_number(value))
    if math.isinf(found) and not (isinstance(value, Decimal) and value.is_infinite()):
        raise ValueError("beyond all doubles")
    return found


def make_decimal_encoder(precision: int, scale: int) -> Callable[[Any], str]:
    """Return what writes a number plainly, with no more digits than a column has.

    A double whose last digits do not fit is taken by the fifteen that it surely has. The
    function raises ValueError for what is no number or has more digits.
    """
    context = Context(prec=precision + 1, traps=[])
    step, limit = Decimal(1).scaleb(-scale), Decimal(10) ** (precision - scale)

    def fitting(number: Decimal) -> Decimal | None:
        if not number.is_finite() or number.copy_abs() >= limit:
            return None
        context.clear_flags()
        rounded = number.quantize(step, context=context)
        return None if context.flags[Inexact] or context.flags[InvalidOperation] else rounded

    def read(value: Any) -> str:
        number = _number(value)
        found = fitting(number)
        if found is None and isinstance(value, float) and math.isfinite(value):
            found = fitting(Decimal(format(value, f".{_DIGITS_OF_A_DOUBLE}g")))
        if found is None:
            raise ValueError("more digits than the column has")
        return format(found or abs(found), "f")

    return read


def _number(value: Any) -> Decimal:
    if isinstance(value, bool):
        raise ValueError("no number")  # noqa: TRY004  what is wrong is the value
    if isinstance(value, float):
        return Decimal(repr(float(value)))
    if isinstance(value, (int, Decimal)):
        return Decimal(value)
    text = str(value).strip()  # also of numbers that other packages have types for
    if not _NUMBER.fullmatch(text):
        raise ValueError("no number")
    return Decimal(text)


def to_bytes(value: Any) -> bytes:
    """Return bytes, or those that a text in base64 stands for.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if not isinstance(value, str):
        raise ValueError("no bytes")  # noqa: TRY004  the same
    try:
        return base64.b64decode(_BLANKS.sub("", value), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("no base64") from None


def to_text(value: Any) -> bytes | None:
    """Return a text, or the text that a value has in JSON."""
    if isinstance(value, str):
        return utf8(value)
    plain = to_json_compatible(conform_primitive(value, {}))
    if plain is None:
        return None
    return utf8(plain) if isinstance(plain, str) else _encode(plain)


def utf8(text: str) -> bytes:
    """Return a text's bytes; half of a letter becomes a question mark."""
    return str.encode(text, "utf-8", "replace")


def make_json_encoder(
    name: str, definition: JsonSchema, level: TypeConformanceLevel, unmapped: UnmappedCallback
) -> Callable[[Any], bytes | None]:
    """Return what writes the values of a property as JSON, conformed to its schema.

    Numbers keep all of their digits. ``unmapped`` is told of properties that nobody declares.
    """
    is_fine = make_value_check(definition, level)
    conform = compile_conformer({"properties": {name: definition}}, level, unmapped)

    def write(value: Any) -> bytes | None:
        if is_fine(value):
            try:
                text = _encode(value)
            except ENCODING_ERRORS:
                text = _encode(to_json_compatible(value))
        else:
            text = _encode(to_json_compatible(conform({name: value})[name]))
        return None if text == b"null" else text

    return write
