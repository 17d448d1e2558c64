"""The states of one commit: prepared, written, verified.

A `CommitAttempt` lives as long as its request, over all retries. What it has reached is kept in
immutable values, so that a retry repeats exactly what may have happened already: rows are counted
against the user's limit and quarantined once, and the commit keeps its number and its state.
"""

from __future__ import annotations

from dataclasses import dataclass

from target_spark.errors import RowCountError
from target_spark.frames import Counts
from target_spark.loader.commit_request import CommitRequest
from target_spark.loader.ledger import CommitMetadata
from target_spark.loader.state_tracking import CoveredState
from target_spark.tables.model import CommitStats
from target_spark.tables.quarantine_summary import Reason

__all__ = ["BadRows", "CommitAttempt", "Prepared", "Verified", "Written", "check_count"]


@dataclass(frozen=True, slots=True)
class BadRows:
    """Rows of a batch that do not match their schema, already counted against the user's limit."""

    count: int
    reasons: tuple[Reason, ...]
    are_quarantined: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """State of a commit attempt before its outcome is known: the commit may have been made.

    It has the commit metadata and the state that the commit carries. With ``strict`` the Spark job
    fails on a bad row, so a batch with a bad row was not committed.
    """

    marker: CommitMetadata
    covered: CoveredState | None
    strict: bool


@dataclass(frozen=True, slots=True)
class Written:
    """State of a commit attempt after the commit was read back from the table."""

    commit: Prepared
    stats: CommitStats

    def verify(
        self, request: CommitRequest, counts: Counts, bad: BadRows | None = None
    ) -> Verified:
        """Compare the rows written and quarantined with the rows spooled.

        Raises:
            RowCountError: The counts differ.
        """
        check_count(request, counts.rows, bad.count if bad else 0)
        return Verified(counts.rows, counts, bad, self)


@dataclass(frozen=True, slots=True)
class Verified:
    """Final state of a commit attempt: spooled, written and quarantined row counts agree.

    ``rows`` were written. ``written`` is None if the overwrite of a table was withheld.
    ``withheld``
    is the reason why no state may cover the rows.
    """

    rows: int
    counts: Counts
    bad: BadRows | None
    written: Written | None
    withheld: str | None = None


@dataclass(slots=True)
class CommitAttempt:
    """A commit request with the state that its attempts have reached so far."""

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
