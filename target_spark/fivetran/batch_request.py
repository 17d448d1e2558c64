"""A WriteBatch or WriteHistoryBatch request as checked values.

Pure data. The `repr` of a file does not contain its key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from tap_core.protocols.fivetran.enums import Compression, Encryption

__all__ = ["BatchRequest", "FileKind", "FileParams", "RequestFile"]


class FileKind(IntEnum):
    """Effect of a file's rows; within a batch, lower kinds are applied first."""

    EARLIEST_START = 0
    REPLACE = 1
    UPDATE = 2
    DELETE = 3


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A batch file: its path, its kind, and the key that decrypts it."""

    path: str
    kind: FileKind
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class FileParams:
    """Format of a batch's files; ``null`` and ``unmodified`` are the texts of such cells."""

    compression: Compression = Compression.OFF
    encryption: Encryption = Encryption.NONE
    null: str = ""
    unmodified: str = ""


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """The files of a request, in the order in which they are applied."""

    files: tuple[RequestFile, ...]
    params: FileParams

    def of(self, *kinds: FileKind) -> tuple[RequestFile, ...]:
        """Return the files of these kinds."""
        return tuple(file for file in self.files if file.kind in kinds)
