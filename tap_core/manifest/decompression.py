"""Decompression of response bodies as byte streams of limited size.

A stream decompresses no more bytes than are read from it. A response decompresses to at most
`max_unpacked_bytes`, or to `RATIO` times its own size if that is more. After each block, the
processor time for reading the response is checked against its limit. Format errors (a truncated or
encrypted archive, a wrong checksum) are raised as errors of the API's response.
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
from tap_core.limits.memory import MIB, Bound, InputTooLargeError, format_size
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
"""Maximum ratio of decompressed to compressed size, checked above `max_unpacked_bytes`.

Text typically compresses to 1/20, rarely to 1/100; a decompression bomb to 1/1000.
"""

_GZIP_MAGIC: Final = b"\x1f\x8b"
"""First bytes of gzip data (RFC 1952, section 2.3.1)."""

_SETTING: Final = "max_unpacked_bytes"
_DEFAULT_LIMIT: Final = 64 * MIB
_BLOCK: Final = 1 << 14
"""Bytes per block; one block may hold thousands of rows."""
_COMPRESSED_BLOCK: Final = 1 << 16
_SMALL_BLOCK: Final = 1 << 12
"""Bytes per block for files in zip archives with another method than `_PLAIN_METHODS`."""
_PLAIN_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""Compression methods for which zipfile limits the decompressed size of a block.

With any other method a block may decompress to thousands of times its size.
"""

_DIRECTORY_BYTES: Final = 8 * MIB
"""Maximum bytes of the list of files in a zip archive; parsing needs ten times as much memory."""

_READ_ERRORS: Final = (
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
    """Base class of decoders with the option ``max_unpacked_bytes``, 64 MiB by default.

    The option is the maximum size of a document, a line or a row. A nested decoder without the
    option uses the limit of the outer decoder.
    """

    max_unpacked_bytes: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Raise ManifestError if `max_unpacked_bytes` is less than 1."""
        limit = self.max_unpacked_bytes
        if limit is not None and limit < 1:
            raise ManifestError(f"Invalid {_SETTING} {limit}: expected at least 1 byte.")

    def bound(self, data: object = None) -> Bound:
        """Return the size limit for a document, line or row of a byte stream.

        The limit is `max_unpacked_bytes` if that is set. Otherwise it is the limit of ``data``, the
        stream of the outer decoder, or 64 MiB if ``data`` has no limit.
        """
        if self.max_unpacked_bytes is not None:
            return Bound(self.max_unpacked_bytes, f"{_SETTING} of the decoder")
        outer: Bound | None = getattr(data, "bound", None)
        return outer or Bound(_DEFAULT_LIMIT, f"{_SETTING} of the decoder")


class _ResponseStream(io.BufferedReader):
    """Byte stream that decoders read: a response body, or decompressed data inside it.

    Its attributes are the size limit, the counter of decompressed bytes and the timer of the
    response. A nested decoder reads them here.
    """

    bound: Bound | None = None
    total: _ByteCounter | None = None
    time: ReadingTime | None = None


class _CountingStream(io.RawIOBase):
    """Byte stream that reads ``source`` in blocks and counts the bytes of a response.

    After each block, it checks the response's limits for size and processor time.
    """

    def __init__(
        self,
        source: IO[bytes],
        time: ReadingTime | None,
        total: _ByteCounter | None = None,
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


class _ByteCounter:
    """Counter of the decompressed bytes of a response, which raises an error above a limit.

    The bytes of nested archives are included.
    """

    def __init__(
        self, bound: Bound, compressed_size: Callable[[], int], outer: _ByteCounter | None = None
    ) -> None:
        self.bound, self._compressed_size, self._outer = bound, compressed_size, outer
        self._size = 0

    def add(self, size: int) -> None:
        """Add a number of decompressed bytes to the total.

        Raises:
            InputTooLargeError: The total exceeds both the limit and 200 times the compressed size.
        """
        if self._outer is not None:
            self._outer.add(size)
        self._size += size
        if self._size > self.bound.most and self._size > RATIO * self._compressed_size():
            raise InputTooLargeError(
                f"it decompresses to more than {format_size(self.bound.most)} and {RATIO} times its"
                f" size; raise {self.bound.setting} to read it"
            )


def open_body(response: requests.Response) -> IO[bytes]:
    """Return the body of a response as a byte stream that limits the time to process it."""
    time = get_reading_time(response)
    stream = _ResponseStream(_CountingStream(open_response_body(response), time), _BLOCK)
    stream.time = time
    return cast("IO[bytes]", stream)


def decompress(data: IO[bytes], bound: Bound) -> IO[bytes]:
    """Return a stream of the decompressed bytes of gzip data.

    Other data is returned unchanged. ``bound`` is the size limit for the decompressed bytes.
    """
    compressed = _ResponseStream(cast("io.RawIOBase", data), _COMPRESSED_BLOCK)
    time: ReadingTime | None = getattr(data, "time", None)
    compressed.bound, compressed.time = bound, time
    if compressed.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)] != _GZIP_MAGIC:
        return cast("IO[bytes]", compressed)
    source = cast("IO[bytes]", gzip.GzipFile(fileobj=compressed))
    outer: _ByteCounter | None = getattr(data, "total", None)
    return _make_stream(source, time, _ByteCounter(bound, compressed.tell, outer), _BLOCK)


def iterate_files(response: requests.Response, bound: Bound) -> Iterator[IO[bytes]]:
    """Yield a byte stream for each file in a response body that is a zip archive.

    ``bound`` is the size limit for the decompressed files.
    """
    data, time = open_response_body(response), get_reading_time(response)
    size = data.seek(0, io.SEEK_END)
    data.seek(0)
    total = _ByteCounter(bound, lambda: size)
    with zipfile.ZipFile(cast("IO[bytes]", _ArchiveFile(data))) as archive:
        for member in archive.infolist():
            if member.flag_bits & 1:
                raise zipfile.BadZipFile(f"its file {member.filename[:100]!r} is encrypted")
            block = _BLOCK if member.compress_type in _PLAIN_METHODS else _SMALL_BLOCK
            with archive.open(member) as file:
                yield _make_stream(file, time, total, block)


def _make_stream(
    source: IO[bytes], time: ReadingTime | None, total: _ByteCounter, block: int
) -> IO[bytes]:
    stream = _ResponseStream(_CountingStream(source, time, total, block), block)
    stream.bound, stream.total, stream.time = total.bound, total, time
    return cast("IO[bytes]", stream)


class _ArchiveFile:
    """File object of a zip archive that raises an error if too many bytes are read at once.

    The zipfile module reads the archive's list of files in one call. The limit therefore applies to
    the length of this list.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = b""
        if size <= _DIRECTORY_BYTES:
            data = self._file.read(_DIRECTORY_BYTES + 1 if size < 0 else size)
        if max(size, len(data)) > _DIRECTORY_BYTES:
            raise InputTooLargeError(
                f"its list of files is longer than {format_size(_DIRECTORY_BYTES)}"
            )
        return data


def translate_read_errors(
    response: requests.Response, documents: Iterable[_Document]
) -> Iterator[_Document]:
    """Yield the documents of a response; convert errors while reading to FatalAPIError.

    Raises:
        FatalAPIError: The response is damaged, too large, or not in the declared format.
    """
    try:
        yield from documents
    except FatalAPIError as error:
        error.response = response if error.response is None else error.response
        raise
    except _READ_ERRORS as error:
        reason: Any = "it ends too early" if isinstance(error, EOFError) else error
        raise FatalAPIError(f"The response cannot be read: {reason}.", response=response) from error
