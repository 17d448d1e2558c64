"""Packed answers as streams of bytes, bounded while they are unpacked.

Invariant: nothing is unpacked further than a reader asks for, and no answer to more than its
bound allows: `max_unpacked_bytes`, or `RATIO` times its own size where that is more. The time
that the rows of an answer take is counted at each piece. Errors of what is packed (a torn or
encrypted archive, a checksum) become errors of the API's answer.
"""

from __future__ import annotations

import csv
import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar, cast

import requests

from tap_core.exceptions import FatalAPIError
from tap_core.http.response import get_reading_time
from tap_core.http.response_limits import ReadingTime
from tap_core.http.spooled_response import open_response_body
from tap_core.limits.memory import MIB, Bound, InputTooLargeError, shown
from tap_core.manifest.errors import ManifestError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "RATIO",
    "BoundedReader",
    "decompress",
    "iterate_files",
    "open_body",
    "translate_read_errors",
]

RATIO: Final = 200
"""Text compresses to a twentieth, seldom to a hundredth; a bomb to a thousandth."""

_GZIP: Final = b"\x1f\x8b"
"""What compressed data begins with (RFC 1952, section 2.3.1)."""

_SETTING: Final = "max_unpacked_bytes"
_MOST: Final = 64 * MIB
_BLOCK: Final = 1 << 14
"""Bytes of a piece; thousands of rows may be in one."""
_PACKED_BLOCK: Final = 1 << 16
_SMALL_BLOCK: Final = 1 << 12
_PLAIN_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""Of other methods zipfile unpacks all of a block at once, to thousands of times its size."""

_DIRECTORY_BYTES: Final = 8 * MIB
"""The list of an archive's files, each of which takes some ten times its bytes in memory."""

_BROKEN: Final = (
    InputTooLargeError,
    EOFError,
    NotImplementedError,
    UnicodeError,
    csv.Error,
    gzip.BadGzipFile,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)

_Document = TypeVar("_Document")


@dataclass(frozen=True)
class BoundedReader:
    """The option ``max_unpacked_bytes`` of what reads answers.

    It is the most bytes of a document, a line or a row; a decoder within another one has the
    outer one's unless it has its own.
    """

    max_unpacked_bytes: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse what is not a size."""
        most = self.max_unpacked_bytes
        if most is not None and most < 1:
            raise ManifestError(f"{_SETTING} is {most}: it is a number of bytes from 1 on.")

    def bound(self, data: object = None) -> Bound:
        """Return the bound on what is read from a stream."""
        if self.max_unpacked_bytes is not None:
            return Bound(self.max_unpacked_bytes, f"{_SETTING} of the decoder")
        outer: Bound | None = getattr(data, "bound", None)
        return outer or Bound(_MOST, f"{_SETTING} of the decoder")


class _Stream(io.BufferedReader):
    """Bytes of an answer, with what bounds them."""

    bound: Bound | None = None
    total: _Total | None = None
    time: ReadingTime | None = None


class _Counted(io.RawIOBase):
    """Bytes that are read block by block, and counted with those of other files."""

    def __init__(
        self,
        source: IO[bytes],
        time: ReadingTime | None,
        total: _Total | None = None,
        block: int = _BLOCK,
    ) -> None:
        self._source, self._time, self._total, self._block = source, time, total, block
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        block = self._source.read(min(len(view), self._block))
        view[: len(block)] = block
        self._size += len(block)
        if self._total is not None:
            self._total.add(len(block))
        if self._time is not None:
            self._time.count()
        return len(block)

    def tell(self) -> int:
        return self._size


class _Total:
    """How many bytes an answer has been unpacked to, also by what is packed within it."""

    def __init__(
        self, bound: Bound, packed: Callable[[], int], outer: _Total | None = None
    ) -> None:
        self.bound, self._packed, self._outer, self._size = bound, packed, outer, 0

    def add(self, size: int) -> None:
        """Count bytes.

        Raises:
            TooLargeError: they are more than the answer may unpack to.
        """
        if self._outer is not None:
            self._outer.add(size)
        self._size += size
        if self._size > self.bound.most and self._size > RATIO * self._packed():
            raise InputTooLargeError(
                f"it unpacks to more than {shown(self.bound.most)} and than {RATIO} times its"
                f" size; raise {self.bound.setting} to read it"
            )


def open_body(response: requests.Response) -> IO[bytes]:
    """Return a stream of an answer's body; the time that its rows take is counted."""
    time = get_reading_time(response)
    made = _Stream(_Counted(open_response_body(response), time), _BLOCK)
    made.time = time
    return cast("IO[bytes]", made)


def decompress(data: IO[bytes], bound: Bound) -> IO[bytes]:
    """Return a stream of the bytes that were packed by gzip, or as they are where they were not."""
    packed = _Stream(cast("io.RawIOBase", data), _PACKED_BLOCK)
    time: ReadingTime | None = getattr(data, "time", None)
    packed.bound, packed.time = bound, time
    if packed.peek(len(_GZIP))[: len(_GZIP)] != _GZIP:
        return cast("IO[bytes]", packed)
    source = cast("IO[bytes]", gzip.GzipFile(fileobj=packed))
    outer: _Total | None = getattr(data, "total", None)
    return _stream(source, time, _Total(bound, packed.tell, outer), _BLOCK)


def iterate_files(response: requests.Response, bound: Bound) -> Iterator[IO[bytes]]:
    """Yield the files of an answer that is a zip archive as streams."""
    data, time = open_response_body(response), get_reading_time(response)
    size = data.seek(0, io.SEEK_END)
    data.seek(0)
    total = _Total(bound, lambda: size)
    with zipfile.ZipFile(cast("IO[bytes]", _Archive(data))) as archive:
        for member in archive.infolist():
            if member.flag_bits & 1:
                raise zipfile.BadZipFile(f"its file {member.filename[:100]!r} is encrypted")
            block = _BLOCK if member.compress_type in _PLAIN_METHODS else _SMALL_BLOCK
            with archive.open(member) as file:
                yield _stream(file, time, total, block)


def _stream(source: IO[bytes], time: ReadingTime | None, total: _Total, block: int) -> IO[bytes]:
    made = _Stream(_Counted(source, time, total, block), block)
    made.bound, made.total, made.time = total.bound, total, time
    return cast("IO[bytes]", made)


class _Archive:
    """A file that zipfile reads in blocks, and whose directory is not larger than others'."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size > _DIRECTORY_BYTES:
            raise InputTooLargeError(f"its list of files is longer than {shown(_DIRECTORY_BYTES)}")
        found = self._file.read(_DIRECTORY_BYTES + 1 if size < 0 else size)
        if len(found) > _DIRECTORY_BYTES:
            raise InputTooLargeError(f"its list of files is longer than {shown(_DIRECTORY_BYTES)}")
        return found


def translate_read_errors(
    response: requests.Response, documents: Iterable[_Document]
) -> Iterator[_Document]:
    """Yield documents of an answer; what is wrong with it is an error of the API.

    Raises:
        FatalAPIError: it is damaged, too large, or not in the format that the manifest says.
    """
    try:
        yield from documents
    except FatalAPIError as error:
        error.response = response if error.response is None else error.response
        raise
    except _BROKEN as error:
        reason: Any = "it ends too early" if isinstance(error, EOFError) else error
        raise FatalAPIError(f"The answer cannot be read: {reason}.", response=response) from error
