"""State of a stream: bookmarks, partitions, signposts and the methods that authors use.

This base class of `Stream` delegates all decisions to `tap_core.state`. An author who reads
the state sees it as of the last yielded record, so every access first sends the open chunk.
A dict returned to the author may be changed by the author at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, cast

from tap_core.exceptions import StreamSetupError
from tap_core.redaction.row_values import show_value
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.state.comparison import ReplicationKeyComparator, make_comparator, parse_instant
from tap_core.state.document import StateDocument
from tap_core.state.manager import StreamStateManager
from tap_core.state.partition_limit import resolve_limit
from tap_core.state.replication_key import get_definition, make_getter
from tap_core.streams.declarations import StreamDeclarations
from tap_core.sync.replication_errors import missing_replication_key, require_replication_key

if TYPE_CHECKING:
    from tap_core.incremental.windows import ReadInterval
    from tap_core.types import Context, Record, TapState

__all__ = ["StatefulStream"]


class StatefulStream(StreamDeclarations):
    """State handling of a stream: see `tap_core.Stream`."""

    state_partition_limit: int | None = None
    """Maximum number of partitions with their own bookmark, None for no limit.

    If there are more partitions, one bookmark, the oldest, is used for all. The user's setting of
    the same name can lower the number.
    """

    sent_before: Mapping[str, Any] | None = None
    """State up to which records were sent, if all records are read again for new child streams. The
    state of the run itself starts empty."""

    _state_partitioning_keys: Sequence[str] | None = None
    _state_manager: StreamStateManager | None = None

    @property
    def state_partitioning_keys(self) -> Sequence[str] | None:
        """Context keys that identify a bookmark, as a sequence of strings.

        None (the default) uses the whole context, so that each context has a bookmark. An empty
        list
        keeps a single bookmark for the stream. With any value but None the stream's state is
        handled
        as unsorted.
        """
        return self._state_partitioning_keys

    @state_partitioning_keys.setter
    def state_partitioning_keys(self, new_value: Sequence[str] | None) -> None:
        self._state_partitioning_keys = new_value
        self._state_manager = None

    @property
    def is_sorted(self) -> bool:
        """True if records arrive in ascending order of the replication key; False by default.

        Set it to True if the source guarantees the order: an interrupted sync then resumes at its
        last record. A record out of order is an error, unless `check_sorted` is False.

        Example:
            is_sorted = True
        """
        return False

    @property
    def check_sorted(self) -> bool:
        """True if a record out of order in a sorted stream is an error; True by default."""
        return True

    @property
    def state_manager(self) -> StreamStateManager:
        """State manager, which keeps this stream's bookmarks."""
        if self._state_manager is None:
            self._state_manager = self._make_manager(self._tap.document)
        return self._state_manager

    def _make_manager(self, document: StateDocument) -> StreamStateManager:
        """Return a state manager for this stream's bookmarks in a document."""
        return StreamStateManager(
            tap_name=self.tap_name,
            stream_name=self.name,
            tap_state=cast("TapState", document.tap_state),
            state_partitioning_keys=self.state_partitioning_keys,
            is_sorted=self.is_sorted,
            check_sorted=self.check_sorted,
            document=document,
            order=self._order(),
            partition_limit=resolve_limit(
                self.name,
                self.state_partition_limit,
                self._config.get("state_partition_limit"),
            ),
        )

    def _order(self) -> ReplicationKeyComparator:
        """Return the comparator of replication key values, chosen by their type in the schema."""
        return make_comparator(
            get_definition(self.replication_path, self.effective_schema)
            if self.replication_key
            else None
        )

    # State access for authors

    @property
    def tap_state(self) -> TapState:
        """State of the whole tap, writable and shared by all streams."""
        state: TapState = self._tap.state
        return state

    _tap_state = tap_state

    @property
    def stream_state(self) -> dict[str, Any]:
        """State of this stream, writable; created if it is missing."""
        self._tap.run.settle()
        state = self.state_manager.stream_state
        self._tap.document.share(self.name)
        return state

    def get_context_state(self, context: Context | None) -> dict[str, Any]:
        """Return the state of one context, writable; created if it is missing.

        A stream without partitions, or whose ``state_partitioning_keys`` select nothing from the
        context, uses the stream's own state for every context.
        """
        self._tap.run.settle()
        state = self.state_manager.get_context_state(context)
        self.state_manager.share(context)
        return state

    def _get_state_partition_context(self, context: Context | None) -> Context | None:
        """Return the part of a context that identifies its bookmark."""
        return self.state_manager.get_state_partition_context(context)

    def get_starting_replication_key_value(self, context: Context | None) -> Any | None:
        """Return the replication key value from which this sync of the context starts, or None.

        The value is the bookmark or ``start_date`` as of the start of the sync; None means to read
        from the beginning. Use this method for replication keys that are no date-times.
        """
        self._tap.run.settle()
        return self.state_manager.get_starting_replication_value(context, self.replication_method)

    def get_starting_timestamp(self, context: Context | None) -> datetime | None:
        """Return the start of this sync of the context as a timezone-aware datetime, or None.

        Raises:
            StreamSetupError: The value is not a date-time. It is also a ValueError.
            ValueError: The replication key is not a date-time.
        """
        value = self.get_starting_replication_key_value(context)
        if value is None:
            return None
        if not self.is_timestamp_replication_key:
            msg = f"The replication key {self.replication_key} is not of timestamp type"
            raise ValueError(msg)
        return self._parse_datetime(value)

    def _parse_datetime(self, value: str) -> datetime:
        """Parse a date-time; a value without a time zone is UTC."""
        found = parse_instant(value)
        if found is None:
            shown = show_value(value, repr(value))
            msg = f"Stream '{self.name}': {shown} is not a date-time in ISO 8601."
            raise StreamSetupError(msg)
        return found[0]

    def compare_start_date(self, value: str, start_date_value: str) -> str:
        """Return the later of a bookmark and ``start_date``.

        Only date-time keys are compared; for other keys the bookmark is returned. Override it for
        keys such as epoch seconds.
        """
        if self.is_timestamp_replication_key:
            return max(value, start_date_value, key=self._parse_datetime)
        return value

    def get_replication_key_signpost(self, context: Context | None = None) -> datetime | Any | None:
        """Return the greatest bookmark that this sync may store, or None for no limit.

        For date-time keys it is the start time of the tap, because records changed later may have
        been missed on pages already read. Override it for keys of other types, such as event
        identifiers or log positions.
        """
        del context
        if not self.is_timestamp_replication_key:
            return None
        return datetime.fromtimestamp(self._initialized_at / 1000.0, tz=timezone.utc)

    def _begin_context(self, context: Context | None) -> Callable[[Record], bool] | None:  # noqa: ARG002
        """Prepare to read a context; return a filter for its records, or None to send all.

        The filter is applied after `post_process`, before children are synced.
        """
        return None

    def _begin_trial(self, context: Context | None) -> None:
        """Prepare to read only as much of a context as a connection test needs."""

    def _intervals(self, context: Context | None) -> Sequence[ReadInterval]:  # noqa: ARG002
        """Return the windows of a context that can be read separately; none by default."""
        return ()

    def _reading_only(self, interval: ReadInterval) -> AbstractContextManager[None]:
        """Restrict reading to one window of a context for the duration of the block."""
        raise NotImplementedError(f"Stream '{self.name}' has no windows: {interval}")

    def _end_context(self) -> None:
        """Release the resources of a context after it was read or failed."""

    def _outlives(self, error: Exception) -> bool:  # noqa: ARG002
        """Return True if other contexts are read after this failure; False, as in singer_sdk."""
        return False

    @property
    def partitions(self) -> list[dict[str, Any]] | None:
        """Contexts that the stream is synced for, one after the other, as a list of dicts or None.

        The default returns the contexts in the state. Override it to read the stream once for each
        of several values, such as accounts or regions. Each context has its own bookmark, unless
        `state_partitioning_keys` combines several.

        Example:
            @property
            def partitions(self):
                return [{"region": region} for region in self.config["regions"]]
        """
        entries: Sequence[Any] = self._tap.document.partitions(self.name) or ()
        contexts = [
            partition["context"]
            for partition in entries
            if isinstance(partition, Mapping) and isinstance(partition.get("context"), Mapping)
        ]
        return contexts or None

    def keeps_partition(self, context: Context) -> bool:  # noqa: ARG002 - for overrides
        """Return True if the state keeps a partition that the source no longer returns.

        Called once per run, when the stream has ended, for each partition in its state that was not
        read although all partitions of the source were. Override it to remove deleted partitions.
        """
        return True

    # Hooks that authors may override

    def _write_replication_key_signpost(
        self, context: Context | None, value: datetime | str | float | None
    ) -> None:
        """Store the signpost of a context until its state is finalized."""
        self.state_manager.write_replication_key_signpost(value, context=context)

    def _write_starting_replication_value(self, context: Context | None) -> None:
        """Store the starting value of a context until its state is finalized."""
        self.state_manager.write_starting_replication_value(
            context=context,
            replication_method=self.replication_method,
            replication_key=self.replication_key,
            config={"start_date": self._start_date},
            compare_start_date_fn=self.compare_start_date,
        )

    @property
    def _start_date(self) -> Any:
        """Start of a context without a bookmark, or None if no setting defines it."""
        return self._config.get("start_date")

    def _increment_stream_state(
        self, latest_record: Record, *, context: Context | None = None
    ) -> None:
        """Advance the bookmark of a context past a record.

        Raises:
            InvalidStreamSortException: The stream is sorted and the record is out of order.
            InvalidReplicationKeyException: The record has no replication key.
        """
        if not latest_record or self.replication_method != REPLICATION_INCREMENTAL:
            return
        key = require_replication_key(self.name, self.replication_key)
        try:
            value = make_getter(self.replication_path)(latest_record)
        except KeyError:
            if not self.state_manager.order.is_declared:
                raise missing_replication_key(self.name, key, latest_record) from None
            value = None
        self._tap.run.settle_bookmarks()
        self.state_manager.increment_state({key: value}, context=context, replication_key=key)
        self._tap.run.reload_bookmarks()

    def _complete_state(self, *, saw_all: bool) -> None:
        """Finalize the partitions in the state after all of them have ended.

        If the state itself defines the partitions, all of them are kept.
        """
        kind = type(self)
        if kind.partitions is StatefulStream.partitions and not self.parent_stream_type:
            return
        self._tap.run.settle()
        asks = kind.keeps_partition is not StatefulStream.keeps_partition
        if self.state_manager.complete(
            replication_key=self.replication_key,
            saw_all=saw_all,
            keeps=self.keeps_partition if asks else None,
        ):
            self._tap.run.checkpoint(owed=True)

    def _finalize_state(self, state: dict[str, Any] | None = None) -> None:
        """Turn the progress markers of one state dict into its final bookmark."""
        self._tap.run.settle_bookmarks()
        self.state_manager.finalize_state(state)
        self._tap.run.reload_bookmarks()
