"""Where a stream stands: bookmarks, partitions, signposts and what authors may ask.

Rules of the room: this half of `Stream` asks `state/` and decides nothing itself. An
author who looks at state sees it as of the last record that he yielded, so each look
settles the open chunk first; a dict that was handed out may be changed by its holder.
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
    """The half of a stream that knows where it stands: see `tap_core.Stream`."""

    state_partition_limit: int | None = None
    """How many partitions may have a bookmark of their own, None for no limit.

    With more of them one bookmark stands for all, the oldest. A user's setting of the
    same name can lower the number.
    """

    sent_before: Mapping[str, Any] | None = None
    """The state up to which records were sent, where all are read again for children that
    begin; the state of the run itself begins anew."""

    _state_partitioning_keys: Sequence[str] | None = None
    _state_manager: StreamStateManager | None = None

    @property
    def state_partitioning_keys(self) -> Sequence[str] | None:
        """Keys of the context that tell bookmarks apart.

        None takes the whole context; an empty list keeps one bookmark for the stream.
        Anything but None makes the stream unsorted for its state.
        """
        return self._state_partitioning_keys

    @state_partitioning_keys.setter
    def state_partitioning_keys(self, new_value: Sequence[str] | None) -> None:
        self._state_partitioning_keys = new_value
        self._state_manager = None

    @property
    def is_sorted(self) -> bool:
        """Whether records come in the order of the replication key.

        A sync of such a stream that was interrupted goes on where it stopped.
        """
        return False

    @property
    def check_sorted(self) -> bool:
        """Whether a record that breaks the order of a sorted stream is an error."""
        return True

    @property
    def state_manager(self) -> StreamStateManager:
        """What keeps this stream's bookmarks."""
        if self._state_manager is None:
            self._state_manager = self._make_manager(self._tap.document)
        return self._state_manager

    def _make_manager(self, document: StateDocument) -> StreamStateManager:
        """Make what keeps this stream's bookmarks in a document."""
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
        """Return what compares the values of the replication key: by its type in the schema."""
        return make_comparator(
            get_definition(self.replication_path, self.effective_schema)
            if self.replication_key
            else None
        )

    # What authors may look at

    @property
    def tap_state(self) -> TapState:
        """The whole tap's state, writable; shared by all streams."""
        state: TapState = self._tap.state
        return state

    _tap_state = tap_state

    @property
    def stream_state(self) -> dict[str, Any]:
        """This stream's state, writable; made when there is none."""
        self._tap.run.settle()
        state = self.state_manager.stream_state
        self._tap.document.share(self.name)
        return state

    def get_context_state(self, context: Context | None) -> dict[str, Any]:
        """Return the state of one context, writable; made when there is none.

        A stream without partitions, or with ``state_partitioning_keys`` that leave
        nothing of the context, has the stream's own state for every context.
        """
        self._tap.run.settle()
        state = self.state_manager.get_context_state(context)
        self.state_manager.share(context)
        return state

    def _get_state_partition_context(self, context: Context | None) -> Context | None:
        """Return the part of a context that tells bookmarks apart."""
        return self.state_manager.get_state_partition_context(context)

    def get_starting_replication_key_value(self, context: Context | None) -> Any | None:
        """Return where this sync of the context starts, None for the beginning.

        The value is the bookmark or ``start_date`` as of the start of the sync. Use it
        for replication keys that are no date-times.
        """
        self._tap.run.settle()
        return self.state_manager.get_starting_replication_value(context, self.replication_method)

    def get_starting_timestamp(self, context: Context | None) -> datetime | None:
        """Return where this sync of the context starts, as an aware date-time.

        Raises:
            StreamSetupError: the value is not a date-time; it is a ValueError, too.
            ValueError: the replication key is not a date-time.
        """
        value = self.get_starting_replication_key_value(context)
        if value is None:
            return None
        if not self.is_timestamp_replication_key:
            msg = f"The replication key {self.replication_key} is not of timestamp type"
            raise ValueError(msg)
        return self._parse_datetime(value)

    def _parse_datetime(self, value: str) -> datetime:
        """Parse a date-time; without a zone it is UTC."""
        found = parse_instant(value)
        if found is None:
            shown = show_value(value, repr(value))
            msg = f"Stream '{self.name}': {shown} is not a date-time in ISO 8601."
            raise StreamSetupError(msg)
        return found[0]

    def compare_start_date(self, value: str, start_date_value: str) -> str:
        """Return the later of a bookmark and ``start_date``.

        Only date-time keys can be compared; for others the bookmark is taken. Override
        for keys such as epoch seconds.
        """
        if self.is_timestamp_replication_key:
            return max(value, start_date_value, key=self._parse_datetime)
        return value

    def get_replication_key_signpost(self, context: Context | None = None) -> datetime | Any | None:
        """Return the greatest bookmark that this sync may reach, None for no bound.

        For date-time keys that is the time at which the tap started: records changed
        later may have been missed on pages already read. Override for keys of other
        kinds, such as event ids or log positions.
        """
        del context
        if not self.is_timestamp_replication_key:
            return None
        return datetime.fromtimestamp(self._initialized_at / 1000.0, tz=timezone.utc)

    def _begin_context(self, context: Context | None) -> Callable[[Record], bool] | None:  # noqa: ARG002
        """Get ready to read a context; return what says which of its records are sent.

        None: all are. Asked after `post_process`, before children are synced.
        """
        return None

    def _begin_trial(self, context: Context | None) -> None:
        """Get ready to read no more of a context than shows that the source answers."""

    def _intervals(self, context: Context | None) -> Sequence[ReadInterval]:  # noqa: ARG002
        """Return the windows of a context where each can be read by itself; here none can."""
        return ()

    def _reading_only(self, interval: ReadInterval) -> AbstractContextManager[None]:
        """Read one window of a context."""
        raise NotImplementedError(f"Stream '{self.name}' has no windows: {interval}")

    def _end_context(self) -> None:
        """End what was begun for a context that was read, or could not be."""

    def _outlives(self, error: Exception) -> bool:  # noqa: ARG002
        """Return whether other contexts are read behind one that failed; as in singer_sdk none."""
        return False

    @property
    def partitions(self) -> list[dict[str, Any]] | None:
        """Contexts that this stream is synced for, one after the other.

        By default those that the state knows. Override to say them.
        """
        entries: Sequence[Any] = self._tap.document.partitions(self.name) or ()
        contexts = [
            partition["context"]
            for partition in entries
            if isinstance(partition, Mapping) and isinstance(partition.get("context"), Mapping)
        ]
        return contexts or None

    def keeps_partition(self, context: Context) -> bool:  # noqa: ARG002 - for overrides
        """Return whether a partition that the source did not return stays in the state.

        Asked once per run, when the stream has ended, for each partition of its state
        that was not read though all were. Override to forget those that are gone.
        """
        return True

    # Hooks that authors may override

    def _write_replication_key_signpost(
        self, context: Context | None, value: datetime | str | float | None
    ) -> None:
        """Keep the signpost of a context until it is finalized."""
        self.state_manager.write_replication_key_signpost(value, context=context)

    def _write_starting_replication_value(self, context: Context | None) -> None:
        """Keep where the sync of a context starts until it is finalized."""
        self.state_manager.write_starting_replication_value(
            context=context,
            replication_method=self.replication_method,
            replication_key=self.replication_key,
            config={"start_date": self._start_date},
            compare_start_date_fn=self.compare_start_date,
        )

    @property
    def _start_date(self) -> Any:
        """Where a context without a bookmark starts, None where nothing says so."""
        return self._config.get("start_date")

    def _increment_stream_state(
        self, latest_record: Record, *, context: Context | None = None
    ) -> None:
        """Move the bookmark of a context past a record.

        Raises:
            InvalidStreamSortException: the stream is sorted and the record is not.
            InvalidReplicationKeyException: the record lacks the replication key.
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
        """Bring the state of the partitions to its final form; all of them have ended.

        Where the state itself says which partitions there are, all of them stay.
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
        """Promote the progress markers of one state dict."""
        self._tap.run.settle_bookmarks()
        self.state_manager.finalize_state(state)
        self._tap.run.reload_bookmarks()
