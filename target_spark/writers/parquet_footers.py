"""Row counts and column bounds from the footers of Parquet files, for checks and the Delta log.

Readers of a Delta table skip files by the bounds (minimum and maximum) of their columns. The bounds
come from the file's footer, so no row is read again. The bounds may be wider than the values, but
never narrower: long strings are truncated, and timestamps are rounded to milliseconds.
Binary columns and nested fields have no bounds. deltalake's filters find no rows if another column
has none. Floating-point bounds ignore NaN, which Spark sorts as the largest value, but the target
writes no NaN. Source: the Delta protocol, "Per-file Statistics".
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec

__all__ = ["INDEXED_COLUMNS", "delta_statistics", "describe_file_fault", "row_count"]

INDEXED_COLUMNS: Final = 32
"""Number of leading columns, nested fields included, for which Delta stores minimum and maximum per
file, unless a table property says otherwise."""

_LONGEST_STRING: Final = 32
"""Maximum number of characters of a string in the column bounds; longer strings are truncated."""

_LAST_CHARACTER: Final = "\U0010ffff"
"""The greatest Unicode character. Appended to a truncated string, it gives an upper bound."""

_MILLISECOND: Final = timedelta(milliseconds=1)
_LAST_MILLISECOND: Final = datetime(9999, 12, 31, 23, 59, 59, 999_000, timezone.utc)
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


def row_count(file: Path) -> int:
    """Return the number of rows in a Parquet file, read from its footer."""
    import pyarrow.parquet as pq

    return int(pq.read_metadata(file).num_rows)


def describe_file_fault(file: Path, size: int, rows: int | None) -> str:
    """Return a phrase about a missing file, a wrong size or a wrong row count; "" if all is right.

    An example is ``has 10 bytes instead of 12``.

    Args:
        file: The file.
        size: The expected size in bytes.
        rows: The expected number of rows, or None to skip this check. It is checked only for
            Parquet files.
    """
    try:
        actual_size = file.stat().st_size
    except FileNotFoundError:
        return "is missing"
    if actual_size != size:
        return f"has {actual_size} bytes instead of {size}"
    if rows is None or file.suffix != ".parquet" or (actual_rows := row_count(file)) == rows:
        return ""
    return f"has {actual_rows} rows instead of {rows}"


def delta_statistics(file: Path) -> str:
    """Return a Parquet file's statistics as JSON for Delta's log.

    The JSON has the number of rows and, for each supported column, the number of nulls, the minimum
    and the maximum.
    """
    import pyarrow.parquet as pq

    footer = pq.read_metadata(file)
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for number in range(min(INDEXED_COLUMNS, footer.num_columns)):
        column = footer.schema.column(number)
        if column.path != column.name or column.max_repetition_level:
            continue
        chunks = [
            footer.row_group(group).column(number).statistics
            for group in range(footer.num_row_groups)
        ]
        if not all(chunk is not None and chunk.has_null_count for chunk in chunks):
            continue
        nulls[column.name] = sum(chunk.null_count for chunk in chunks)
        bounds = _get_column_bounds(chunks)
        if bounds is not None:
            least[column.name], greatest[column.name] = bounds
    statistics = {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest}
    return _encode({**statistics, "nullCount": nulls}).decode()


def _get_column_bounds(chunks: list[Any]) -> tuple[Any, Any] | None:
    """Return the smallest and largest value of a column as JSON values, or None if unknown.

    ``chunks`` are Parquet's statistics of the column, one for each row group of the file.
    """
    nonempty = [chunk for chunk in chunks if chunk.has_min_max or chunk.num_values]
    if not nonempty or not all(chunk.has_min_max for chunk in nonempty):
        return None
    try:
        least, greatest = min(chunk.min for chunk in nonempty), max(chunk.max for chunk in nonempty)
        return _to_lower_bound(least), _to_upper_bound(greatest)
    except (OverflowError, UnicodeDecodeError, _UnboundedError):
        return None


class _UnboundedError(ValueError):
    """Error for a value whose bounds are not written to Delta's log, such as binary data."""


def _to_lower_bound(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST_STRING]
    return _format_timestamp(value) if isinstance(value, datetime) else _to_json_value(value)


def _to_upper_bound(value: Any) -> Any:
    if isinstance(value, str):
        if len(value) <= _LONGEST_STRING:
            return value
        if value[_LONGEST_STRING] == _LAST_CHARACTER:
            raise _UnboundedError
        return value[:_LONGEST_STRING] + _LAST_CHARACTER
    if isinstance(value, datetime):
        if value.replace(tzinfo=timezone.utc) > _LAST_MILLISECOND:
            return _format_timestamp(value, "microseconds")
        return _format_timestamp(value + _MILLISECOND if value.microsecond % 1000 else value)
    return _to_json_value(value)


def _to_json_value(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        raise _UnboundedError
    return value


def _format_timestamp(value: datetime, precision: str = "milliseconds") -> str:
    if value.tzinfo is None:
        raise _UnboundedError
    return value.astimezone(timezone.utc).isoformat(timespec=precision).replace("+00:00", "Z")
