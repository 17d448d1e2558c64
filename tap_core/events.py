"""Events of a sync: the protocol-independent messages that a tap emits and a target processes.

Events are immutable. Rows are emitted as one event per chunk, not one per record. The readers and
writers of `tap_core.protocols` convert between events and wire formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

__all__ = [
    "ActivateVersion",
    "BatchFiles",
    "Checkpoint",
    "Estimate",
    "Event",
    "Progress",
    "Rows",
    "SchemaEvent",
    "SpooledRows",
    "StreamId",
    "StreamStatus",
]


@dataclass(frozen=True)
class StreamId:
    """Identifier of a stream: its name, and its namespace (such as a database schema) or None."""

    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        """Return the stream as ``namespace.name``, or only its name if it has no namespace."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


class Progress(Enum):
    """Progress of a stream, as a tap reports it in Airbyte's stream status messages."""

    STARTED = "started"
    RUNNING = "running"
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class SchemaEvent:
    """Schema of a stream, sent before its first rows and again when it changes.

    ``keys`` are the properties that identify a row; without keys, rows are only appended.
    ``cursor`` is the replication key. ``nested`` maps the name of each key or cursor that is inside
    an object to its path. ``other_cursors`` are further names in the ``bookmark_properties`` of a
    Singer message, which are only passed on.
    """

    stream: StreamId
    schema: Mapping[str, Any]
    keys: tuple[str, ...] = ()
    cursor: str | None = None
    nested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    other_cursors: tuple[str, ...] = ()

    @property
    def bookmark_properties(self) -> list[str]:
        """Replication keys for a Singer message; empty for a stream without any."""
        return [] if self.cursor is None else [self.cursor, *self.other_cursors]


@dataclass(frozen=True)
class Rows:
    """Encoded rows of one stream, in order.

    Attributes:
        rows: The encoded rows; for the JSON protocols, each is a JSON object without a line feed.
        extracted_at: ISO 8601 timestamp of all rows, or a sequence with one per row.
        version: Table version of the rows (see `ActivateVersion`), or None.
        meta: Metadata (JSON) that the tap sent with each row; None if no row has metadata.
    """

    stream: StreamId
    rows: Sequence[bytes]
    extracted_at: str | Sequence[str | None] | None = None
    version: int | None = None
    meta: Sequence[bytes | None] | None = None


@dataclass(frozen=True)
class BatchFiles:
    """Rows of one stream in batch files.

    ``paths`` are the paths or URLs of the files, ``format`` is their encoding, and ``version`` the
    table version of the rows (see `ActivateVersion`).
    """

    stream: StreamId
    paths: Sequence[str]
    format: Mapping[str, Any]
    version: int | None = None


@dataclass(frozen=True)
class SpooledRows:
    """Rows that other processes have written to files, for a loader to commit.

    Attributes:
        paths: Files, or directories of files.
        count: Number of rows.
        nbytes: Size of the rows in bytes.
        version: Table version of the rows (see `ActivateVersion`), or None.
        has_deletes: False if no row is a delete record; True if this is unknown.
        starts: Dict from partition number to the position of the partition's first row among all
            rows of the input.
    """

    stream: StreamId
    paths: Sequence[str]
    count: int
    nbytes: int
    version: int | None = None
    has_deletes: bool = True
    starts: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ActivateVersion:
    """Instruction to delete all rows of a stream whose table version is not ``version``.

    A tap sends it after a full sync, so that rows of earlier syncs disappear.
    """

    stream: StreamId
    version: int


@dataclass(frozen=True)
class Checkpoint:
    """State of a tap; a target may emit it after it has committed all earlier rows.

    ``state`` is JSON on one line. ``scope`` is the stream to which it belongs; None means that it
    is the state of all streams.
    """

    state: bytes
    scope: StreamId | None = None


@dataclass(frozen=True)
class StreamStatus:
    """Progress of one stream, reported by its tap."""

    stream: StreamId
    progress: Progress


@dataclass(frozen=True)
class Estimate:
    """Estimated number of rows and bytes of a stream, reported by its tap.

    A later estimate replaces an earlier one. If ``is_total`` is True, the estimate applies to all
    streams together, and ``stream`` contains the name of the tap.
    """

    stream: StreamId
    rows: int | None = None
    nbytes: int | None = None
    is_total: bool = False


Event: TypeAlias = (
    SchemaEvent
    | Rows
    | SpooledRows
    | BatchFiles
    | ActivateVersion
    | Checkpoint
    | StreamStatus
    | Estimate
)
