"""Limit on the page size of Parquet files, because readers decompress each page as a whole.

The footer of a file has the sizes of its columns. The size of a page is only in the page's header.
Source: the Apache Parquet format, "Data Pages" and "PageHeader"; Apache Thrift, "Compact protocol".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, Final

from tap_core.batch.parquet_limits import iterate_column_chunks
from tap_core.limits.memory import MIB, Bound, InputTooLargeError, format_size
from tap_core.parsing.varint_decoding import read_varint

__all__ = ["check_pages"]

_PAGE_FACTOR: Final = 32
"""Maximum size of a page, as a multiple of the maximum size of a cell.

Some writers use pages of 100 MB.
"""

_MAX_PAGE_BYTES: Final = 512 * MIB

_MAX_PAGES: Final = 1_000_000
"""Maximum number of pages per file; reading their headers takes about 20 seconds."""

_UNCOMPRESSED, _COMPRESSED = 2, 3
"""Thrift field numbers of a page's sizes in its header, uncompressed and compressed."""

# Type codes of Thrift's compact protocol. A page header contains no maps.
_STOP: Final = 0
_TRUE: Final = 1
_FALSE: Final = 2
_BYTE: Final = 3
_NUMBERS: Final = frozenset({4, 5, 6})
_DOUBLE: Final = 7
_BYTES: Final = 8
_LISTS: Final = frozenset({9, 10})
_STRUCT: Final = 12

_LONG_LIST: Final = 15
_MAX_DEPTH: Final = 8
"""Maximum nesting depth of a page header; in ordinary headers the depth is 3."""

_HEADER_BYTES: Final = 1 << 12
_MAX_HEADER_BYTES: Final = 1 << 22


def check_pages(
    file: IO[bytes], metadata: Any, bound: Bound, *, trusts_footer: bool = False
) -> None:
    """Check the decompressed size of each page of a Parquet file.

    The limit is 32 times the maximum size of a cell, or 512 MiB if that is less. If cells may be
    larger than 64 MiB, the limit is 8 times their maximum size.

    Args:
        file: The open file.
        metadata: Metadata of the file (pyarrow).
        bound: Maximum size of a cell, and the name of the setting for this limit.
        trusts_footer: True to skip columns that are small according to the file's footer; False to
            check the pages of all columns.

    Raises:
        InputTooLargeError: A page is too large, or the file has too many pages.
        ValueError: A page header cannot be parsed.
    """
    limit = min(_PAGE_FACTOR * bound.most, max(_MAX_PAGE_BYTES, 8 * bound.most))
    count = 0
    for _, column in iterate_column_chunks(metadata):
        is_small = trusts_footer and column.total_uncompressed_size <= limit
        if is_small or not column.num_values:  # without values there may be no page
            continue
        for size in _iterate_page_sizes(file, column):
            count += 1
            if count > _MAX_PAGES:
                raise InputTooLargeError(
                    f"it has more than {_MAX_PAGES:,} pages; let the writer make larger ones"
                )
            if size > limit:
                raise InputTooLargeError(
                    f"column {column.path_in_schema!r} has a page that unpacks to"
                    f" {size:,} bytes, more than {format_size(limit)}; raise {bound.setting} to"
                    " read it, or let the writer make smaller pages"
                )


def _iterate_page_sizes(file: IO[bytes], column: Any) -> Iterator[int]:
    """Yield the decompressed size in bytes of each page of a Parquet column chunk."""
    start = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        start = min(start, column.dictionary_page_offset)
    end = start + column.total_compressed_size
    while start < end:
        length, sizes = _read_header(file, start, end, column.path_in_schema)
        yield sizes[_UNCOMPRESSED]
        start += length + sizes[_COMPRESSED]


