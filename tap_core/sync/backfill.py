"""Backfill: sync of records in a range of replication key values that leaves the state unchanged.

The sync starts with an empty state, which is never written. In place of each state, the saved state
of the last regular sync is written unchanged, or nothing if there is no saved state.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tap_core.events import Checkpoint
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.state.backfill_range import KeyRange, ReadRange
from tap_core.state.document import StateDocument
from tap_core.sync.override_detection import is_overridden

if TYPE_CHECKING:
    from tap_core.events import Event
    from tap_core.sync.interfaces import SyncStream, SyncTap
    from tap_core.sync.output import ProtocolWriter

__all__ = ["KeptStateWriter", "apply_range", "begin_backfill"]


class KeptStateWriter:
    """Protocol writer for a backfill that keeps the saved state unchanged.

    In place of each new state, it writes the saved state of the last regular sync.
    """

    def __init__(self, writer: ProtocolWriter, state: Mapping[str, Any] | bytes | None) -> None:
        """Wrap a protocol writer, and write the saved state first.

        Args:
            writer: Protocol writer of the tap.
            state: Saved state, as a dict or as JSON on one line; None or {} to write no state.
        """
        self.encode: Any = writer.encode
        self._writer = writer
        line = state if isinstance(state, bytes) else StateDocument(dict(state or {})).encode()
        self._kept = Checkpoint(line) if state else None
        if self._kept is not None:  # before the first row: a target stores it with each commit
            writer.emit(self._kept)

    def __getattr__(self, name: str) -> Any:
        """Return an optional attribute of the wrapped writer, such as ``takes_files``."""
        return getattr(self._writer, name)

    def emit(self, event: Event) -> None:
        """Write an event. For a state, write the saved state instead, or nothing without one."""
        if not isinstance(event, Checkpoint):
            self._writer.emit(event)
        elif self._kept is not None:
            self._writer.emit(self._kept)


def begin_backfill(
    tap: SyncTap, read_range: ReadRange, state: Mapping[str, Any] | bytes | None
) -> None:
    """Prepare a tap for a backfill, and write the saved state to the output.

    Args:
        tap: Tap with its protocol writer. It must not have loaded a state.
        read_range: Range of replication key values to read.
        state: Saved state, as a dict or as JSON on one line; None to write no state.
    """
    apply_range(tap, read_range)
    tap.protocol_writer = KeptStateWriter(tap.protocol_writer, state)


def apply_range(tap: SyncTap, read_range: ReadRange) -> None:
    """Restrict the streams of a tap to a range of replication key values.

    Streams that cannot be read in a range, such as FULL_TABLE streams, are deselected with a
    warning. Such a stream is still read if a selected child needs its records.
    """
    streams = list(tap.streams.values())
    reasons = {stream.name: _explain_unreadable(stream, read_range) for stream in streams}
    for stream in streams:
        if (reason := reasons[stream.name]) is not None and stream.selected:
            stream.log(
                "Stream '%s' is not read in the backfill: %s.",
                stream.name,
                reason,
                level=logging.WARNING,
            )
            stream.selected = False
    for stream in streams:
        if reasons[stream.name] is None:
            parse = stream.state_manager.order.parse_bound
            end = None if read_range.end is None else parse(read_range.end)
            last = None if stream.has_selected_descendents else end
            stream._read_range = KeyRange(parse(read_range.start), end, last)


def _explain_unreadable(stream: SyncStream, read_range: ReadRange) -> str | None:
    """Return the reason why a backfill cannot read a stream, or None if it can.

    The reason is part of a warning, such as "it has no replication key".
    """
    is_forced = any(
        child.selected and child.ignore_parent_replication_key
        for child in stream.descendent_streams
    )
    if is_forced or stream.replication_method != REPLICATION_INCREMENTAL:
        return "it is not read by a replication key"
    if not stream.replication_key:
        return "it has no replication key"
    if stream.get_batch_config(stream.config) is not None and is_overridden(stream, "get_batches"):
        return "its get_batches makes the files, whose records cannot be filtered"
    if stream.state_manager.order.parse_bound(read_range.start) is None:
        return f"its replication key '{stream.replication_key}' cannot be compared with --from"
    return None
