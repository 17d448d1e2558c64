"""Protocol classes for a tap and a stream, as used by the sync engine and the output protocols.

`tap_core.Tap` and `tap_core.Stream` are in a higher layer, so the engine may not import them and
uses these Protocols. The member names are those of the Meltano Singer SDK, including leading
underscores, because taps override them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tap_core.compat.author_overrides import overridable_property

if TYPE_CHECKING:
    from pathlib import Path

    from tap_core.batch.encodings import BatchConfig
    from tap_core.mapper.plugin_mapper import PluginMapper
    from tap_core.mapper.stream_maps import StreamMap
    from tap_core.metrics import Counter, Timer
    from tap_core.singerlib.catalog import Catalog, CatalogEntry, MetadataMapping, SelectionMask
    from tap_core.state.backfill_range import KeyRange
    from tap_core.state.document import StateDocument
    from tap_core.state.manager import StreamStateManager
    from tap_core.sync.change_log import ChangeLog
    from tap_core.sync.context_reader import ContextReader
    from tap_core.sync.output import ProtocolWriter
    from tap_core.sync.sync_run import SyncRun
    from tap_core.types import Context, JsonSchema, Record
    from tap_core.typing.inspect import TypeConformanceLevel

__all__ = ["SyncStream", "SyncTap"]


class SyncTap(Protocol):
    """Interface of a tap as the sync and the commands use it: streams, settings, state, output."""

    name: str
    has_shared_state: bool
    dynamic_catalog: bool
    config_file: Path | None
    config_listener: Any
    continue_on_stream_error: bool
    max_parallel_streams: int
    connection_tests: ClassVar[Mapping[str, str]]
    """Labels of the connection tests by name; the test ``x`` calls the method ``check_x``."""
    selection_not_supported: ClassVar[bool]

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    # Description

    @classmethod
    def _full_schema(cls) -> JsonSchema: ...

    @classmethod
    def get_documentation_url(cls) -> str | None:
        """Return the URL of the tap's documentation, or None."""

    @classmethod
    def get_changelog_url(cls) -> str | None:
        """Return the URL of the tap's changelog, or None."""

    @classmethod
    def print_version(cls, print_fn: Callable[[Any], None] = ...) -> None:
        """Print the versions of the tap and the SDK by calling ``print_fn``."""

    @classmethod
    def print_about(cls, output_format: str | None = None) -> None:
        """Print the tap's description and settings as ``text``, ``json`` or ``markdown``."""

    @property
    def logger(self) -> logging.Logger:
        """Logger of the tap."""

    @property
    def metrics_logger(self) -> logging.Logger:
        """Logger of METRIC lines, such as record counts."""

    @property
    def initialized_at(self) -> int:
        """Start time of the tap, in milliseconds since 1970."""

    # Settings, streams and state

    @property
    def config(self) -> Mapping[str, Any]:
        """Settings of the tap, read-only."""

    @property
    def streams(self) -> Mapping[str, SyncStream]:
        """Streams of the tap by name."""

    def use_catalog(self, catalog: Catalog) -> None:
        """Replace the tap's catalog, which determines the selected streams and properties."""

    @property
    def has_own_catalog(self) -> bool:
        """True if the tap overrides ``catalog``. That catalog then defines the schemas to send."""

    @property
    def state(self) -> Any:
        """State of the tap with all its streams as a dict, which the caller may change."""

    @property
    def document(self) -> StateDocument:
        """State of the tap with all its streams, as the `StateDocument` that the sync updates."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Load the state of an earlier sync. This sync resumes from its bookmarks."""

    def setup_mapper(self) -> None:
        """Create the stream maps from the settings."""

    @property
    def mapper(self) -> PluginMapper:
        """Stream maps of the tap."""

    @property
    def has_mapper(self) -> bool:
        """True if the settings configure stream maps, so that records or schemas may change."""

    # Commands

    def run_discovery(self) -> str:
        """Print the catalog of the discovered streams, and return it as JSON text."""

    def run_connection_test(self) -> bool:
        """Sync at most one record of each stream; return True on success. Errors are raised."""

    def check_connection(self) -> None:
        """Raise an error if the API or database cannot be reached."""

    def check_streams(self) -> None:
        """Raise an error for a stream that cannot be read with the tap's settings."""

    def close(self) -> None:
        """Release connections."""

    def write_schemas(self) -> None:
        """Write the schema of every stream to the output, without reading records."""

    def estimate_sync(self) -> tuple[int | None, int | None] | None:
        """Return the estimated number of rows and of bytes of all streams; None means unknown."""

    def sync_all(self) -> None:
        """Sync the selected streams: write their schemas, records and states to the output."""

    # Output

    @property
    def run(self) -> SyncRun:
        """The `SyncRun` of the sync in progress, created if no sync is in progress."""

    @property
    def stopped_by(self) -> int | None:
        """Number of the signal that requested a stop; None if no signal was received."""

    @property
    def protocol_writer(self) -> ProtocolWriter:
        """Writer of the tap's output."""

    @protocol_writer.setter
    def protocol_writer(self, writer: ProtocolWriter) -> None: ...

    def set_protocol_writer(self, writer: ProtocolWriter) -> None:
        """Set the writer for all output, for a protocol other than Singer."""

    def write_message(self, message: Any) -> None:
        """Write a Singer message that the tap's code has built."""


