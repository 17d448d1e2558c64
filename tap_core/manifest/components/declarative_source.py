"""What a manifest is made of at its top: streams, their retrievers, the check and the settings.

Rules of the room: nothing is done here. These say what stands where; `stream` runs a stream,
`tap` a manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.manifest.components.api_budget import HTTPAPIBudget
from tap_core.manifest.components.async_retriever import AsyncRetriever
from tap_core.manifest.components.cursors import CustomIncrementalSync, IncrementingCountCursor
from tap_core.manifest.components.resolvers import DynamicDeclarativeStream
from tap_core.manifest.components.retrievers import CustomRetriever, SimpleRetriever
from tap_core.manifest.components.window_splitting import validate_splitting
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import SchemaLoader, StateMigration, Transformation

__all__ = [
    "CheckDynamicStream",
    "CheckStream",
    "ConcurrencyLevel",
    "DeclarativeSource",
    "DeclarativeStream",
    "DynamicStreamCheckConfig",
    "Spec",
    "StateDelegatingStream",
]


@dataclass(frozen=True, kw_only=True)
class DeclarativeStream:
    """A stream: where its records come from, and what becomes of each."""

    retriever: SimpleRetriever | CustomRetriever | AsyncRetriever
    name: str = ""
    primary_key: Any = None
    incremental_sync: (
        DatetimeBasedCursor | IncrementingCountCursor | CustomIncrementalSync | None
    ) = None
    schema_loader: SchemaLoader | list[SchemaLoader] | None = None
    transformations: list[Transformation] = field(default_factory=list)
    state_migrations: list[StateMigration] = field(default_factory=list)

    IGNORED: ClassVar[frozenset[str]] = frozenset({"file_uploader"})
    LATER: ClassVar[bool] = True
    """Within the fields of a class of others it stays a part of the document."""

    def __post_init__(self) -> None:
        """Refuse windows that cannot be cut."""
        retriever = getattr(self.retriever, "simple", self.retriever)
        validate_splitting(retriever, self.incremental_sync)

    @staticmethod
    def shows(node: Mapping[str, Any]) -> Collection[str]:
        """Return what only its templates may name: ``stream_state``, what its cursor keeps.

        Only a cursor of the connector's own has a state of which others know the form.
        """
        own = node.get("incremental_sync")
        is_own = isinstance(own, Mapping) and own.get("type") == CustomIncrementalSync.__name__
        return ("stream_state",) if is_own else ()


@dataclass(frozen=True, kw_only=True)
class StateDelegatingStream:
    """Two ways to read one stream: all of it where there is no state, else what changed."""

    name: str
    full_refresh_stream: DeclarativeStream
    incremental_stream: DeclarativeStream
    api_retention_period: str | None = None
    """For how long the API knows what changed: with an older state all is read anew."""

    LATER: ClassVar[bool] = True
    """Within the fields of a class of others it stays a part of the document."""


@dataclass(frozen=True, kw_only=True)
class DynamicStreamCheckConfig:
    """How many streams of a template are tried, all of them where that is not said."""

    dynamic_stream_name: str
    stream_count: int | None = None

    def __post_init__(self) -> None:
        """Refuse a check of nothing."""
        if self.stream_count is not None and self.stream_count < 1:
            raise ManifestError(f"stream_count is {self.stream_count}, and must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class CheckStream:
    """A connection is good when each of these streams can be read."""

    stream_names: list[str] = field(default_factory=list)
    dynamic_streams_check_configs: list[DynamicStreamCheckConfig] = field(default_factory=list)

    IGNORED: ClassVar[frozenset[str]] = frozenset({"config_overrides"})


@dataclass(frozen=True, kw_only=True)
class CheckDynamicStream:
    """A connection is good when the first so many streams can be read, wherever they come from.

    Without ``use_check_availability`` it is good when there are streams.
    """

    stream_count: int
    use_check_availability: bool = True

    IGNORED: ClassVar[frozenset[str]] = frozenset({"config_overrides"})


@dataclass(frozen=True, kw_only=True)
class ConcurrencyLevel:
    """In how many threads slices and windows may be read."""

    default_concurrency: int
    max_concurrency: int | None = None

    @property
    def threads(self) -> int:
        """The number that counts, at least one."""
        most = self.default_concurrency if self.max_concurrency is None else self.max_concurrency
        return max(1, min(self.default_concurrency, most))


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What a user configures."""

    connection_specification: Mapping[str, Any]
    documentation_url: str | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset(
        {"advanced_auth", "config_normalization_rules"}
        # Words of older manifests
        # and addresses that are read with the settings, before anything is built
        | {
            "documentationUrl",
            "changelog_url",
            "changelogUrl",
            "authSpecification",
            "supportsIncremental",
        }
        | {"additionalProperties"}
    )


@dataclass(frozen=True, kw_only=True)
class DeclarativeSource:
    """The manifest itself."""

    check: CheckStream | CheckDynamicStream | None = None
    streams: list[DeclarativeStream | StateDelegatingStream] = field(default_factory=list)
    dynamic_streams: list[DynamicDeclarativeStream] = field(default_factory=list)
    spec: Spec | None = None
    concurrency_level: ConcurrencyLevel | None = None
    api_budget: HTTPAPIBudget | None = None
    max_concurrent_async_job_count: int | str | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset(
        {"version", "definitions", "schemas", "metadata", "description", "stream_groups"}
    )
