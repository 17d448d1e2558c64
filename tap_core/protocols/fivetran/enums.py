"""The choices of Fivetran's interface, by its own names and numbers.

Rules of the room: numbers only, without protobuf, so that what decides on them stays light.
Source: Fivetran's Partner SDK, version 2, ``common.proto`` and ``destination_sdk.proto``.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["BatchFileFormat", "Compression", "DataType", "Encryption", "RecordType", "TextField"]


class DataType(IntEnum):
    """What a column holds."""

    UNSPECIFIED = 0
    BOOLEAN = 1
    SHORT = 2
    INT = 3
    LONG = 4
    DECIMAL = 5
    FLOAT = 6
    DOUBLE = 7
    NAIVE_DATE = 8
    NAIVE_DATETIME = 9
    UTC_DATETIME = 10
    BINARY = 11
    XML = 12
    STRING = 13
    JSON = 14
    NAIVE_TIME = 15


class RecordType(IntEnum):
    """What a record of a connector does."""

    UPSERT = 0
    UPDATE = 1
    DELETE = 2
    TRUNCATE = 3


class TextField(IntEnum):
    """How a form shows a text."""

    PlainText = 0
    Password = 1
    Hidden = 2


class BatchFileFormat(IntEnum):
    """What a destination reads."""

    CSV = 0
    PARQUET = 1


class Compression(IntEnum):
    """How a batch file is compressed."""

    OFF = 0
    ZSTD = 1
    GZIP = 2


class Encryption(IntEnum):
    """How a batch file is encrypted."""

    NONE = 0
    AES = 1
