"""What a WriteBatch brings, as checked values.

Rules of the room: pure. A key is never shown: it is no part of what is printed of a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from tap_core.protocols.fivetran.enums import Compression, Encryption

__all__ = ["BatchRequest", "FileKind", "FileParams", "RequestFile"]


class FileKind(IntEnum):
    """What the rows of a file do; of one batch, the lower ones come first."""

    EARLIEST_START = 0
    REPLACE = 1
    UPDATE = 2
    DELETE = 3


@dataclass(frozen=True, slots=True)
class RequestFile:
    """One batch file: its address, what its rows do, and the key that opens it."""

    path: str
    kind: FileKind
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class FileParams:
    """How the files of one batch are written; ``null`` and ``unmodified`` are cells."""

    compression: Compression = Compression.OFF
    encryption: Encryption = Encryption.NONE
    null: str = ""
    unmodified: str = ""


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """The files of one request, in the order in which they count."""

    files: tuple[RequestFile, ...]
    params: FileParams

    def of(self, *kinds: FileKind) -> tuple[RequestFile, ...]:
        """Return the files of these kinds."""
        return tuple(file for file in self.files if file.kind in kinds)
