"""Enums of Fivetran's Partner SDK, with the names and numbers of its ``.proto`` files.

They do not need protobuf, so that modules which use them are quick to import.
Source: Fivetran's Partner SDK, version 2, ``common.proto`` and ``destination_sdk.proto``.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["BatchFileFormat", "Compression", "DataType", "Encryption", "RecordType", "TextField"]


class DataType(IntEnum):
    """Data type of a column in Fivetran."""

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
    """Operation that a record performs in the destination table, such as UPSERT or DELETE."""

    UPSERT = 0
    UPDATE = 1
    DELETE = 2
    TRUNCATE = 3


class TextField(IntEnum):
    """Type of a text field in a connector's setup form: visible text, password or hidden."""

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
