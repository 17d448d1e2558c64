"""A WriteBatch or WriteHistoryBatch request as checked values.

Pure data. The `repr` of a file does not contain its key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from tap_core.protocols.fivetran.enums import Compression, Encryption

__all__ = ["BatchRequest", "FileKind", "FileParams", "RequestFile"]


class FileKind(IntEnum):
    """Kind of a batch file, which defines the effect of its rows.

    Within a batch, files of lower kinds are applied first.
    """

    EARLIEST_START = 0
    REPLACE = 1
    UPDATE = 2
    DELETE = 3


@dataclass(frozen=True, slots=True)
class RequestFile:
    """Batch file of a request: its path, its kind, and its AES key (None if not encrypted)."""

    path: str
    kind: FileKind
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class FileParams:
    """Format of the batch files of a request.

    Attributes:
        compression: The compression of the files.
        encryption: The encryption of the files.
        null: The cell text that means NULL.
        unmodified: The cell text that means "keep the old value".
    """

    compression: Compression = Compression.OFF
    encryption: Encryption = Encryption.NONE
    null: str = ""
    unmodified: str = ""


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """Files of a WriteBatch or WriteHistoryBatch request, in the order of their application."""

    files: tuple[RequestFile, ...]
    params: FileParams

    def of(self, *kinds: FileKind) -> tuple[RequestFile, ...]:
        """Return the files of the request that have one of the given kinds."""
        return tuple(file for file in self.files if file.kind in kinds)
