"""Checks of a Parquet file's metadata that detect decompression bombs before decoding.

A page may decompress to a thousand times its size, and dictionary encoding may repeat a value any
number of times. The checks compare the decoded with the compressed sizes of columns.
Source: the Apache Parquet format, "Column chunks" and "Dictionary encoding".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from tap_core.limits.memory import Bound, InputTooLargeError, format_size

__all__ = [
    "check_parquet",
    "find_repeating_columns",
    "find_text_columns",
    "get_batch_rows",
    "get_max_copied_bytes",
    "iterate_column_chunks",
]

_RATIO: Final = 100
"""Compression ratio above which a column is rejected as malicious."""

_VALUE_BYTES: Final = 8
"""Estimated memory of one value, in bytes."""

_BYTE_ARRAY: Final = "BYTE_ARRAY"
_FIXED_BYTE_ARRAY: Final = "FIXED_LEN_BYTE_ARRAY"
_SMALL_DICTIONARY_BYTES: Final = 1 << 20
_MEMORY_FACTOR: Final = 7
"""Factor on the limit of a cell, for the texts in lists: a reader keeps these in memory."""

_COPIES: Final = 64
"""Factor on the limit of a cell, for texts that a reader copies but does not keep in memory."""


def check_parquet(metadata: Any, bound: Bound) -> None:
    """Check that no column of a Parquet file would become far larger when it is decoded.

    Args:
        metadata: Metadata of the file (pyarrow).
        bound: Maximum size of a cell, and the name of the setting for this limit.

    Raises:
        InputTooLargeError: The decoded size of a column exceeds the limit and is far larger than
            its compressed size, or the column's dictionary exceeds the limit.
    """
    for group, column in iterate_column_chunks(metadata):
        size = max(column.total_compressed_size, 1)
        in_lists = max(column.num_values - group.num_rows, 0)  # values beyond one per row
        plain = max(column.total_uncompressed_size, in_lists * _VALUE_BYTES)
        texts = in_lists * column.total_uncompressed_size if _is_text(column) else 0
        is_too_large = plain > bound.most and plain > _RATIO * size
        repeats_texts = texts > _MEMORY_FACTOR * bound.most and in_lists * 4 > _RATIO * size
        if is_too_large or repeats_texts or _get_dictionary_size(column) > bound.most:
            raise InputTooLargeError(
                f"column {column.path_in_schema!r} unpacks {format_size(size)} to more than"
                f" {format_size(bound.most)} at once; raise {bound.setting} to read it"
            )


def iterate_column_chunks(metadata: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a (row group metadata, column chunk metadata) pair for each column chunk of a file.

    ``metadata`` is the metadata of a Parquet file, as pyarrow reads it from the footer.
    """
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            yield group, column


def get_batch_rows(metadata: Any, default: int) -> int:
    """Return the number of rows of a Parquet file that a reader should decode at once.

    ``metadata`` is the file's ``pyarrow.parquet.FileMetaData``. The result is 1 if the file may
    repeat a long value, because each copy takes memory. Otherwise it is ``default``.
    """
    columns = (column for _, column in iterate_column_chunks(metadata))
    return 1 if any(map(_repeats_long_values, columns)) else default


def find_text_columns(metadata: Any) -> list[str]:
    """Return the paths of a Parquet file's string columns that are neither nested nor lists.

    pyarrow can read these columns dictionary-encoded, so that a repeated text is in memory once.
    """
    schema = metadata.schema
    columns = [schema.column(n) for n in range(metadata.num_columns)]
    return [
        column.path
        for column in columns
        if column.physical_type == _BYTE_ARRAY
        and "." not in column.path
        and not column.max_repetition_level
    ]


def get_max_copied_bytes(size: int, bound: Bound) -> int:
    """Return the maximum size of all texts of a Parquet column in bytes, each copy counted.

    This limit applies to readers that copy a text each time it occurs. It is the larger of two
    values: 64 times the maximum size of a cell (``bound``), and 100 times the file's ``size`` in
    bytes.
    """
    return max(_COPIES * bound.most, _RATIO * size)


def find_repeating_columns(metadata: Any, limit: int) -> list[str]:
    """Return the paths of Parquet columns whose texts may have more than ``limit`` bytes.

    A text that occurs several times counts each time. The size is estimated from ``metadata``, the
    metadata of a Parquet file.
    """
    totals: dict[str, int] = defaultdict(int)
    for _, column in iterate_column_chunks(metadata):
        if column.has_dictionary_page and column.physical_type == _BYTE_ARRAY:
            values = column.num_values * column.total_uncompressed_size
            totals[column.path_in_schema] += values
    return [path for path, total in totals.items() if total > limit]


def _repeats_long_values(column: Any) -> bool:
    """Return True if a Parquet column chunk may repeat a long text in many rows.

    A reader would copy the text for each row.
    """
    is_flat_text = column.physical_type == _BYTE_ARRAY and "." not in column.path_in_schema
    return (
        column.has_dictionary_page
        and not is_flat_text
        and _is_text(column)
        and column.total_uncompressed_size > _SMALL_DICTIONARY_BYTES
        and column.total_uncompressed_size > _RATIO * max(column.total_compressed_size, 1)
    )


def _is_text(column: Any) -> bool:
    return column.physical_type in {_BYTE_ARRAY, _FIXED_BYTE_ARRAY}


def _get_dictionary_size(column: Any) -> int:
    """Return the compressed size of a Parquet column chunk's dictionary in bytes; 0 without one."""
    if not column.has_dictionary_page or not column.dictionary_page_offset:
        return 0
    return max(0, int(column.data_page_offset - column.dictionary_page_offset))