def _read_header(file: IO[bytes], start: int, end: int, name: str) -> tuple[int, dict[int, int]]:
    """Read the header of a page at byte ``start`` of a Parquet file.

    Args:
        file: The open file.
        start: Position of the header.
        end: Position after the last page of the column.
        name: Path of the column, for the error message.

    Returns:
        The length of the header, and a dict of the page's sizes in bytes. Its keys are the Thrift
        field numbers of the compressed and the decompressed size.

    Raises:
        ValueError: The header cannot be parsed.
    """
    length = _HEADER_BYTES
    while True:
        file.seek(start)
        data = file.read(min(length, end - start))
        try:
            header = _Header(data)
            header.skip_struct(1)
        except IndexError:  # the header is longer than the data, for example with long statistics
            if len(data) < length or length > _MAX_HEADER_BYTES:
                break
            length *= 4
            continue
        except ValueError:
            break
        sizes = header.sizes
        if {_UNCOMPRESSED, _COMPRESSED} <= sizes.keys() and min(sizes.values()) >= 0:
            return header.position, sizes
        break
    raise ValueError(f"column {name!r} has a page header at byte {start:,} that cannot be read")


class _Header:
    """Parser of a Parquet page header, which is a struct in Thrift's compact protocol.

    Only the page's sizes are needed. ``sizes`` contains them by Thrift field number; all other
    fields are skipped. ``position`` is the offset of the next byte to read.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0
        self.sizes: dict[int, int] = {}

    def skip_struct(self, depth: int) -> None:
        """Skip a Thrift struct; in the page header itself (depth 1), store the page's sizes."""
        if depth > _MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        field = 0
        while (head := self._read_byte()) != _STOP:
            distance, kind = head >> 4, head & 15
            field = field + distance if distance else self._read_signed()
            if depth == 1 and field in {_UNCOMPRESSED, _COMPRESSED} and kind in _NUMBERS:
                self.sizes[field] = self._read_signed()
            else:
                self._skip(kind, depth)

    def _skip(self, kind: int, depth: int, *, in_list: bool = False) -> None:
        """Skip a Thrift value.

        Args:
            kind: Type code of the value.
            depth: Nesting depth of the struct that contains the value; 1 is the page header.
            in_list: True for an item of a list, because a boolean has another length there.

        Raises:
            IndexError: The value continues after the end of the data.
        """
        if kind == _STRUCT:
            self.skip_struct(depth + 1)
        elif kind in _LISTS:
            self._skip_list(depth)
        elif kind in _NUMBERS:
            self._read_unsigned()
        else:
            length = (
                self._read_unsigned()
                if kind == _BYTES
                else _get_fixed_length(kind, in_list=in_list)
            )
            self.position += length
        if self.position > len(self._data):
            raise IndexError

    def _skip_list(self, depth: int) -> None:
        """Skip a Thrift list, with all its items, in a struct at nesting depth ``depth``."""
        head = self._read_byte()
        count, kind = head >> 4, head & 15
        for _ in range(self._read_unsigned() if count == _LONG_LIST else count):
            self._skip(kind, depth, in_list=True)

    def _read_byte(self) -> int:
        self.position += 1
        return self._data[self.position - 1]

    def _read_unsigned(self) -> int:
        """Read an unsigned integer (varint) from the page header and return it."""
        number, self.position = read_varint(self._data, self.position)
        return number

    def _read_signed(self) -> int:
        """Read a signed integer (zigzag varint) from the page header and return it."""
        number = self._read_unsigned()
        return (number >> 1) ^ -(number & 1)


def _get_fixed_length(kind: int, *, in_list: bool) -> int:
    """Return the length in bytes of a value whose Thrift type code ``kind`` has a fixed length.

    A boolean takes one byte in a list (``in_list``) and no byte elsewhere.

    Raises:
        ValueError: No type with a fixed length has this code.
    """
    lengths = {_TRUE: int(in_list), _FALSE: int(in_list), _BYTE: 1, _DOUBLE: 8}
    if kind not in lengths:
        raise ValueError(f"there is no Thrift type with the code {kind}")
    return lengths[kind]
