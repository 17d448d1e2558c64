"""Events of a sync: the protocol-independent messages that a tap emits and a target processes.

Events are immutable, know no protocol, and are created once per chunk, never once per record.
The readers and writers of `tap_core.protocols` convert between events and wire formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

__all__ = [
    "ActivateVersion",
    "BatchFiles",
    "Checkpoint",
    "Estimate",
    "Event",
    "EventSink",
    "LogEvent",
    "Op",
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
        """Return ``namespace.name``, or only the name."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


class Op(Enum):
    """Operation that a target performs with the rows of one chunk."""

    UPSERT = "upsert"
    UPDATE = "update"
    DELETE = "delete"


class Progress(Enum):
    """Progress of a stream, such as started or complete, as its tap reports it."""

    STARTED = "started"
    RUNNING = "running"
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class SchemaEvent:
    """Schema of a stream, sent before its first rows and again when it changes.

    ``keys`` are the properties that identify a row. Without keys, rows are only appended.
    ``cursor`` is the replication key. ``nested`` is for keys and cursors inside an object: it maps
    their names to the paths of their values.
    """

    stream: StreamId
    schema: Mapping[str, Any]
    keys: tuple[str, ...] = ()
    cursor: str | None = None
    nested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """Encoded rows of one stream, in order.

    ``rows`` holds the encoded rows (for the JSON protocols one JSON object each, without a line
    feed). ``extracted_at`` is one ISO 8601 timestamp for all rows, or one per row. ``version`` is
    the table version of the rows. ``meta`` holds the metadata that the tap sent with each row, as
    JSON. It is None if no row has metadata.
    """

    stream: StreamId
    rows: Sequence[bytes]
    op: Op = Op.UPSERT
    extracted_at: str | Sequence[str | None] | None = None
    version: int | None = None
    meta: Sequence[bytes | None] | None = None


@dataclass(frozen=True)
class BatchFiles:
    """Rows in batch files: the paths of the files and their encoding.

    ``version`` is the table version of the rows.
    """

    stream: StreamId
    paths: Sequence[str]
    format: Mapping[str, Any]
    op: Op = Op.UPSERT
    version: int | None = None


@dataclass(frozen=True)
class SpooledRows:
    """Rows that other processes have written to files for a loader.

    The files keep the rows on disk until they are committed. ``paths`` are files or directories of
    files. ``count`` and ``nbytes`` are the number and the size of the rows. ``has_deletes`` is True
    if some rows may be delete records, and False if it is certain that there are no delete records.
    ``starts`` maps the number of each part to the position, in the input, of its first row.
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
    """Instruction to remove all rows of a stream whose table version is not ``version``."""

    stream: StreamId
    version: int


@dataclass(frozen=True)
class Checkpoint:
    """State that a target may store when all rows before it are safely written.

    ``state`` is JSON on one line. If ``scope`` is a stream, it is the part of the state that
    belongs to that stream. If ``scope`` is None, it is the whole state.
    """

    state: bytes
    scope: StreamId | None = None


@dataclass(frozen=True)
class StreamStatus:
    """Progress of one stream, as its tap reports it."""

    stream: StreamId
    progress: Progress


@dataclass(frozen=True)
class Estimate:
    """Estimated number of rows and bytes of a stream, as its tap reports it.

    With ``is_total`` True the estimate is for all streams together, and ``stream`` has the name of
    the tap. A later estimate replaces an earlier one.
    """

    stream: StreamId
    rows: int | None = None
    nbytes: int | None = None
    is_total: bool = False


@dataclass(frozen=True)
class LogEvent:
    """Log message; ``level`` is a level name of the ``logging`` module."""

    level: str
    message: str
    extra: Mapping[str, Any] = field(default_factory=dict)


Event: TypeAlias = (
    SchemaEvent
    | Rows
    | SpooledRows
    | BatchFiles
    | ActivateVersion
    | Checkpoint
    | StreamStatus
    | Estimate
    | LogEvent
)

EventSink: TypeAlias = Callable[[Event], None]
"""Function that accepts the events of a sync; it may block, which is the backpressure."""
