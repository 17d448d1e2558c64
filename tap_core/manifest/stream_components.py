"""`StreamComponents`: the components of one stream, built from its node of the manifest.

A component is built when it is first needed, so that discovery needs no config values. All copies
of a stream, such as that of a worker thread, share the components.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.incremental.cursor_comparator import make_comparator
from tap_core.incremental.durations import parse_duration
from tap_core.manifest.builder import build_component
from tap_core.manifest.components.async_retriever import AsyncRetriever
from tap_core.manifest.components.cursors import CustomIncrementalSync, IncrementingCountCursor
from tap_core.manifest.components.custom import CustomStateMigration
from tap_core.manifest.components.declarative_source import (
    DeclarativeStream,
    PrimaryKey,
    StateMigration,
)
from tap_core.manifest.components.error_handlers import DefaultErrorHandler
from tap_core.manifest.components.page_size_reduction import PageSizeState
from tap_core.manifest.components.partition_routers import GroupingPartitionRouter
from tap_core.manifest.components.retrievers import SimpleRetriever
from tap_core.manifest.page_loop import PageLoop
from tap_core.manifest.property_chunks import PropertyChunkReader
from tap_core.manifest.state_translation import (
    find_partition_field,
    from_cdk_state,
    iterate_parent_nodes,
    to_cdk_state,
    translate_custom_state,
)
from tap_core.parsing.datetimes import utc_now

if TYPE_CHECKING:
    from tap_core.manifest.components.record_selector import RecordSelection
    from tap_core.manifest.interfaces import (
        DeclarativeStreamProtocol,
        ErrorHandler,
        TemplateScope,
    )
    from tap_core.manifest.shared_resources import SharedResources

__all__ = ["OtherCursor", "StreamComponents"]

OtherCursor: TypeAlias = CustomIncrementalSync | IncrementingCountCursor
"""Custom or counting cursor of a stream, in contrast to a DatetimeBasedCursor."""

_NEW_SLICES: Final = "new_slices"
"""Name of the command-line option that sets the start of new slices for all streams."""


class StreamComponents:
    """Components of a stream of an Airbyte manifest, such as its retriever, built on first use."""

    def __init__(
        self, shared: SharedResources, node: Mapping[str, Any], has_state: Callable[[], bool]
    ) -> None:
        """Store the node of the stream; components are built later.

        Args:
            shared: Objects that the streams of the tap share.
            node: Node of the manifest that declares the stream.
            has_state: Function that returns True if a StateDelegatingStream is read incrementally.
        """
        self.node = node
        self._shared = shared
        self._has_state = has_state
        self.warnings: list[str] = []
        """Warnings about the node of the stream; they are logged and removed at the first read."""

    def build(self, node: Any, expected: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        """Build a component of the stream from a node of the manifest.

        Warnings about it are logged when the stream is read.

        Args:
            node: The node that declares the component.
            expected: The type that the component must have.
            parameters: The ``$parameters`` for a node that is not a component.
        """
        manifest, config = self._shared.manifest, self._shared.config
        return build_component(manifest, node, expected, config, parameters, self.warnings.append)

    def build_option(self, key: str, expected: Any) -> Any:
        """Build the option ``key`` of the stream; return None if the option is missing.

        ``expected`` is the type that the value must have. For a StateDelegatingStream, the option
        of its full-refresh stream is built.
        """
        stream = self.node.get("full_refresh_stream", self.node)
        return self.build(stream.get(key), expected, _get_parameters(stream))

    def with_retriever(self, retriever: SimpleRetriever | AsyncRetriever) -> StreamComponents:
        """Return components of the same stream that send the requests of another retriever.

        For example, the retriever polls an asynchronous job. The components have no cursor and no
        transformations.
        """
        components = self.rebuild(self._has_state)
        components.declared = DeclarativeStream(retriever=retriever, name=self.declared.name)
        components.datetime_cursor = components.other_cursor = None
        return components

    def rebuild(self, has_state: Callable[[], bool]) -> StreamComponents:
        """Return new components of the same stream, to be built after its state has changed.

        ``has_state`` returns True if a StateDelegatingStream is read incrementally.
        """
        components = StreamComponents(self._shared, self.node, has_state)
        components.warnings = self.warnings
        return components

    # Properties of the node, which need no built component

    @property
    def incremental_node(self) -> Mapping[str, Any]:
        """Node of the manifest that declares the incremental sync.

        This is the stream's own node, but for a StateDelegatingStream the node of its incremental
        stream.
        """
        incremental: Mapping[str, Any] = self.node.get("incremental_stream", self.node)
        return incremental

    @property
    def is_delegating(self) -> bool:
        """True for a StateDelegatingStream, which has a full-refresh and an incremental stream."""
        return "incremental_stream" in self.node

    @property
    def makes_jobs(self) -> bool:
        """True if an AsyncRetriever reads the records with asynchronous jobs of the API."""
        retriever = self.incremental_node.get("retriever")
        kind = retriever.get("type") if isinstance(retriever, Mapping) else None
        return kind == AsyncRetriever.__name__

    @property
    def has_custom_cursor(self) -> bool:
        """True if the cursor is a Python class of the connector, with a custom state format."""
        # Only the templates of such a stream may use the restricted name `stream_state`.
        return bool(DeclarativeStream.get_restricted_names(self.incremental_node))

    @property
    def has_global_cursor(self) -> bool:
        """True if new slices start at the latest bookmark of all slices, not at the start date."""
        is_wanted = self._shared.overrides.get(_NEW_SLICES) == "global_cursor"
        return is_wanted and self.datetime_cursor is not None

    @property
    def cursor_field(self) -> str | None:
        """Name of the cursor field; None without a cursor. Reading it does not build the cursor."""
        node = self.incremental_node.get("incremental_sync")
        if not isinstance(node, Mapping) or not (field := node.get("cursor_field")):
            return None
        name: str = self.build(field, str, _get_parameters(node))
        return name

    @property
    def primary_key(self) -> list[str]:
        """Names of the primary key fields; empty if the key contains a nested field.

        Raises:
            ManifestError: The option is not a name, a list of names, or a list of paths.
        """
        declared = self.build_option("primary_key", PrimaryKey)
        paths = [declared] if isinstance(declared, str) else declared or []
        if any(not isinstance(path, str) and len(path) != 1 for path in paths):
            return []
        return list(filter(None, (path if isinstance(path, str) else path[0] for path in paths)))

    @property
    def parent_names(self) -> list[str]:
        """Names of the stream's parent streams, of their parents, and so on."""
        parents = iterate_parent_nodes(self.incremental_node)
        return [self.build(node.get("name"), str, _get_parameters(node)) or "" for node in parents]

    # Components

    @cached_property
    def declared(self) -> DeclarativeStream:
        """DeclarativeStream of the manifest, built with its nested components on first access."""
        node = self.node
        if self.is_delegating:
            node = node["incremental_stream" if self._has_state() else "full_refresh_stream"]
        declarative_stream: DeclarativeStream = self.build(node, DeclarativeStream)
        if declarative_stream.incremental_sync is None and self.is_delegating:
            cursor = self.build(self.incremental_node, DeclarativeStream).incremental_sync
            declarative_stream = replace(
                declarative_stream, incremental_sync=_keep_bookmark_only(cursor)
            )
        return declarative_stream

    @property
    def retriever(self) -> SimpleRetriever:
        """SimpleRetriever of the stream, or the one in its AsyncRetriever or CustomRetriever."""
        retriever = self.declared.retriever
        return retriever if isinstance(retriever, SimpleRetriever) else retriever.simple

    @cached_property
    def datetime_cursor(self) -> DatetimeBasedCursor | None:
        """DatetimeBasedCursor with the user's ``cutoff`` and ``boundary``; None if not declared."""
        if not self.incremental_node.get("incremental_sync"):
            return None
        cursor = self.declared.incremental_sync
        if not isinstance(cursor, DatetimeBasedCursor):
            return None
        overrides: dict[str, Any] = {
            name: value for name, value in self._shared.overrides.items() if name != _NEW_SLICES
        }
        if self._has_groups:
            overrides["global_substream_cursor"] = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # logged when the cursor was built
            return replace(cursor, **overrides) if overrides else cursor

    @property
    def _has_groups(self) -> bool:
        """True if a GroupingPartitionRouter makes one slice of several partitions.

        All slices then share one state, because a new partition changes the groups: a state that
        was stored for a group would not match a group of the next sync.
        """
        routers = self.retriever.routers
        return len(routers) == 1 and isinstance(routers[0], GroupingPartitionRouter)

    @cached_property
    def other_cursor(self) -> OtherCursor | None:
        """Custom cursor or IncrementingCountCursor; None for a DatetimeBasedCursor or no cursor."""
        if not self.incremental_node.get("incremental_sync"):
            return None
        cursor = self.declared.incremental_sync
        return None if isinstance(cursor, DatetimeBasedCursor) else cursor

    @cached_property
    def error_handler(self) -> ErrorHandler:
        """Error handler of the requester; a DefaultErrorHandler if the manifest declares none."""
        return self.retriever.requester.error_handler or DefaultErrorHandler()

    def make_page_loop(
        self,
        stream: DeclarativeStreamProtocol,
        scope: TemplateScope,
        select: RecordSelection,
        *,
        may_change_documents: bool,
        **callbacks: Any,
    ) -> PageLoop:
        """Return a new `PageLoop`, which reads the pages of a stream slice.

        Args:
            stream: Stream of the slice, for waits, and properties that are read from an endpoint.
            scope: Template variables of the slice.
            select: Function that yields the records of a page, from its decoded documents.
            may_change_documents: True if the caller may change the decoded documents while it
                processes their records; False if only the stream's transformations may.
            callbacks: Other arguments of `PageLoop`.
        """
        retriever = self.retriever
        selector, decoder = retriever.record_selector, retriever.response_decoder
        cursor = retriever.paginator.start_pagination()
        # Some extractors parse the response themselves.
        replace_decoder = getattr(selector.extractor, "replace_decoder", None)
        is_changed = self.declared.transformations or selector.schema_normalization != "None"
        make_loop: Callable[..., PageLoop] = PageLoop
        if (properties := retriever.requester.properties) is not None:
            make_loop = partial(
                PropertyChunkReader,
                chunks=properties.make_chunks(stream),
                merging=properties.merging,
            )
        reduction = retriever.page_size_reduction
        return make_loop(
            cursor,
            scope,
            decoder.decode,
            select,
            sleep=stream.sleep,
            is_pristine=not (is_changed or may_change_documents) and replace_decoder is None,
            decode_for_records=replace_decoder and replace_decoder(decoder),
            page_sizes=reduction and PageSizeState(reduction, cursor.size),
            **callbacks,
        )

    # State

    def is_state_expired(self, state: Mapping[str, Any], stream: str) -> bool:
        """Return True if a state is too old for a sync to resume from it.

        A state is too old if its latest bookmark is older than ``api_retention_period``, or if no
        bookmark is a datetime. Return False if the manifest does not set this option, or if the
        stream has no DatetimeBasedCursor.
        """
        node = self.node.get("api_retention_period")
        period = self.build(node, str | None, _get_parameters(self.node))
        cursor = self.datetime_cursor if period else None
        if cursor is None:
            return False
        entries = [state, *(state.get("partitions") or ())]
        values = [entry.get("replication_key_value") for entry in entries]
        comparator = make_comparator(cursor, stream)
        instants = list(filter(None, map(comparator.instant, values)))
        return not instants or max(instants) < parse_duration(period).before(utc_now())

    def translate_state(
        self, stored: Mapping[str, Any], replication_key: str | None
    ) -> dict[str, Any]:
        """Convert a stored state to the format of this SDK, and return it.

        The manifest's state migrations are applied. A state in airbyte-cdk's format is converted.
        """
        node, state = self.incremental_node, self._migrate_state(stored)
        by_slices = bool((node.get("retriever") or {}).get("partition_router"))
        if self.has_custom_cursor:
            return translate_custom_state(state, str(replication_key), by_slices=by_slices)
        return from_cdk_state(
            state,
            cursor_field=replication_key,
            partition_field=find_partition_field(node),
            by_slices=by_slices,
            keeps_global=self.has_global_cursor,
        )

    def _migrate_state(self, stored: Mapping[str, Any]) -> Mapping[str, Any]:
        """Apply the manifest's state migrations to a state.

        A state of this SDK is first converted to airbyte-cdk's format, because migrations support
        no other format.
        """
        migrations = self.build_option("state_migrations", list[StateMigration]) or ()
        state, is_migrated = to_cdk_state(stored) if migrations else stored, False
        for migration in migrations:
            if isinstance(migration, CustomStateMigration):
                migration.set_stream(self.incremental_node)
            if state and migration.should_migrate(state):
                state, is_migrated = migration.migrate(state), True
        return state if is_migrated else stored


def _get_parameters(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ``$parameters`` of a manifest node, including inherited ones; {} if none."""
    parameters: Mapping[str, Any] = getattr(node, "parameters", None) or {}
    return parameters


def _keep_bookmark_only(cursor: Any) -> Any:
    """Return a copy of a cursor that stores bookmarks, but does not change requests or records.

    A StateDelegatingStream reads its full-refresh stream with this copy of its incremental stream's
    cursor. The next sync then resumes the incremental stream from the bookmark. Return None for a
    custom cursor, whose Python class may change the requests.
    """
    if isinstance(cursor, IncrementingCountCursor):
        return replace(cursor, start_value_option=None)
    if not isinstance(cursor, DatetimeBasedCursor):
        return None
    removed = ("step", "cursor_granularity", "lookback_window", "clamping")
    options = ("start_time_option", "end_time_option")
    flags = ("is_data_feed", "is_client_side_incremental", "is_compare_strictly")
    changes: dict[str, Any] = {**dict.fromkeys((*removed, *options)), **dict.fromkeys(flags, False)}
    return replace(cursor, **changes)
