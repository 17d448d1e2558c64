"""`Stream`: base class of all streams.

Public members, signatures and underscore hooks are those of the Meltano Singer SDK 0.54, so
that a tap migrates by changing an import. The methods delegate to `tap_core.sync`,
`tap_core.records` and `tap_core.state`, which know streams only by a Protocol. A class that
overrides one of `sync.plan.OVERRIDABLE_HOOKS` takes the compatibility path, all others take
the fast path.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, final

from tap_core import metrics
from tap_core.compat.author_overrides import StreamOverrides
from tap_core.parsing.datetimes import utc_now
from tap_core.records.conform import conform_record_data_types
from tap_core.records.select import pop_deselected_record_properties
from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE as REPLICATION_FULL_TABLE
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL as REPLICATION_INCREMENTAL
from tap_core.singerlib.catalog import REPLICATION_LOG_BASED as REPLICATION_LOG_BASED
from tap_core.singerlib.messages import (
    ActivateVersionMessage,
    RecordMessage,
    SchemaMessage,
    SDKBatchMessage,
)
from tap_core.state.replication_key import copy_path
from tap_core.streams.state import StatefulStream
from tap_core.sync.batch_messages import BATCH_HOOKS, iterate_processed_records
from tap_core.sync.child_streams import sync_child_contexts, sync_children
from tap_core.sync.compat_path import (
    abort_sync,
    check_record_limit,
    sync_records_with_hooks,
    write_record,
)
from tap_core.sync.engine import sync_stream
from tap_core.sync.estimates import emit_stream_estimate
from tap_core.sync.plan import (
    OVERRIDABLE_HOOKS,
    get_member,
    get_plan,
    get_transforms,
    is_key_deselected,
    is_overridden,
)
from tap_core.typing.inspect import TypeConformanceLevel as TypeConformanceLevel

if TYPE_CHECKING:
    from tap_core.batch.encodings import BaseBatchFileEncoding, BatchConfig
    from tap_core.mapper.stream_maps import StreamMap
    from tap_core.singerlib.catalog import Schema
    from tap_core.sync.interfaces import SyncTap
    from tap_core.types import Context, JsonSchema, Record, StrPath

__all__ = [
    "REPLICATION_FULL_TABLE",
    "REPLICATION_INCREMENTAL",
    "REPLICATION_LOG_BASED",
    "Stream",
    "TypeConformanceLevel",
]


class Stream(StreamOverrides, StatefulStream, abc.ABC):
    """Base class of a stream of records.

    Define ``name``, ``schema``, ``primary_keys`` and, for incremental syncs, ``replication_key``,
    and override `get_records`. For HTTP APIs use `RESTStream` or `GraphQLStream`.

    >>> class Users(Stream):
    ...     name = "users"
    ...     primary_keys = ("id",)
    ...     schema = {"properties": {"id": {"type": "integer"}}}
    ...     def get_records(self, context):
    ...         yield {"id": 1}
    """

    STATE_MSG_FREQUENCY: int = 10_000
    """Number of records after which a state is written."""

    ABORT_AT_RECORD_COUNT: int | None = None
    """Number of records after which the sync is aborted, for connection tests; None: no limit."""

    _is_read_by_one: bool = False
    """True if one process must read all contexts, because the source counts the stream's jobs."""

    max_parallel_partitions: int = 1
    """Number of threads that may sync contexts. Set it above 1 only if this stream, and the code it
    uses, is thread-safe. The user's setting of the same name can lower it."""

    adds_context: bool = True
    """True if values of the context are added to records that lack them, as in the Singer SDK."""

    context: Context | None = None
    """Context that is being synced, read-only; change it in `preprocess_context`."""

    _HOOKS: ClassVar[Mapping[str, Any]] = {}
    _stream_version: int | None = None
    _stream_maps: list[StreamMap] | None = None
    _origin: Stream | None = None
    """Original stream of a worker's copy; None for the original itself."""

    def __init__(
        self,
        tap: SyncTap,
        schema: StrPath | JsonSchema | Schema | None = None,
        name: str | None = None,
    ) -> None:
        """Initialize the stream of a tap.

        Args:
            tap: Tap that the stream belongs to.
            schema: JSON Schema of the records; replaces the ``schema`` of the class.
            name: Name of the stream; replaces the ``name`` of the class.
        """
        super().__init__(tap, schema, name)
        self.child_streams: list[Stream] = []
        self._sync_costs: dict[str, int] = {}

    # Methods that authors override

    @abc.abstractmethod
    def get_records(
        self, context: Context | None
    ) -> Iterable[Record | tuple[Record, Context | None]]:
        """Yield the records of one context.

        Every stream must implement this method; HTTP streams inherit an implementation.

        Args:
            context: Partition or parent context to read; None if the stream has no partitions.

        Returns:
            Records as dicts from property name to value.

        Example:
            def get_records(self, context):
                yield from self.client.list_users(since=self.get_starting_timestamp(context))
        """

    def post_process(
        self,
        row: Record,
        context: Context | None = None,  # noqa: ARG002 - for overrides
    ) -> Record | None:
        """Change a record after it was pulled, or drop it.

        The default returns the record unchanged. Override it to rename, convert, add or remove
        properties.

        Args:
            row: Record, which may be changed in place.
            context: Context of the record, or None.

        Returns:
            The record to write, or None to drop it.

        Example:
            def post_process(self, row, context=None):
                row["email"] = row["email"].lower()
                return row
        """
        return row

    def preprocess_context(self, context: Context) -> Context:
        """Return the context to use; override it to change a context before it is frozen."""
        return context

    def get_child_context(self, record: Record, context: Context | None) -> Context | None:
        """Return the context in which the children of a record are synced.

        The default returns the stream's own context if there is one, else the whole record.
        Override it in every parent stream, to pass only the values that its children need. To sync
        the children several times per record, override `generate_child_contexts` instead.

        Args:
            record: Record of this stream, after `post_process`.
            context: Context of this stream, or None.

        Returns:
            The child context, or None to skip the children of this record.

        Raises:
            NotImplementedError: There is no context, and a child keeps one bookmark per context,
                so the keys of the context must be defined.

        Example:
            def get_child_context(self, record, context):
                return {"user_id": record["id"]}
        """
        if context is None:
            for child in self.child_streams:
                if child.state_partitioning_keys is None:
                    parent = type(self).__name__
                    msg = (
                        f"'{self.name}' has the child stream '{child.name}', but no definition of"
                        f" the context that a record gives it. Define {parent}.get_child_context(),"
                        f" or {type(child).__name__}.state_partitioning_keys."
                    )
                    raise NotImplementedError(msg)
        return context or record

    def generate_child_contexts(
        self, record: Record, context: Context | None
    ) -> Iterable[Context | None]:
        """Yield the contexts in which the children of a record are synced.

        The default yields the result of `get_child_context`. Override it to sync the children
        several times, or not at all, for one record.

        Args:
            record: Record of this stream, after `post_process`.
            context: Context of this stream, or None.

        Yields:
            A child context, or None to skip the children.

        Example:
            def generate_child_contexts(self, record, context):
                for year in record["years"]:
                    yield {"user_id": record["id"], "year": year}
        """
        yield self.get_child_context(record=record, context=context)

    def estimate_sync(self) -> tuple[int | None, int | None] | None:
        """Return the estimated number of rows and bytes of a sync, as a pair; None if unknown.

        Called before the first record under protocols with estimates (Airbyte's ESTIMATE), unless
        `Tap.estimate_sync` returns a total. The default returns None.
        """
        return None

    def update_estimate(self, rows: int | None = None, nbytes: int | None = None) -> None:
        """Update the estimated total of rows and bytes of this stream in the current sync.

        Call it during the sync of the stream as often as needed; the last call counts. It has no
        effect under protocols without estimates.
        """
        emit_stream_estimate(self, rows, nbytes)

    def get_batch_config(self, config: Mapping[str, Any]) -> BatchConfig | None:
        """Return the settings of batch files, or None to write RECORD messages.

        Raises:
            ConfigurationError: The setting ``batch_config`` is incomplete.
        """
        given = config.get("batch_config")
        if not given:
            return None
        from tap_core.batch.encodings import BatchConfig

        return BatchConfig.from_dict(given)

    def get_batches(
        self, batch_config: BatchConfig, context: Context | None = None
    ) -> Iterable[tuple[BaseBatchFileEncoding, list[str]]]:
        """Yield the batches of the stream, each as an encoding and a list of files.

        Override it for sources that can export files. If an override pulls rows with
        `_sync_records`, the rows must be part of the next batch that it yields.
        """
        from tap_core.batch.batchers import Batcher

        batcher = Batcher(self.tap_name, self.name, batch_config)
        for manifest in batcher.get_batches(iterate_processed_records(self, context)):
            yield batch_config.encoding, manifest

    def log_sync_costs(self) -> None:
        """Log the costs of this stream's sync, if the stream counts costs."""
        if self._sync_costs:
            self.log("Total Sync costs for stream %s: %s", self.name, self._sync_costs)

    def get_record_counter(
        self, *, endpoint: str | None = None, log_interval: float = metrics.DEFAULT_LOG_INTERVAL
    ) -> metrics.Counter:
        """Return the metric that counts this stream's records."""
        return metrics.record_counter(self.name, endpoint=endpoint, log_interval=log_interval)

    def get_batch_counter(self) -> metrics.Counter:
        """Return the metric that counts this stream's batches."""
        return metrics.batch_counter(self.name)

    def get_sync_timer(self) -> metrics.Timer:
        """Return the metric that times this stream's sync."""
        return metrics.sync_timer(self.name)

    # Parents and children

    @final
    @property
    def has_selected_descendents(self) -> bool:
        """True if a child stream, or a descendant of one, is selected."""
        return any(child.selected or child.has_selected_descendents for child in self.child_streams)

    @final
    @property
    def descendent_streams(self) -> list[Stream]:
        """All child streams and their descendants."""
        return [
            *self.child_streams,
            *(below for child in self.child_streams for below in child.descendent_streams),
        ]

    def _prepare_for_threads(self, threads: int) -> None:
        """Create the objects that the copies of this stream in ``threads`` threads share."""

    # Running; the underscore methods are hooks that some taps override

    @final
    def sync(self, context: Context | None = None) -> None:
        """Sync this stream: all of its partitions, or only ``context`` if it is not None."""
        sync_stream(self, context)

    def finalize_state_progress_markers(self, state: dict[str, Any] | None = None) -> None:
        """Promote the progress markers of this stream and its selected children to bookmarks."""
        if state:
            self._finalize_state(state)
        else:
            for child in self.child_streams:
                if child.selected:
                    child.finalize_state_progress_markers()
            if not self.selected:
                return
            self._tap.run.settle()
            self.state_manager.finalize_progress_markers(state=state, partitions=self.partitions)
        self._write_state_message()

    def _sync_records(
        self, context: Context | None = None, *, write_messages: bool = True
    ) -> Iterator[Record]:
        """Sync the records of one sync and yield each record."""
        return sync_records_with_hooks(self, context, write_messages=write_messages)

    def _sync_batches(self, batch_config: BatchConfig, context: Context | None = None) -> None:
        """Write the batches that `get_batches` yields, each followed by a state."""
        with self.get_batch_counter() as counter:
            for encoding, manifest in self.get_batches(batch_config, context):
                counter.increment()
                self._write_batch_message(encoding=encoding, manifest=manifest)
                self._tap.run.files.release(self.name)
                self._write_state_message()

    def _process_record(
        self,
        record: Record,
        child_context: Context | None = None,
        partition_context: Context | None = None,
    ) -> None:
        """Add the values of the context to a record, and sync its children."""
        if self.adds_context:
            for key, value in (partition_context or {}).items():
                record.setdefault(key, value)
        if get_plan(self).child_contexts:
            sync_child_contexts(self, record, child_context)

    def _sync_children(self, child_context: Context | None) -> None:
        """Sync the selected children with one context."""
        sync_children(self, child_context)

    def _check_max_record_limit(self, current_record_index: int) -> None:
        """Abort the sync when `ABORT_AT_RECORD_COUNT` is reached."""
        check_record_limit(self, current_record_index)

    def _abort_sync(self, abort_reason: Exception) -> None:
        """Write the current state and abort the sync."""
        abort_sync(self, abort_reason)

    # Messages

    @property
    def stream_maps(self) -> list[StreamMap]:
        """Stream maps of this stream; the first is the primary map.

        Raises:
            MapperNotInitialized: The tap was created with ``setup_mapper=False``.
        """
        if self._stream_maps is None:
            mapper = self._tap.mapper
            if self.name not in mapper.stream_maps:  # the stream is not in the input catalog
                mapper.register_raw_stream_schema(
                    self.name, self.effective_schema, list(self.primary_keys or [])
                )
            self._stream_maps = mapper.stream_maps[self.name]
        return self._stream_maps

    def _generate_schema_messages(self) -> Iterator[SchemaMessage]:
        """Yield the SCHEMA messages of this stream, one for each output name."""
        for event in get_plan(self).describes:
            yield SchemaMessage(
                event.stream.name,
                dict(event.schema),
                list(event.keys),
                [event.cursor] if event.cursor else None,
            )

    def _write_schema_message(self) -> None:
        """Write the SCHEMA message, unless it is the one written last in this run."""
        if is_overridden(self, "_generate_schema_messages") or is_overridden(
            self._tap, "write_message"
        ):
            for message in self._generate_schema_messages():
                self._tap.write_message(message)
        else:
            for event in get_plan(self).describes:
                self._tap.run.describe(event)

    def _generate_record_messages(self, record: Record) -> Iterator[RecordMessage]:
        """Yield the RECORD messages of a record, which is pruned in place, conformed and mapped."""
        if is_key_deselected(self):
            path = self.replication_path
            record = copy_path(path, record)  # the bookmark needs the key in the author's record
        pop_deselected_record_properties(record, self.schema, self.mask)
        conformed = conform_record_data_types(
            stream_name=self.name,
            record=record,
            schema=self.effective_schema,
            level=self.TYPE_CONFORMANCE_LEVEL,
            logger=self.logger,
        )
        if conformed is record:
            conformed = dict(record)  # a map may change the record, which belongs to the author
        for name, transform in get_transforms(self):
            mapped = transform(conformed)
            if mapped is not None:
                yield RecordMessage(
                    stream=name,
                    record=mapped,
                    version=self._stream_version,
                    time_extracted=utc_now(),
                )

    def _write_record_message(self, record: Record) -> None:
        """Write a record after the records before it."""
        if is_overridden(self, "_generate_record_messages") or is_overridden(
            self._tap, "write_message"
        ):
            for message in self._generate_record_messages(record):
                self._tap.write_message(message)
        else:
            write_record(self, record)
        self.state_manager.is_flushed = False

    def _generate_batch_messages(
        self, encoding: BaseBatchFileEncoding, manifest: list[str]
    ) -> Iterator[SDKBatchMessage]:
        """Yield the BATCH messages of a list of files, one for each output name."""
        for event in get_plan(self).describes:
            yield SDKBatchMessage(event.stream.name, encoding, manifest, self._stream_version)

    def _write_batch_message(self, encoding: BaseBatchFileEncoding, manifest: list[str]) -> None:
        """Write the BATCH messages of files, after all rows and files before them."""
        for message in self._generate_batch_messages(encoding, manifest):
            self._tap.write_message(message)
        self.state_manager.is_flushed = False

    def _write_activate_version_message(self, full_table_version: int) -> None:
        """Write ACTIVATE_VERSION for each output name."""
        for event in get_plan(self).describes:
            self._tap.write_message(ActivateVersionMessage(event.stream.name, full_table_version))

    def _write_state_message(self) -> None:
        """Write the state, if it changed since the last write."""
        _ = self.state_manager.stream_state  # a stream that was synced has an entry
        self._tap.run.checkpoint(owed=True)
        self.state_manager.is_flushed = True

    def _log_metric(self, point: metrics.Point[Any]) -> None:
        """Log one metric point."""
        metrics.log(self.metrics_logger, point=point)


Stream._HOOKS = {
    name: get_member(Stream, name)
    for name in (
        *OVERRIDABLE_HOOKS,
        *BATCH_HOOKS,
        "_generate_schema_messages",
        "generate_child_contexts",
        "get_child_context",
        "post_process",
        "preprocess_context",
        "stream_maps",
    )
}
