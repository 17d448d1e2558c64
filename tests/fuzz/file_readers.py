"""Fivetran's batch files, read as Spark's workers read them, without Spark.

A seed is a line of JSON (compression, encryption and kind of the file, bytes to change in the
packed file), followed by the CSV.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from tap_core.protocols.fivetran.enums import Compression, DataType, Encryption
from target_spark.fivetran.batch_request import FileKind, FileParams, RequestFile
from target_spark.fivetran.row_reader import RowReader, check_header
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from tests.fivetran.batch_files import NULL_TEXT, UNMODIFIED_TEXT
from tests.fuzz.readers import Read

__all__ = ["make_files"]

KEY = bytes(range(32))
SHAPE = FivetranSchema(
    (
        DestinationColumn("id", DataType.LONG, is_key=True, column="id"),
        DestinationColumn("name", DataType.STRING, column="name"),
        DestinationColumn("price", DataType.DECIMAL, decimal=(10, 2), column="price"),
        DestinationColumn("at", DataType.UTC_DATETIME, column="at"),
        DestinationColumn("day", DataType.NAIVE_DATE, column="day"),
        DestinationColumn("flag", DataType.BOOLEAN, column="flag"),
        DestinationColumn("ratio", DataType.DOUBLE, column="ratio"),
        DestinationColumn("data", DataType.BINARY, column="data"),
        DestinationColumn("more", DataType.JSON, column="more"),
        DestinationColumn("clock", DataType.NAIVE_TIME, column="clock"),
    )
)
CODECS = {Compression.ZSTD: "zstd", Compression.GZIP: "gzip"}


def make_files(folder: Path) -> Read:
    """Return a reader of batch files."""
    path = folder / "batch.csv"

    def read(data: bytes) -> None:
        head, _, body = data.partition(b"\n")
        try:
            document = json.loads(head)
            compression = Compression[document.get("compression", "ZSTD")]
            kind = FileKind[document.get("kind", "REPLACE")]
            content = _packed(
                body, compression, bool(document.get("aes")), document.get("flips", ())
            )
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            return  # the mutation no longer describes a file
        path.write_bytes(content)
        encryption = Encryption.AES if document.get("aes") else Encryption.NONE
        file = RequestFile(str(path), kind, KEY if document.get("aes") else None)
        params = FileParams(compression, encryption, NULL_TEXT, UNMODIFIED_TEXT)
        check_header(file, params, SHAPE)
        for rows in RowReader(params, SHAPE, kind is FileKind.UPDATE).rows(file, 0):
            rows.validate(full=True)

    return read


def _packed(body: bytes, compression: Compression, aes: bool, flips: Sequence[Any]) -> bytes:
    """Return the content of a file, with some bytes changed."""
    if compression in CODECS:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, CODECS[compression]) as stream:
            stream.write(body)
        body = sink.getvalue().to_pybytes()
    content = bytearray(_encrypted(body) if aes else body)
    for position, byte in flips:
        if content:
            content[int(position) % len(content)] = int(byte) % 256
    return bytes(content)


def _encrypted(content: bytes) -> bytes:
    """Encrypt with a constant vector, so that a seed always gives the same file."""
    vector = bytes(16)
    padder, encryptor = PKCS7(128).padder(), Cipher(AES(KEY), CBC(vector)).encryptor()
    return vector + encryptor.update(padder.update(content) + padder.finalize())
