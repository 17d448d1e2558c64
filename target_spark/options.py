"""What a user asked of the loader, as checked values.

Rules of the room: pure. How a stream is written is decided here alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tap_core.events import StreamId
from target_spark.columns import ColumnOptions
from target_spark.errors import UnsupportedError

__all__ = ["APPENDING_FORMATS", "LoadOptions", "Run", "WriteMode"]

APPENDING_FORMATS: Final = frozenset({"parquet"})
"""Formats in which a row that was written cannot be replaced."""


class WriteMode(Enum):
    """What the rows of a run do to those that are in the table."""

    APPEND = "append"
    UPSERT = "upsert"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job: ``id`` is new each time, ``started`` in milliseconds since 1970."""

    job: str
    id: str
    started: int


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The settings of one load.

    A batch is closed by whichever of ``flush_rows``, ``flush_bytes`` and
    ``flush_seconds`` comes first; ``spool_bytes`` bounds what waits on disk, over all
    streams, before the input is made to wait. ``max_quarantined`` counts over the run.
    """

    path: str
    format: str = "delta"
    write_mode: WriteMode | None = None
    streams: Mapping[str, WriteMode] = field(default_factory=dict)
    flush_rows: int = 500_000
    flush_bytes: int = 128 << 20
    flush_seconds: float = 300.0
    spool_bytes: int = 1 << 30
    max_quarantined: int | None = None
    always_overwrite: bool = False
    columns: ColumnOptions = field(default_factory=ColumnOptions)

    @property
    def can_upsert(self) -> bool:
        """Whether the table format can replace rows by key."""
        return self.format not in APPENDING_FORMATS

    def mode(self, stream: StreamId, *, keyed: bool) -> WriteMode:
        """Return how a stream is written.

        Without a word of the user: upserted where it has keys and the format can,
        else appended. A stream without keys is appended also where upsert is asked of
        all streams.

        Raises:
            UnsupportedError: upsert is asked of this very stream, and it has no keys.
        """
        own = self.streams.get(str(stream))
        wanted = own or self.write_mode or WriteMode.UPSERT
        if wanted is not WriteMode.UPSERT:
            return wanted
        if own is not None and not keyed:
            raise UnsupportedError(
                f"Stream {stream} cannot be upserted: it has no key properties. Take its"
                " write_mode out of the setting streams, or set it to append."
            )
        return WriteMode.UPSERT if keyed and self.can_upsert else WriteMode.APPEND
