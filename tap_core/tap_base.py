"""`Tap`, base class of all taps: settings, streams, catalog, state and sync.

Public members and signatures are those of singer_sdk 0.54. The state dict is created once and
updated in place, because streams and authors' code keep references to it. After an error the final
state is marked as unfinished, so that a target does not consider the sync complete.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast, final

from tap_core import sync
from tap_core.capabilities import (
    BATCH_CONFIG,
    PARALLEL_PARTITIONS_CONFIG,
    PARALLEL_STREAMS_CONFIG,
    STATE_PARTITION_LIMIT_CONFIG,
    CapabilitiesEnum,
    PluginCapabilities,
    TapCapabilities,
)
from tap_core.compat.deprecation import deprecated_import
from tap_core.config.loading import merge_missing_config_jsonschema
from tap_core.config.validation import check_changes
from tap_core.exceptions import (
    AbortedSyncFailedException,
    AbortedSyncPausedException,
    DiscoveryError,
    MissingMethodError,
    SingerSDKDeprecationWarning,
)
from tap_core.plugin_base import CliCommand, PluginBase
from tap_core.protocols.fivetran.port_option import PORT_HINT, has_port_option
from tap_core.protocols.singer.custom_message_writer import (
    EventForwardingWriter,
    SimpleSingerWriter,
    is_default_writer,
    make_event_writer,
)
from tap_core.redaction import collect_secrets, register_secrets
from tap_core.singerlib.catalog import Catalog
from tap_core.singerlib.json import dump_json, read_json_file
from tap_core.state.checkpoint_policy import CheckpointPolicy
from tap_core.state.document import StateDocument
from tap_core.sync.override_detection import get_member, is_overridden
from tap_core.telemetry import trace_run
from tap_core.types import JsonSchema, TapState

if TYPE_CHECKING:
    from pathlib import PurePath
    from types import FrameType

    from tap_core.singerlib.messages import Message
    from tap_core.streams.core import Stream
    from tap_core.sync.sync_run import ProtocolWriter, SyncRun
    from tap_core.sync.work_units import WorkUnit

__all__ = ["StateWriter", "Tap", "import_commands"]


class Tap(PluginBase):
    """Base class of a tap.

    Define ``name`` and ``config_jsonschema``, and override `discover_streams`. Run the tap with the
    console script ``TapX.cli``.

    - ``name`` (str, required): name of the executable, such as ``tap-x``.
    - ``config_jsonschema`` (dict, default without properties): JSON Schema of the settings.
    - ``capabilities``: capabilities that ``--about`` lists.

    Example:
        class TapX(Tap):
            name = "tap-x"
            config_jsonschema = th.PropertiesList(
                th.Property("token", th.StringType, required=True, secret=True),
            ).to_dict()

            def discover_streams(self):
                return [Users(self)]
    """

    document: StateDocument

    message_writer_class: type[Any] = SimpleSingerWriter
    """Class of the message writer; its objects have a method ``write_message(message)``."""

    dynamic_catalog: bool = False
    """True if discovery queries the source and therefore needs a valid configuration."""

    has_shared_state: bool = False
    """True if streams share top-level keys of the state in addition to ``bookmarks``.

    Such states are written and loaded as a whole.
    """

    continue_on_stream_error: bool = False
    """True to sync the remaining streams after a stream has failed.

    It has an effect only if the protocol reports the end of each stream, such as Airbyte's
    STREAM_STATUS. The run still fails at its end.
    """

    max_parallel_streams: int = 1
    """Maximum number of top-level streams to sync in parallel, if the streams allow threads. The
    user's setting of the same name can lower it."""

    connection_tests: ClassVar[Mapping[str, str]] = {"connection": "Reaching the source"}
    """Connection tests by name, for protocols that run single tests, such as Fivetran's.

    The dict maps the name of a test to a label for users. The method ``check_x`` runs the test
    ``x`` and raises an error on failure.
    """

    selection_not_supported: ClassVar[bool] = False
    """True to report to Fivetran that users cannot select tables and columns."""

    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        TapCapabilities.CATALOG,
        TapCapabilities.STATE,
        TapCapabilities.DISCOVER,
        TapCapabilities.ACTIVATE_VERSION,
        PluginCapabilities.ABOUT,
        PluginCapabilities.STREAM_MAPS,
        PluginCapabilities.FLATTENING,
        PluginCapabilities.BATCH,
        PluginCapabilities.STRUCTURED_LOGGING,
    ]

    _HOOKS: ClassVar[Mapping[str, Any]] = {}  # set below: this class's members, for is_overridden

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | PurePath | str | Sequence[PurePath | str] | None = None,
        catalog: PurePath | str | dict[str, Any] | Catalog | None = None,
        state: PurePath | str | dict[str, Any] | None = None,
        parse_env_config: bool = False,
        validate_config: bool = True,
        setup_mapper: bool = True,
        message_writer: Any | None = None,
    ) -> None:
        """Load settings, catalog and state. Without a catalog, discover the streams.

        Args:
            config: Settings, or (deprecated) paths of settings files.
            catalog: Input catalog, or (deprecated) its path.
            state: State of an earlier sync, or (deprecated) its path.
            parse_env_config: True to read settings from environment variables too.
            validate_config: True to raise an error for invalid settings.
            setup_mapper: True to create the stream maps.
            message_writer: Object with ``write_message(message)``; by default an object of
                ``message_writer_class``, which writes to standard output.

        Raises:
            ConfigValidationError: The settings are invalid; ``errors`` lists all faults.
            StreamMapConfigError: A stream map is invalid.
            MapExpressionError: An expression of a stream map is invalid.
        """
        super().__init__(
            config=config, parse_env_config=parse_env_config, validate_config=validate_config
        )
        self._streams: dict[str, Stream] | None = None
        self._catalog: Catalog | None = None
        self._input_catalog = _load_catalog(catalog)
        self.document = StateDocument({})
        self._protocol_writer: ProtocolWriter | None = None
        self.message_writer = message_writer or self.message_writer_class()
        self._state_writer = StateWriter(self)
        if setup_mapper:
            self.setup_mapper()
        self.load_state(_load_state(state))

    @classmethod
    def append_builtin_config(cls, config_jsonschema: JsonSchema) -> None:
        """Add the built-in settings of the tap's capabilities to a config schema, in place.

        They include settings for parallel reading and partition limits, if a stream supports these.
        """
        super().append_builtin_config(config_jsonschema)
        if PluginCapabilities.BATCH in cls.capabilities:
            merge_missing_config_jsonschema(BATCH_CONFIG, config_jsonschema)
        streams = list(sync.concurrency.find_stream_classes(cls))
        if any(stream.state_partition_limit is not None for stream in streams):
            merge_missing_config_jsonschema(STATE_PARTITION_LIMIT_CONFIG, config_jsonschema)
        may_be_parallel = sync.concurrency.may_be_parallel
        if may_be_parallel(cls.max_parallel_streams):
            merge_missing_config_jsonschema(PARALLEL_STREAMS_CONFIG, config_jsonschema)
        limits = [cls.max_parallel_streams, *(stream.max_parallel_partitions for stream in streams)]
        if any(map(may_be_parallel, limits)):
            merge_missing_config_jsonschema(PARALLEL_PARTITIONS_CONFIG, config_jsonschema)

    # Output: rows, states, estimates and messages

    @property
    def run(self) -> SyncRun:
        """`SyncRun` of the calling thread: its buffered rows and bookmark cursors in this sync."""
        run: SyncRun | None = self.__dict__.get("run")
        if run is None:
            run = self.__dict__["run"] = self._begin_run()
        return run.get_thread_run()

    def _begin_run(self) -> SyncRun:
        return sync.sync_run.SyncRun(self.protocol_writer, self.document, CheckpointPolicy())

    @property
    def message_writer(self) -> Any:
        """Writer of the tap's own Singer messages. Each access first writes the buffered rows."""
        if "run" in self.__dict__:
            self.run.settle()
        return self._message_writer

    @message_writer.setter
    def message_writer(self, writer: Any) -> None:
        self._message_writer = writer
        self._protocol_writer = None
        self.__dict__.pop("run", None)

    @property
    def protocol_writer(self) -> ProtocolWriter:
        """Writer of the events of a sync; by default it writes Singer messages."""
        if self._protocol_writer is None:
            self._protocol_writer = make_event_writer(self._message_writer)
        return self._protocol_writer

    @protocol_writer.setter
    def protocol_writer(self, writer: ProtocolWriter) -> None:
        self._protocol_writer = writer

    def set_protocol_writer(self, writer: ProtocolWriter) -> None:
        """Set ``writer``, the writer of a protocol other than Singer, for all output.

        Singer messages of the tap's code are converted to that protocol.
        """
        if not is_default_writer(self._message_writer):
            self.logger.warning(
                "'%s' is not used: the protocol determines the format of the output.",
                type(self._message_writer).__qualname__,
            )
        if is_overridden(self, "write_message"):
            self.logger.warning(
                "The tap overrides write_message. Messages that it passes to Tap.write_message"
                " are sent; text that it prints goes to standard error."
            )
        self._message_writer = EventForwardingWriter(partial(Tap.write_message, self))
        self.protocol_writer = writer
        self.__dict__.pop("run", None)

    def write_message(self, message: Message) -> None:
        """Write a Singer message. Buffered rows are written first."""
        sync.messages.emit_message(self.run, message)

    @property
    def state_writer(self) -> StateWriter:
        """Writer of states for the tap's code. Call ``state_writer.write_state(state)``."""
        return self._state_writer

    def estimate_sync(self) -> tuple[int | None, int | None] | None:
        """Return the estimated numbers of rows and bytes of all streams, as a pair, or None.

        Override this method to report progress if the output protocol has estimates, such as
        Airbyte's. It is called before the first stream. If it returns a total,
        `Stream.estimate_sync` is not called.
        """
        return None

    def update_estimate(self, rows: int | None = None, nbytes: int | None = None) -> None:
        """Replace the estimated total numbers of rows and bytes of this sync.

        It has no effect if streams have their own estimates: platforms do not support both.
        """
        sync.estimates.emit_total_estimate(self.run, self.name, rows, nbytes)

    def update_config(self, changes: Mapping[str, Any]) -> None:
        """Change settings of this tap, for example after an API has replaced a credential.

        With Airbyte, a CONTROL message is written. A Fivetran connector keeps the changes while it
        runs. With Singer, they apply to this run only, and a warning is logged.

        Args:
            changes: New values by setting name.

        Raises:
            ConfigurationError: `config_jsonschema` does not declare a setting or rejects a value.
        """
        schema = self._full_schema()
        changed = check_changes(self._config, changes, schema)
        if not changed:
            return
        register_secrets(self, collect_secrets({**self._config, **changed}, schema))
        streams: Mapping[str, Stream] = self.__dict__.get("_streams") or {}
        for config in (self._config, *(stream._config for stream in streams.values())):
            config.update(changed)
        if self.config_listener is None:
            names = ", ".join(map(repr, changed))
            self.logger.warning("The tap has changed %s: the next run needs the new values.", names)
        else:
            self.run.settle()
            self.config_listener(lambda current: {**current, **changed})

    def _write_unfinished_state(self, unfinished: str | None) -> None:
        """Write the last state after an error or a signal, with the key ``currently_syncing``.

        The key tells a target that the sync is unfinished; ``unfinished`` is the name of a stream.
        If the state cannot be written, log an error instead of raising it. The caller then raises
        the original error.
        """
        if self.run.is_broken or self.run.is_hurried:  # no output, or the run must end at once
            return
        state = self.document.tap_state
        state["currently_syncing"] = unfinished
        self.document.refresh()
        try:
            self.run.checkpoint(required=True)
        except Exception as error:  # noqa: BLE001  the original error is raised
            kind = type(error).__name__
            self.logger.error("The last state could not be written: %s: %s", kind, error)  # noqa: TRY400
        finally:
            del state["currently_syncing"]

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:
        """Stop the sync after a signal, and write the state before the process ends."""
        leave = super()._handle_termination
        if "run" in self.__dict__:
            self.run.stop(lambda: leave(signum, frame))
        else:
            leave(signum, frame)

    # Streams and catalog

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams by name, discovered once, with the input catalog applied."""
        return _discover(self) if self._streams is None else self._streams

    def discover_streams(self) -> Sequence[Stream]:
        """Return all streams of the tap, including child streams.

        Every tap must override this method. Child streams are linked to their parents by
        ``parent_stream_type``.

        Raises:
            MissingMethodError: The tap does not override this method.

        Example:
            def discover_streams(self):
                return [Users(self), Orders(self)]
        """
        raise MissingMethodError(
            f"Tap '{self.name}' has no streams: the class {type(self).__name__} must define the"
            " method discover_streams, which returns them."
        )

    @final
    def load_streams(self) -> list[Stream]:
        """Discover the streams, link children to parents, and return the streams sorted by name.

        Raises:
            DiscoveryError: `discover_streams` returned no streams, or a child without its parent.
        """
        by_type: dict[type[Stream], list[Stream]] = {}
        for stream in _check_discovered(self.discover_streams()):
            by_type.setdefault(type(stream), []).append(stream)
        for stream_class, children in by_type.items():
            if (parent_class := stream_class.parent_stream_type) is None:
                continue
            if parent_class not in by_type:
                raise DiscoveryError(
                    f"'{children[0].name}' is a child of {parent_class.__name__},"
                    " which discover_streams() did not return. Return the parent too."
                )
            for parent in by_type[parent_class]:
                parent.child_streams.extend(children)
                for child in children:
                    self.logger.info("Added '%s' as child stream to '%s'", child.name, parent.name)
        loaded = [stream for streams in by_type.values() for stream in streams]
        return sorted(loaded, key=lambda stream: stream.name)

    @property
    def input_catalog(self) -> Catalog | None:
        """Catalog that was passed to the tap, or None."""
        return self._input_catalog

    @property
    def catalog(self) -> Catalog:
        """Catalog in use: the input catalog if there is one, else the discovered catalog."""
        if self._catalog is None:
            self._catalog = self.input_catalog or self._singer_catalog
        return self._catalog

    def use_catalog(self, catalog: Catalog) -> None:
        """Replace the input catalog, and apply the new one to this tap's discovered streams."""
        self._input_catalog = catalog
        self._catalog = None
        for stream in self.streams.values():
            stream.apply_catalog(catalog)

    @property
    def _singer_catalog(self) -> Catalog:
        """Catalog of the discovered streams, without the input catalog."""
        return Catalog(
            (stream.tap_stream_id, stream._singer_catalog_entry) for stream in self.streams.values()
        )

    @property
    def catalog_dict(self) -> dict[str, Any]:
        """Discovered catalog as a dict."""
        return dict(self._singer_catalog.to_dict())

    @property
    def catalog_json_text(self) -> str:
        """Discovered catalog as JSON, indented by two spaces."""
        return dump_json(self.catalog_dict, indent=2)

    def run_discovery(self) -> str:
        """Print the discovered catalog and return its text."""
        self.check_streams()
        text = self.catalog_json_text
        print(text)  # noqa: T201 - the protocol's output
        return text

    def check_streams(self) -> None:
        """Check the streams before discovery prints the catalog. The default does nothing.

        Override it to raise an error if a stream cannot be read.
        """

    # Stream maps

    def setup_mapper(self) -> None:
        """Create the stream maps for the streams in `catalog`.

        If no setting needs stream maps, they are created on first access of `mapper` instead.
        """
        config = self._config
        requested = config.get("stream_maps") or config.get("flattening_enabled")
        if requested or is_overridden(self, "catalog"):
            super().setup_mapper()
            return
        self._mapper_is_due = True
        if self.input_catalog is None:
            _ = self.streams  # errors in author code occur at the same point as in singer_sdk

    def _make_mapper(self) -> None:
        super()._make_mapper()
        self.mapper.register_raw_streams_from_catalog(self.catalog)

    @property
    def has_mapper(self) -> bool:
        """True if stream maps, which may change records or schemas, have been created."""
        return self._mapper is not None

    @property
    def has_own_catalog(self) -> bool:
        """True if SCHEMA messages contain the schemas of the `catalog` that the tap overrides.

        That is so once the stream maps have been created, because they read that catalog.
        """
        return self.has_mapper and is_overridden(self, "catalog")

    # State

    @property
    def state(self) -> TapState:
        """State of the whole tap, as a mutable dict. Each access first writes the buffered rows."""
        if "run" in self.__dict__:
            self.run.settle()
        self.document.share()
        return cast(TapState, self.document.tap_state)

    def load_state(self, state: dict[str, Any]) -> None:
        """Merge the state of an earlier sync into the state of this tap.

        Override this method to convert states of earlier versions of the tap.
        """
        self.document.load(state, keep_other_keys=self.has_shared_state)

    # Syncing

    @final
    def write_schemas(self) -> None:
        """Select every stream and write its SCHEMA message."""
        for stream in self.streams.values():
            stream.selected = True
            stream._write_schema_message()

    @final
    def sync_all(self) -> None:
        """Sync all selected streams, in the order of their names."""
        self._reset_state_progress_markers()
        self._set_compatible_replication_methods()
        self.__dict__.pop("run", None)
        run = self.run
        scheduler = sync.stream_scheduler.StreamScheduler(self, run)
        with trace_run(self.name, self.get_plugin_version), run.timer():
            try:
                if self.document.tap_state:
                    run.checkpoint(required=True)
                sync.estimates.estimate_total(self, run)
                scheduler.sync()
            except BaseException:
                self._write_unfinished_state(scheduler.unfinished)
                raise
        self.document.unshare()
        for stream in self.streams.values():
            stream.log_sync_costs()

    def sync_part(self, part: WorkUnit) -> Mapping[str, Any]:
        """Sync a work unit, such as one partition, for another process; return the new states."""
        if "run" not in self.__dict__:
            self._set_compatible_replication_methods()
        return sync.engine.sync_work_unit(self.streams[part.stream], part)

    def _reset_state_progress_markers(self) -> None:
        """Delete an interrupted sync's progress markers; called by overrides of `sync_all`."""
        self.document.reset_progress_markers()

    def _set_compatible_replication_methods(self) -> None:
        """Use FULL_TABLE for parents of a selected child that needs all of their records."""
        sync.stream_scheduler.force_full_table_parents(self)

    def close(self) -> None:
        """Release connections. Servers call it after the last use; override it for own clients."""

    @final
    def run_connection_test(self) -> bool:
        """Sync one record of each stream and return True; raise an error if a stream fails."""
        return self.run_sync_dry_run(dry_run_record_limit=1, streams=self.streams.values())

    @final
    def run_sync_dry_run(
        self, dry_run_record_limit: int | None = 1, streams: Iterable[Stream] | None = None
    ) -> bool:
        """Sync at most ``dry_run_record_limit`` records per stream and return True.

        ``streams`` are the streams to sync, by default all streams of the tap.
        """
        tested = list(self.streams.values() if streams is None else streams)
        for stream in tested:
            stream.ABORT_AT_RECORD_COUNT = dry_run_record_limit
            stream.selected = True
        for stream in tested:
            if stream.parent_stream_type is None:
                with contextlib.suppress(AbortedSyncFailedException, AbortedSyncPausedException):
                    stream.sync()
        self.run.settle()
        return True

    def check_connection(self) -> None:
        """Check that the tap can read data with its settings; raise an error if it cannot.

        By default, one record of a stream without a parent is read. Override this method if the API
        or database has a cheaper or more specific check.

        Example:
            def check_connection(self):
                self.client.get("/me").raise_for_status()
        """
        from tap_core.sync.connection_test import read_one_record

        roots = [stream for stream in self.streams.values() if not stream.parent_stream_type]
        for stream in sorted(roots, key=lambda root: not root.selected_by_default)[:1]:
            read_one_record(stream)

    @classmethod
    def get_command(cls, args: Sequence[str]) -> CliCommand:
        """Return the program's command: Fivetran's gRPC server for ``--port``, else Singer's."""
        if has_port_option(args):
            from tap_core.protocols.fivetran.cli import connector_command

            return connector_command(cls)
        return super().get_command(args)

    @classmethod
    def get_singer_command(cls) -> CliCommand:
        """Return the command with Singer's options and the tap's subcommands, such as Airbyte's."""
        from tap_core.protocols.singer.cli import tap_command  # imports typer only here

        return tap_command(cls, import_commands, PORT_HINT.format(name=cls.name, role="connector"))


