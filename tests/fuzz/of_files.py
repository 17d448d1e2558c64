"""Fivetran's batch files: read as Spark's workers read them, without Spark.

A seed is a line of JSON (how the file is packed, of which kind it is, bytes that are changed in
the packed file) and the CSV behind it.
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

from tap_core.protocols.fivetran.words import Compression, DataType, Encryption
from target_spark.fivetran.batch import File, FileParams, Kind
from target_spark.fivetran.rows import Reading, check_header
from target_spark.fivetran.shapes import Column, Shape
from tests.fivetran.batch_files import NULL_TEXT, UNMODIFIED_TEXT
from tests.fuzz.readers import Read

__all__ = ["make_files"]

KEY = bytes(range(32))
SHAPE = Shape(
    (
        Column("id", DataType.LONG, is_key=True, column="id"),
        Column("name", DataType.STRING, column="name"),
        Column("price", DataType.DECIMAL, decimal=(10, 2), column="price"),
        Column("at", DataType.UTC_DATETIME, column="at"),
        Column("day", DataType.NAIVE_DATE, column="day"),
        Column("flag", DataType.BOOLEAN, column="flag"),
        Column("ratio", DataType.DOUBLE, column="ratio"),
        Column("data", DataType.BINARY, column="data"),
        Column("more", DataType.JSON, column="more"),
        Column("clock", DataType.NAIVE_TIME, column="clock"),
    )
)
CODECS = {Compression.ZSTD: "zstd", Compression.GZIP: "gzip"}


def make_files(folder: Path) -> Read:
    """Return a reader of batch files."""
    path = folder / "batch.csv"

    def read(data: bytes) -> None:
        head, _, body = data.partition(b"\n")
        try:
            said = json.loads(head)
            compression = Compression[said.get("compression", "ZSTD")]
            kind = Kind[said.get("kind", "REPLACE")]
            content = _packed(body, compression, bool(said.get("aes")), said.get("flips", ()))
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            return  # no file, but a seed that was spoiled
        path.write_bytes(content)
        encryption = Encryption.AES if said.get("aes") else Encryption.NONE
        file = File(str(path), kind, KEY if said.get("aes") else None)
        params = FileParams(compression, encryption, NULL_TEXT, UNMODIFIED_TEXT)
        check_header(file, params, SHAPE)
        for rows in Reading(params, SHAPE, kind is Kind.UPDATE).rows(file, 0):
            rows.validate(full=True)

    return read


def _packed(body: bytes, compression: Compression, aes: bool, flips: Sequence[Any]) -> bytes:
    """Return the content of a file, with some bytes of it changed."""
    if compression in CODECS:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, CODECS[compression]) as stream:
            stream.write(body)
        body = sink.getvalue().to_pybytes()
    content = bytearray(_encrypted(body) if aes else body)
    for place, byte in flips:
        if content:
            content[int(place) % len(content)] = int(byte) % 256
    return bytes(content)


def _encrypted(content: bytes) -> bytes:
    """Encrypt with a vector that is always the same, so that a seed is always the same file."""
    vector = bytes(16)
    padder, encryptor = PKCS7(128).padder(), Cipher(AES(KEY), CBC(vector)).encryptor()
    return vector + encryptor.update(padder.update(content) + padder.finalize())
