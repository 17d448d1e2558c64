"""Last commits of a load: the overwrite of a table, or the deletion of rows of old table versions.

Such a commit is made only if the stream is known to be complete: after a final state at the end of
the input, after an ACTIVATE_VERSION message that follows the stream's rows, or after a status
message of the source.

Until the commit is made, later states are held back. For an overwrite, these are the states after
the stream's first SCHEMA message; for a deletion, the states after the ACTIVATE_VERSION message. In
Airbyte's protocol, a stream that overwrites its table holds back only its own states and the states
after its rows. No deletion is needed if all rows have the activated version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from target_spark.errors import IncompleteError, QuarantineError, TargetSparkError
from target_spark.loader.commit_pipeline import CommitPipeline
from target_spark.loader.report import Report
from target_spark.loader.stream_context import LoadedStream
from target_spark.spark.spark_provider import SparkProvider

__all__ = ["FinalCommits"]

_VERSIONS_STAY: Final = (
    "ACTIVATE_VERSION deletes nothing: this table format cannot. The rows of all versions stay;"
    " _sdc_table_version has their version. Set format to delta, or write_mode to overwrite"
)
_GENERATIONS_STAY: Final = (
    "rows of older generations stay: this table format cannot delete rows. Set format to delta,"
    " or let the connection overwrite the stream"
)
_VERSIONS_MIXED: Final = (
    "ACTIVATE_VERSION deletes nothing: rows of this run are not of the version that it names"
)

_SIGNS_OF_STATES: Final = (
    "(a STATE at the very end without progress markers, or an ACTIVATE_VERSION after the rows)."
    " For taps that send no STATE, set overwrite_on_eof to always."
)
_SIGNS_OF_STATUS: Final = (
    "(a STREAM_STATUS of COMPLETE; or, from a source without STREAM_STATUS, an end without an"
    " ERROR and without an incomplete line). Fix the source and sync again."
)


class FinalCommits:
    """Scheduler of the last commit of each stream: the overwrite, or the deletion of old versions.

    Args:
        pipeline: The pipeline that commits the overwrites and deletions.
        engine: The Spark process, which starts when it is first needed.
        report: The run report to update.
        can_delete: False if the table format cannot delete rows.
        by_status: True if the source reports complete streams by status messages, as in Airbyte's
            protocol. False if states or table versions show it, as in Singer's protocol.
    """

    def __init__(
        self,
        pipeline: CommitPipeline,
        engine: SparkProvider,
        report: Report,
        *,
        can_delete: bool,
        by_status: bool,
    ) -> None:
        self._pipeline = pipeline
        self._ledger = pipeline.ledger
        self._engine = engine
        self._report = report
        self._can_delete = can_delete
        self._by_status = by_status
        self._not_overwritten: list[str] = []
        self._not_deleted: list[LoadedStream] = []

    def hold_states(self, stream: LoadedStream, ordinal: int) -> None:
        """Hold back states until a stream's table is overwritten, or its old versions are deleted.

        Nothing happens for a table that needs no overwrite and no deletion. If the table format
        cannot delete rows, a note for the user is added to the report instead.

        Args:
            stream: The stream.
            ordinal: The position in the input. States after it are held back.
        """
        if stream.overwrites:
            if not self._by_status:
                self._ledger.record_rows(stream.id, ordinal)
        elif stream.versions.has_pending_deletion and self._can_delete:
            self._ledger.record_rows(stream.deletion_key, ordinal)
        elif stream.versions.has_pending_deletion:
            text = _GENERATIONS_STAY if self._by_status else _VERSIONS_STAY
            self._pipeline.add_remark(stream.id, text)

    def add_state(self, streams: Iterable[LoadedStream], ordinal: int) -> None:
        """Hold back a state of an Airbyte source until the tables of ``streams`` are overwritten.

        Nothing happens for Singer states, nor for streams that do not overwrite their table.

        Args:
            streams: The streams whose progress the state records.
            ordinal: The position of the state in the input.
        """
        for stream in streams:
            if self._by_status and stream.overwrites:
                self._ledger.record_rows(stream.id, ordinal)

    def add_version(self, stream: LoadedStream, ordinal: int) -> None:
        """Queue the deletion of rows of old versions after an ACTIVATE_VERSION message.

        If rows of the message's version came before the message, the version is complete, and the
        deletion is queued at once. Otherwise `finish_streams` decides at the end of the input.

        Args:
            stream: The stream of the message.
            ordinal: The position of the message in the input.
        """
        if stream.overwrites or not stream.versions.has_pending_deletion:
            return
        self.hold_states(stream, ordinal)
        if self._can_delete and stream.versions.may_delete_versions(final=stream.complete):
            self._queue_deletion(stream, ordinal)

    def finish_streams(self, streams: Iterable[LoadedStream], ordinal: int, *, final: bool) -> None:
        """Queue the overwrites and version deletions of complete streams at the end of the input.

        Args:
            streams: The streams of the run.
            ordinal: The position of the end of the input.
            final: True if the end of the input shows that every stream is complete. If it is False,
                only streams with an earlier status message or ACTIVATE_VERSION may be complete.
        """
        for stream in streams:
            complete = final or stream.complete
            if stream.overwrites:
                self._finish_overwrite(stream, ordinal, final=complete)
            elif stream.versions.has_pending_deletion and self._can_delete:
                self._finish_versions(stream, ordinal, final=complete)

    def find_error(self, streams: Iterable[LoadedStream]) -> TargetSparkError | None:
        """Return an error that lists the incomplete streams, or None if there are none.

        Their states are held back, or their tables have old rows. Call this after the last commit.
        """
        withheld = self._ledger.withheld()
        faults = [
            self._report.describe_incomplete(str(stream.id))
            for stream in streams
            if stream.id in withheld or stream.deletion_key in withheld
        ]
        incomplete = self._make_incomplete_error(self._check_pending_deletions())
        if not faults:
            return incomplete
        if incomplete is not None:
            faults.append(str(incomplete))
        return QuarantineError(" ".join(faults))

    def _check_pending_deletions(self) -> list[str]:
        """Return the streams whose tables still have rows of other Singer table versions.

        The rows were not deleted, because the stream may be incomplete. If a table has no such
        rows, the states that waited for the deletion are emitted.
        """
        not_deleted: list[str] = []
        for stream in self._not_deleted:
            if self._has_other_versions(stream):
                text = "rows of other versions stay: the stream may be incomplete"
                self._pipeline.add_remark(stream.id, text)
                not_deleted.append(str(stream.id))
            else:
                self._release_without_deletion(stream)
        return not_deleted

    def _make_incomplete_error(self, not_deleted: Sequence[str]) -> IncompleteError | None:
        """Return an error that lists the tables with old rows, or None if there are no such tables.

        Old rows stay in a table that was not overwritten, or whose rows of other Singer table
        versions were not deleted (``not_deleted``), because its stream may be incomplete.
        """
        faults = []
        if self._not_overwritten:
            streams = ", ".join(self._not_overwritten)
            faults.append(f"The tables of {streams} were not overwritten and are unchanged")
        if not_deleted:
            streams = ", ".join(not_deleted)
            faults.append(f"The tables of {streams} still have rows of other versions")
        if not faults:
            return None
        signs = _SIGNS_OF_STATUS if self._by_status else _SIGNS_OF_STATES
        return IncompleteError(
            f"{'. '.join(faults)}: the input ended without a sign that these streams are complete"
            f" {signs}"
        )

    def _finish_overwrite(self, stream: LoadedStream, ordinal: int, *, final: bool) -> None:
        if final or stream.versions.closed:
            self._engine.begin()
            self._ledger.record_rows(stream.id, ordinal)
            self._pipeline.replace_table(stream, ordinal)
        else:
            self._pipeline.add_remark(stream.id, "not overwritten: the stream may be incomplete")
            self._not_overwritten.append(str(stream.id))

    def _finish_versions(self, stream: LoadedStream, ordinal: int, *, final: bool) -> None:
        if stream.versions.may_delete_versions(final=final):
            self._queue_deletion(stream, ordinal)
        elif stream.versions.may_delete_current_rows:
            self._pipeline.add_remark(stream.id, _VERSIONS_MIXED)
            self._release_without_deletion(stream)
        else:
            self._not_deleted.append(stream)

    def _queue_deletion(self, stream: LoadedStream, ordinal: int) -> None:
        """Start Spark if needed, and queue the deletion of the rows of old Singer table versions.

        ``ordinal`` is the position in the input of the ACTIVATE_VERSION message or of the end.
        """
        self._engine.begin()
        self._pipeline.delete_versions(stream, ordinal)

    def _has_other_versions(self, stream: LoadedStream) -> bool:
        """Return True if a stream's table has rows of versions other than the activated one."""
        self._engine.begin()
        version, writer = stream.versions.activated, self._pipeline.writer
        return version is not None and writer.has_other_versions(stream.table, version)

    def _release_without_deletion(self, stream: LoadedStream) -> None:
        """Cancel the deletion of old Singer table versions, and emit the states waiting for it."""
        self._ledger.discard_open_batch(stream.deletion_key)
        self._ledger.release()
