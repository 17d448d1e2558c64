"""Order and parallelism of the streams of one sync.

- Top-level streams are synced in the order of their names; a child stream is synced for each record
  of its parent.
- If the protocol reports the end of each stream separately, a failing stream does not stop the
  others, but the run still fails.
- LOG_BASED streams with a `ChangeLog` are synced together, when the first of them is due.
- Streams are synced in parallel if they and all of their descendants allow threads. They start
  together, when the first of them is due. Each gets one thread, which may use a worker pool. All
  other streams, and streams that share a descendant, are synced one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE
from tap_core.sync.concurrency import apply_user_limit, get_thread_count
from tap_core.sync.log_based_sync import is_read_from_log, sync_change_log
from tap_core.sync.stream_completion import StreamCompletion
from tap_core.sync.stream_selection import get_synced_children, is_synced
from tap_core.sync.sync_warnings import warn_of_likely_mistakes
from tap_core.sync.worker_pool import SyncJob, WorkerPool

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream, SyncTap
    from tap_core.sync.sync_run import SyncRun

__all__ = ["StreamScheduler", "force_full_table_parents"]


class StreamScheduler:
    """Scheduler that syncs the streams of a tap, several in parallel if possible.

    Args:
        tap: Tap with the streams, in the order in which to sync them.
        run: Sync in progress.
    """

    def __init__(self, tap: SyncTap, run: SyncRun) -> None:
        # Only some protocols report the end of each stream, and so which streams are complete.
        self._reports_ends = getattr(run.protocol_writer, "tells_ends", False)
        self._continues_after_error = tap.continue_on_stream_error and self._reports_ends
        self._run = run
        self._streams = streams = list(tap.streams.values())
        self._logger = tap.logger
        self._tap = tap
        self._threads = apply_user_limit(
            tap.max_parallel_streams, tap.config, "max_parallel_streams"
        )
        self._completion = StreamCompletion(streams)
        self._unfinished = [stream.name for stream in streams if stream.selected][:1]

    @property
    def unfinished(self) -> str | None:
        """Name of a stream that is being synced or has failed; None if all are complete."""
        return next(iter(self._unfinished), None)

    def sync(self) -> None:
        """Sync all streams of the tap, and make their states final.

        Raises:
            Exception: The first error of a stream.
        """
        warn_of_likely_mistakes(self._tap, self._streams)
        parallel = self._find_parallel_streams()
        log_based = [stream for stream in self._streams if is_read_from_log(stream)]
        for stream in self._streams:
            if stream in log_based:
                if stream is log_based[0]:
                    self._sync_from_log(log_based)
            elif stream not in parallel:
                self._sync_or_record_error(stream)
            elif stream is parallel[0]:
                self._sync_in_parallel(parallel)
            if stream.name not in self._run.stream_errors:
                self._completion.complete(stream, self._run.stream_errors)
        if self._run.stream_errors:
            self._unfinished = list(self._run.stream_errors)
            raise next(iter(self._run.stream_errors.values()))

    def _sync_or_record_error(self, stream: SyncStream) -> None:
        """Sync a stream. Store its error if the other streams are synced then; otherwise raise it.

        The sync continues if the tap allows it and the protocol reports the end of each stream.
        """
        try:
            self._sync_alone(stream)
        except Exception as error:
            self._remember_error(stream, error)
            if not self._continues_after_error or self._run.is_broken:
                raise
            self._logger.error(  # noqa: TRY400 - the traceback of the first error is logged at the end
                "Stream '%s' failed; the other streams are still synced. %s", stream.name, error
            )

    def _find_parallel_streams(self) -> list[SyncStream]:
        """Return the top-level streams to sync in parallel; an empty list if there is only one."""
        shared = _find_shared_descendants(self._streams)
        parallel = [
            stream
            for stream in self._streams
            if self._threads > 1
            and not stream.parent_stream_type
            and is_synced(stream)
            and shared.isdisjoint(stream.descendent_streams)
            and get_thread_count(stream) > 1
            and not is_read_from_log(stream)
        ]
        return parallel if len(parallel) > 1 else []

    def _sync_alone(self, stream: SyncStream) -> None:
        if not is_synced(stream):
            self._logger.info("Skipping deselected stream '%s'.", stream.name)
        elif stream.parent_stream_type:
            self._logger.debug("'%s' is synced by its parent.", stream.name)
        else:
            self._unfinished = [stream.name]
            self._completion.begin(stream)
            self._sync_root(stream)

    def _sync_from_log(self, streams: Sequence[SyncStream]) -> None:
        """Sync the LOG_BASED streams that are read from change logs, one log after the other.

        After an error, all of these streams count as unfinished.
        """
        self._unfinished = [stream.name for stream in streams]
        for stream in streams:
            self._completion.begin(stream)
        for log in dict.fromkeys(stream.change_log for stream in streams):
            if log is not None:
                sync_change_log(
                    log,
                    [candidate for candidate in streams if candidate.change_log is log],
                    self._run,
                )

    def _sync_in_parallel(self, streams: Sequence[SyncStream]) -> None:
        """Sync several streams in parallel, with one thread for each.

        Before that, create their state entries in the order of a sequential sync.
        """
        for stream in streams:
            _create_state_entries(stream)
            self._completion.begin(stream)
        self._unfinished = [stream.name for stream in streams]
        with WorkerPool(
            self._run, min(self._threads, len(streams)), streams, may_create_pools=True
        ) as pool:
            for stream in streams:
                pool.submit(SyncJob(stream, None, self._sync_in_thread))
            pool.drain()

    def _sync_in_thread(self, stream: SyncStream) -> None:
        try:
            self._sync_root(stream)
        except Exception as error:
            self._remember_error(stream, error)
            raise
        self._unfinished.remove(stream.name)

    def _remember_error(self, stream: SyncStream, error: Exception) -> None:
        """Add an error to `SyncRun.stream_errors`, if the protocol reports the end of each stream.

        Otherwise the error is not kept, because its traceback keeps the connections of the stream
        open.
        """
        if self._reports_ends:
            self._run.stream_errors[stream.name] = error

    def _sync_root(self, stream: SyncStream) -> None:
        """Sync a top-level stream and its children, finalize its state and write ACTIVATE_VERSION.

        If a later top-level stream syncs the same descendant, the ACTIVATE_VERSION of the
        descendant is written after that stream.
        """
        stream.sync()
        stream.finalize_state_progress_markers()
        root = stream._origin or stream
        for member in (stream, *stream.descendent_streams):
            is_complete = self._completion.is_complete_after(member._origin or member, root)
            if member._stream_version is not None and is_complete:
                member._write_activate_version_message(member._stream_version)


def _find_shared_descendants(streams: Sequence[SyncStream]) -> set[SyncStream]:
    """Return the streams that descend from more than one top-level stream."""
    roots = [stream for stream in streams if not stream.parent_stream_type]
    counts = Counter(child for root in roots for child in set(root.descendent_streams))
    return {child for child, count in counts.items() if count > 1}


def _create_state_entries(stream: SyncStream) -> None:
    """Create the state entries of a stream and its descendants, in the order of a sequential sync.

    In a sequential sync, a FULL_TABLE stream gets its entry after its children.
    """
    is_read_in_full = stream.replication_method == REPLICATION_FULL_TABLE
    if not is_read_in_full:
        _ = stream.state_manager.stream_state
    for child in get_synced_children(stream):
        _create_state_entries(child)
    if is_read_in_full:
        _ = stream.state_manager.stream_state


def force_full_table_parents(tap: SyncTap) -> None:
    """Read parent streams as FULL_TABLE if a child stream needs all of their records.

    A selected child needs them if it sets ``ignore_parent_replication_key``.
    """
    streams: Iterable[Any] = tap.streams.values()  # their replication_key is set here
    for stream in streams:
        for child in stream.descendent_streams:
            if child.selected and child.ignore_parent_replication_key:
                tap.logger.warning(
                    "Stream descendent '%s' is selected and its parent '%s' does not use"
                    " inclusive replication keys. Forcing full table replication for '%s'.",
                    child.name,
                    stream.name,
                    stream.name,
                )
                stream.replication_key = None
                stream.forced_replication_method = REPLICATION_FULL_TABLE
