"""A WriteBatch or WriteHistoryBatch request as checked values.

Pure data. The `repr` of a file does not contain its key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from tap_core.protocols.fivetran.enums import Compression, Encryption

__all__ = ["BatchRequest", "FileKind", "FileParams", "RequestFile"]


class FileKind(IntEnum):
    """Kind of a batch file, which determines the effect of its rows on the table.

    Within a batch, files of a kind with a lower number are applied first.
    """

    EARLIEST_START = 0
    REPLACE = 1
    UPDATE = 2
    DELETE = 3


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A batch file of a request, with its path and kind.

    ``key`` is the AES key to decrypt the file with; None if the file is not encrypted.
    """

    path: str
    kind: FileKind
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class FileParams:
    """The format of the batch files in a request.

    Attributes:
        compression: The compression of the files.
        encryption: The encryption of the files.
        null: The cell text that means NULL.
        unmodified: The cell text that means that the row keeps its value in the table.
    """

    compression: Compression = Compression.OFF
    encryption: Encryption = Encryption.NONE
    null: str = ""
    unmodified: str = ""


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """The files of a WriteBatch or WriteHistoryBatch request and their format.

    The files are in the order in which they are applied.
    """

    files: tuple[RequestFile, ...]
    params: FileParams

    def of(self, *kinds: FileKind) -> tuple[RequestFile, ...]:
        """Return the files of the request that have one of the given kinds."""
        return tuple(file for file in self.files if file.kind in kinds)
