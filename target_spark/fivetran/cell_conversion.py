"""Exact conversion of the text cells of Fivetran's batch files to Arrow arrays, column by column.

A text that is not a valid value of its column's type is an error; it is never rounded or replaced.
The only exceptions are digits after microseconds, which are dropped because Spark has no smaller
unit, and the largest FLOAT, which Fivetran writes rounded. An error never contains a cell's text.

Source: Fivetran's Partner SDK development guide, "Examples of data types".
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tap_core.protocols.fivetran.enums import DataType
from target_spark.fivetran.table_schema import DestinationColumn

__all__ = ["CellConversionError", "arrow_type", "convert_column", "find_first_failure"]


class CellConversionError(Exception):
    """Error for the text of a cell that is not a valid value of its column's type.

    Attributes:
        row: Index of the cell in the array of texts, from 0.
        reason: The reason as the end of a sentence, such as "is not base64".
    """

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


_UTC_TIMESTAMP: Final = pa.timestamp("us", "UTC")
_TYPES: Final[Mapping[DataType, Any]] = {
    DataType.BOOLEAN: pa.bool_(),
    DataType.SHORT: pa.int16(),
    DataType.INT: pa.int32(),
    DataType.LONG: pa.int64(),
    DataType.FLOAT: pa.float32(),
    DataType.DOUBLE: pa.float64(),
    DataType.NAIVE_DATE: pa.date32(),
    DataType.NAIVE_DATETIME: pa.timestamp("us"),
    DataType.UTC_DATETIME: _UTC_TIMESTAMP,
    DataType.BINARY: pa.binary(),
}
"""Arrow type for each Fivetran type. Types that are missing here are read as text. DECIMAL is an
exception: its precision and scale belong to the column."""


def arrow_type(column: DestinationColumn) -> Any:
    """Return the Arrow type for the values of a Fivetran column.

    For STRING, NAIVE_TIME, XML and JSON this is ``pa.string()``.
    """
    if column.type is DataType.DECIMAL:
        return pa.decimal128(*column.digits)
    return _TYPES.get(column.type, pa.string())


def convert_column(column: DestinationColumn, texts: Any) -> Any:
    """Convert a column of a batch file from texts to an Arrow array of its type. Nulls stay null.

    Raises:
        CellConversionError: A text is not a valid value of the type.
    """
    convert = _CONVERTERS.get(column.type)
    if convert is None:
        return texts
    try:
        return convert(texts, column)
    except ValueError:
        row = find_first_failure(texts, lambda part: convert(part, column))
    reason = _REASONS.get(column.type) or _explain_decimal(column)
    raise CellConversionError(row, reason)


def find_first_failure(values: Any, function: Callable[[Any], Any]) -> int:
    """Find the first array value that makes a function fail, by binary search; return its index.

    Args:
        values: An Arrow array that makes the function fail.
        function: Function that is called with slices of the array. It raises ValueError if it
            fails.
    """
    start, length = 0, len(values)
    while length > 1:
        half = length // 2
        try:
            function(values.slice(start, half))
        except ValueError:
            length = half
        else:
            start, length = start + half, length - half
    return start


# ------------------------------------------------------------- booleans and integers


def _parse_booleans(texts: Any, _column: DestinationColumn) -> Any:
    for spelled in (texts, pc.ascii_lower(texts)):
        values = pc.equal(spelled, "true")
        if _all_true(pc.or_(values, pc.equal(spelled, "false"))):
            return values
    raise ValueError


def _parse_integers(texts: Any, column: DestinationColumn) -> Any:
    values = texts.cast(_TYPES[column.type])
    if _contain_letter(texts, "x"):  # Arrow accepts 0x10
        raise ValueError
    return values


def _contain_letter(texts: Any, letter: str) -> bool:
    """Return True if a text in an Arrow array contains a letter, ignoring case.

    ``letter`` is in lower case.
    """
    data = texts.buffers()[2]  # the bytes of all texts; of a slice, also of other texts
    if data is None or letter.encode() not in data.to_pybytes().lower():
        return False
    return bool(pc.any(pc.match_substring(texts, letter, ignore_case=True)).as_py())


def _all_true(conditions: Any) -> bool:
    """Return True if all booleans of an Arrow array are true; nulls are ignored."""
    return pc.all(conditions).as_py() is not False


# ------------------------------------------------------------------ numbers with a point

_DECIMAL_TEXT: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_MAX_DIGITS: Final = 38
"""Maximum digits of an Arrow decimal."""

_LARGEST_FLOAT: Final = 3.4028234663852886e38
_LARGEST_WRITTEN_FLOAT: Final = 3.4028237e38
"""The largest FLOAT, rounded up as in Fivetran's guide."""


