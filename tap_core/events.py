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
    """Identifier of a stream: its name and, if the source has namespaces, a namespace."""

    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        """Return ``namespace.name``, or only the name."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


class Op(Enum):
    """Operation that a target applies to the rows of one chunk."""

    UPSERT = "upsert"
    UPDATE = "update"
    DELETE = "delete"


class Progress(Enum):
    """Progress of a stream as reported by its source."""

    STARTED = "started"
    RUNNING = "running"
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class SchemaEvent:
    """Schema of a stream, sent before its first rows and again when it changes.

    ``keys`` are the properties that identify a row; without keys, rows are only appended.
    ``cursor`` is the replication key. A name among these may denote a value inside a property;
    ``nested`` then holds its path.
    """

    stream: StreamId
    schema: Mapping[str, Any]
    keys: tuple[str, ...] = ()
    cursor: str | None = None
    nested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """Chunk of finished rows of one stream, in order.

    ``rows`` holds encoded bodies (for the JSON protocols one JSON object each, without a newline).
    ``extracted_at`` is an ISO 8601 timestamp for the whole chunk, or one per row. ``version`` is
    the table version of the rows. ``meta`` is the source's metadata of each row, encoded as JSON;
    None if no row has any.
    """

    stream: StreamId
    rows: Sequence[bytes]
    op: Op = Op.UPSERT
    extracted_at: str | Sequence[str | None] | None = None
    version: int | None = None
    meta: Sequence[bytes | None] | None = None


@dataclass(frozen=True)
class BatchFiles:
    """Rows in files: the paths of the files and their encoding.

    ``version`` is the table version of the rows.
    """

    stream: StreamId
    paths: Sequence[str]
    format: Mapping[str, Any]
    op: Op = Op.UPSERT
    version: int | None = None


@dataclass(frozen=True)
class SpooledRows:
    """Rows that other processes have written in the format of a loader's spool.

    ``paths`` are files or directories of files. ``count`` and ``nbytes`` are the number and the
    size of the rows. ``has_deletes`` is False only if no row can be a delete record. ``starts``
    maps the part number of a line to the input position of the first row of that part.
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
    """Rows of this stream with a version other than ``version`` are no longer valid."""

    stream: StreamId
    version: int


@dataclass(frozen=True)
class Checkpoint:
    """State that may be stored when every row before it is durable.

    ``state`` is JSON on one line: the whole state document or, with a ``scope``, the part of it
    that belongs to this stream.
    """

    state: bytes
    scope: StreamId | None = None


@dataclass(frozen=True)
class StreamStatus:
    """Progress of one stream as reported by its source."""

    stream: StreamId
    progress: Progress


@dataclass(frozen=True)
class Estimate:
    """Estimated number of rows and bytes of a stream, as far as its source knows.

    With ``is_total`` the estimate covers all streams together, and ``stream`` has the name of the
    tap. A later estimate replaces an earlier one.
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
