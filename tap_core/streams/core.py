"""`Stream`: what an author subclasses.

Rules of the room: public members, signatures and underscore hooks are the Singer SDK's
(version 0.54), so that a tap changes one import line. Bodies are thin: the work is in
`sync`, `records` and `state`, which know streams by a Protocol only. A class that
overrides one of `sync.plan.HOOKS` runs in the hook lane, all others in the compiled one.
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
    """A stream of records: override `get_records`, say name, schema and keys.

    >>> class Users(Stream):
    ...     name = "users"
    ...     primary_keys = ("id",)
    ...     schema = {"properties": {"id": {"type": "integer"}}}
    ...     def get_records(self, context):
    ...         yield {"id": 1}
    """

    STATE_MSG_FREQUENCY: int = 10_000
    """Records after which a state is written."""

    ABORT_AT_RECORD_COUNT: int | None = None
    """Records after which the sync is aborted; for tests of a connection."""

    _is_read_by_one: bool = False
    """Whether its contexts are counted at the source, so that one process reads all of them."""

    max_parallel_partitions: int = 1
    """In how many threads contexts may be synced; more than 1 says that this stream, and
    what it uses, is safe to run in threads. A user's setting of this name can lower it."""

    adds_context: bool = True
    """Whether what its context says is added to a record that lacks it, as in the Singer SDK."""

    context: Context | None = None
    """The context that is being synced, read-only; change it in `preprocess_context`."""

    _HOOKS: ClassVar[Mapping[str, Any]] = {}
    _stream_version: int | None = None
    _stream_maps: list[StreamMap] | None = None
    _origin: Stream | None = None
    """For a worker's copy: the stream that it was made of."""

    def __init__(
        self,
        tap: SyncTap,
        schema: StrPath | JsonSchema | Schema | None = None,
        name: str | None = None,
    ) -> None:
        """Make a stream of ``tap``; ``schema`` and ``name`` override the class's own."""
        super().__init__(tap, schema, name)
        self.child_streams: list[Stream] = []
        self._sync_costs: dict[str, int] = {}

    # What an author overrides

    @abc.abstractmethod
    def get_records(
        self, context: Context | None
    ) -> Iterable[Record | tuple[Record, Context | None]]:
        """Yield the records of a context (None where the stream has no partitions)."""

    def post_process(
        self,
        row: Record,
        context: Context | None = None,  # noqa: ARG002 - for overrides
    ) -> Record | None:
        """Change a record after it was pulled; None leaves it out."""
        return row

    def preprocess_context(self, context: Context) -> Context:
        """Change a context before it is used and frozen."""
        return context

    def get_child_context(self, record: Record, context: Context | None) -> Context | None:
        """Return the context in which a record's children are synced, None for none.

        By default the stream's own context, else the record.

        Raises:
            NotImplementedError: there is no context, and a child keeps a bookmark for
                each: say what tells them apart.
        """
        if context is None:
            for child in self.child_streams:
                if child.state_partitioning_keys is None:
                    parent = type(self).__name__
                    msg = (
                        f"'{self.name}' has the child stream '{child.name}', and nothing says"
                        f" what context a record gives it. Define {parent}.get_child_context(),"
                        f" or {type(child).__name__}.state_partitioning_keys."
                    )
                    raise NotImplementedError(msg)
        return context or record

    def generate_child_contexts(
        self, record: Record, context: Context | None
    ) -> Iterable[Context | None]:
        """Yield the contexts in which a record's children are synced."""
        yield self.get_child_context(record=record, context=context)

    def estimate_sync(self) -> tuple[int | None, int | None] | None:
        """Return about how many rows and how many bytes a sync will bring, as far as known.

        Asked before the first record, under protocols that have a word for it (Airbyte's
        ESTIMATE), unless `Tap.estimate_sync` knows the total. By default nothing is known.
        """
        return None

    def update_estimate(self, rows: int | None = None, nbytes: int | None = None) -> None:
        """Tell about how many rows and bytes this stream brings in this sync, from its first on.

        Call it while the stream is synced, as often as more is known: the last one counts.
        Without effect under protocols that have no word for it.
        """
        emit_stream_estimate(self, rows, nbytes)

    def get_batch_config(self, config: Mapping[str, Any]) -> BatchConfig | None:
        """Return where rows go as files and what these hold; None for RECORD messages.

        Raises:
            ConfigurationError: the setting lacks something.
        """
        given = config.get("batch_config")
        if not given:
            return None
        from tap_core.batch.encodings import BatchConfig

        return BatchConfig.from_dict(given)

    def get_batches(
        self, batch_config: BatchConfig, context: Context | None = None
    ) -> Iterable[tuple[BaseBatchFileEncoding, list[str]]]:
        """Yield the files of one batch after the other, with what they hold.

        Override it for sources that export files themselves. Rows that an override
        pulls (`_sync_records`) must stand in the next batch that it yields.
        """
        from tap_core.batch.batchers import Batcher

        batcher = Batcher(self.tap_name, self.name, batch_config)
        for manifest in batcher.get_batches(iterate_processed_records(self, context)):
            yield batch_config.encoding, manifest

    def log_sync_costs(self) -> None:
        """Log what the sync of this stream cost, where the stream counts that."""
        if self._sync_costs:
            self.log("Total Sync costs for stream %s: %s", self.name, self._sync_costs)

    def get_record_counter(
        self, *, endpoint: str | None = None, log_interval: float = metrics.DEFAULT_LOG_INTERVAL
    ) -> metrics.Counter:
        """Return the counter of this stream's records."""
        return metrics.record_counter(self.name, endpoint=endpoint, log_interval=log_interval)

    def get_batch_counter(self) -> metrics.Counter:
        """Return the counter of this stream's batches."""
        return metrics.batch_counter(self.name)

    def get_sync_timer(self) -> metrics.Timer:
        """Return the timer of this stream's sync."""
        return metrics.sync_timer(self.name)

    # Parents and children

    @final
    @property
    def has_selected_descendents(self) -> bool:
        """Whether a child, or a child of one, is selected."""
        return any(child.selected or child.has_selected_descendents for child in self.child_streams)

    @final
    @property
    def descendent_streams(self) -> list[Stream]:
        """All children, and theirs."""
        return [
            *self.child_streams,
            *(below for child in self.child_streams for below in child.descendent_streams),
        ]

    def _prepare_for_threads(self, threads: int) -> None:
        """Make what the copies of this stream, one for each of so many threads, will share."""

    # Running; the names with an underscore are hooks that some taps override

    @final
    def sync(self, context: Context | None = None) -> None:
        """Sync this stream: all partitions, or one context."""
        sync_stream(self, context)

    def finalize_state_progress_markers(self, state: dict[str, Any] | None = None) -> None:
        """Promote the progress markers of this stream and its selected children."""
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
        """Sync the records of one sync and yield each."""
        return sync_records_with_hooks(self, context, write_messages=write_messages)

    def _sync_batches(self, batch_config: BatchConfig, context: Context | None = None) -> None:
        """Write the batches that `get_batches` makes, each with a state behind it."""
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
        """Add what the context says to a record, and sync its children."""
        if self.adds_context:
            for key, value in (partition_context or {}).items():
                record.setdefault(key, value)
        if get_plan(self).child_contexts:
            sync_child_contexts(self, record, child_context)

    def _sync_children(self, child_context: Context | None) -> None:
        """Sync the selected children in one context."""
        sync_children(self, child_context)

    def _check_max_record_limit(self, current_record_index: int) -> None:
        """End the sync when `ABORT_AT_RECORD_COUNT` is reached."""
        check_record_limit(self, current_record_index)

    def _abort_sync(self, abort_reason: Exception) -> None:
        """Write the state that there is and end the sync."""
        abort_sync(self, abort_reason)

    # Messages

    @property
    def stream_maps(self) -> list[StreamMap]:
        """What becomes of this stream's records; the first is the primary map.

        Raises:
            MapperNotInitialized: the tap was made without `setup_mapper`.
        """
        if self._stream_maps is None:
            mapper = self._tap.mapper
            if self.name not in mapper.stream_maps:  # the input catalog does not have it
                mapper.register_raw_stream_schema(
                    self.name, self.effective_schema, list(self.primary_keys or [])
                )
            self._stream_maps = mapper.stream_maps[self.name]
        return self._stream_maps

    def _generate_schema_messages(self) -> Iterator[SchemaMessage]:
        """Yield the SCHEMA of this stream, one for each name that it goes by."""
        for event in get_plan(self).describes:
            yield SchemaMessage(
                event.stream.name,
                dict(event.schema),
                list(event.keys),
                [event.cursor] if event.cursor else None,
            )

    def _write_schema_message(self) -> None:
        """Write the SCHEMA, unless it is the one written last in this run."""
        if is_overridden(self, "_generate_schema_messages") or is_overridden(
            self._tap, "write_message"
        ):
            for message in self._generate_schema_messages():
                self._tap.write_message(message)
        else:
            for event in get_plan(self).describes:
                self._tap.run.describe(event)

    def _generate_record_messages(self, record: Record) -> Iterator[RecordMessage]:
        """Yield the RECORDs of a record: pruned (in place), conformed, and mapped."""
        if is_key_deselected(self):
            path = self.replication_path
            record = copy_path(path, record)  # the bookmark needs the key of the author's
        pop_deselected_record_properties(record, self.schema, self.mask)
        conformed = conform_record_data_types(
            stream_name=self.name,
            record=record,
            schema=self.effective_schema,
            level=self.TYPE_CONFORMANCE_LEVEL,
            logger=self.logger,
        )
        if conformed is record:
            conformed = dict(record)  # a map may change it, and it is the author's
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
        """Write a record behind those before it."""
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
        """Yield the BATCHes of some files, one for each name that the stream goes by."""
        for event in get_plan(self).describes:
            yield SDKBatchMessage(event.stream.name, encoding, manifest, self._stream_version)

    def _write_batch_message(self, encoding: BaseBatchFileEncoding, manifest: list[str]) -> None:
        """Name files behind the rows and files before them."""
        for message in self._generate_batch_messages(encoding, manifest):
            self._tap.write_message(message)
        self.state_manager.is_flushed = False

    def _write_activate_version_message(self, full_table_version: int) -> None:
        """Say which version of the table counts, under each name that it goes by."""
        for event in get_plan(self).describes:
            self._tap.write_message(ActivateVersionMessage(event.stream.name, full_table_version))

    def _write_state_message(self) -> None:
        """Write the state, if it changed since it was written last."""
        _ = self.state_manager.stream_state  # a stream that was synced has an entry
        self._tap.run.checkpoint(owed=True)
        self.state_manager.is_flushed = True

    def _log_metric(self, point: metrics.Point[Any]) -> None:
        """Log one measurement."""
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
