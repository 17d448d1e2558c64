"""Batch files in the form Fivetran writes: CSV as Jackson quotes it, ZSTD, AES.

A cell is text, `NULL` or `UNMODIFIED`. Jackson quotes cells of more than 24 characters, cells with
a special character, and text that equals the null or the unmodified text. Compressed frames omit
their content size.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from tap_core.protocols.fivetran.enums import Compression

__all__ = [
    "NULL",
    "NULL_TEXT",
    "UNMODIFIED",
    "UNMODIFIED_TEXT",
    "Cell",
    "encrypt",
    "format_csv",
    "new_key",
    "write_batch_file",
]


class _Unmodified(Enum):
    UNMODIFIED = "unmodified"


UNMODIFIED: Final = _Unmodified.UNMODIFIED
"""A cell of an update file that does not change the value."""

NULL: Final = None
"""A cell without a value."""

Cell: TypeAlias = str | _Unmodified | None

NULL_TEXT: Final = "null-Vq3kZr8TnW1yLs5xGd7bJm2cHf9pAe4u"
"""The default text of NULL, as long as Fivetran's."""

UNMODIFIED_TEXT: Final = "unmodified-Ry6wQe2tUi8oPa4sDf1gHj7k"
"""The default text of an unmodified cell."""

_UNQUOTED: Final = 24
"""Jackson always quotes cells with more characters."""

_ENDING: Final = re.compile(r'[",\r\n]|^\s|\s$')
_CODECS: Final = {Compression.ZSTD: "zstd", Compression.GZIP: "gzip"}
_BLOCK: Final = 1 << 20


def new_key() -> bytes:
    """Return a key for AES-256."""
    return os.urandom(32)


def write_batch_file(
    path: Path | str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    key: bytes | None = None,
    compression: Compression = Compression.ZSTD,
    null: str = NULL_TEXT,
    unmodified: str = UNMODIFIED_TEXT,
    frames: int = 1,
) -> None:
    """Write a batch file, encrypted if a key is given.

    ``frames`` is the number of compressed frames; rows may span frames.
    """
    lines = _lines(columns, rows, null, unmodified)
    packed = b"".join(_compress(_split_frames(lines, frames), compression))
    Path(path).write_bytes(packed if key is None else encrypt(packed, key))


def format_csv(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    null: str = NULL_TEXT,
    unmodified: str = UNMODIFIED_TEXT,
) -> bytes:
    """Return the CSV of a batch file."""
    return b"".join(_lines(columns, rows, null, unmodified))


def encrypt(content: bytes, key: bytes) -> bytes:
    """Return bytes encrypted by AES in CBC mode with PKCS5 padding, the IV first."""
    vector = os.urandom(16)
    padder, encryptor = PKCS7(128).padder(), Cipher(AES(key), CBC(vector)).encryptor()
    padded = padder.update(content) + padder.finalize()
    return vector + encryptor.update(padded) + encryptor.finalize()


def _lines(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], null: str, unmodified: str
) -> Iterator[bytes]:
    def format_cell(cell: Cell) -> str:
        if cell is None:
            return null
        if isinstance(cell, str):
            return _quote(cell) if _needs_quotes(cell) or not cell else cell
        return _quote(unmodified) if _needs_quotes(unmodified) else unmodified

    for row in chain((columns,), rows):
        yield (",".join(map(format_cell, row)) + "\n").encode()


def _needs_quotes(text: str) -> bool:
    return len(text) > _UNQUOTED or _ENDING.search(text) is not None


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _split_frames(lines: Iterable[bytes], count: int) -> Iterator[Iterable[bytes]]:
    """Yield the content of each frame: all of it, or equal parts split anywhere."""
    if count == 1:
        yield lines
        return
    content = b"".join(lines)
    size = -(-len(content) // count)
    for start in range(0, len(content), size):
        yield [content[start : start + size]]


def _compress(pieces: Iterable[Iterable[bytes]], compression: Compression) -> Iterator[bytes]:
    for piece in pieces:
        yield from (
            piece if compression is Compression.OFF else [_compress_frame(piece, compression)]
        )


def _compress_frame(lines: Iterable[bytes], compression: Compression) -> bytes:
    """Return one compressed frame, without its content size."""
    out, buffer = pa.BufferOutputStream(), bytearray()
    with pa.CompressedOutputStream(out, _CODECS[compression]) as stream:
        for line in lines:
            buffer += line
            if len(buffer) > _BLOCK:
                stream.write(bytes(buffer))
                buffer.clear()
        stream.write(bytes(buffer))
    frame: bytes = out.getvalue().to_pybytes()
    return frame
