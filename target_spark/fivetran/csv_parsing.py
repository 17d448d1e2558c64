"""CSV parser for Fivetran's batch files, which returns each column as an Arrow array of texts.

Format: Quotes in a cell are doubled, a backslash has no special meaning, and cells may contain line
breaks. The header defines the order of the columns. A cell with the NULL text is NULL, quoted or
not. If the NULL text is empty, an empty cell is NULL and a quoted empty cell is an empty string.

Errors name a row by its number (1 is the first after the header) and a column by its name in the
table. They contain no text of the file, because even its first line may be data.

Source: Fivetran's Partner SDK development guide, "Batch files", and observed files.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as arrow_csv

from tap_core.config.similar_names import list_names
from target_spark.fivetran.batch_request import FileKind
from target_spark.fivetran.cell_conversion import find_first_failure
from target_spark.fivetran.table_schema import END, START, DestinationColumn, FivetranSchema

__all__ = ["FileFaultError", "check_columns", "key_columns", "read_columns", "read_header"]

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""UTF-8 byte order mark, which some programs write."""

_MAX_LISTED: Final = 5
"""Maximum number of columns that an error message lists."""


class FileFaultError(Exception):
    """Error for an invalid batch file. The message does not contain the name of the file.

    The message is the end of a sentence, such as "names a column twice: id". The caller catches the
    error and puts "The batch file <name>" before the message.
    """


def read_header(block: bytes) -> tuple[list[str], bytes]:
    """Parse the header of a batch file; return the column names and the rest of ``block``.

    Args:
        block: The start of the file, which must contain the whole header.

    Raises:
        FileFaultError: The header is not UTF-8 text.
    """
    end = _find_header_end(block)
    try:
        line = block[:end].removeprefix(_BYTE_ORDER_MARK).decode()
        return next(csv.reader([line], strict=True), []), block[end:]
    except (UnicodeDecodeError, csv.Error):
        raise FileFaultError(
            "has no header of UTF-8 text. The key belongs to another file, the file is damaged,"
            " or it is compressed or encrypted in another way"
        ) from None


def _find_header_end(block: bytes) -> int:
    """Return the offset after the first line break that is not inside a quoted cell."""
    end = block.find(b"\n") + 1
    while end and block.count(b'"', 0, end) % 2:
        end = block.find(b"\n", end) + 1
    return end or len(block)


def check_columns(names: Sequence[str], fivetran_schema: FivetranSchema, kind: FileKind) -> None:
    """Check that the names in a batch file's header match the columns of the table.

    Raises:
        FileFaultError: The header contains an unknown name, contains a name twice, or lacks a
            column that a file of this kind must have.
    """
    by_name, counts = fivetran_schema.by_name, Counter(names)
    if by_name.keys().isdisjoint(counts):
        raise FileFaultError(
            "has a header that names no column of the table, or has no header. The file belongs to"
            " another table, or the key belongs to another file"
        )
    if unknown := [str(position) for position, name in enumerate(names, 1) if name not in by_name]:
        positions = list_names(unknown, _MAX_LISTED)
        raise FileFaultError(f"has columns that the table does not have, at positions {positions}")
    if twice := [column.name for column in fivetran_schema.columns if counts[column.name] > 1]:
        raise FileFaultError(f"names a column twice: {list_names(twice, _MAX_LISTED)}")
    if missing := [
        column.name
        for column in _get_required_columns(fivetran_schema, kind)
        if not counts[column.name]
    ]:
        raise FileFaultError(
            f"lacks columns that the table has: {list_names(missing, _MAX_LISTED)}"
        )


def key_columns(fivetran_schema: FivetranSchema, kind: FileKind) -> tuple[DestinationColumn, ...]:
    """Return the columns that identify a row in batch files of the kind ``kind``.

    In history mode, they include the start time of a row version. A delete file lacks this column,
    because it always ends the current version.
    """
    keys, start = fivetran_schema.keys, fivetran_schema.by_name.get(START)
    if kind is FileKind.DELETE:
        return tuple(key for key in keys if key.name != START)
    if kind is FileKind.EARLIEST_START and start is not None and start not in keys:
        return (*keys, start)
    return keys


def _get_required_columns(
    fivetran_schema: FivetranSchema, kind: FileKind
) -> tuple[DestinationColumn, ...]:
    """Return the columns that every batch file of the kind ``kind`` must have."""
    if kind is FileKind.REPLACE:
        return fivetran_schema.columns
    end = fivetran_schema.by_name.get(END) if kind is FileKind.DELETE else None
    keys = key_columns(fivetran_schema, kind)
    return keys if end is None else (*keys, end)


def read_columns(block: bytes, count: int, null: str, rows_before: int) -> list[Any]:
    """Parse a block of a CSV file and return one Arrow array of texts per column.

    Args:
        block: Complete rows of the file, without the header.
        count: The number of columns in the header.
        null: The cell text that means NULL.
        rows_before: The number of rows before the block, for error messages.

    Raises:
        FileFaultError: A row has more or fewer cells than the header, or is not UTF-8.
    """
    uneven: list[int] = []

    def handle_uneven_row(row: Any) -> str:
        uneven.append(row.number)
        return "error"

    try:
        return _parse_columns(block, count, pa.string(), null, handle_uneven_row)
    except pa.ArrowInvalid:
        if uneven:
            raise FileFaultError(
                f"has another number of cells in row {rows_before + uneven[0]:,} than in its header"
            ) from None
    row = rows_before + 1 + _find_first_invalid_utf8(block, count, null)
    raise FileFaultError(f"is not UTF-8 in row {row:,}")


def _parse_columns(
    block: bytes,
    count: int,
    type_: pa.DataType,
    null: str,
    handle_uneven_row: Callable[[Any], str],
) -> list[Any]:
    """Parse a block of a CSV file and return its columns as Arrow arrays.

    Args:
        block: Complete rows of the file, without the header.
        count: The number of columns in the header.
        type_: The Arrow type of the arrays: string to reject invalid UTF-8, binary to accept it.
        null: The cell text that means NULL.
        handle_uneven_row: Function that is called for each row with more or fewer cells than the
            header. It returns "error" to fail or "skip" to skip the row.
    """
    if block.startswith(_BYTE_ORDER_MARK):
        block = _BYTE_ORDER_MARK + block  # Arrow removes one mark, but this one is in a cell
    names = [str(number) for number in range(count)]
    table = arrow_csv.read_csv(
        pa.BufferReader(block),
        arrow_csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
        arrow_csv.ParseOptions(
            newlines_in_values=True,
            ignore_empty_lines=count > 1,
            invalid_row_handler=handle_uneven_row,
        ),
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, type_),
            null_values=[null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=bool(null),
        ),
    )
    return [column.combine_chunks() for column in table.columns]


def _find_first_invalid_utf8(block: bytes, count: int, null: str) -> int:
    """Return the index of the first CSV row with invalid UTF-8.

    ``count`` is the number of columns in the header, and ``null`` the cell text that means NULL.

    Raises:
        FileFaultError: A row has more or fewer cells than the header.
    """
    try:
        cells = _parse_columns(block, count, pa.binary(), null, lambda _: "error")
    except pa.ArrowInvalid:  # its text would contain the row
        raise FileFaultError(
            "has a row with another number of cells than its header, which is not UTF-8 either"
        ) from None
    faulty = [array for array in cells if not _are_texts(array)]
    return min(find_first_failure(array, lambda part: part.cast(pa.string())) for array in faulty)


def _are_texts(array: Any) -> bool:
    try:
        array.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True
