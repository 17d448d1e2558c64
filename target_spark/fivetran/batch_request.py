"""Data classes for the batch files in a WriteBatch or WriteHistoryBatch request of Fivetran."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from tap_core.protocols.fivetran.enums import Compression, Encryption

__all__ = ["FileKind", "FileParams", "RequestFile"]


class FileKind(IntEnum):
    """Kind of a Fivetran batch file, which determines how its rows change the table.

    The files of a request are applied in the order of these values: from earliest-start files,
    which occur only in history mode (a table of row versions), to delete files.
    """

    EARLIEST_START = 0
    REPLACE = 1
    UPDATE = 2
    DELETE = 3


@dataclass(frozen=True, slots=True)
class RequestFile:
    """Batch file that a request of Fivetran names, with its kind.

    ``key`` is the AES key that decrypts the file, or None if the file is not encrypted. The `repr`
    does not show it.
    """

    path: str
    kind: FileKind
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class FileParams:
    """Format of the batch files that a request of Fivetran names.

    Attributes:
        compression: The compression of the files.
        encryption: The encryption of the files.
        null: The text of a cell that means NULL.
        unmodified: The text of a cell in an update file that means: keep the value in the table.
    """

    compression: Compression = Compression.OFF
    encryption: Encryption = Encryption.NONE
    null: str = ""
    unmodified: str = ""
