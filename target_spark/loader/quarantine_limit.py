"""Limit on the quarantined rows of a run (setting ``max_quarantined``)."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from target_spark.config.options import QuarantineLimit
from target_spark.errors import QuarantineError
from target_spark.loader.commit_request import CommitRequest
from target_spark.tables.quarantine_summary import Reason, describe_reasons

__all__ = ["QuarantineGuard"]


class QuarantineGuard:
    """Thread-safe counter of a run's quarantined rows, which checks the user's limit.

    Args:
        limit: The limit of the setting ``max_quarantined``.
        withholds: True to withhold a stream's states if too many of its rows are quarantined. False
            for a replay (a run that loads quarantined rows again), which withholds no states.
    """

    def __init__(self, limit: QuarantineLimit, *, withholds: bool = True) -> None:
        self._limit = limit
        self._withholds = withholds
        self._count = 0
        self._lock = threading.Lock()

    def add(
        self,
        request: CommitRequest,
        count: int,
        written: int,
        quarantined: int,
        reasons: Sequence[Reason],
    ) -> None:
        """Count rows that are about to be quarantined, and check the limit of ``max_quarantined``.

        Args:
            request: The commit request that contains the rows.
            count: The number of rows to be quarantined.
            written: The number of rows of the stream that this run has written before this batch.
            quarantined: The number of rows of the stream that this run has quarantined before this
                batch.
            reasons: The errors in the rows, for the message of the exception.

        Raises:
            QuarantineError: With these rows, the limit is exceeded.
        """
        limit = self._limit
        with self._lock:
            total = self._count + count
            if limit.rows is not None and total > limit.rows:
                raise _limit_exceeded_error(
                    request, count, f"That makes {total} in this run", limit, reasons
                )
            self._count = total
        bad_rows, rows = quarantined + count, written + quarantined + request.count
        if rows >= limit.judged_from and limit.is_exceeded(bad_rows, rows):
            so_far = f"That makes {bad_rows} of {rows} rows of this stream"
            raise _limit_exceeded_error(request, count, so_far, limit, reasons)

    def find_withhold_reason(self, written: int, quarantined: int) -> str | None:
        """Return the reason to hold back states after a stream's rows, or None to emit the states.

        The reason is a phrase, such as "none of its rows could be written".

        Args:
            written: The number of rows of the stream that this run has written so far.
            quarantined: The number of rows of the stream that this run has quarantined so far.
        """
        if not quarantined or not self._withholds:
            return None
        if not written:
            return "none of its rows could be written"
        if self._limit.is_exceeded(quarantined, written + quarantined):
            return f"more of its rows do not fit than max_quarantined ({self._limit}) allows"
        return None


def _limit_exceeded_error(
    request: CommitRequest,
    count: int,
    so_far: str,
    limit: QuarantineLimit,
    reasons: Sequence[Reason],
) -> QuarantineError:
    return QuarantineError(
        f"{count} of {request.count} rows of stream {request.stream} do not fit their columns, for"
        f" example: {describe_reasons(reasons)}. {so_far}, and max_quarantined is {limit};"
        " nothing of this batch is committed."
    )