def _parse_decimals(texts: Any, column: DestinationColumn) -> Any:
    type_ = arrow_type(column)
    if _are_exact_in_arrow(texts, *column.digits):
        return texts.cast(type_)
    return pa.array([_parse_decimal(text, *column.digits) for text in texts.to_pylist()], type_)


def _are_exact_in_arrow(texts: Any, precision: int, scale: int) -> bool:
    """Return True if Arrow's decimal parser is exact for an array of texts.

    The parser may return a wrong number, without an error, for a text that has an exponent, more
    than 38 digits, or more digits before the decimal point than ``precision - scale``.
    """
    if _contain_letter(texts, "e"):
        return False
    if (pc.max(pc.binary_length(texts)).as_py() or 0) <= precision - scale:
        return True
    texts = pc.ascii_ltrim(texts, characters="+-")
    lengths, points = pc.binary_length(texts), pc.find_substring(texts, ".")
    has_point = pc.greater_equal(points, 0)
    before_point = pc.if_else(has_point, points, lengths)
    digits = pc.subtract(lengths, has_point.cast(pa.int32()))
    are_few = pc.and_(
        pc.less_equal(before_point, precision - scale), pc.less_equal(digits, _MAX_DIGITS)
    )
    return _all_true(are_few)


def _parse_decimal(text: str | None, precision: int, scale: int) -> Decimal | None:
    if text is None:
        return None
    if _DECIMAL_TEXT.fullmatch(text) is None:
        raise ValueError
    exactly = Context(prec=precision, traps=[Inexact, InvalidOperation])
    try:
        return Decimal(text).quantize(Decimal(1).scaleb(-scale), context=exactly)
    except (Inexact, InvalidOperation):
        raise ValueError from None


def _explain_decimal(column: DestinationColumn) -> str:
    precision, scale = column.digits
    return f"is not a DECIMAL of {precision} digits, {scale} of them after the point"


def _parse_floats(texts: Any, column: DestinationColumn) -> Any:
    values = texts.cast(_TYPES[column.type])
    is_infinite = pc.is_inf(values)
    if not pc.any(is_infinite).as_py():
        return values
    is_infinity_text = pc.match_substring_regex(texts, r"(?i)^[+-]?inf")
    overflown = pc.and_not(is_infinite, is_infinity_text)
    if not pc.any(overflown).as_py():
        return values
    return _replace_infinite_floats(texts, values, overflown)


def _replace_infinite_floats(texts: Any, values: Any, overflown: Any) -> Any:
    """Replace infinity by the largest FLOAT, in rows whose text is a finite number.

    Fivetran writes the largest FLOAT rounded up, as 3.4028237e38, which Arrow parses as infinity.
    The same applies to negative numbers. ``overflown`` is a boolean array that is true in the rows
    to change.

    Raises:
        ValueError: A number is larger than 3.4028237e38, or the values are not FLOAT.
    """
    size = pc.abs(texts.filter(overflown).cast(pa.float64()))
    if values.type != pa.float32() or not _all_true(pc.less_equal(size, _LARGEST_WRITTEN_FLOAT)):
        raise ValueError
    largest = pc.multiply(pc.sign(values), pa.scalar(_LARGEST_FLOAT, pa.float32()))
    return pc.if_else(overflown, largest, values)


# -------------------------------------------------------------------- dates and instants

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_MICROSECOND, _LAST_MICROSECOND = -62_135_596_800_000_000, 253_402_300_799_999_999
"""First and last microsecond of the years 0001 to 9999, counted from 1970."""

_MICROSECONDS_LENGTH: Final = len("2024-01-08T18:52:07.754685")
_WITH_ZONE: Final = r":.*(?:Z|[+-]\d\d(?::?\d\d)?)$"
_TIME_OF_DAY: Final = r"^(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?$"


def _parse_dates(texts: Any, _column: DestinationColumn) -> Any:
    return _check_range(texts.cast(pa.date32()), pa.int32(), _FIRST_DAY, _LAST_DAY)


def _parse_naive_datetimes(texts: Any, _column: DestinationColumn) -> Any:
    values = _truncate_to_micros(texts).cast(pa.timestamp("us"))
    return _check_range(values, pa.int64(), _FIRST_MICROSECOND, _LAST_MICROSECOND)


