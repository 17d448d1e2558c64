"""A batch file as bytes of CSV: decrypted and decompressed on the way, and cut between rows.

Rules of the room: nothing of a file ever stands on a disk in plain text, and of a large one only
a few blocks are in memory at a time. An error names the file by its last name and says what is
wrong with it and why that may be; it never holds what stands in the file, nor its key. Source:
Fivetran's Partner SDK development guide, "Batch files", "Encryption" and "Security".
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Final

import pyarrow as pa

from tap_core.limits.memory import open_regular
from tap_core.protocols.fivetran.enums import Compression, Encryption
from target_spark.errors import BatchFileLoadError
from target_spark.fivetran.batch_request import FileParams, RequestFile

__all__ = ["BLOCK_BYTES", "file_error", "one_reader", "read_blocks", "split_rows"]

BLOCK_BYTES: Final = 4 << 20
"""Bytes of CSV that are looked at together, where a row is not longer."""

_LONGEST_ROW: Final = 64 << 20
"""Bytes of a row that are waited for; a cell that is not closed would never end."""

_READING: Final = threading.Lock()

_AES_BLOCK: Final = 16
_KEYS: Final = (16, 24, 32)
_CODECS: Final = {Compression.ZSTD: "zstd", Compression.GZIP: "gzip"}
_QUOTE, _LINE_BREAK = b'"', b"\n"

_OTHER_KEY: Final = "The key is that of another file, or the file is damaged"


def one_reader() -> AbstractContextManager[object]:
    """Return what lets one call at a time read files in the server's own process.

    It bounds the memory of all calls together: a decompressor may take 128 MB, and a row 64 MB
    several times over. Spark's workers are processes of their own and do not wait for it.
    """
    return _READING


def file_error(file: RequestFile, words: str) -> BatchFileLoadError:
    """Return the error that says what is wrong with a file: ``words`` go on after its name."""
    return BatchFileLoadError(f"The batch file {PurePath(file.path).name} {words}.")


def read_blocks(file: RequestFile, params: FileParams, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield the CSV of a file in pieces that end where a row ends; the first has the header.

    A piece is of about ``size`` bytes, or of one row where that is longer.

    Raises:
        BatchFileError: it is not there, is cut off or damaged, or the key does not open it.
    """
    with ExitStack() as stack:
        yield from split_rows(
            _content(file, params, size, stack), lambda words: file_error(file, words)
        )


def split_rows(
    chunks: Iterable[bytes], faulty: Callable[[str], Exception], longest: int = _LONGEST_ROW
) -> Iterator[bytes]:
    """Yield the same bytes in pieces that end where a row ends, as far as there are ends.

    A quote stands in a cell only doubled: after an even number of them one is outside of quotes.

    Raises:
        BatchFileError: a quoted cell has no end; made by ``faulty``.
    """
    held: list[bytes] = []
    is_open = False
    for chunk in chunks:
        end, is_open = _last_end(chunk, is_open)
        if end:
            yield b"".join((*held, memoryview(chunk)[:end]))
            held = [chunk[end:]]
        else:
            held.append(chunk)
            if sum(map(len, held)) > longest:
                raise faulty(
                    f"has a row of more than {longest >> 20} MB: a quoted cell is not closed, or"
                    " the table cannot be loaded that way"
                )
    if is_open:
        raise faulty("ends inside of a quoted cell: it is cut off, or damaged")
    if rest := b"".join(held):
        yield rest


def _last_end(chunk: bytes, is_open: bool) -> tuple[int, bool]:
    """Return where the last row in a chunk ends, or 0, and whether a quoted cell is open after it.

    ``is_open`` tells whether one is at its begin.
    """
    is_open_after = is_inside = is_open ^ bool(chunk.count(_QUOTE) & 1)
    end = len(chunk)
    while end >= 0:
        if is_inside:  # no row ends behind the quote that opened the cell
            end = chunk.rfind(_QUOTE, 0, end)
            if end < 0:
                break
        found = chunk.rfind(_LINE_BREAK, 0, end)
        is_inside = bool(chunk.count(_QUOTE, max(found, 0), end) & 1)
        if not is_inside:
            return found + 1, is_open_after
        end = found
    return 0, is_open_after


