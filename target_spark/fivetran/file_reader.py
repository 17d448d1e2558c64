"""Reader of Fivetran's batch files: decrypts, decompresses and splits them into blocks of rows.

The content of a file is never written to disk unencrypted, and only a few blocks of a file are in
memory. Errors contain the file's name, the fault and its likely cause, but neither content of the
file nor its key. Source: Fivetran's Partner SDK development guide, "Batch files", "Encryption" and
"Security".
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Final

import pyarrow as pa

from tap_core.limits.memory import open_regular_file
from tap_core.protocols.fivetran.enums import Compression, Encryption
from target_spark.errors import BatchFileLoadError
from target_spark.fivetran.batch_request import FileParams, RequestFile

__all__ = [
    "BLOCK_BYTES",
    "READING_LOCK",
    "file_error",
    "identify_files",
    "read_blocks",
    "split_rows",
]

BLOCK_BYTES: Final = 4 << 20
"""Approximate size in bytes of a block of CSV rows. A longer row gets a longer block."""

READING_LOCK: Final = threading.Lock()
"""Lock that lets one gRPC call at a time read batch files in this process.

It limits memory use: a decompressor may need 128 MB, and a row of up to 64 MB several times its
size. Spark's workers are separate processes and do not use the lock."""

_MAX_ROW_BYTES: Final = 64 << 20
"""Maximum size of a row in bytes.

Without this limit, a quoted cell that is never closed would read the rest of the file into memory.
"""

_MAX_CONTENT_BYTES: Final = 32 << 30
"""Maximum size in bytes of a batch file's decompressed content.

Without this limit, a file of 100 MB could contain terabytes, and other calls would wait for hours.
"""

_AES_BLOCK: Final = 16
_AES_KEY_BYTES: Final = (16, 24, 32)
_CODECS: Final = {Compression.ZSTD: "zstd", Compression.GZIP: "gzip"}
_QUOTE, _LINE_BREAK = b'"', b"\n"

_WRONG_KEY: Final = "The key belongs to another file, or the file is damaged"


def file_error(file: RequestFile, reason: str) -> BatchFileLoadError:
    """Return the error for an invalid batch file: "The batch file <name> <reason>."."""
    return BatchFileLoadError(f"The batch file {PurePath(file.path).name} {reason}.")


def identify_files(files: Iterable[RequestFile], params: FileParams) -> str:
    """Return a text that identifies batch files: equal for the same files, different for others.

    An encrypted file begins with random bytes, so its content identifies it. A file that is not
    encrypted may have the same rows as another one, so its path and modification time are included.

    Raises:
        BatchFileLoadError: A file cannot be read.
    """
    return hashlib.sha256(
        "".join(sorted(_hash_file(file, params) for file in files)).encode()
    ).hexdigest()


def _hash_file(file: RequestFile, params: FileParams) -> str:
    digest = hashlib.sha256()
    try:
        with open_regular_file(Path(file.path)) as raw:
            if params.encryption is Encryption.NONE:
                digest.update(f"{file.path} {os.fstat(raw.fileno()).st_mtime_ns} ".encode())
            for chunk in iter(partial(raw.read, BLOCK_BYTES), b""):
                digest.update(chunk)
    except OSError as error:
        raise file_error(file, _explain_read_error(error)) from None
    return digest.hexdigest()


