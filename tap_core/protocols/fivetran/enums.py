"""Enums of Fivetran's interface, with its names and numbers.

They do not need protobuf, so that modules which use them are quick to import.
Source: Fivetran's Partner SDK, version 2, ``common.proto`` and ``destination_sdk.proto``.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["BatchFileFormat", "Compression", "DataType", "Encryption", "RecordType", "TextField"]


class DataType(IntEnum):
    """Fivetran's data types of a column."""

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
    """Operation that a record of a connector performs in its table, such as UPSERT or DELETE."""

    UPSERT = 0
    UPDATE = 1
    DELETE = 2
    TRUNCATE = 3


class TextField(IntEnum):
    """Kind of a text field in the setup form, such as plain text or password."""

    PlainText = 0
    Password = 1
    Hidden = 2


class BatchFileFormat(IntEnum):
    """File format of the batch files that Fivetran sends to a destination."""

    CSV = 0
    PARQUET = 1


class Compression(IntEnum):
    """Compression of the batch files that Fivetran sends to a destination."""

    OFF = 0
    ZSTD = 1
    GZIP = 2


class Encryption(IntEnum):
    """Encryption of the batch files that Fivetran sends to a destination."""

    NONE = 0
    AES = 1