class SyncStream(Protocol):
    """Interface of a stream as the sync uses it: schema, keys, selection, records and state."""

    name: str
    allow_any_replication_key: bool
    ignore_parent_replication_key: bool
    tap_name: str
    context: Context | None
    selected_by_default: bool
    forced_replication_method: str | None
    parent_stream_type: Any
    STATE_MSG_FREQUENCY: int
    max_parallel_partitions: int
    _is_read_by_one_process: bool
    change_log: ChangeLog | None
    add_context_to_records: bool
    ABORT_AT_RECORD_COUNT: int | None
    previously_sent_state: Mapping[str, Any] | None
    state_partition_limit: int | None
    TYPE_CONFORMANCE_LEVEL: TypeConformanceLevel
    _tap: SyncTap
    _stream_version: int | None
    _origin: Any
    _read_range: KeyRange | None
    _initialized_at: int
    _sync_plan: Any
    _stream_maps: Any
    _config: dict[str, Any]
    _input_schema: JsonSchema | None

    @overridable_property
    def namespace(self) -> str | None: ...
    @overridable_property
    def name_in_namespace(self) -> str: ...
    @property
    def _singer_catalog_entry(self) -> CatalogEntry: ...
    @property
    def child_streams(self) -> Sequence[SyncStream]: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def descendent_streams(self) -> Sequence[SyncStream]: ...
    @property
    def logger(self) -> logging.Logger: ...
    @overridable_property
    def tap_stream_id(self) -> str: ...
    @overridable_property
    def schema(self) -> JsonSchema: ...
    @property
    def effective_schema(self) -> JsonSchema: ...
    @property
    def metadata(self) -> MetadataMapping: ...
    @property
    def mask(self) -> SelectionMask: ...
    @property
    def stream_maps(self) -> Sequence[StreamMap]: ...
    @property
    def selected(self) -> bool: ...
    @selected.setter
    def selected(self, value: bool | None) -> None: ...
    @property
    def has_selected_descendents(self) -> bool: ...
    @overridable_property
    def primary_keys(self) -> Sequence[str]: ...
    @overridable_property
    def replication_key(self) -> str | None: ...
    @property
    def replication_path(self) -> tuple[str, ...]: ...
    @overridable_property
    def replication_method(self) -> str: ...
    @property
    def emit_activate_version_messages(self) -> bool: ...
    @overridable_property
    def is_sorted(self) -> bool: ...
    @overridable_property
    def check_sorted(self) -> bool: ...
    @overridable_property
    def partitions(self) -> Sequence[Mapping[str, Any]] | None: ...
    @overridable_property
    def state_partitioning_keys(self) -> Sequence[str] | None: ...
    @property
    def state_manager(self) -> StreamStateManager: ...
    @property
    def _context_reader(self) -> ContextReader: ...

    def log(self, message: str, *args: Any, level: int = ..., **kwargs: Any) -> None: ...
    def preprocess_context(self, context: Context) -> Context: ...
    def get_records(self, context: Context | None) -> Iterable[Any]: ...
    def post_process(self, row: Record, context: Context | None = None) -> Record | None: ...
    def get_replication_key_signpost(self, context: Context | None = None) -> Any: ...
    def generate_child_contexts(
        self, record: Record, context: Context | None
    ) -> Iterable[Context | None]: ...
    def get_batch_config(self, config: Mapping[str, Any]) -> BatchConfig | None: ...
    def estimate_sync(self) -> tuple[int | None, int | None] | None: ...
    def get_batch_counter(self) -> Counter: ...
    def get_record_counter(self) -> Counter: ...
    def get_sync_timer(self) -> Timer: ...
    def sync(self, context: Context | None = None) -> None: ...
    def finalize_state_progress_markers(self) -> None: ...
    def _get_state_partition_context(self, context: Context | None) -> Context | None: ...
    def _write_replication_key_signpost(self, context: Context | None, value: Any) -> None: ...
    def _write_starting_replication_value(self, context: Context | None) -> None: ...
    def _generate_schema_messages(self) -> Iterable[Any]: ...
    def _write_schema_message(self) -> None: ...
    def _write_activate_version_message(self, full_table_version: int) -> None: ...
    def _write_record_message(self, record: Record) -> None: ...
    def _generate_record_messages(self, record: Record) -> Iterable[Any]: ...
    def _write_state_message(self) -> None: ...
    def _increment_stream_state(
        self, latest_record: Record, *, context: Context | None = None
    ) -> None: ...
    def _finalize_state(self, state: dict[str, Any] | None = None) -> None: ...
    def _abort_sync(self, abort_reason: Exception) -> None: ...
    def _check_max_record_limit(self, current_record_index: int) -> None: ...
    def _process_record(
        self,
        record: Record,
        child_context: Context | None = None,
        partition_context: Context | None = None,
    ) -> None: ...
    def _sync_batches(self, batch_config: BatchConfig, context: Context | None = None) -> None: ...
    def _sync_children(self, child_context: Context | None) -> None: ...
    def _sync_records(
        self, context: Context | None = None, *, write_messages: bool = True
    ) -> Iterator[Record]: ...
