"""Batch files as Fivetran writes them: CSV, compressed, each encrypted with a separate key.

Files are compressed and encrypted while they are written; no plaintext reaches the disk. A cell is
a string, null or unmodified. As in Fivetran's writer, a cell is quoted if CSV requires it or if it
is longer than 24 characters; null is never quoted. ZSTD frames do not declare their content size.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Protocol, TypeAlias

from typing_extensions import Self

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.enums import Compression, Encryption

__all__ = ["NULL", "UNMODIFIED", "BatchFile", "BatchFileSet", "Cell", "Sentinel", "format_line"]

_MAX_UNQUOTED_LENGTH: Final = 24
_SPECIAL: Final = frozenset(',"\n\r')
"""Characters for which CSV requires quotes around a cell."""

_AES_BLOCK_BYTES: Final = 16
_AES_KEY_BYTES: Final = 32


class Sentinel:
    """Type of the CSV cells `NULL` and `UNMODIFIED` (the row keeps the value in the table)."""


NULL: Final = Sentinel()
UNMODIFIED: Final = Sentinel()
Cell: TypeAlias = "str | Sentinel"


class _Sink(Protocol):
    """Interface of a writable byte stream, such as an open file or a compressing stream."""

    def write(self, data: bytes, /) -> Any: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class BatchFileSet:
    """Batch files for one WriteBatch request of Fivetran's protocol, all in one format.

    Attributes:
        folder: Folder in which the files are written.
        compression: Compression of the files.
        encryption: Encryption of the files.
        null: Text in the CSV of a null cell.
        unmodified: Text in the CSV of a cell whose value an update does not change.
        keys: AES key of each encrypted file, by its path; `open` adds them.
    """

    folder: Path
    compression: Compression = Compression.ZSTD
    encryption: Encryption = Encryption.AES
    null: str = "null-m8yilkvPsNulehxl2G6pmSQ3G3WWdLP"
    unmodified: str = "unmod-NcK9NIjPUutCsz4mjOQQztbnwnE1sY3"
    keys: dict[str, bytes] = field(default_factory=dict)

    def write(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
        """Write a CSV file with a header and rows to the folder, and return its path."""
        with self.open(name) as file:
            file.write(format_line(header, self))
            for row in rows:
                file.write(format_line(row, self))
        return str(self.folder / name)

    def open(self, name: str) -> BatchFile:
        """Open a new file in the folder for writing, with a new key if files are encrypted."""
        path = self.folder / name
        if self.encryption == Encryption.AES:
            self.keys[str(path)] = os.urandom(_AES_KEY_BYTES)
        return BatchFile(path, self.keys.get(str(path)), self.compression)

    def params(self) -> Any:
        """Return the protobuf message FileParams, which describes the format of these files."""
        return proto_messages.FileParams(
            compression=int(self.compression),
            encryption=int(self.encryption),
            null_string=self.null,
            unmodified_string=self.unmodified,
        )


class BatchFile:
    """Open batch file that compresses and encrypts the CSV that is written to it, if required."""

    def __init__(self, path: Path, key: bytes | None, compression: Compression) -> None:
        file = path.open("wb")
        self._layers: list[_Sink] = [file]
        if key is not None:
            self._layers.append(_Encrypting(file, key))
        if compression != Compression.OFF:
            self._layers.append(_compress(self._layers[-1], compression))

    def write(self, plain: bytes) -> None:
        """Compress and encrypt CSV text, and write it to the file."""
        self._layers[-1].write(plain)

    def close(self) -> None:
        """Flush and close the file."""
        for layer in reversed(self._layers):
            layer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def format_line(row: Sequence[Cell], files: BatchFileSet) -> bytes:
    """Return a row as one line of CSV; ``files`` has the texts for null and unmodified cells."""
    return (",".join(_format_cell(cell, files) for cell in row) + "\n").encode()


def _format_cell(cell: Cell, files: BatchFileSet) -> str:
    """Return a cell as CSV text, quoted if necessary.

    Null and unmodified cells have the texts that ``files`` defines.
    """
    if cell is NULL:
        return files.null
    text = files.unmodified if isinstance(cell, Sentinel) else cell
    is_quoted = not text or len(text) > _MAX_UNQUOTED_LENGTH or not _SPECIAL.isdisjoint(text)
    return '"{}"'.format(text.replace('"', '""')) if is_quoted else text


class _Encrypting(io.RawIOBase):
    """Writable stream that encrypts with AES-256 (CBC mode, PKCS7 padding) and writes to ``file``.

    The file begins with the initialization vector (IV).
    """

    def __init__(self, file: BinaryIO, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        from cryptography.hazmat.primitives.padding import PKCS7

        vector = os.urandom(_AES_BLOCK_BYTES)
        file.write(vector)
        self._file = file
        self._padder = PKCS7(_AES_BLOCK_BYTES * 8).padder()
        self._encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()

    def writable(self) -> bool:
        """Return True, because the stream can be written to."""
        return True

    def write(self, plain: Any, /) -> int:
        """Encrypt bytes and write them to the file; return their number before encryption."""
        self._file.write(self._encryptor.update(self._padder.update(bytes(plain))))
        return len(plain)

    def close(self) -> None:
        """Write the last encrypted block with its padding. The underlying file stays open."""
        if not self.closed:
            last = self._encryptor.update(self._padder.finalize())
            self._file.write(last + self._encryptor.finalize())
        super().close()


def _compress(sink: _Sink, compression: Compression) -> _Sink:
    """Return a writable stream that compresses its input and writes the result to ``sink``."""
    import pyarrow as pa

    stream: _Sink = pa.CompressedOutputStream(sink, compression.name.lower())
    return stream
