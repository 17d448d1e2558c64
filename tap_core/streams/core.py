"""`Stream`: base class of all streams of a tap.

Public members, signatures and underscore hooks are those of the Meltano Singer SDK 0.54, so that a
tap migrates by changing an import. Most methods delegate to functions in
`tap_core.streams.declarations`, `tap_core.streams.state` and `tap_core.sync`. If a subclass
overrides a hook in `sync.override_detection.OVERRIDABLE_HOOKS`, the sync calls the hooks for each
record. For all other streams it uses a faster loop that does not call the hooks.
"""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, final

from tap_core import metrics, sync
from tap_core.compat.author_overrides import overridable_property
from tap_core.exceptions import DiscoveryError
from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE as REPLICATION_FULL_TABLE
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL as REPLICATION_INCREMENTAL
from tap_core.singerlib.catalog import REPLICATION_LOG_BASED as REPLICATION_LOG_BASED
from tap_core.singerlib.catalog import (
    Catalog,
    CatalogEntry,
    MetadataMapping,
    Schema,
    SelectionMask,
)
from tap_core.state.replication_key_path import parse_path
from tap_core.streams.declarations import (
    get_stream_metadata,
    has_datetime_replication_key,
    load_schema,
    make_catalog_entry,
    read_catalog_keys,
    require_single_key,
)
from tap_core.streams.state import (
    advance_bookmark,
    check_tap_state,
    finalize_state,
    finalize_with_children,
    find_first_value,
    get_partition_state,
    get_partitions_in_state,
    get_stream_state,
    make_state_manager,
    parse_state_datetime,
)
from tap_core.sync.context_reader import ContextReader
from tap_core.sync.override_detection import BATCH_HOOKS, OVERRIDABLE_HOOKS, get_member
from tap_core.typing.inspect import TypeConformanceLevel as TypeConformanceLevel

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from tap_core.batch.encodings import BaseBatchFileEncoding, BatchConfig
    from tap_core.mapper.stream_maps import StreamMap
    from tap_core.singerlib.messages import RecordMessage, SchemaMessage, SDKBatchMessage
    from tap_core.state.backfill_range import KeyRange
    from tap_core.state.manager import StreamStateManager
    from tap_core.sync.change_log import ChangeLog
    from tap_core.sync.interfaces import SyncTap
    from tap_core.sync.plan import Plan
    from tap_core.types import Context, JsonSchema, Record, StrPath, TapState

__all__ = [
    "REPLICATION_FULL_TABLE",
    "REPLICATION_INCREMENTAL",
    "REPLICATION_LOG_BASED",
    "Stream",
    "TypeConformanceLevel",
]

_Reader = TypeVar("_Reader", bound=ContextReader)


