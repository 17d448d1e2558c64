"""Limits on data that are read into memory at once, such as a document, a line or a CSV row.

Input above a limit raises an error before much more than the limit has been read. The values that
are decoded from accepted input take at most about eight times the limit.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

__all__ = [
    "DOCUMENT_BYTES",
    "MIB",
    "STATE_BYTES",
    "Bound",
    "InputTooLargeError",
    "RowBound",
    "format_size",
    "open_regular_file",
    "read_at_most",
]

MIB: Final = 1 << 20
_ALLOWED_COLUMNS: Final = 100
"""Number of columns that a CSV header may have with any limit."""
_COLUMN_BYTES: Final = 1024
"""Number of bytes of the limit for each column of a CSV header with more columns."""

DOCUMENT_BYTES: Final = 64 * MIB
"""Maximum size of a config, manifest or schema file, in bytes."""

STATE_BYTES: Final = 256 * MIB
"""Maximum size of a catalog or state file, in bytes; such files grow with the source."""

_BLOCK: Final = MIB
_LINE_WEIGHT: Final = 16
"""Bytes that each line counts in addition to its length, because reading a line takes time."""

_LARGEST_CELL: Final = (1 << 31) - 1
"""Largest value of a C long on all systems."""

_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MEMORY_FACTOR: Final = 7
"""Maximum memory of the values in a text, as a multiple of the limit."""
_UNCHECKED_SHARE: Final = 8
"""Divisor of a limit: texts up to an eighth of the limit may have any number of values."""

_VALUE_BYTES, _OBJECT_BYTES, _ARRAY_BYTES = 112, 288, 64
"""Sizes of Python objects in bytes: a Decimal (the largest scalar), a dict of one key, a list."""


class InputTooLargeError(ValueError):
    """Error raised if input exceeds a size limit."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Size limit for texts, with methods that read and check a text.

    Attributes:
        most: The limit in bytes.
        setting: Name of the setting that contains the limit, for error messages.
    """

    most: int
    setting: str

    def read(self, file: IO[bytes]) -> bytes:
        """Read a file completely; raise an error if it is longer than the limit.

        Raises:
            InputTooLargeError: The content is longer than the limit, or its values would take too
                much memory if parsed as JSON.
        """
        text = file.read(self.most + 1)
        while len(text) <= self.most and (more := file.read(self.most + 1 - len(text))):
            text += more
        self.check(text, "a document")
        return text

    def lines(self, file: IO[bytes]) -> Iterator[bytes]:
        """Yield the lines of a file; raise an error if one is longer than the limit.

        Raises:
            InputTooLargeError: A line is longer than the limit, or its values would take too much
                memory if parsed as JSON, or there are too many consecutive blank lines.
        """
        limit, blank = self.most, 0
        share = limit // _UNCHECKED_SHARE
        while line := file.readline(limit + 1):
            if len(line) > share:
                self.check(line, "a line")
            if len(line) < 3 and not line.strip():  # noqa: PLR2004  "\r\n"
                blank += _LINE_WEIGHT
                if blank > limit:
                    raise InputTooLargeError(
                        f"more than {limit // _LINE_WEIGHT:,} blank lines follow each other; raise"
                        f" {self.setting} to read it"
                    )
            else:
                blank = 0
            yield line

    def check(self, text: bytes | str, name: str) -> None:
        """Raise an error if a text is too long, or its parsed values would take too much memory.

        ``text`` is JSON or CSV, for example. ``name`` is the noun for the text in error messages,
        such as "a line".

        Raises:
            InputTooLargeError: The text is too long, or has too many values.
        """
        if len(text) > self.most:
            raise self.error(name)
        if len(text) > self.most // _UNCHECKED_SHARE:
            self.check_memory(len(text) + _estimate_memory(text), name)

    def check_memory(self, size: int, name: str) -> None:
        """Raise an error if decoded data would take more memory than seven times `most`.

        Args:
            size: Estimated memory in bytes.
            name: Noun for the data in error messages, such as "a row".

        Raises:
            InputTooLargeError: The data would take too much memory.
        """
        if size > _MEMORY_FACTOR * self.most:
            raise InputTooLargeError(
                f"{name} has too many values: it may take {size // MIB:,} MiB of memory,"
                f" more than {_MEMORY_FACTOR} times the {format_size(self.most)} of {self.setting};"
                " raise this setting to read it"
            )

    def check_columns(self, count: int) -> None:
        """Raise InputTooLargeError if a CSV header has more columns (``count``) than fit in memory.

        Even an empty row has a value for each column, so the limit of a row also limits the
        columns.
        """
        limit = max(_ALLOWED_COLUMNS, self.most // _COLUMN_BYTES)
        if count > limit:
            raise InputTooLargeError(
                f"its header has {count:,} columns, more than {limit:,}; raise {self.setting} to"
                " read it"
            )

    def error(self, name: str) -> InputTooLargeError:
        """Return the error for a text longer than the limit; ``name`` is "a line", for example."""
        return InputTooLargeError(
            f"{name} is longer than {format_size(self.most)}; raise {self.setting} to read it"
        )


class RowBound:
    """Iterator over the lines of a CSV file that limits the size of each row.

    The caller must call `next_row` after each row, because a row may have several lines: a quoted
    cell may contain line breaks. Creating an instance removes the limit of the module ``csv``,
    131,072 characters per cell, for the whole process.

    Raises:
        InputTooLargeError: A row is too long, or has too many values.
    """

    def __init__(self, bound: Bound, lines: IO[str], separator: str = ",") -> None:
        import csv

        csv.field_size_limit(_LARGEST_CELL)
        self._bound, self._separator = bound, separator
        self._read: Callable[[int], str] = lines.readline
        self._share = bound.most // _UNCHECKED_SHARE
        self._size = self._weight = 0

    def next_row(self) -> None:
        """Start a new row: the next line does not count as a part of the previous row."""
        self._size = self._weight = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._read(self._bound.most + 1)
        if not line:
            raise StopIteration
        self._size += len(line) + _LINE_WEIGHT
        if self._size > self._share:
            self._check(line)
        return line

    def _check(self, line: str) -> None:
        bound = self._bound
        if self._size > bound.most:
            raise bound.error("a row")
        self._weight += _estimate_memory(line, self._separator)
        bound.check_memory(self._size + self._weight, "a row")


def _estimate_memory(text: bytes | str, separator: str = ",") -> int:
    """Return an upper bound for the memory of the values that are parsed from a text, in bytes.

    The bound is estimated from the number of separators and brackets. It does not include the
    characters of the text.
    """
    count: Any = text.count
    as_text_type: Any = str.encode if isinstance(text, bytes) else str
    return int(
        count(as_text_type(separator)) * _VALUE_BYTES
        + count(as_text_type("{")) * _OBJECT_BYTES
        + count(as_text_type("[")) * _ARRAY_BYTES
    )


def format_size(size: int) -> str:
    """Convert a number of bytes to text, such as ``64 MiB`` or ``1,000 bytes``."""
    return f"{size // MIB:,} MiB" if size >= MIB and not size % MIB else f"{size:,} bytes"


def open_regular_file(path: Path) -> IO[bytes]:
    """Open a regular file for reading; the caller must close it.

    Raises:
        OSError: The path does not exist, or is a directory, a pipe, a device or a socket.
    """
    _check_regular(path.stat())
    # Open without blocking, because a pipe may have replaced the file meanwhile.
    descriptor = os.open(path, _OPEN_FLAGS)
    try:
        _check_regular(os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _check_regular(status: os.stat_result) -> None:
    """Raise OSError if a file status (`os.stat`) does not belong to a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def read_at_most(source: Path | IO[bytes], limit: int) -> bytes:
    """Read an open file, or the file or pipe at a path, and return its content.

    Raises:
        OSError: The file cannot be read.
        InputTooLargeError: The content is longer than ``limit`` bytes.
    """
    if isinstance(source, Path):
        with source.open("rb") as file:
            return read_at_most(file, limit)
    blocks: list[bytes] = []
    remaining = limit
    while remaining >= 0 and (block := source.read(min(_BLOCK, remaining + 1))):
        blocks.append(block)
        remaining -= len(block)
    if remaining < 0:
        raise InputTooLargeError(f"it is longer than {format_size(limit)}, the maximum size")
    return b"".join(blocks)
