"""Commit requests that the loader passes to the `BatchWriter`, and their results.

This module does not import Spark, so an input without rows never loads Spark's libraries.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from tap_core.events import StreamId
from target_spark.columns import SchemaChange, TableSchema
from target_spark.config.options import WriteMode
from target_spark.loader.pending_states import CoveredState
from target_spark.loader.state_release import Ledger
from target_spark.storage.spool import Batch
from target_spark.tables.quarantine_summary import Reason
from target_spark.tables.table import CommitStats, Table, TableLayout

__all__ = ["CommitRequest", "CommitResult"]


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Request for one commit: to write rows to a table, or to delete rows of old table versions.

    Attributes:
        stream: The stream of the rows.
        table: The table to write to.
        table_schema: The table schema of the rows.
        mode: Append, upsert, overwrite or scd2.
        batches: One closed batch, or all batches of an overwrite. An overwrite without batches
            removes all rows of the table.
        ledger: Record of uncommitted batches. It holds back states until this commit is made.
        waiting: Key in ``ledger`` of the states that wait for this commit: the stream, or
            `LoadedStream.deletion_key` for a deletion of rows.
        upto: Position in the input. The commit covers the stream's batches that begin at or before
            this position.
        layout: Partitioning, clustering and file size of a new table.
        hard_delete: True if a delete record removes the row; False if it sets the row's deletion
            time.
        kept_version: Table version to keep: the rows of all other versions are deleted, and there
            are no batches. None to write the batches.
        cursor: The column with the stream's replication key, or None if there is no such key.
    """

    stream: StreamId
    table: Table
    table_schema: TableSchema
    mode: WriteMode
    batches: tuple[Batch, ...]
    ledger: Ledger
    waiting: Hashable
    upto: int
    layout: TableLayout
    hard_delete: bool
    kept_version: int | None = None
    cursor: str | None = None

    def covered(self, *, withheld: bool = False) -> CoveredState | None:
        """Return the newest state that this commit may store, or None if there is no such state.

        A commit may store a state if each row received before the state is in this commit or in an
        earlier one. Call the method right before the commit, because commits of other tables and
        new states change the result.

        Args:
            withheld: True to return a state from before the rows of this commit. False to return a
                state that may include them.
        """
        if withheld:
            return self.ledger.state_before_commit()
        return self.ledger.state_for_commit(self.waiting, self.upto)

    @property
    def count(self) -> int:
        """Number of rows that this request commits, without rows in the files of BATCH messages."""
        return sum(batch.count for batch in self.batches)

    @property
    def nbytes(self) -> int:
        """Size in bytes of this request's rows, which its batches keep on disk in spool files."""
        return sum(batch.nbytes for batch in self.batches)

    @property
    def has_large_rows(self) -> bool:
        """True if a row of this request has 2 MiB or more."""
        return any(batch.has_large_rows for batch in self.batches)

    @property
    def older_schemas(self) -> tuple[TableSchema, ...]:
        """Older table schemas than ``table_schema`` that rows of this request need."""
        schemas = dict.fromkeys(batch.table_schema for batch in self.batches)
        return tuple(older for older in schemas if older is not None)

    @property
    def received_at(self) -> datetime:
        """Time (UTC) at which the request's first row was received; 1970-01-01 without batches."""
        return _to_utc_datetime(self.batches[0].received_at if self.batches else 0)

    @property
    def closed_at(self) -> datetime:
        """Time (UTC) at which the request's last batch was closed; 1970-01-01 without batches."""
        return _to_utc_datetime(self.batches[-1].closed_at if self.batches else 0)


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Outcome of one commit: row counts, column changes, and the state that it stored.

    Attributes:
        written: Number of rows written to the table.
        quarantined: Number of rows written to the quarantine table.
        carried: The state that the commit stored, or None if it stored no state.
        zoneless: Per column, the number of date-times without a time zone, which were read as UTC.
        effect: Numbers of changed rows and added files, as the table format reports them.
        changes: The column changes that were made before the commit.
        remarks: Further notes for the user.
        from_files: Number of rows that were read from batch files.
        nulled: Number of written rows in which null replaced a value that does not fit its column.
        reasons: The reasons why rows were quarantined.
        withheld: The reason why states after these rows must be held back, or None if they
            may be emitted.
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


def _to_utc_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)