def _content(file: RequestFile, params: FileParams, size: int, stack: ExitStack) -> Iterator[bytes]:
    """Return what stands in a file, decrypted and decompressed, in pieces of at most a size."""
    try:
        raw: Any = stack.enter_context(open_regular(Path(file.path)))
        length = os.fstat(raw.fileno()).st_size
    except OSError as error:
        raise file_error(file, _unreadable(error)) from None
    if not length:
        raise file_error(file, "is empty: not even a header stands in it")
    if params.encryption is Encryption.AES:
        raw = _Decrypted(file, raw, length)
    if params.compression is Compression.OFF:
        return iter(partial(_read, raw.read, size, file, params), b"")
    codec = _CODECS[params.compression]
    stream = stack.enter_context(pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec))
    return iter(partial(_read, stream.read, size, file, params), b"")


def _read(read: Callable[[int], bytes], size: int, file: RequestFile, params: FileParams) -> bytes:
    try:
        return read(size)
    except OSError as error:
        words = _undecoded(error, params) if error.errno is None else _unreadable(error)
        raise file_error(file, words) from None


class _Decrypted:
    """A file that is decrypted as it is read; the vector stands in front."""

    closed = False

    def __init__(self, file: RequestFile, raw: BinaryIO, length: int) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import CBC
        from cryptography.hazmat.primitives.padding import PKCS7

        if file.key is None:
            raise file_error(file, "is encrypted, and the call brings no key for it")
        if len(file.key) not in _KEYS:
            raise file_error(file, f"has a key of {len(file.key)} bytes; AES takes 16, 24 or 32")
        if length % _AES_BLOCK or length < 2 * _AES_BLOCK:
            raise file_error(
                file,
                f"is cut off: {length:,} bytes cannot be a vector of {_AES_BLOCK} bytes and whole"
                " blocks of AES behind it; or it is not encrypted",
            )
        self._file, self._raw = file, raw
        self._cipher = Cipher(AES(file.key), CBC(raw.read(_AES_BLOCK))).decryptor()
        self._padding = PKCS7(8 * _AES_BLOCK).unpadder()
        self._is_done = False

    def read(self, size: int) -> bytes:
        """Return at most so many bytes, and none only at the end."""
        whole = max(size // _AES_BLOCK, 1) * _AES_BLOCK
        while found := self._raw.read(whole):
            if plain := self._padding.update(self._cipher.update(found)):
                return plain
        return b"" if self._is_done else self._last()

    def _last(self) -> bytes:
        self._is_done = True
        try:
            rest = self._cipher.finalize()
            return self._padding.update(rest) + self._padding.finalize()
        except ValueError:
            raise file_error(
                self._file, f"does not end as AES with PKCS5 ends. {_OTHER_KEY} or cut off"
            ) from None

    def close(self) -> None:
        """Do nothing: who opened the file closes it."""


def _unreadable(error: OSError) -> str:
    """Return why the system does not give a file."""
    if isinstance(error, FileNotFoundError):
        return "is not there. It must lie where this program runs, until the call is answered"
    if isinstance(error, PermissionError):
        return "may not be read: give the user that this program runs as the permission to"
    return f"cannot be read: {error.strerror}"


def _undecoded(error: OSError, params: FileParams) -> str:
    """Return why what stands in a file cannot be decompressed; Arrow has no number for it."""
    name = params.compression.name
    if "runcated" in str(error):
        return f"is cut off: its last piece of {name} has no end"
    reason = _OTHER_KEY if params.encryption is Encryption.AES else "The file is damaged"
    return f"cannot be decompressed as {name}. {reason}, or it is compressed in another way"
