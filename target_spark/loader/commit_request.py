"""Requests that the loader sends to the commit writer, and the results it gets back.

This module does not import Spark, so an input without rows never loads Spark's libraries.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from tap_core.events import StreamId
from target_spark.columns import SchemaChange, TableSchema
from target_spark.config.options import WriteMode
from target_spark.loader.ledger import Ledger
from target_spark.loader.state_tracking import CoveredState
from target_spark.storage.spool import Batch
from target_spark.tables.model import CommitStats, Table, TableLayout
from target_spark.tables.quarantine_summary import Reason

__all__ = ["CommitRequest", "CommitResult"]


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Rows that go into one commit.

    ``batches`` is one batch, or all batches of an overwrite (an empty tuple empties the table).
    States in the ``ledger`` wait under the key ``waiting`` for the batches of this commit, which
    begin at or before the ordinal ``upto``. With ``hard_delete`` a delete record removes the row;
    otherwise it sets the deletion time. With ``retires`` there are no batches: the rows of all
    versions except that one are deleted. ``cursor`` is the replication key of the stream.
    """

    stream: StreamId
    table: Table
    layout: TableSchema
    mode: WriteMode
    batches: tuple[Batch, ...]
    ledger: Ledger
    waiting: Hashable
    upto: int
    design: TableLayout
    hard_delete: bool
    retires: int | None = None
    cursor: str | None = None

    def covered(self, *, withheld: bool = False) -> CoveredState | None:
        """Return the newest state that the commit may carry, or None.

        Read it right before the commit: other commits and later states change it after the batch
        was
        closed. With ``withheld`` no state may cover the rows of this commit.
        """
        if withheld:
            return self.ledger.state_before_commit()
        return self.ledger.state_for_commit(self.waiting, self.upto)

    @property
    def count(self) -> int:
        """The number of spooled rows."""
        return sum(batch.count for batch in self.batches)

    @property
    def nbytes(self) -> int:
        """The size of the rows that wait in the spool for space; 0 for an overwrite."""
        if self.mode is WriteMode.OVERWRITE:
            return 0
        return sum(batch.nbytes for batch in self.batches)

    @property
    def received_at(self) -> datetime:
        """The time at which the first row was received; 1970-01-01 if there are no batches."""
        return _instant(self.batches[0].received_at if self.batches else 0)

    @property
    def cut_at(self) -> datetime:
        """The time at which the last batch was closed; 1970-01-01 if there are no batches."""
        return _instant(self.batches[-1].cut_at if self.batches else 0)


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Outcome of a commit: row counts, and the state that the commit carried.

    ``effect`` are the statistics that the table format reports. ``zoneless`` counts, by column,
    date-times without a time zone, which were read as UTC. ``changes`` are the column changes that
    the table needed first; ``remarks`` are further notes for the user. ``from_files`` rows were
    read from files; ``nulled`` written rows have a null field because its value does not fit the
    column. ``reasons`` are the causes of the quarantined rows. ``withheld`` is the reason why no
    state may cover these rows yet.
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


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)
