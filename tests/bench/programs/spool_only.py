"""target-spark without Spark: the work of its Python process without the commits.

The settings, decoder, loader, spool and ledger are the real ones. The batch writer is replaced by
one that reports each batch as committed.
"""

from __future__ import annotations

from typing import Any

from target_spark import target
from target_spark.loader.commit_request import CommitRequest, CommitResult


class NoEngine:
    """An engine that starts no Spark."""

    failure = None
    application = None

    def __init__(self, *_settings: Any, **_options: Any) -> None:
        self.started = False

    def begin(self) -> None:
        """Record that Spark was requested."""
        self.started = True

    def close(self) -> None:
        """Do nothing."""


class NoCommits:
    """A batch writer that writes nothing."""

    state_before = None

    def can_widen(self, *_types: str) -> bool:
        """Return False: no type can be widened."""
        return False

    def write(self, request: CommitRequest) -> CommitResult:
        """Return that all rows are written."""
        return CommitResult(request.count, 0, request.covered(), {})

    def prepare(self, *_table: Any) -> tuple[()]:
        """Return no schema changes."""
        return ()

    def maintain(self, *_table: Any) -> None:
        """Do nothing."""

    def commit_state(self, *_state: Any) -> None:
        """Do nothing."""


if __name__ == "__main__":
    target.SparkProvider = NoEngine  # type: ignore[assignment,misc]
    target._new_writer = lambda *_all: NoCommits()  # type: ignore[assignment,return-value]
    target.TargetSpark.cli()