class Stream(abc.ABC):
    """Base class of a stream of records.

    Define ``name``, ``schema``, ``primary_keys`` and, for incremental syncs, ``replication_key``,
    and override `get_records`. For HTTP APIs use `RESTStream` or `GraphQLStream`.

    Examples:
        >>> class Users(Stream):
        ...     name = "users"
        ...     primary_keys = ("id",)
        ...     schema = {"properties": {"id": {"type": "integer"}}}
        ...     def get_records(self, context): yield {"id": 1}
    """

    name: str
    """Name of the stream, required; the ``stream`` of its Singer messages."""

    selected_by_default: bool = True
    """True if the stream is synced without an entry in a catalog."""

    TYPE_CONFORMANCE_LEVEL: TypeConformanceLevel = TypeConformanceLevel.RECURSIVE
    """Nesting depth to which values are converted to the types of the schema."""

    parent_stream_type: type[Stream] | None = None
    """Class of the parent stream, or None; a child is synced once for each record of its parent."""

    ignore_parent_replication_key: bool = False
    """True if the parent's replication key stays the same when a record of this stream changes. The
    parent is then read in full if this stream is selected."""

    allow_any_replication_key: bool = False
    """True if the user may choose the replication key in the catalog, as for a database table."""

    STATE_MSG_FREQUENCY: int = 10_000
    """Number of records after which a state is written."""

    ABORT_AT_RECORD_COUNT: int | None = None
    """Number of records after which the sync is aborted, for connection tests, or None."""

    state_partition_limit: int | None = None
    """Maximum number of partitions with their own bookmark; None for no limit.

    If there are more partitions, all of them use one bookmark, the oldest. The user's setting of
    the same name can lower the number.
    """

    max_parallel_partitions: int = 1
    """Maximum number of threads that sync partitions. Above 1, this stream and the code that it
    uses must be thread-safe. The user's setting of the same name can lower it."""

    add_context_to_records: bool = True
    """True if records get the values of their context that they lack, as in the Singer SDK."""

    previously_sent_state: Mapping[str, Any] | None = None
    """State up to which earlier runs sent records. It is None unless this run reads all records
    again for new child streams, starting with an empty state."""

    change_log: ChangeLog | None = None
    """Change log from which a LOG_BASED stream is read after its snapshot, or None."""

    context: Context | None = None
    """Context that is being synced, read-only; change it in `preprocess_context`."""

    _is_read_by_one_process: bool = False
    """True if one process must read all contexts, because that process counts the stream's jobs."""

    _HOOKS: ClassVar[Mapping[str, Any]] = {}  # set below: this class's members, for is_overridden
    _sync_plan: Plan | None = None
    _own_context_reader: ContextReader | None = None
    _primary_keys: Sequence[str] | None = None
    _replication_key: str | None = None
    _schema: JsonSchema | None = None
    _state_manager: StreamStateManager | None = None
    _state_partitioning_keys: Sequence[str] | None = None
    _stream_version: int | None = None
    _read_range: KeyRange | None = None
    """Range of the replication key that a backfill reads; None to continue from the state."""
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

        Raises:
            ValueError: The stream has no name, or the schema has an unsupported type.
            FileNotFoundError: The schema is a path and the file does not exist.
        """
        if name:
            self.name = name
        if not getattr(self, "name", None):
            msg = f"A stream needs a name: set {type(self).__name__}.name or pass name=."
            raise ValueError(msg)
        self._tap: Any = tap  # its class may have further members, which the stream uses
        self.tap_name: str = tap.name
        self._logger: logging.Logger = tap.logger.getChild(self.name)
        self.metrics_logger: logging.Logger = tap.metrics_logger
        self._config: dict[str, Any] = dict(tap.config)
        self._initialized_at: int = tap.initialized_at
        self.child_streams: list[Stream] = []
        self._sync_costs: dict[str, int] = {}
        self.forced_replication_method: str | None = None
        self._tap_input_catalog: Catalog | None = None
        self._input_schema: JsonSchema | None = None
        self._metadata: MetadataMapping | None = None
        self._mask: SelectionMask | None = None
        self._schema_filepath: Path | Traversable | None = None
        if source := schema or self.schema_filepath:
            self._schema, path = load_schema(self.name, source)
            self._schema_filepath = path or self._schema_filepath

    # Declarations

    @overridable_property
    def schema(self) -> JsonSchema:
        """JSON Schema of the records, as a dict.

        Set it as a class attribute, pass it to the constructor, or override the property if the
        schema depends on the source. There is no default.

        Raises:
            DiscoveryError: No schema was provided.

        Example:
            schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()
        """
        if self._schema is None:
            raise DiscoveryError(f"The schema for stream '{self.name}' was not provided")
        return self._schema

    @overridable_property
    def primary_keys(self) -> Sequence[str]:
        """Names of the properties that identify a record, as a sequence of strings.

        The default is empty: targets then append rows instead of merging them. Set it as a class
        attribute; an input catalog replaces it.

        Example:
            primary_keys = ("account_id", "id")
        """
        return self._primary_keys or []

    @primary_keys.setter
    def primary_keys(self, new_value: Sequence[str]) -> None:
        self._primary_keys = new_value
        self._sync_plan = None

    @overridable_property
    def replication_key(self) -> str | None:
        """Name of the property that grows with every change of a record, as a string.

        Without a key (None, the default) the stream is FULL_TABLE. With a key it is INCREMENTAL:
        the greatest value is stored in the state, and `get_starting_replication_key_value` returns
        it in the next sync. An input catalog replaces the key.

        Example:
            replication_key = "updated_at"
        """
        return self._replication_key or self._context_reader.cursor_field

    @replication_key.setter
    def replication_key(self, new_value: str | None) -> None:
        self._replication_key = new_value
        self._sync_plan = None

    @overridable_property
    def replication_method(self) -> str:
        """Replication method of the stream: FULL_TABLE, INCREMENTAL or LOG_BASED.

        It is ``forced_replication_method`` if that is set. Otherwise it is INCREMENTAL for a stream
        with a replication key, and FULL_TABLE for a stream without one.
        """
        key = require_single_key(self.name, self.replication_key)
        if self.forced_replication_method:
            return str(self.forced_replication_method)
        return REPLICATION_INCREMENTAL if key else REPLICATION_FULL_TABLE

    @overridable_property
    def state_partitioning_keys(self) -> Sequence[str] | None:
        """Context keys that identify a bookmark, as a sequence of strings.

        With None (the default), each context (partition or parent record) has a bookmark. An empty
        list means a single bookmark for the stream. With any list, several contexts may share a
        bookmark, so the stream is not treated as sorted.
        """
        if self._state_partitioning_keys is None:
            return self._context_reader.state_partitioning_keys
        return self._state_partitioning_keys

    @state_partitioning_keys.setter
    def state_partitioning_keys(self, new_value: Sequence[str] | None) -> None:
        self._state_partitioning_keys = new_value
        self._state_manager = None

    @overridable_property
    def is_sorted(self) -> bool:
        """True if records arrive in ascending order of the replication key; False by default.

        Set it to True if the API or database guarantees the order. An interrupted sync then resumes
        at its last record. A record out of order raises an error, unless `check_sorted` is False.

        Example:
            is_sorted = True
        """
        return False

    @overridable_property
    def check_sorted(self) -> bool:
        """True if a record out of order in a sorted stream raises an error; True by default."""
        return True

    @overridable_property
    def partitions(self) -> list[dict[str, Any]] | None:
        """Partitions of the stream, each as a dict of its identifying values, or None without any.

        They are read in this order. The default returns those in the state. Override it to read the
        stream once per account or region, for example. Each partition has a separate bookmark,
        unless `state_partitioning_keys` combines several.

        Example:
            @property
            def partitions(self):
                return [{"region": region} for region in self.config["regions"]]
        """
        return get_partitions_in_state(self._tap.document, self.name)

    @property
    def replication_path(self) -> tuple[str, ...]:
        """Path to the replication key in a record, as a tuple of property names.

        The path of ``meta.at`` is ``("meta", "at")``, or ``("meta.at",)`` if the schema has a
        top-level property of that name. Without a replication key, the path is ``()``.
        """
        key = require_single_key(self.name, self.replication_key)
        return parse_path(key, self.effective_schema) if key else ()

    @property
    def is_timestamp_replication_key(self) -> bool:
        """True if the schema declares the replication key with format ``date-time``.

        Raises:
            InvalidReplicationKeyException: The replication key is not in the schema.
        """
        return has_datetime_replication_key(self)

    def retain_partition(self, context: Context) -> bool:  # noqa: ARG002 - for overrides
        """Return False to delete the bookmark of a partition that the source no longer has.

        The default returns True, which keeps the bookmark. The method is called at the end of a
        sync that has read all existing partitions, once for each other partition in the state.
        """
        return True

    @overridable_property
    def tap_stream_id(self) -> str:
        """Identifier of this stream in the catalog and the state; its name by default."""
        return self.name

    @overridable_property
    def namespace(self) -> str | None:
        """Namespace of the stream, such as the database schema of a table; None by default."""
        return None

    @overridable_property
    def name_in_namespace(self) -> str:
        """Name of the stream within its namespace, such as a table name; `name` by default."""
        return self.name

    @overridable_property
    def schema_filepath(self) -> Path | Traversable | None:
        """Path of the JSON file from which the schema was read, or None (deprecated)."""
        return self._schema_filepath

    @property
    def config(self) -> Mapping[str, Any]:
        """Config settings of the tap, as a read-only mapping."""
        return MappingProxyType(self._config)

    @property
    def emit_activate_version_messages(self) -> bool:
        """True if FULL_TABLE streams write ACTIVATE_VERSION messages; False by default."""
        return bool(self.config.get("emit_activate_version_messages", False))

    @property
    def logger(self) -> logging.Logger:
        """Logger of this stream, a child of the tap's logger."""
        return self._logger

    def log(self, message: str, *args: Any, level: int = logging.INFO, **kwargs: Any) -> None:
        """Log a message with the stream's logger, at level INFO by default."""
        self._logger.log(level, message, *args, **kwargs)

    # Catalog and selection

    @property
    def effective_schema(self) -> JsonSchema:
        """JSON Schema for converting records: from the input catalog or, without one, the tap."""
        return self.schema if self._input_schema is None else self._input_schema

    @property
    def metadata(self) -> MetadataMapping:
        """Singer metadata by breadcrumb, from the input catalog or, without one, from the tap."""
        if self._metadata is None:
            self._metadata = get_stream_metadata(self, self._tap_input_catalog)
        return self._metadata

    @property
    def mask(self) -> SelectionMask:
        """Dict from breadcrumb to True (selected) or False; ``()`` is the stream itself."""
        if self._mask is None:
            self._mask = self.metadata.resolve_selection()
        return self._mask

    @property
    def selected(self) -> bool:
        """True if the catalog selects this stream. If False, it is read only for its children."""
        return self.mask.get((), True)

    @selected.setter
    def selected(self, value: bool | None) -> None:
        self.metadata.root.selected = value
        self._mask, self._sync_plan = self.metadata.resolve_selection(), None

    def apply_catalog(self, catalog: Catalog) -> None:
        """Apply keys, replication method, schema and selection of an input catalog.

        Override it to reject catalogs that the tap does not support. A catalog entry without a
        replication key removes the stream's own key, as in the Meltano Singer SDK.
        """
        self._tap_input_catalog = catalog
        self._sync_plan = self._metadata = None
        self._mask = None if self.tap_stream_id in catalog else SelectionMask({(): False})
        entry = catalog.get_stream(self.name)
        if entry is None:
            return
        self.primary_keys, self.replication_key, method = read_catalog_keys(entry)
        self.forced_replication_method = method or self.forced_replication_method
        self._input_schema = entry.schema.to_dict()

    @property
    def _singer_catalog_entry(self) -> CatalogEntry:
        """Catalog entry of this stream, with schema, metadata and keys, as written by discovery."""
        return make_catalog_entry(self)

    @property
    def _singer_catalog(self) -> Catalog:
        """Catalog whose only entry is this stream."""
        return Catalog([(self.tap_stream_id, self._singer_catalog_entry)])

    # Records

    @abc.abstractmethod
    def get_records(
        self, context: Context | None
    ) -> Iterable[Record | tuple[Record, Context | None]]:
        """Yield the records of the stream, or of one of its partitions.

        Every stream must implement this method; HTTP streams inherit an implementation.

        Args:
            context: Values that identify the partition or parent record to read, or None.

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
        """Change a record after `get_records` has yielded it, or drop it.

        The default returns the record unchanged. Override it to rename, convert, add or remove
        properties.

        Args:
            row: Record, which may be changed in place.
            context: Values that identify the record's partition or parent record, or None.

        Returns:
            The record to write, or None to drop it.

        Example:
            def post_process(self, row, context=None):
                row["email"] = row["email"].lower()
                return row
        """
        return row

    def preprocess_context(self, context: Context) -> Context:
        """Return the context (values that identify a partition) to read in place of ``context``."""
        return context

    def get_child_context(self, record: Record, context: Context | None) -> Context | None:
        """Return the values of a record that its child streams need, such as its key.

        The result is the context of the children: by default the stream's own context or, without
        one, the whole record. Override it in every parent stream, to pass only the needed values.
        To sync the children several times per record, override `generate_child_contexts`.

        Args:
            record: Record of this stream, after `post_process`.
            context: Context of this stream, or None.

        Returns:
            The child context, or None to skip the children of this record.

        Raises:
            NotImplementedError: The method must be overridden: the stream has no context, and a
                child needs one, because it has one bookmark per context.

        Example:
            def get_child_context(self, record, context):
                return {"user_id": record["id"]}
        """
        if context is None:
            sync.child_streams.require_child_contexts(self)
        return context or record

    def generate_child_contexts(
        self, record: Record, context: Context | None
    ) -> Iterable[Context | None]:
        """Yield a context (the needed values) for each sync of a record's child streams.

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

    def get_batch_config(self, config: Mapping[str, Any]) -> BatchConfig | None:
        """Return the parsed setting ``batch_config``; None if the stream writes RECORD messages.

        Raises:
            ConfigurationError: The setting ``batch_config`` is incomplete.
        """
        batch_config = config.get("batch_config")
        if not batch_config:
            return None
        from tap_core.batch.encodings import BatchConfig

        return BatchConfig.from_dict(batch_config)

    def get_batches(
        self, batch_config: BatchConfig, context: Context | None = None
    ) -> Iterable[tuple[BaseBatchFileEncoding, list[str]]]:
        """Write records to batch files, and yield the encoding and the file URLs of each batch.

        Override it for APIs or databases that can export files. If an override reads rows with
        `_sync_records`, the next batch that it yields must include them.
        """
        from tap_core.batch.batchers import Batcher

        batcher = Batcher(self.tap_name, self.name, batch_config)
        records = sync.batch_messages.iterate_processed_records(self, context)
        for manifest in batcher.get_batches(records):
            yield batch_config.encoding, manifest

    def estimate_sync(self) -> tuple[int | None, int | None] | None:
        """Return the estimated numbers of rows and bytes of a sync, as a pair; None if unknown.

        The sync calls it before the first record, if the output protocol has estimates (as
        Airbyte's has) and `Tap.estimate_sync` returns no total. The default returns None.
        """
        return None

    def update_estimate(self, rows: int | None = None, nbytes: int | None = None) -> None:
        """Update the estimated total of rows and bytes of this stream in the current sync.

        Call it during the sync as often as needed; each estimate replaces the previous one. It has
        no effect if the output protocol has no estimates, such as Singer's.
        """
        sync.estimates.emit_stream_estimate(self, rows, nbytes)

    # State

    def get_starting_timestamp(self, context: Context | None) -> datetime | None:
        """Return the timezone-aware time from which to read a partition; None to read all of it.

        Raises:
            StreamSetupError: The value is not a date-time. The error is also a ValueError.
            ValueError: The replication key is not declared as a date-time.
        """
        value = self.get_starting_replication_key_value(context)
        if value is None:
            return None
        if not self.is_timestamp_replication_key:
            raise ValueError(f"The replication key {self.replication_key} is not of timestamp type")
        return self._parse_datetime(value)

    def get_starting_replication_key_value(self, context: Context | None) -> Any | None:
        """Return the replication key value from which this sync reads a partition.

        The value is the bookmark at the start of the sync, or else ``start_date``. None means to
        read from the beginning. Use this method for replication keys that are not date-times.
        """
        self._tap.run.settle()
        return self.state_manager.get_starting_replication_value(context, self.replication_method)

    def compare_start_date(self, value: str, start_date_value: str) -> str:
        """Return the later of a bookmark and the setting ``start_date``.

        Values of date-time keys, and of the key of ``incremental_sync``, are compared. For any
        other key the bookmark is returned. Override it for keys such as epoch seconds.
        """
        if self._context_reader.has_cursor:
            return self._context_reader.find_later(value, start_date_value)
        if self.is_timestamp_replication_key:
            return max(value, start_date_value, key=self._parse_datetime)
        return value

    def get_replication_key_signpost(self, context: Context | None = None) -> datetime | Any | None:
        """Return the greatest bookmark that this sync may store, or None for no limit.

        For date-time keys it is the start time of the tap, because pages that were already read may
        lack records that change during the sync. Override it for keys of other types, such as event
        identifiers or log positions. With ``incremental_sync``, which has an end time, it is None.
        """
        del context
        if self._context_reader.has_cursor or not self.is_timestamp_replication_key:
            return None
        return datetime.fromtimestamp(self._initialized_at / 1000.0, tz=timezone.utc)

    @property
    def state_manager(self) -> StreamStateManager:
        """Manager that reads and writes this stream's bookmarks in the state."""
        if self._state_manager is None:
            self._state_manager = make_state_manager(self, self._tap.document)
        return self._state_manager

    @property
    def tap_state(self) -> TapState:
        """State of the whole tap, as a mutable dict that all streams share."""
        state: TapState = self._tap.state
        return state

    _tap_state = property(lambda self: self.tap_state, check_tap_state)

    @property
    def stream_state(self) -> dict[str, Any]:
        """State of this stream, as a mutable dict; created if it is missing."""
        return get_stream_state(self)

    def get_context_state(self, context: Context | None) -> dict[str, Any]:
        """Return the state of one partition, as a mutable dict; create it if it is missing.

        If the stream has no partitions, or ``context`` has no key in ``state_partitioning_keys``,
        the result is the state of the whole stream.
        """
        return get_partition_state(self, context)

    def _get_state_partition_context(self, context: Context | None) -> Context | None:
        """Return the items of a context that identify its bookmark; by default all items."""
        return self.state_manager.get_state_partition_context(context)

    def _parse_datetime(self, value: str) -> datetime:
        """Parse a date-time; a value without a time zone is UTC."""
        parsed = self._context_reader.parse_datetime(value)
        return parse_state_datetime(self, value) if parsed is None else parsed

    def _write_replication_key_signpost(
        self, context: Context | None, value: datetime | str | float | None
    ) -> None:
        """Store the signpost of a context: the greatest bookmark that it may get in this sync."""
        self.state_manager.write_replication_key_signpost(value, context=context)

    def _write_starting_replication_value(self, context: Context | None) -> None:
        """Store the replication key value at which this sync starts to read a context."""
        config = {"start_date": find_first_value(self)}
        self.state_manager.write_starting_replication_value(
            context, self.replication_method, self.replication_key, config, self.compare_start_date
        )

    def _increment_stream_state(
        self, latest_record: Record, *, context: Context | None = None
    ) -> None:
        """Advance the bookmark to the replication key value of a record.

        Raises:
            InvalidStreamSortException: The stream is sorted and the record is out of order.
            InvalidReplicationKeyException: The record has no replication key.
        """
        advance_bookmark(self, latest_record, context)

    def _finalize_state(self, state: dict[str, Any] | None = None) -> None:
        """Turn the progress markers of ``state``, by default the stream's state, into bookmarks."""
        finalize_state(self, state)

    def finalize_state_progress_markers(self, state: dict[str, Any] | None = None) -> None:
        """Store progress markers as bookmarks: those in ``state``, or by default the stream's."""
        if state:
            self._finalize_state(state)
        elif not finalize_with_children(self):
            return
        self._write_state_message()

    # Sync; the underscore methods are hooks that some taps override

    @final
    def sync(self, context: Context | None = None) -> None:
        """Sync this stream: only the partition ``context``, or by default all partitions."""
        sync.engine.sync_stream(self, context)

    @property
    def _context_reader(self) -> ContextReader:
        """`ContextReader` that reads this stream, one partition after the other."""
        return self._get_context_reader(ContextReader)

    def _get_context_reader(self, make_reader: Callable[[Any], _Reader]) -> _Reader:
        """Return the `ContextReader` of this stream; ``make_reader`` creates it on first use."""
        if self._own_context_reader is None or self._own_context_reader.stream is not self:
            self._own_context_reader = make_reader(self)
        return cast("_Reader", self._own_context_reader)

    def _prepare_for_threads(self, threads: int) -> None:  # noqa: B027 - for overrides
        """Create objects that the threads will share, such as an HTTP session, before they read."""

    def _sync_records(
        self, context: Context | None = None, *, write_messages: bool = True
    ) -> Iterator[Record]:
        """Sync and yield the records of the partition ``context``, by default of all partitions."""
        return sync.overridable_loop.sync_with_hooks(self, context, write_messages=write_messages)

    def _sync_batches(self, batch_config: BatchConfig, context: Context | None = None) -> None:
        """Write BATCH messages and the state for each batch that `get_batches` yields."""
        with self.get_batch_counter() as counter:
            for encoding, manifest in self.get_batches(batch_config, context):
                counter.increment()
                self._write_batch_message(encoding=encoding, manifest=manifest)
                self._tap.run.files.allow_states(self.name)
                self._write_state_message()

    def _process_record(
        self,
        record: Record,
        child_context: Context | None = None,
        partition_context: Context | None = None,
    ) -> None:
        """Add missing values of ``partition_context`` to a record, then sync its child streams."""
        if self.add_context_to_records:
            for key, value in (partition_context or {}).items():
                record.setdefault(key, value)
        if sync.plan.get_plan(self).syncs_children:
            sync.child_streams.sync_child_contexts(self, record, child_context)

    def _sync_children(self, child_context: Context | None) -> None:
        """Sync the selected child streams for one context, that is, for one parent record."""
        sync.child_streams.sync_children(self, child_context)

    def _check_max_record_limit(self, current_record_index: int) -> None:
        """Abort the sync if ``current_record_index`` has reached `ABORT_AT_RECORD_COUNT`."""
        sync.overridable_loop.check_record_limit(self, current_record_index)

    def _abort_sync(self, abort_reason: Exception) -> None:
        """Write the state, then raise an error that says if the next sync can resume from it."""
        sync.overridable_loop.abort_sync(self, abort_reason)

    @final
    @property
    def has_selected_descendents(self) -> bool:
        """True if a child stream, or a descendant of a child stream, is selected."""
        return any(child.selected or child.has_selected_descendents for child in self.child_streams)

    @final
    @property
    def descendent_streams(self) -> list[Stream]:
        """All child streams, their children, and so on."""
        return [
            *self.child_streams,
            *(below for child in self.child_streams for below in child.descendent_streams),
        ]

    # Messages

    @property
    def stream_maps(self) -> list[StreamMap]:
        """Stream maps of this stream, one for each output stream; the first is the primary map.

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
        """Yield the SCHEMA messages of this stream, one for each output of its stream maps."""
        return sync.messages.generate_schema_messages(self)

    def _write_schema_message(self) -> None:
        """Write the SCHEMA message of this stream, unless it is unchanged in this sync."""
        sync.messages.write_schema_message(self)

    def _generate_record_messages(self, record: Record) -> Iterator[RecordMessage]:
        """Yield the RECORD messages of a record, after deleting deselected properties in place."""
        return sync.messages.generate_record_messages(self, record)

    def _write_record_message(self, record: Record) -> None:
        """Add a record to the output buffer; records are written in the order of these calls."""
        sync.messages.write_record_message(self, record)

    def _generate_batch_messages(
        self, encoding: BaseBatchFileEncoding, manifest: list[str]
    ) -> Iterator[SDKBatchMessage]:
        """Yield BATCH messages for a list of files, one for each output of the stream maps."""
        return sync.messages.generate_batch_messages(self, encoding, manifest)

    def _write_batch_message(self, encoding: BaseBatchFileEncoding, manifest: list[str]) -> None:
        """Write BATCH messages for a list of file URLs, after all earlier records and files."""
        sync.messages.write_messages(self, self._generate_batch_messages(encoding, manifest))
        self.state_manager.is_flushed = False

    def _write_activate_version_message(self, full_table_version: int) -> None:
        """Write an ACTIVATE_VERSION message for each output of the stream maps."""
        sync.messages.write_activate_version_messages(self, full_table_version)

    def _write_state_message(self) -> None:
        """Write a STATE message, if the state has changed since the last one."""
        _ = self.state_manager.stream_state  # a stream that was synced has an entry
        self._tap.run.checkpoint(required=True)
        self.state_manager.is_flushed = True

    # Metrics

    def log_sync_costs(self) -> None:
        """Log this sync's total costs, such as API credits, if it has any."""
        if self._sync_costs:
            self.log("Total Sync costs for stream %s: %s", self.name, self._sync_costs)

    def get_record_counter(
        self, *, endpoint: str | None = None, log_interval: float = metrics.DEFAULT_LOG_INTERVAL
    ) -> metrics.Counter:
        """Return a counter that logs the number of records every ``log_interval`` seconds."""
        return metrics.record_counter(self.name, endpoint=endpoint, log_interval=log_interval)

    def get_batch_counter(self) -> metrics.Counter:
        """Return a counter that logs the number of this stream's batches as a metric."""
        return metrics.batch_counter(self.name)

    def get_sync_timer(self) -> metrics.Timer:
        """Return a timer that logs the duration of this stream's sync as a metric."""
        return metrics.sync_timer(self.name)

    def _log_metric(self, point: metrics.Point[Any]) -> None:
        metrics.log(self.metrics_logger, point=point)


Stream._HOOKS = {
    name: get_member(Stream, name)
    for name in (
        *OVERRIDABLE_HOOKS,
        *BATCH_HOOKS,
        "_generate_schema_messages",
        "_sync_children",
        "generate_child_contexts",
        "get_child_context",
        "partitions",
        "post_process",
        "preprocess_context",
        "retain_partition",
        "stream_maps",
    )
}
