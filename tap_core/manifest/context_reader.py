"""Reader of a manifest's stream: reads the records of one context (partition) at a time.

The slices of a custom or counting cursor are read one after the other, each by a copy of the
stream. The state of such a cursor is stored after all records of a slice have been written. It is
stored under ``cursor_state``, unless it contains only the value of the cursor field; it then
becomes an ordinary bookmark.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tap_core.exceptions import SyncError
from tap_core.manifest.components.partition_routers import PartitionSlice
from tap_core.manifest.interpolation import STATE, find_config_keys
from tap_core.manifest.state_translation import (
    CURSOR_STATE,
    LOOKBACK_WINDOW_KEY,
    to_cursor_state,
    to_state_entry,
)
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.singerlib.json import dump_json
from tap_core.streams.state import get_stream_state
from tap_core.streams.windows import WindowReader
from tap_core.sync.window_state import close_window

if TYPE_CHECKING:
    from tap_core.exceptions import ConfigurationError
    from tap_core.incremental.cursor import DatetimeBasedCursor
    from tap_core.manifest.cdk_compat.models import CdkStreamSlice
    from tap_core.manifest.components.cursors import CursorReader
    from tap_core.manifest.interfaces import DeclarativeStreamProtocol
    from tap_core.manifest.stream_components import OtherCursor, StreamComponents
    from tap_core.manifest.stream_slices import StreamSlices
    from tap_core.types import Context, Record

__all__ = ["CursorSlice", "ManifestReader"]


class CursorSlice(NamedTuple):
    """Slice of a custom or counting cursor, with the cursor reader that yielded the slice."""

    reader: CursorReader
    cursor_slice: CdkStreamSlice


class ManifestReader(WindowReader):
    """Reader of a manifest's stream, which reads the records of one context at a time.

    A context contains the values of a partition. Its time windows or cursor slices are read one
    after the other, and their state is stored.
    """

    current_slice: CursorSlice | None = None
    _is_trial: bool = False

    def __init__(
        self, stream: Any, components: StreamComponents, slices: StreamSlices, *, is_resumed: bool
    ) -> None:
        """Initialize the reader of a stream.

        Args:
            stream: Stream to read, a ManifestStream.
            components: Components of the stream.
            slices: Slices of the stream.
            is_resumed: True for a parent stream that resumes from the state of its child stream.
                The state of such a parent is not emitted.
        """
        super().__init__(stream)
        self._components = components
        self._slices = slices
        self._is_resumed = is_resumed

    # Windows

    def make_edge_error(self, message: str, name: str) -> ConfigurationError:
        """Return the error for an invalid start or end datetime of the cursor.

        The message names the config keys that the template of the option uses. ``name`` is
        ``start`` or ``end``.
        """
        node = self._components.incremental_node.get("incremental_sync") or {}
        given = node.get(f"{name}_datetime")
        texts = given.values() if isinstance(given, Mapping) else [given]
        named = {
            cursor_slice
            for text in texts
            if isinstance(text, str)
            for cursor_slice in find_config_keys(text)
        }
        if named:
            settings = " and ".join(f"'{cursor_slice}'" for cursor_slice in sorted(named))
            word = "setting" if len(named) == 1 else "settings"
            message = f"{message.rstrip('.')}. It comes from the {word} {settings}."
        return super().make_edge_error(message, name)

    def find_time_range(self, cursor: DatetimeBasedCursor) -> tuple[dt.datetime, dt.datetime]:
        """Return the start and the end of the period to read.

        With ``global_substream_cursor`` no slice ends later than the first one, because all slices
        share one bookmark.
        """
        start, end = super().find_time_range(cursor)
        return start, self._slices.limit_end(end) if cursor.global_substream_cursor else end

    def find_stored(
        self, cursor: DatetimeBasedCursor, context: Context | None
    ) -> dt.datetime | None:
        """Return the datetime up to which a context is already synced; None without a bookmark."""
        found = super().find_stored(cursor, context)
        if found is None or not cursor.global_substream_cursor or cursor.lookback_window:
            return found
        seconds = get_stream_state(self.stream).get(LOOKBACK_WINDOW_KEY)
        return found - dt.timedelta(seconds=seconds) if seconds else found

    # Slices of a custom or counting cursor

    def read(self, context: Context | None) -> Iterable[Record]:
        """Yield the records of a partition, one time window or cursor slice after the other."""
        cursor = self._components.other_cursor
        return super().read(context) if cursor is None else self._read_slices(cursor, context)

    def begin_trial(self, context: Context | None) -> None:
        """Limit the next read to the first window or slice of a context, for a connection test."""
        super().begin_trial(context)
        self._is_trial = True

    def end(self) -> None:
        """Stop the threads that read windows of the context, and end a connection test."""
        super().end()
        self._is_trial = False

    def _read_slices(self, cursor: OtherCursor, context: Context | None) -> Iterator[Record]:
        stream = self.stream
        stream._prepare_for_threads(1)  # shared by the copies
        declarative = cast("DeclarativeStreamProtocol", stream)
        reader = cursor.make_reader(declarative, self._find_position(context))
        for cursor_slice in reader.slices():
            copied = copy.copy(stream)
            cast("ManifestReader", copied._reader).current_slice = CursorSlice(reader, cursor_slice)
            for record in copied.request_records(context):
                if reader.observe(record, cursor_slice):
                    yield record
            stream._sync_costs = copied._sync_costs
            state = reader.close(cursor_slice)
            if not stream._has_gap:
                self._close_slice(context, state)
            if self._is_trial:
                return

    def find_partition(self, context: Context | None) -> tuple[PartitionSlice, Mapping[str, Any]]:
        """Return the partition values of the current slice, and the values of its cursor interval.

        The cursor interval is a dict such as ``{"start": 5}``; it is {} without a cursor slice.
        """
        more = getattr(context, "extra_fields", None)
        partition = PartitionSlice(context or {}, extra_fields=more)
        if self.current_slice is None:
            return partition, {}
        cursor_slice = self.current_slice.cursor_slice
        whole = PartitionSlice(
            {**cursor_slice.partition, **partition}, extra_fields=cursor_slice.extra_fields or more
        )
        return whole, {
            name: value
            for name, value in cursor_slice.items()
            if name not in cursor_slice.partition
        }

    @property
    def state_scope(self) -> Mapping[str, Any]:
        """Mapping ``{"stream_state": <cursor state>}`` for templates; {} while no slice is read."""
        return {} if self.current_slice is None else {STATE: self.current_slice.reader.state}

    # State of a custom or counting cursor

    def _find_position(self, context: Context | None) -> dict[str, Any]:
        """Return the stored state of a context in the cursor's format; {} if none is stored."""
        stream, manager = self.stream, self.stream.state_manager
        if stream.replication_method != REPLICATION_INCREMENTAL:
            return {}
        key = str(stream.replication_key)
        if stream._read_range is not None:
            return {key: stream._read_range.start}
        found = to_cursor_state(manager.get_context_state(context), key)
        return copy.deepcopy(found or to_cursor_state(manager.stream_state, key))

    def _close_slice(self, context: Context | None, state: Mapping[str, Any] | None) -> None:
        """Store the state of a cursor as soon as all records of its slice are written.

        If ``state`` is None, nothing is stored, because the cursor uses an ordinary bookmark.
        """
        stream = self.stream
        if state is None or stream.replication_method != REPLICATION_INCREMENTAL:
            return
        keep = partial(self._keep_state, context, self._to_json(state))
        if self._is_resumed:
            keep()
        else:
            close_window(stream, context, until=None, is_last=False, keep=keep)

    def _to_json(self, state: Mapping[str, Any]) -> dict[str, Any]:
        try:
            document: dict[str, Any] = json.loads(dump_json(dict(state)))
        except (TypeError, ValueError) as error:
            name = getattr(self._components.other_cursor, "class_name", "its cursor")
            raise SyncError(
                f"Stream '{self.stream.name}': the state of {name} cannot be stored: {error}"
            ) from None
        return document

    def _keep_state(self, context: Context | None, state: Mapping[str, Any]) -> None:
        manager, key = self.stream.state_manager, str(self.stream.replication_key)
        entry = manager.get_context_state(context)
        for name in ("replication_key", "replication_key_value", CURSOR_STATE):
            entry.pop(name, None)
        entry.update(to_state_entry(state, key))
        manager.touch(context)
