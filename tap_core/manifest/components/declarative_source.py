"""Top-level components of a manifest: source, streams, check, spec and concurrency level.

`tap_core.manifest.stream` reads a stream; `tap_core.manifest.tap` runs the whole manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.manifest.builder import build_component
from tap_core.manifest.components.api_budget import HTTPAPIBudget
from tap_core.manifest.components.async_retriever import AsyncRetriever
from tap_core.manifest.components.config_rules import ConfigNormalizationRules
from tap_core.manifest.components.cursors import CustomIncrementalSync, IncrementingCountCursor
from tap_core.manifest.components.custom import CustomStateMigration
from tap_core.manifest.components.resolvers import DynamicDeclarativeStream
from tap_core.manifest.components.retrievers import CustomRetriever, SimpleRetriever
from tap_core.manifest.components.window_splitting import validate_splitting
from tap_core.manifest.durations import parse_length
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import Condition, Transformation, resolve
from tap_core.manifest.loader import Manifest
from tap_core.manifest.nodes import MappingNode
from tap_core.manifest.schema_loading import SchemaLoader
from tap_core.manifest.state_translation import LegacyToPerPartitionStateMigration
from tap_core.manifest.type_hints import PlainText

__all__ = [
    "CheckDynamicStream",
    "CheckStream",
    "ConcurrencyLevel",
    "ConditionalStreams",
    "DeclarativeSource",
    "DeclarativeStream",
    "DynamicStreamCheckConfig",
    "PrimaryKey",
    "Spec",
    "StateDelegatingStream",
    "StateMigration",
    "are_streams_available",
]

StateMigration: TypeAlias = LegacyToPerPartitionStateMigration | CustomStateMigration
"""Conversion of a state that an older version of the connector stored."""


PrimaryKey: TypeAlias = PlainText | list[PlainText | list[PlainText]] | None
"""Name of a field, or a list of names or of paths to nested fields."""


@dataclass(frozen=True, kw_only=True)
class DeclarativeStream:
    """Stream of an Airbyte manifest: its retriever, cursor, schema loader and transformations."""

    retriever: SimpleRetriever | CustomRetriever | AsyncRetriever
    name: str = ""
    primary_key: PrimaryKey = None
    incremental_sync: (
        DatetimeBasedCursor | IncrementingCountCursor | CustomIncrementalSync | None
    ) = None
    schema_loader: SchemaLoader | list[SchemaLoader] | None = None
    transformations: list[Transformation] = field(default_factory=list)
    state_migrations: list[StateMigration] = field(default_factory=list)

    IS_BUILT_LATER: ClassVar[bool] = True
    """True, because a custom component with such a stream gets its declaration, not an instance."""

    def __post_init__(self) -> None:
        """Raise ManifestError if the retriever splits time windows, but the cursor cannot do so."""
        retriever = self.retriever
        simple = retriever if isinstance(retriever, SimpleRetriever) else retriever.simple
        validate_splitting(simple, self.incremental_sync)

    @staticmethod
    def get_restricted_names(node: Mapping[str, Any]) -> Collection[str]:
        """Return the restricted template variables that the templates of a stream may use.

        Restricted variables are available only in some components. A stream with a custom cursor
        may use ``stream_state``, because its state has airbyte-cdk's format; other streams may use
        none. ``node`` is the declaration of the stream.
        """
        cursor = node.get("incremental_sync")
        kind = cursor.get("type") if isinstance(cursor, Mapping) else None
        return ("stream_state",) if kind == CustomIncrementalSync.__name__ else ()


@dataclass(frozen=True, kw_only=True)
class StateDelegatingStream:
    """Stream with two declarations: one for a full refresh, one for an incremental sync.

    The full refresh stream is read if there is no state, otherwise the incremental stream.
    """

    name: str
    full_refresh_stream: DeclarativeStream
    incremental_stream: DeclarativeStream
    api_retention_period: str | None = None
    """ISO 8601 duration. If the state is older than this, the full refresh stream is read."""

    IS_BUILT_LATER: ClassVar[bool] = True
    """True, because a custom component with such a stream gets its declaration, not an instance."""

    def __post_init__(self) -> None:
        """Raise ManifestError if `api_retention_period` is not a duration."""
        if self.api_retention_period:
            parse_length(self.api_retention_period)


@dataclass(frozen=True, kw_only=True)
class ConditionalStreams:
    """Streams that exist only if `condition` is true, a template that reads the config."""

    condition: Condition
    streams: list[DeclarativeStream | StateDelegatingStream]


def are_streams_available(manifest: Manifest, config: Mapping[str, Any], node: MappingNode) -> bool:
    """Return True if the condition of a ``ConditionalStreams`` node is true for the config."""
    condition = build_component(manifest, node.get("condition"), Condition, config, node.parameters)
    return bool(resolve(condition, {}))


@dataclass(frozen=True, kw_only=True)
class DynamicStreamCheckConfig:
    """Maximum number of streams that the connection check reads for one dynamic stream.

    A dynamic stream generates several streams. Without a `stream_count`, all of them are read.
    """

    dynamic_stream_name: str
    stream_count: int | None = None

    def __post_init__(self) -> None:
        """Raise ManifestError if `stream_count` is below 1."""
        if self.stream_count is not None and self.stream_count < 1:
            raise ManifestError(f"stream_count is {self.stream_count}, and must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class CheckStream:
    """Connection check that reads the first record of each named stream.

    Without `stream_names` it reads the first record of all streams; with an empty list it reads
    nothing, as in airbyte-cdk. It fails if a request fails; a stream without records passes.
    `config_overrides` are settings, without templates, that apply to the check only.
    """

    stream_names: list[str] | None = None
    dynamic_streams_check_configs: list[DynamicStreamCheckConfig] = field(default_factory=list)
    config_overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CheckDynamicStream:
    """Connection check that reads one record from each of the first `stream_count` streams.

    With `use_check_availability: false` nothing is read; the check then succeeds if there is at
    least one stream. `config_overrides` are settings, without templates, that apply to the check
    only.
    """

    stream_count: int
    use_check_availability: bool = True
    config_overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ConcurrencyLevel:
    """Number of threads that read the stream slices and time windows of a source concurrently."""

    default_concurrency: int
    max_concurrency: int | None = None

    @property
    def threads(self) -> int:
        """Number of threads: `default_concurrency`, at most `max_concurrency`, and at least 1."""
        threads = self.default_concurrency
        if self.max_concurrency is not None:
            threads = min(threads, self.max_concurrency)
        return max(1, threads)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Specification of a connector: schema and rules of the config, and the documentation URL."""

    connection_specification: Mapping[str, Any]
    documentation_url: str | None = None
    config_normalization_rules: ConfigNormalizationRules | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset(
        {
            # Read by `tap_core.manifest.spec`, before any component is built
            "advanced_auth",
            "changelogUrl",
            "changelog_url",
            "documentationUrl",
            # Options of older manifests
            "additionalProperties",
            "authSpecification",
            "supportsIncremental",
        }
    )


@dataclass(frozen=True, kw_only=True)
class DeclarativeSource:
    """Root component of an Airbyte manifest: streams, connection check and config specification."""

    check: CheckStream | CheckDynamicStream | None = None
    streams: list[DeclarativeStream | StateDelegatingStream | ConditionalStreams] = field(
        default_factory=list
    )
    dynamic_streams: list[DynamicDeclarativeStream] = field(default_factory=list)
    spec: Spec | None = None
    concurrency_level: ConcurrencyLevel | None = None
    api_budget: HTTPAPIBudget | None = None
    max_concurrent_async_job_count: int | str | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset(
        {"version", "definitions", "schemas", "metadata", "description", "stream_groups"}
    )
