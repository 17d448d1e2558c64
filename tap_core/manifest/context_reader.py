"""Reader of a manifest's stream, which reads the records of one partition at a time.

A context is a dict of the values that identify a partition. A custom or counting cursor divides a
partition into slices, which are read one after the other. The cursor's state is stored after all
records of a slice have been written: as an ordinary bookmark if it contains only the value of the
cursor field, otherwise under ``cursor_state``.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from requests.exceptions import RequestException

from tap_core.exceptions import FatalAPIError, RetriableAPIError, SyncError
from tap_core.manifest.components.partition_routers import PartitionSlice
from tap_core.manifest.errors import FailedRecordsError, ManifestError
from tap_core.manifest.interfaces import SLICE_NAMES
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
from tap_core.streams.window_reader import WindowReader
from tap_core.sync.window_state import close_window

if TYPE_CHECKING:
    from tap_core.http.request import HTTPRequest
    from tap_core.incremental.cursor import DatetimeBasedCursor
    from tap_core.manifest.cdk_compat.models import CdkStreamSlice
    from tap_core.manifest.components.cursors import CursorReader
    from tap_core.manifest.interfaces import DeclarativeStreamProtocol, TemplateScope
    from tap_core.manifest.stream_components import OtherCursor, StreamComponents
    from tap_core.manifest.stream_slices import StreamSlices
    from tap_core.state.replication_key_comparator import ReplicationKeyComparator
    from tap_core.types import Context, Record

__all__ = ["CursorSlice", "ManifestReader"]

_SLICE_ERRORS: Final = (FatalAPIError, RetriableAPIError, RequestException, FailedRecordsError)
"""Errors that may concern a single slice; the other slices are then still read."""


class CursorSlice(NamedTuple):
    """Slice of a custom cursor or IncrementingCountCursor, with the reader that yielded it."""

    reader: CursorReader
    cursor_slice: CdkStreamSlice


class ManifestReader(WindowReader):
    """Reader of a manifest's stream, which reads the records of one partition at a time.

    The time windows or cursor slices of the partition are read one after the other, and their state
    is stored. Arguments named ``context`` are dicts of the values that identify a partition.
    """

    stream: Any
    """Stream to read, a `ManifestStream`."""

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

    # Cursor

    @property
    def has_cursor(self) -> bool:
        """True if the stream has a cursor, which defines the bookmarks of its partitions."""
        return self._components.other_cursor is not None or super().has_cursor

    @property
    def start_date(self) -> Any:
        """Start of a slice without a bookmark; None for a custom or an IncrementingCountCursor."""
        return None if self._components.other_cursor is not None else super().start_date

    def make_comparator(self) -> ReplicationKeyComparator:
        """Return the comparator for replication key values.

        A custom cursor or IncrementingCountCursor has its own comparator; other streams use the
        default one.
        """
        cursor, default = self._components.other_cursor, super().make_comparator()
        return default if cursor is None else cursor.make_comparator(self.stream.name, default)

    def find_later(self, value: str, start_date: str) -> str:
        """Return the later of a bookmark and a start date.

        With a custom cursor or IncrementingCountCursor, return the bookmark.
        """
        if self._components.other_cursor is not None:
            return value
        return super().find_later(value, start_date)

    @property
    def has_ended(self) -> bool:
        """True if a newest-first stream has reached already synced records; reading then stops."""
        current = self.current_slice
        return super().has_ended if current is None else current.reader.is_past

    @property
    def has_gap(self) -> bool:
        """True if a template failed on a record, so the partition's bookmark must not advance."""
        failed = self.stream._failed_records
        return failed is not None and failed.count > 0

    @property
    def admits(self) -> Callable[[Record], bool] | None:
        """Client-side filter of the cursor: a function that returns True to keep a record.

        None means no filter. The paginator counts only records that pass the filter.
        """
        cursor, record_filter = self.stream.incremental_sync, self.stream._cursor_record_filter
        if cursor is None or record_filter is None or not cursor.is_client_side_incremental:
            return None
        admits: Callable[[Record], bool] = record_filter.admits
        return admits

    # Windows

    def check_edges(self) -> None:
        """Check that the cursor's start and end are valid datetimes.

        Raises:
            ConfigurationError: The start or the end is not valid; the error names its setting.
            ManifestError: The stream cannot be built from its declaration.
        """
        try:
            cursor = self.stream.incremental_sync
        except ManifestError as error:
            message = str(error)
            wrong = [edge for edge in ("start", "end") if f"{edge}_datetime" in message]
            if not wrong:
                raise
            raise self.make_edge_error(message, wrong[0]) from None
        if cursor is not None:
            self.find_time_range(cursor)

    def find_edge_settings(self, message: str, name: str) -> set[str]:  # noqa: ARG002
        """Return the config keys in the template of the cursor's start or end.

        ``name`` is "start" or "end". ``message`` is ignored.
        """
        node = self._components.incremental_node.get("incremental_sync") or {}
        declared = node.get(f"{name}_datetime")
        texts = declared.values() if isinstance(declared, Mapping) else [declared]
        return {key for text in texts if isinstance(text, str) for key in find_config_keys(text)}

    def find_time_range(self, cursor: DatetimeBasedCursor) -> tuple[dt.datetime, dt.datetime]:
        """Return (start, end) of the period that the cursor reads.

        With ``global_substream_cursor`` all slices share one bookmark, which does not pass the end
        of the first slice. So no other slice ends later.
        """
        start, end = super().find_time_range(cursor)
        return start, self._slices.limit_end(end) if cursor.global_substream_cursor else end

    def find_stored(
        self, cursor: DatetimeBasedCursor, context: Context | None
    ) -> dt.datetime | None:
        """Return the datetime up to which a partition is already synced; None without a bookmark.

        With ``global_substream_cursor``, the state contains the duration of the last sync as a
        lookback window, which is subtracted. The caller also subtracts the cursor's own lookback
        window.
        """
        stored = super().find_stored(cursor, context)
        if stored is None or not cursor.global_substream_cursor:
            return stored
        seconds = get_stream_state(self.stream).get(LOOKBACK_WINDOW_KEY)
        return stored - dt.timedelta(seconds=seconds) if seconds else stored

    # Slices of a parent stream

    def read_slice(self, context: Context | None) -> Iterator[Record]:
        """Yield the records of one slice of this parent stream.

        Each record becomes a slice of the child stream. If the parent resumes from the state of the
        child stream, each record advances the parent's bookmark. The bookmark is finalized after
        the slice or, if several slices share it, by `ManifestStream.resume_position`.
        """
        stream, manager = self.stream, self.stream.state_manager
        key = str(stream.replication_key)
        if self._is_resumed:
            self._slices.set_first_bookmark(context, self._components)
        cursor = manager.cursor(context, replication_key=key) if self._is_resumed else None
        admits, end = self.begin(context), self.end_time
        try:
            for record in stream.get_records(context):
                if admits is not None and not admits(record):
                    continue
                if cursor is not None:
                    cursor.advance(record.get(key))
                yield record
        finally:
            self.end()
        if cursor is not None:
            cursor.settle()
            manager.write_replication_key_signpost(end, context=context)
            if manager.get_state_partition_context(context) == context:
                manager.finalize_state(manager.get_context_state(context))

    # Slices of a custom or counting cursor

    def read(self, context: Context | None) -> Iterable[Record]:
        """Yield the records of a partition, one time window or cursor slice after the other."""
        cursor = self._components.other_cursor
        return super().read(context) if cursor is None else self._read_slices(cursor, context)

    def begin_trial(self, context: Context | None) -> None:
        """Limit the next read of a partition to its first time window or cursor slice.

        A connection test calls this method before it reads.
        """
        super().begin_trial(context)
        self._is_trial = True

    def end(self) -> None:
        """Stop the threads that read the time windows, and remove the limit of `begin_trial`."""
        super().end()
        self._is_trial = False

    def _read_slices(self, cursor: OtherCursor, context: Context | None) -> Iterator[Record]:
        stream = self.stream
        stream._prepare_for_threads(1)  # shared by the copies
        declarative = cast("DeclarativeStreamProtocol", stream)
        reader = cursor.make_reader(declarative, self._find_position(context))
        for cursor_slice in reader.slices():
            copied = copy.copy(stream)
            cast("ManifestReader", copied._context_reader).current_slice = CursorSlice(
                reader, cursor_slice
            )
            for record in copied.request_records(context):
                if reader.observe(record, cursor_slice):
                    yield record
            stream._sync_costs = copied._sync_costs
            state = reader.close(cursor_slice)
            if not self.has_gap:
                self._close_slice(context, state)
            if self._is_trial:
                return

    def make_scope(self, context: Context | None) -> TemplateScope:
        """Return the template variables for a request: config, stream slice and time window."""
        stream = self.stream
        fixed: TemplateScope | None = stream._client.fixed_scope
        if fixed is not None:
            return fixed
        cursor, window = stream.incremental_sync, stream.stream_interval
        partition, fields = self._find_partition(context)
        if cursor is not None and window is not None:
            fields = cursor.fields(window)
        stream_slice = partition.add_cursor_slice(fields)
        current = self.current_slice
        return {
            **({} if current is None else {STATE: current.reader.state}),
            "config": stream.config,
            **dict.fromkeys(SLICE_NAMES, stream_slice),
            "partition": partition,
            "stream_name": stream.name,
            "next_page_token": None,
        }

    def add_slice_options(self, request: HTTPRequest, scope: TemplateScope) -> None:
        """Add the values of the current slice to a request, such as the bounds of a time window.

        With a custom cursor, the cursor class adds the values.
        """
        cursor, window = self.stream.incremental_sync, self.stream.stream_interval
        if self.current_slice is not None:
            self.current_slice.reader.put(request, scope, self.current_slice.cursor_slice)
        elif cursor is not None and window is not None:
            cursor.put(request, window)

    def _find_partition(self, context: Context | None) -> tuple[PartitionSlice, Mapping[str, Any]]:
        """Return (partition values, cursor interval) of the current slice.

        The cursor interval is the part of a slice that the cursor adds, such as ``{"start": 5}``.
        It is {} unless the stream has a custom cursor or an IncrementingCountCursor.
        """
        extra_fields = getattr(context, "extra_fields", None)
        partition = PartitionSlice(context or {}, extra_fields=extra_fields)
        if self.current_slice is None:
            return partition, {}
        cursor_slice = self.current_slice.cursor_slice
        extended = PartitionSlice(
            {**cursor_slice.partition, **partition},
            extra_fields=cursor_slice.extra_fields or extra_fields,
        )
        return extended, {
            name: value
            for name, value in cursor_slice.items()
            if name not in cursor_slice.partition
        }

    # State of a custom or counting cursor

    def _find_position(self, context: Context | None) -> dict[str, Any]:
        """Return the stored state of a partition, in the format of the cursor's class.

        Return {} if no state is stored, or if the stream is not synced incrementally.
        """
        stream, manager = self.stream, self.stream.state_manager
        if stream.replication_method != REPLICATION_INCREMENTAL:
            return {}
        key = str(stream.replication_key)
        if stream._read_range is not None:
            return {key: stream._read_range.start}
        state = to_cursor_state(manager.get_context_state(context), key)
        return copy.deepcopy(state or to_cursor_state(manager.stream_state, key))

    def _close_slice(self, context: Context | None, state: Mapping[str, Any] | None) -> None:
        """Store the state of a custom cursor after all records of a slice are written.

        ``state`` is the state after the slice. An IncrementingCountCursor has an ordinary bookmark
        instead: ``state`` is then None, and nothing is stored.
        """
        stream = self.stream
        if state is None or stream.replication_method != REPLICATION_INCREMENTAL:
            return
        keep = partial(self._keep_state, context, self._to_json(state))
        if self._is_resumed:
            keep()
        else:
            close_window(stream, context, until=None, is_last=False, change_state=keep)

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

    # End of the stream

    def continues_after(self, error: Exception) -> bool:
        """Return True if an error concerns only one slice, so that the next slices are read.

        A config error concerns all slices and ends the stream.
        """
        has_slices = bool(self._components.retriever.routers)
        is_config_error = getattr(error, "failure_type", None) == "config_error"
        return has_slices and isinstance(error, _SLICE_ERRORS) and not is_config_error

    def complete(self, *, saw_all: bool) -> None:
        """Finalize the state of the stream after its last stream slice.

        This state consists of the states of all slices, of parent streams and of a global cursor.
        ``saw_all`` is True if all slices were read.
        """
        super().complete(saw_all=saw_all)
        self._slices.complete(has_global_cursor=self._components.has_global_cursor)
        self.stream._client.counter.exit()
