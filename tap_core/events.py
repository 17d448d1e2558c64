"""A sync is a stream of events: what a tap says and what a target folds.

Rules of the room: an event is frozen, knows no protocol, and is made once per chunk,
never once per record. A protocol is a pair of codecs (`protocols/*/decode`, `encode`)
between these and its wire.
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
    """A stream is named by its name and, where the source has them, a namespace."""

    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        """Return ``namespace.name``, or the bare name."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


class Op(Enum):
    """What a target does with the rows of one chunk."""

    UPSERT = "upsert"
    UPDATE = "update"
    DELETE = "delete"


class Progress(Enum):
    """How far a stream has come, as its source says."""

    STARTED = "started"
    RUNNING = "running"
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class SchemaEvent:
    """The schema of a stream, before its first rows and again when it changes.

    ``keys`` are the properties that identify a row (none: rows are only appended);
    ``cursor`` is the replication key. A name among these may stand for a value inside a
    property; ``nested`` then says by which path it is found.
    """

    stream: StreamId
    schema: Mapping[str, Any]
    keys: tuple[str, ...] = ()
    cursor: str | None = None
    nested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """A chunk of finished rows of one stream, in their order.

    ``rows`` holds encoded bodies (for the JSON protocols one JSON object each, without
    a line end). ``extracted_at`` is an ISO 8601 instant for the whole chunk, or one
    per row. ``version`` is the table version that the rows belong to. ``meta`` is what their
    source says of each row, encoded as JSON; None where it says nothing of any.
    """

    stream: StreamId
    rows: Sequence[bytes]
    op: Op = Op.UPSERT
    extracted_at: str | Sequence[str | None] | None = None
    version: int | None = None
    meta: Sequence[bytes | None] | None = None


@dataclass(frozen=True)
class BatchFiles:
    """Rows that stand in files: their addresses, and the encoding they are in.

    ``version`` is the table version that the rows belong to.
    """

    stream: StreamId
    paths: Sequence[str]
    format: Mapping[str, Any]
    op: Op = Op.UPSERT
    version: int | None = None


@dataclass(frozen=True)
class SpooledRows:
    """Rows that other processes have put down as a loader's spool does, for it alone.

    ``paths`` are files, or folders of them; ``count`` and ``nbytes`` are of the rows.
    ``has_deletes`` is False only if no row can be a delete record. ``starts`` are the places in the
    input of the first rows of parts, by the number of the part that a line has.
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
    """Rows of this stream that are not of ``version`` are no longer valid."""

    stream: StreamId
    version: int


@dataclass(frozen=True)
class Checkpoint:
    """A state that may be kept once every row before it is safe.

    ``state`` is encoded as JSON on one line: the whole state document or, with a ``scope``,
    what stands in it for that stream alone.
    """

    state: bytes
    scope: StreamId | None = None


@dataclass(frozen=True)
class StreamStatus:
    """A source's word on how far one stream has come."""

    stream: StreamId
    progress: Progress


@dataclass(frozen=True)
class Estimate:
    """About how many rows and bytes a stream will have, as far as its source knows.

    With ``is_total`` it is about all streams together, and ``stream`` has the name of the tap.
    A later one replaces it.
    """

    stream: StreamId
    rows: int | None = None
    nbytes: int | None = None
    is_total: bool = False


@dataclass(frozen=True)
class LogEvent:
    """Something a person may want to read; ``level`` is one of logging's names."""

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
"""Where a sync puts its events; it may block, and that is the backpressure."""
