"""Streams whose cursor is not a DatetimeBasedCursor, and the state of such cursors.

The stream slices of such a cursor are read one after the other, each by a copy of the stream.
The cursor's state is stored after all records of a slice have been written. It is stored under
``cursor_state``, unless it holds only the value of the cursor field: then it is an ordinary
bookmark.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from tap_core.exceptions import SyncError
from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.manifest.components.cursors import CustomIncrementalSync, IncrementingCountCursor
from tap_core.manifest.components.declarative_source import DeclarativeStream
from tap_core.manifest.components.partition_routers import PartitionSlice
from tap_core.manifest.declarative_stream import DeclarativeStreamBase
from tap_core.manifest.interfaces import CursorReader, DeclarativeStreamProtocol
from tap_core.manifest.interpolation import STATE
from tap_core.manifest.state_translation import (
    CURSOR_STATE,
    to_cursor_state,
    to_state_entry,
    translate_custom_state,
)
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.singerlib.json import dump_json
from tap_core.sync.window_state import close_window

if TYPE_CHECKING:
    from tap_core.manifest.cdk_compat.models import CdkStreamSlice
    from tap_core.state.comparison import ReplicationKeyComparator
    from tap_core.types import Context, Record

__all__ = ["CustomCursorStream"]

_Own: TypeAlias = CustomIncrementalSync | IncrementingCountCursor


class _InHand(NamedTuple):
    """The stream slice that a copy of a stream reads, and the cursor that made the slice."""

    reading: CursorReader
    one: CdkStreamSlice


class CustomCursorStream(DeclarativeStreamBase):
    """A stream with a custom or incrementing-count cursor, besides DatetimeBasedCursor."""

    _in_hand: _InHand | None = None
    _is_trial: bool = False

    def __init__(self, tap: Any, node: Mapping[str, Any]) -> None:
        """Build the stream; one with a custom cursor class is read by a single thread."""
        super().__init__(tap, node)
        if self._is_custom:
            self.max_parallel_partitions = 1

    @property
    def _is_custom(self) -> bool:
        """True if the cursor is a class of the connector's own code, with its own state format."""
        return bool(DeclarativeStream.shows(self._incremental_node))

    @cached_property
    def own_cursor(self) -> _Own | None:
        """The cursor, or None if the stream has no cursor or a DatetimeBasedCursor."""
        if not self._incremental_node.get("incremental_sync"):
            return None
        found = self.declared.incremental_sync
        return None if isinstance(found, DatetimeBasedCursor) else found

    def _order(self) -> ReplicationKeyComparator:
        own, usual = self.own_cursor, super()._order()
        return usual if own is None else own.order(self.name, usual)

    def get_replication_key_signpost(self, context: Context | None = None) -> Any | None:
        """Return the greatest bookmark that this sync may store; None for these cursors."""
        return None if self.own_cursor else super().get_replication_key_signpost(context)

    def compare_start_date(self, value: str, start_date_value: str) -> str:
        """Return the bookmark unchanged: these cursors decide their start themselves."""
        own = self.own_cursor
        return value if own else super().compare_start_date(value, start_date_value)

    @property
    def _start_date(self) -> Any:
        return None if self.own_cursor else super()._start_date

    def translated(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        """Return a stored state in this SDK's format; a state of airbyte-cdk is converted."""
        if not self._is_custom:
            return super().translated(kept)
        by_slices = bool((self._incremental_node.get("retriever") or {}).get("partition_router"))
        key = str(self.replication_key)
        return translate_custom_state(self._migrated(kept), key, by_slices=by_slices)

    # Reading

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Return the records of a context, one stream slice after the other."""
        own = self.own_cursor
        return super().get_records(context) if own is None else self._by_slices(own, context)

    def _by_slices(self, own: _Own, context: Context | None) -> Iterator[Record]:
        self._prepare_for_threads(1)  # shared by the copies
        reading = own.reading(cast(DeclarativeStreamProtocol, self), self._get_position(context))
        for one in reading.slices():
            made = copy.copy(self)
            made._in_hand = _InHand(reading, one)  # noqa: SLF001  (a copy)
            for record in made.request_records(context):
                if reading.takes(record, one):
                    yield record
            self._sync_costs = made._sync_costs  # noqa: SLF001
            kept = reading.close(one)
            if not self._has_gap:
                self._close(context, kept)
            if self._is_trial:
                return

    def _begin_trial(self, context: Context | None) -> None:
        super()._begin_trial(context)
        self._is_trial = True

    def _end_context(self) -> None:
        super()._end_context()
        self._is_trial = False

    @property
    def _has_ended(self) -> bool:
        """True if no further page is needed because a feed has reached records sent earlier."""
        in_hand = self._in_hand
        return super()._has_ended if in_hand is None else in_hand.reading.is_past

    def _get_partition(self, context: Context | None) -> tuple[PartitionSlice, Mapping[str, Any]]:
        """Return the partition of the current slice and the slice's other values."""
        more = getattr(context, "extra_fields", None)
        partition, in_hand = PartitionSlice(context or {}, extra_fields=more), self._in_hand
        if in_hand is None:
            return partition, {}
        one = in_hand.one
        whole = PartitionSlice(
            {**one.partition, **partition}, extra_fields=one.extra_fields or more
        )
        return whole, {name: value for name, value in one.items() if name not in one.partition}

    @property
    def _state_seen(self) -> Mapping[str, Any]:
        """The cursor's state for interpolation, as ``stream_state``; empty outside a slice."""
        return {} if self._in_hand is None else {STATE: self._in_hand.reading.state}

    # The state

    def _get_position(self, context: Context | None) -> dict[str, Any]:
        """Return the stored state of a context in the cursor's own format, {} at first."""
        if self.replication_method != REPLICATION_INCREMENTAL:
            return {}
        manager, key = self.state_manager, str(self.replication_key)
        found = to_cursor_state(manager.get_context_state(context), key)
        return copy.deepcopy(found or to_cursor_state(manager.stream_state, key))

    def _close(self, context: Context | None, kept: Mapping[str, Any] | None) -> None:
        """Store the cursor's state after a slice, as soon as the slice's records are written."""
        if kept is None or self.replication_method != REPLICATION_INCREMENTAL:
            return
        keep = partial(self._keep, context, self._plain(kept))
        if self._follows is not None:
            keep()
        else:
            close_window(self, context, until=None, is_last=False, keep=keep)

    def _plain(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(dump_json(dict(kept)))
        except (TypeError, ValueError) as error:
            raise SyncError(
                f"Stream '{self.name}': the state of {self._declares} cannot be stored: {error}"
            ) from None
        return found

    @property
    def _declares(self) -> str:
        return str(getattr(self.own_cursor, "class_name", "its cursor"))

    def _keep(self, context: Context | None, kept: Mapping[str, Any]) -> None:
        manager, key = self.state_manager, str(self.replication_key)
        entry = manager.get_context_state(context)
        for name in ("replication_key", "replication_key_value", CURSOR_STATE):
            entry.pop(name, None)
        entry.update(to_state_entry(kept, key))
        manager.touch(context)
