"""What the loader hands to whoever writes, and what it gets back.

Rules of the room: words only, without Spark, so that an input without rows never loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Protocol

from tap_core.events import StreamId
from target_spark.columns import CanWiden, SchemaChange, TableSchema
from target_spark.config.options import WriteMode
from target_spark.loader.state_tracking import CoveredState
from target_spark.storage.spool import Batch
from target_spark.tables.model import CommitStats, MaintenanceOptions, Table, TableLayout
from target_spark.tables.quarantine_summary import Reason

__all__ = ["CommitRequest", "CommitResult", "CommitWriter"]


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Rows that go into one commit.

    ``batches`` are one, or all that an overwrite puts in (none empties the table).
    ``covered`` is asked right before the commit for the newest state that it covers,
    ``covered_without`` instead where states must not speak of its rows.
    With ``hard_delete`` a delete record removes the row; else it sets a time in it.
    With ``retires`` there are no batches: the rows of all versions but that one end.
    ``cursor`` is the property by which the stream's source is read on.
    """

    stream: StreamId
    table: Table
    layout: TableSchema
    mode: WriteMode
    batches: tuple[Batch, ...]
    covered: Callable[[], CoveredState | None]
    design: TableLayout
    hard_delete: bool
    retires: int | None = None
    cursor: str | None = None
    covered_without: Callable[[], CoveredState | None] = lambda: None

    @property
    def count(self) -> int:
        """How many rows were spooled."""
        return sum(batch.count for batch in self.batches)

    @property
    def received_at(self) -> datetime:
        """When the first row was received; 1970 where there is none."""
        return _instant(self.batches[0].received_at if self.batches else 0)

    @property
    def cut_at(self) -> datetime:
        """When the last batch was closed; 1970 where there is none."""
        return _instant(self.batches[-1].cut_at if self.batches else 0)


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What became of the rows, and the state that their commit carried.

    ``effect`` is the commit's own word on it.
    ``zoneless`` counts, by column, date-times without a zone, which were read as UTC.
    ``changes`` are what the table needed before it could take the rows; ``remarks`` what
    else a user should know of it. ``from_files`` of the rows stood in files; ``nulled`` of
    those written have a field that is null because its value does not fit. ``reasons`` are
    those of the quarantined rows. ``withheld`` says why no state may cover these rows yet.
    """

    written: int
    quarantined: int
    carried: CoveredState | None
    zoneless: Mapping[str, int]
    effect: CommitStats = field(default_factory=CommitStats)
    changes: tuple[SchemaChange, ...] = ()
    remarks: tuple[str, ...] = ()
    from_files: int = 0
    nulled: int = 0
    reasons: tuple[Reason, ...] = ()
    withheld: str | None = None


class CommitWriter(Protocol):
    """Makes commits of work. Never called for one table by two threads at a time."""

    @property
    def can_widen(self) -> CanWiden:
        """Whether the format can widen a type in place."""
        ...

    def write(self, work: CommitRequest) -> CommitResult:
        """Commit the rows; those that do not fit are set aside first."""
        ...

    def prepare(self, table: Table, layout: TableSchema, design: TableLayout) -> CommitResult:
        """Make the table where there is none, and let it grow where it must."""
        ...

    def has_others(self, table: Table, version: int) -> bool:
        """Tell whether a table has rows that are not of a version."""
        ...

    def care(self, table: Table, care: MaintenanceOptions) -> str | None:
        """Tidy a table that this run wrote to; return what went wrong, which is no failure."""
        ...

    def carry(self, table: Table, covered: CoveredState) -> None:
        """Commit a state without rows."""
        ...


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)
