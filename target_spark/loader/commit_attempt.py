"""The stages of one commit: prepared, written, verified.

A `CommitAttempt` lives as long as its request, over all retries. What it has reached is kept in
immutable values, so that a retry repeats exactly what may have happened already: rows are counted
against the user's limit and quarantined once, and the commit keeps its number and its state.
"""

from __future__ import annotations

from dataclasses import dataclass

from target_spark.errors import RowCountError
from target_spark.frames import Counts
from target_spark.loader.commit_request import CommitRequest
from target_spark.loader.pending_states import CoveredState
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.model import CommitStats
from target_spark.tables.quarantine_summary import Reason

__all__ = ["BadRows", "CommitAttempt", "Prepared", "Verified", "Written", "check_count"]


@dataclass(frozen=True, slots=True)
class BadRows:
    """Rows of a batch that do not match their schema, already counted against the user's limit.

    Attributes:
        count: The number of rows.
        reasons: Why the rows do not fit, by column.
        are_quarantined: True once the rows are committed to the quarantine table.
    """

    count: int
    reasons: tuple[Reason, ...]
    are_quarantined: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """First stage of a commit: its metadata is fixed, its outcome is unknown.

    Attributes:
        marker: The metadata that the commit writes into the table.
        covered: The state that the commit carries, or None.
        strict: True if a bad row makes the Spark job fail, so that a batch with one is not
            committed.
    """

    marker: CommitMetadata
    covered: CoveredState | None
    strict: bool


@dataclass(frozen=True, slots=True)
class Written:
    """Second stage of a commit: the commit was read back from the table.

    Attributes:
        commit: The prepared commit.
        stats: The statistics that the table format reports.
    """

    commit: Prepared
    stats: CommitStats

    def verify(
        self, request: CommitRequest, counts: Counts, bad: BadRows | None = None
    ) -> Verified:
        """Compare the rows written and quarantined with the rows spooled.

        Args:
            request: The request, which has the number of spooled rows.
            counts: The counts of the rows written.
            bad: The quarantined rows, or None if all rows fit.

        Raises:
            RowCountError: The counts differ.
        """
        check_count(request, counts.rows, bad.count if bad else 0)
        return Verified(counts.rows, counts, bad, self)


@dataclass(frozen=True, slots=True)
class Verified:
    """Last stage of a commit: the rows written plus the rows quarantined equal the rows spooled.

    Attributes:
        rows: The number of rows written.
        counts: Counts of the written rows by kind.
        bad: The quarantined rows, or None.
        written: The commit, or None if the overwrite of a table was withheld.
        withheld: Why no state may cover the rows, or None.
    """

    rows: int
    counts: Counts
    bad: BadRows | None
    written: Written | None
    withheld: str | None = None


@dataclass(slots=True)
class CommitAttempt:
    """A commit request and the stage that it has reached; a retry continues from there.

    Attributes:
        request: The rows to commit.
        bad: The rows that do not fit, once they are known.
        prepared: The metadata of the commit, once it may have been made.
    """

    request: CommitRequest
    bad: BadRows | None = None
    prepared: Prepared | None = None


def check_count(request: CommitRequest, written: int, quarantined: int) -> None:
    """Compare the rows to be written and quarantined with the rows spooled.

    Raises:
        RowCountError: The counts differ.
    """
    if written + quarantined != request.count:
        raise RowCountError(
            f"Stream {request.stream}: {request.count} rows were spooled, but {written} would be"
            f" written and {quarantined} quarantined. No state that covers them is emitted."
        )