def read_blocks(file: RequestFile, params: FileParams, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield the decrypted, decompressed CSV of a batch file in blocks of complete rows.

    The first block begins with the header. A block has about ``size`` bytes, or more if a row is
    longer.

    Args:
        file: The file.
        params: The format of the file.
        size: The approximate number of bytes per block.

    Raises:
        BatchFileLoadError: The file is missing, truncated, damaged or too large, or its key is
            wrong.
    """
    with ExitStack() as stack:
        chunks = _open_content(file, params, size, stack)
        yield from split_rows(_limit_content(chunks, file), lambda reason: file_error(file, reason))


def _limit_content(chunks: Iterable[bytes], file: RequestFile) -> Iterator[bytes]:
    """Yield the chunks of a batch file's content; raise an error if it is too large."""
    count = 0
    for chunk in chunks:
        count += len(chunk)
        if count > _MAX_CONTENT_BYTES:
            limit = _MAX_CONTENT_BYTES >> 30
            raise file_error(file, f"has more than {limit} GB of rows when decompressed")
        yield chunk


def split_rows(chunks: Iterable[bytes], make_error: Callable[[str], Exception]) -> Iterator[bytes]:
    """Divide the content of a CSV file into blocks of complete rows, and yield the blocks.

    A line break inside a quoted cell does not end a row.

    Args:
        chunks: The content of the file, in chunks of any size.
        make_error: Function that returns the exception to raise for an error message.

    Raises:
        Exception: The result of ``make_error``: a quoted cell is not closed, or a row is too long.
    """
    pending: list[bytes] = []
    is_open = False
    for chunk in chunks:
        end, is_open = _find_last_row_end(chunk, is_open)
        if end:
            yield b"".join((*pending, memoryview(chunk)[:end]))
            pending = [chunk[end:]]
        else:
            pending.append(chunk)
            if sum(map(len, pending)) > _MAX_ROW_BYTES:
                raise make_error(
                    f"has a row of more than {_MAX_ROW_BYTES >> 20} MB: a quoted cell is not"
                    " closed, or the row is too large to be loaded"
                )
    if is_open:
        raise make_error("ends inside a quoted cell: it is truncated or damaged")
    if rest := b"".join(pending):
        yield rest


def _find_last_row_end(chunk: bytes, is_open: bool) -> tuple[int, bool]:
    """Return the offset after the last complete row in a chunk of a CSV file; 0 if there is none.

    The second item is True if the chunk ends inside a quoted cell. ``is_open`` is True if the chunk
    begins inside a quoted cell.
    """
    is_open_after = is_inside = is_open ^ bool(chunk.count(_QUOTE) & 1)  # each quote toggles it
    end = len(chunk)
    while end >= 0:
        if is_inside:  # no row ends after the quote that opened the cell
            end = chunk.rfind(_QUOTE, 0, end)
            if end < 0:
                break
        line_break = chunk.rfind(_LINE_BREAK, 0, end)
        is_inside = bool(chunk.count(_QUOTE, max(line_break, 0), end) & 1)
        if not is_inside:
            return line_break + 1, is_open_after
        end = line_break
    return 0, is_open_after


def _open_content(
    file: RequestFile, params: FileParams, size: int, stack: ExitStack
) -> Iterator[bytes]:
    """Open a batch file and return an iterator over its decrypted and decompressed content.

    Items have at most ``size`` bytes. ``params`` has the compression and encryption of the file.
    ``stack`` closes the file.

    Raises:
        BatchFileLoadError: The file cannot be opened or is empty, or its key is invalid.
    """
    try:
        content: Any = stack.enter_context(open_regular_file(Path(file.path)))
        length = os.fstat(content.fileno()).st_size
    except OSError as error:
        raise file_error(file, _explain_read_error(error)) from None
    except ValueError:  # the name has a null character
        raise file_error(file, "does not exist: its name is not a file name") from None
    if not length:
        raise file_error(file, "is empty: it has no header")
    if params.encryption is Encryption.AES:
        content = _DecryptingFile(file, content, length)
    if params.compression is not Compression.OFF:
        codec = _CODECS[params.compression]
        content = stack.enter_context(pa.CompressedInputStream(pa.PythonFile(content, "r"), codec))
    return iter(partial(_read_chunk, content.read, size, file, params), b"")


def _read_chunk(
    read: Callable[[int], bytes], size: int, file: RequestFile, params: FileParams
) -> bytes:
    try:
        return read(size)
    except OSError as error:
        if error.errno is None:  # raised by the decompressor
            reason = _explain_decompression_error(error, params)
        else:
            reason = _explain_read_error(error)
        raise file_error(file, reason) from None


class _DecryptingFile:
    """Readable file object that decrypts a batch file (AES in CBC mode).

    The encrypted file begins with the initialization vector. Its padding is PKCS7, which Fivetran
    calls PKCS5.
    """

    closed = False

    def __init__(self, file: RequestFile, raw: BinaryIO, length: int) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import CBC
        from cryptography.hazmat.primitives.padding import PKCS7

        if file.key is None:
            raise file_error(file, "is encrypted, and the call has no key for it")
        if len(file.key) not in _AES_KEY_BYTES:
            raise file_error(file, f"has a key of {len(file.key)} bytes, not 16, 24 or 32")
        if length % _AES_BLOCK or length < 2 * _AES_BLOCK:
            raise file_error(
                file,
                f"is cut off: {length:,} bytes are not an initialization vector of {_AES_BLOCK}"
                " bytes and whole AES blocks after it; or it is not encrypted",
            )
        self._file, self._raw = file, raw
        self._cipher = Cipher(AES(file.key), CBC(raw.read(_AES_BLOCK))).decryptor()
        self._padding = PKCS7(8 * _AES_BLOCK).unpadder()
        self._is_done = False

    def read(self, size: int) -> bytes:
        """Return about ``size`` decrypted bytes, or b"" at the end of the file."""
        length = max(size // _AES_BLOCK, 1) * _AES_BLOCK
        while encrypted := self._raw.read(length):
            if plain := self._padding.update(self._cipher.update(encrypted)):
                return plain
        return b"" if self._is_done else self._read_end()

    def _read_end(self) -> bytes:
        """Return the last decrypted bytes of the batch file, without the padding.

        Raises:
            BatchFileLoadError: The padding is invalid.
        """
        self._is_done = True
        try:
            rest = self._cipher.finalize()
            return self._padding.update(rest) + self._padding.finalize()
        except ValueError:
            raise file_error(
                self._file, f"does not end with PKCS5 padding. {_WRONG_KEY} or cut off"
            ) from None

    def close(self) -> None:
        """Do nothing, because the caller closes the encrypted file."""


def _explain_read_error(error: OSError) -> str:
    """Return the reason why a batch file cannot be read, to follow its name in a message."""
    if isinstance(error, FileNotFoundError):
        return "does not exist. It must be on this server until the response to the call"
    if isinstance(error, PermissionError):
        return "may not be read: give read permission to the user that this program runs as"
    return f"cannot be read: {error.strerror}"


def _explain_decompression_error(error: OSError, params: FileParams) -> str:
    """Return the reason why a batch file cannot be decompressed, to follow its name."""
    name = params.compression.name
    if "truncated" in str(error).lower():
        return f"is cut off: its {name} data has no end"
    reason = _WRONG_KEY if params.encryption is Encryption.AES else "The file is damaged"
    return f"cannot be decompressed as {name}. {reason}, or it is compressed in another way"
