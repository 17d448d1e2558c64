"""Sync of LOG_BASED streams: a snapshot of each stream, then the changes in the source's log.

- All streams of a log are read together, so the log is read once per run.
- The bookmark is a position in the log: every change before this position was written. A state with
  the position is written after the records of these changes.
- The position of a snapshot is taken, and written as a state, before the snapshot begins. An
  interrupted snapshot is repeated with the same position. So deletions since the first attempt are
  still read from the log.
- A run confirms to the source only the position in the state with which the run started, because
  the target has stored all earlier changes. A state that the run has written may still be lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tap_core.exceptions import ConfigurationError
from tap_core.singerlib.catalog import REPLICATION_LOG_BASED
from tap_core.sync.metrics import record_metrics
from tap_core.sync.plan import get_plan

if TYPE_CHECKING:
    from tap_core.sync.change_log import ChangeLog
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.sync_run import SyncRun

__all__ = ["SNAPSHOT_PENDING", "is_read_from_log", "sync_change_log"]

SNAPSHOT_PENDING = "snapshot_pending"
"""Key of a stream's state, with the value True, from the start of its snapshot to its end."""


def is_read_from_log(stream: SyncStream) -> bool:
    """Return True if a stream is selected and read from a `ChangeLog`."""
    return (
        stream.selected
        and stream.change_log is not None
        and stream.replication_method == REPLICATION_LOG_BASED
    )


def sync_change_log(log: ChangeLog, streams: Sequence[SyncStream], run: SyncRun) -> None:
    """Sync the LOG_BASED streams that are read from the change log of a source.

    New streams are read by a snapshot first. Then the changes of all streams are read from the log,
    up to the end that the log had when this call began.
    """
    bookmarks = {stream.name: _get_bookmark(stream) for stream in streams}
    end = log.begin(bookmarks)
    known = [bookmark for bookmark in bookmarks.values() if bookmark is not None]
    if known:
        log.confirm(min(known))
    starts = {name: end if start is None else start for name, start in bookmarks.items()}
    for stream in streams:
        if bookmarks[stream.name] is None:
            _set_bookmark(stream, end, pending=True)
    run.checkpoint(required=True)
    for stream in streams:
        if stream.state_manager.stream_state.get(SNAPSHOT_PENDING):
            stream.sync()
            stream.finalize_state_progress_markers()
            _set_bookmark(stream, starts[stream.name])
        else:
            stream._write_schema_message()
    run.checkpoint(required=True)
    if min(starts.values()) < end:
        _write_changes(log, {stream.name: stream for stream in streams}, run, starts, end)


def _write_changes(
    log: ChangeLog,
    streams: Mapping[str, SyncStream],
    run: SyncRun,
    starts: Mapping[str, int],
    end: int,
) -> None:
    """Read the changes of streams from a change log and write them, with states.

    ``starts`` contains the position of each stream's first change, by stream name. ``end`` is the
    position after the last change.
    """
    from tap_core.sync.change_log import Change, SchemaUpdate  # most taps read no log

    frequency = min(stream.STATE_MSG_FREQUENCY for stream in streams.values())
    waiting = 0
    with ExitStack() as stack:
        tallies = {
            name: stack.enter_context(record_metrics(stream, run))
            for name, stream in streams.items()
        }
        before = run.open(None)
        stack.callback(run.open, before)
        for entry in run.guard_records(log.read(starts, end)):
            if isinstance(entry, Change):
                stream = streams[entry.stream]
                run.open(get_plan(stream))
                record = stream.post_process(entry.record, None)
                if record is not None:
                    stream._write_record_message(record)
                    tallies[entry.stream].count_read(1)
                    waiting += 1
            elif isinstance(entry, SchemaUpdate):
                _change_schema(streams[entry.stream], run)
            elif waiting >= frequency:
                waiting = 0
                _move_bookmarks(streams, starts, entry.value, run)
    _move_bookmarks(streams, starts, end, run)


def _change_schema(stream: SyncStream, run: SyncRun) -> None:
    """Write the changed schema of a stream. Rows buffered with the old schema are written first."""
    run.open(None)
    stream._sync_plan = None
    if stream._tap.has_mapper:
        stream._tap.mapper.register_raw_stream_schema(
            stream.name, stream.effective_schema, list(stream.primary_keys)
        )
        stream._stream_maps = None
    stream._write_schema_message()


def _move_bookmarks(
    streams: Mapping[str, SyncStream], starts: Mapping[str, int], position: int, run: SyncRun
) -> None:
    """Move the bookmarks of all streams to a position in the change log, and write the state.

    A bookmark is never earlier than the start position of its stream, which is in ``starts``.
    """
    for name, stream in streams.items():
        _set_bookmark(stream, max(position, starts[name]))
    run.checkpoint(required=True)


def _get_bookmark(stream: SyncStream) -> int | None:
    """Return the position in the change log at which a stream resumes, from its state.

    Return None for a stream without a bookmark.

    Raises:
        ConfigurationError: The bookmark is not a position.
    """
    state = stream.state_manager.stream_state
    if state.get("replication_key") != stream.replication_key:
        return None
    value: Any = state.get("replication_key_value")
    if value is not None and type(value) is not int:
        raise ConfigurationError(
            f"Stream '{stream.name}': its bookmark in the state is not a position in the log, which"
            " is an integer: remove the bookmark to read the stream from its beginning."
        )
    return value


def _set_bookmark(stream: SyncStream, position: int, *, pending: bool = False) -> None:
    """Store a position in the change log as the bookmark of a stream.

    If ``pending`` is True, the state also says that the snapshot of the stream is not complete.
    """
    manager = stream.state_manager
    with manager.document.lock:
        state = manager.stream_state
        state.clear()
        state["replication_key"] = stream.replication_key
        state["replication_key_value"] = position
        if pending:
            state[SNAPSHOT_PENDING] = True
        manager.touch()
