"""target-spark without Spark: everything that its Python process does, but for the commits.

The settings, decoder, loader, spool and ledger are the real ones; what would
commit a batch says at once that it is committed.
"""

from __future__ import annotations

from typing import Any

from target_spark import target
from target_spark.loader.commit_request import CommitRequest, CommitResult


class NoEngine:
    """Starts nothing."""

    failure = None
    application = None

    def __init__(self, *_settings: Any) -> None:
        self.started = False

    def begin(self) -> None:
        """Note that there are rows."""
        self.started = True

    def close(self) -> None:
        """End nothing."""


class NoCommits:
    """Commits nothing."""

    def can_widen(self, *_types: str) -> bool:
        """Refuse."""
        return False

    def write(self, work: CommitRequest) -> CommitResult:
        """Say that all is written."""
        return CommitResult(work.count, 0, work.covered(), {})

    def prepare(self, *_table: Any) -> tuple[()]:
        """Make nothing."""
        return ()

    def care(self, *_table: Any) -> None:
        """Tidy nothing."""

    def carry(self, *_state: Any) -> None:
        """Store nothing."""


if __name__ == "__main__":
    target.LeasedSpark = NoEngine  # type: ignore[assignment,misc]
    target._commits = lambda *_all: NoCommits()  # type: ignore[assignment,return-value]
    target.TargetSpark.cli()