def import_commands() -> Any:
    """Import and return the subcommands of a tap: ``test-stream`` and those of Airbyte."""
    from tap_core.protocols.airbyte import source_commands
    from tap_core.protocols.singer import preview_command

    imported = preview_command.make_app()
    imported.registered_commands += source_commands.commands.registered_commands
    return imported


Tap._HOOKS = {name: get_member(Tap, name) for name in ("catalog", "write_message")}


class StateWriter:
    """Writer of STATE messages for the code of a tap. A state equal to the last one is skipped."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap

    def write_state(self, state: TapState) -> None:
        """Write a state, unless it equals the state that was written last."""
        run, document = self._tap.run, self._tap.document
        if state is document.tap_state:
            document.refresh()
            run.checkpoint(required=True)
        elif (line := StateDocument(state).encode()) != document.last_text:
            from tap_core.events import Checkpoint

            run.emit(Checkpoint(line))


def _discover(tap: Tap) -> dict[str, Stream]:
    """Discover the streams of a tap, apply its input catalog, and store them by name."""
    streams: dict[str, Stream] = {}
    tap._streams = streams  # the code of `discover_streams` may read `Tap.streams`
    try:
        for stream in tap.load_streams():
            if stream.name in streams:
                tap.logger.warning(
                    "discover_streams() returned several streams called '%s': only the last one is"
                    " synced. Give each stream its own name.",
                    stream.name,
                )
            if tap.input_catalog is not None:
                stream.apply_catalog(tap.input_catalog)
            streams[stream.name] = stream
    except BaseException:
        tap._streams = None  # not a tap without streams, whose sync would succeed
        raise
    return streams


def _check_discovered(returned: Any) -> Iterable[Stream]:
    """Yield the streams in ``returned``, the value that ``discover_streams`` returned.

    Raises:
        DiscoveryError: It returned None, a class in place of a stream, or a stream whose schema is
            not a dict.
    """
    if returned is None:
        raise DiscoveryError(
            "discover_streams() returned None. Return a list of streams, as in"
            " return [Users(self), Orders(self)]."
        )
    for stream in returned:
        if isinstance(stream, type):
            name = stream.__name__
            raise DiscoveryError(
                f"discover_streams() returned the class {name} in place of a stream. Return"
                f" {name}(self)."
            )
        declared = inspect.getattr_static(stream, "schema", None)
        if hasattr(declared, "to_dict"):
            raise DiscoveryError(
                f"The schema of stream '{stream.name}' is a {type(declared).__name__}, and not a"
                " dict: append .to_dict() to it."
            )
        yield stream


def _load_catalog(catalog: PurePath | str | dict[str, Any] | Catalog | None) -> Catalog | None:
    """Load a catalog from a `Catalog`, a dict or (deprecated) the path of a JSON file."""
    if catalog is None or isinstance(catalog, Catalog):
        return catalog
    if isinstance(catalog, Mapping):
        return Catalog.from_dict(catalog)
    warnings.warn(
        "A path to a catalog is deprecated: pass a dict or a Catalog.",
        SingerSDKDeprecationWarning,
        stacklevel=3,
    )
    return Catalog.from_dict(read_json_file(catalog))


def _load_state(state: PurePath | str | dict[str, Any] | None) -> dict[str, Any]:
    """Load a state from a dict or (deprecated) from the path of a JSON file; ``{}`` for None."""
    if not state:
        return {}
    if isinstance(state, dict):
        return state
    warnings.warn(
        "A path to a state is deprecated: pass a dict.",
        SingerSDKDeprecationWarning,
        stacklevel=3,
    )
    return read_json_file(state)


def __getattr__(name: str) -> Any:
    """Import ``SQLTap`` from `tap_core.sql` on access, with a deprecation warning."""
    return deprecated_import(name, old=__name__, known=("SQLTap",), new="tap_core.sql")