def _parse_instants(texts: Any, column: DestinationColumn) -> Any:
    if _all_true(pc.ends_with(texts, "Z")):
        return _parse_naive_datetimes(_slice_bytes(texts, -1), column).view(_UTC_TIMESTAMP)
    texts = pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1")
    is_zoned = pc.match_substring_regex(texts, _WITH_ZONE)
    zoned = pc.if_else(is_zoned, texts, pc.binary_join_element_wise(texts, "Z", ""))
    return _check_range(
        zoned.cast(_UTC_TIMESTAMP), pa.int64(), _FIRST_MICROSECOND, _LAST_MICROSECOND
    )


def _truncate_to_micros(texts: Any) -> Any:
    """Remove the digits after the microseconds: ``….1234567`` -> ``….123456``.

    Raises:
        ValueError: A text has other characters than digits after the microseconds.
    """
    if (pc.max(pc.binary_length(texts)).as_py() or 0) <= _MICROSECONDS_LENGTH:
        return texts
    without_last_digits = pc.ascii_rtrim(texts, characters="0123456789")
    if not _all_true(pc.less_equal(pc.binary_length(without_last_digits), _MICROSECONDS_LENGTH)):
        raise ValueError
    return _slice_bytes(texts, _MICROSECONDS_LENGTH)


def _slice_bytes(texts: Any, end: int) -> Any:
    """Return the slice ``[0:end]`` of the bytes of each text in an Arrow array.

    If a text is cut inside a non-ASCII character, an error is raised.
    """
    return pc.binary_slice(texts.cast(pa.binary()), 0, end).cast(pa.string())


def _check_range(values: Any, as_number: Any, first: int, last: int) -> Any:
    """Return ``values``, an array of dates or timestamps, if all are within bounds.

    The bounds ``first`` and ``last`` are integers; the values are read as the Arrow integer type
    ``as_number``.

    Raises:
        ValueError: A value is out of bounds.
    """
    bounds = pc.min_max(values.view(as_number)).as_py()
    if bounds["min"] is not None and not first <= bounds["min"] <= bounds["max"] <= last:
        raise ValueError
    return values


def _check_times(texts: Any, _column: DestinationColumn) -> Any:
    if not _all_true(pc.match_substring_regex(texts, _TIME_OF_DAY)):
        raise ValueError
    return texts


# ------------------------------------------------------------------------------- bytes

_BASE64: Final = r"^[A-Za-z0-9+/]*={0,2}$"


def _decode_base64(texts: Any, _column: DestinationColumn) -> Any:
    if not _all_true(pc.match_substring_regex(texts, _BASE64)):
        raise ValueError
    cells = [text if text is None else _decode_base64_text(text) for text in texts.to_pylist()]
    return pa.array(cells, pa.binary())


def _decode_base64_text(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text)
    except binascii.Error:  # the padding is missing
        return binascii.a2b_base64(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))


_CONVERTERS: Final[Mapping[DataType, Callable[[Any, DestinationColumn], Any]]] = {
    DataType.BOOLEAN: _parse_booleans,
    DataType.SHORT: _parse_integers,
    DataType.INT: _parse_integers,
    DataType.LONG: _parse_integers,
    DataType.DECIMAL: _parse_decimals,
    DataType.FLOAT: _parse_floats,
    DataType.DOUBLE: _parse_floats,
    DataType.NAIVE_DATE: _parse_dates,
    DataType.NAIVE_DATETIME: _parse_naive_datetimes,
    DataType.UTC_DATETIME: _parse_instants,
    DataType.BINARY: _decode_base64,
    DataType.NAIVE_TIME: _check_times,
}
"""Functions that convert an array of texts to values, or check the texts, by Fivetran type.

Each raises ValueError, like Arrow, if a text is not a valid value of the type.
"""

_REASONS: Final[Mapping[DataType, str]] = {
    DataType.BOOLEAN: "is neither true nor false",
    DataType.SHORT: "is not a SHORT (16 bits)",
    DataType.INT: "is not an INT (32 bits)",
    DataType.LONG: "is not a LONG (64 bits)",
    DataType.FLOAT: "is not a FLOAT",
    DataType.DOUBLE: "is not a DOUBLE",
    DataType.NAIVE_DATE: "is not a date of the years 0001 to 9999",
    DataType.NAIVE_DATETIME: "is not a date-time without a zone of the years 0001 to 9999",
    DataType.UTC_DATETIME: "is not a timestamp of the years 0001 to 9999",
    DataType.BINARY: "is not base64",
    DataType.NAIVE_TIME: "is not a time of day",
}
