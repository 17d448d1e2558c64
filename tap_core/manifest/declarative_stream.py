"""A declarative stream: its components, its stream slices and its parent streams.

Components are built when a sync needs them, so discovery needs no config values. Copies of a
stream (for a thread or a window) share its components and slices. A parent stream is a separate
instance that reads all its records and writes none. A parent with ``incremental_dependency``
resumes from a position that the child stores in its own state.
"""

from __future__ import annotations

import copy
import datetime as dt
import logging
import math
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from requests.exceptions import RequestException

from tap_core import metrics
from tap_core.exceptions import ConfigurationError, FatalAPIError, RetriableAPIError
from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.incremental.durations import parse_duration
from tap_core.incremental.ordering import make_comparator
from tap_core.manifest.builder import build_component
from tap_core.manifest.components.async_retriever import AsyncRetriever
from tap_core.manifest.components.custom import CustomStateMigration
from tap_core.manifest.components.declarative_source import DeclarativeStream
from tap_core.manifest.components.partition_routers import GroupingPartitionRouter
from tap_core.manifest.components.retrievers import SimpleRetriever
from tap_core.manifest.components.schema_loaders import load_schema
from tap_core.manifest.errors import FailedRecordsError, ManifestError
from tap_core.manifest.interfaces import (
    DeclarativeStreamProtocol,
    SchemaLoader,
    StateMigration,
    TemplateScope,
)
from tap_core.manifest.interpolation import find_config_keys
from tap_core.manifest.page_loop import PageToken
from tap_core.manifest.partitions import PartitionCache, cartesian_product
from tap_core.manifest.state_translation import (
    GLOBAL_CURSOR,
    LOOKBACK_WINDOW_KEY,
    from_cdk_state,
    get_parent_states,
    partition_field,
    to_cdk_state,
)
from tap_core.parsing.datetimes import utc_now
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.state.document import StateDocument
from tap_core.state.partition_index import freeze_context
from tap_core.streams.rest import RESTStream
from tap_core.typing.inspect import TypeConformanceLevel

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tap_core.http.origins import Origin
    from tap_core.http.request import Auth
    from tap_core.manifest.async_jobs import JobLimiter
    from tap_core.manifest.components.api_budget import HTTPAPIBudget
    from tap_core.manifest.interfaces import Authenticator
    from tap_core.manifest.loader import Manifest
    from tap_core.manifest.response_cache import ResponseCache
    from tap_core.types import Context, JsonSchema, Record

__all__ = ["DeclarativeStreamBase", "ManifestTapProtocol"]


_MADE: Final = (
    *("declared", "incremental_sync", "own_cursor"),
    *("_selection", "_signer", "_handler", "_decoder"),
)
"""Cached properties that hold components built from the manifest."""
_NEW_SLICES: Final = "new_slices"
"""Name of the override for the start of new slices: ``start`` or ``global_cursor``."""
_OF_ONE_SLICE: Final = (FatalAPIError, RetriableAPIError, RequestException, FailedRecordsError)
"""Errors that may affect one slice only."""


class ManifestTapProtocol(Protocol):
    """The members that a declarative stream uses of its tap, in addition to a plain stream's."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The config."""

    @property
    def manifest(self) -> Manifest:
        """The manifest that declares the streams."""

    @property
    def changes(self) -> Mapping[str, str]:
        """Overrides for all cursors, from the command's flags or environment variables."""

    @property
    def threads(self) -> int:
        """The number of threads that may read slices and windows."""

    @property
    def jobs(self) -> JobLimiter:
        """The limit on asynchronous jobs that run at the API at the same time."""

    @property
    def budget(self) -> HTTPAPIBudget | None:
        """The API budget: the rate limits of the source."""

    @property
    def answers(self) -> ResponseCache:
        """The response cache."""

    @property
    def parent_names(self) -> frozenset[str]:
        """Names of the parent streams, whose responses are cached."""

    @property
    def names_with_state(self) -> frozenset[str]:
        """Names of the streams that had a state when the run began."""

    @property
    def told(self) -> set[str]:
        """Warnings about the manifest that have been logged already."""

    def parent_stream(self, node: Mapping[str, Any]) -> DeclarativeStreamProtocol:
        """Return the stream that reads all records of a parent."""

    def keeping(self, names: Iterable[str]) -> AbstractContextManager[None]:
        """Cache the responses of these parent streams while the tap's streams are not known yet."""

    def signer(self, declared: Authenticator, stream: DeclarativeStreamProtocol) -> Auth:
        """Return the function that signs requests; streams with equal authenticators share it."""

    def origins(self, signer: Auth) -> set[Origin]:
        """Return the origins that the manifest declares for a signer's credentials."""


class _Requests(metrics.Counter):
    """Counter of a stream's requests over all slices and windows; logged at intervals."""

    def exit(self) -> None:
        """Log nothing: one pagination may be a single request."""

    def with_context(self, value: Context | None) -> None:
        """Ignore the context: the count covers all contexts."""


class DeclarativeStreamBase(RESTStream[PageToken]):
    """A stream built from a DeclarativeStream or StateDelegatingStream of a manifest."""

    _follows: StateDocument | None = None
    """State of a parent that resumes from its child's position; None for other streams."""

    is_parent: bool = False
    """True if it is read in full for its children's slices, regardless of its own state."""

    _goes_on: bool = False
    """True if a parent is read from a position in the state of its child."""

    TYPE_CONFORMANCE_LEVEL = TypeConformanceLevel.NONE
    add_context_to_records = False
    payload_as_json = False

    def __init__(self, tap: Any, node: Mapping[str, Any]) -> None:
        """Build the stream of a manifest node; ``tap`` is also a `ManifestTapProtocol`."""
        self._host: ManifestTapProtocol = tap
        self._node = node
        self._config = dict(tap.config)
        self._warnings: list[str] = []
        """Warnings about its part of the manifest, until they are logged at the first read."""
        super().__init__(tap, name=self._part("name", str) or "stream")
        self._is_read_by_one = self._makes_jobs
        threads = max(tap.threads, tap.jobs.most) if self._makes_jobs else tap.threads
        self.max_parallel_partitions = self.max_parallel_windows = threads
        self.primary_keys = _keys(self._part("primary_key", Any))
        field = self.replication_key = self._cursor_field()
        if not field:  # the inherited property would build the stream's components
            self.state_partitioning_keys = []  # slices without a cursor have no state
        self._scope: TemplateScope = {"config": tap.config}
        """The interpolation scope of the current request."""
        self._unsigned_origins: set[Origin] = set()
        """Origins that the manifest declares for requests without an authenticator."""
        self._of_run: dict[str, Any] = {}
        """Slices and parent positions of this run; shared with copies."""
        tags: dict[str, Any] = {metrics.Tag.STREAM: self.name}
        self._counted: metrics.Counter = _Requests(metrics.Metric.HTTP_REQUEST_COUNT, tags)

    def _part(self, key: str, kind: Any) -> Any:
        """Build one option of the stream and no other."""
        whole = self._node.get("full_refresh_stream", self._node)
        node = whole.get(key)
        if node is None:
            return None
        return self._component(node, kind, _parameters(whole))

    def _component(self, node: Any, kind: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        """Build a component of the stream; its warnings are logged when the stream is read."""
        manifest, warn = self._host.manifest, self._warnings.append
        return build_component(manifest, node, kind, self.config, parameters, warn)

    def _log_warnings(self) -> None:
        """Log the warnings about this stream's manifest part, each text once per tap."""
        sentences, self._warnings[:] = list(self._warnings), []
        for sentence in sentences:
            if sentence not in self._host.told:
                self._host.told.add(sentence)
                self.log("%s", sentence, level=logging.WARNING)

    @property
    def _incremental_node(self) -> Mapping[str, Any]:
        """The manifest node that declares the incremental sync."""
        found: Mapping[str, Any] = self._node.get("incremental_stream", self._node)
        return found

    @property
    def _makes_jobs(self) -> bool:
        """True if an AsyncRetriever reads the records."""
        retriever = self._incremental_node.get("retriever")
        kind = retriever.get("type") if isinstance(retriever, Mapping) else None
        return kind == AsyncRetriever.__name__

    def _cursor_field(self) -> str | None:
        """Return the cursor field's name without building the rest of the cursor."""
        node = self._incremental_node.get("incremental_sync")
        if not isinstance(node, Mapping) or not (field := node.get("cursor_field")):
            return None
        found: str = self._component(field, str, _parameters(node))
        return found

    @cached_property
    def declared(self) -> DeclarativeStream:
        """The stream's components."""
        node = self._node
        if "incremental_stream" in node:
            known = self._goes_on or (
                not self.is_parent and self.name in self._host.names_with_state
            )
            node = node["incremental_stream" if known else "full_refresh_stream"]
        made: DeclarativeStream = self._component(node, DeclarativeStream)
        return made

    @property
    def retriever(self) -> SimpleRetriever:
        """The retriever of the stream; for asynchronous jobs its SimpleRetriever counterpart."""
        found = self.declared.retriever
        return found if isinstance(found, SimpleRetriever) else found.simple

    @cached_property
    def schema(self) -> JsonSchema:
        """JSON Schema of a record, from the manifest's schema loaders."""
        loaders = self._part("schema_loader", SchemaLoader | list[SchemaLoader])
        return load_schema(
            loaders, cast(DeclarativeStreamProtocol, self), self._host.manifest.folder
        )

    @cached_property
    def incremental_sync(self) -> DatetimeBasedCursor | None:  # type: ignore[override]
        """The DatetimeBasedCursor with the tap's overrides; None for other cursors."""
        if not self._incremental_node.get("incremental_sync"):
            return None
        found = self.declared.incremental_sync
        if not isinstance(found, DatetimeBasedCursor):
            return None
        changes: dict[str, Any] = {
            name: value for name, value in self._host.changes.items() if name != _NEW_SLICES
        }
        if self._has_groups:
            changes["global_substream_cursor"] = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # collected when it was built
            return replace(found, **changes) if changes else found

    @property
    def _has_groups(self) -> bool:
        """True if slices are groups of partitions, which must share one state.

        A new member shifts the groups, so a state per group would not match the next sync's groups.
        """
        routers = self.retriever.routers
        return len(routers) == 1 and isinstance(routers[0], GroupingPartitionRouter)

    @property
    def _has_global_cursor(self) -> bool:
        """True if new slices begin at the position that the other slices have reached."""
        return self._host.changes.get(_NEW_SLICES) == "global_cursor"

    def check_edges(self) -> None:
        """Raise ConfigurationError if the cursor's start or end is not a valid datetime."""
        try:
            cursor = self.incremental_sync
        except ManifestError as error:
            raise self._wrong_edge(str(error), "start") from None
        if cursor is not None:
            super()._edges(cursor)

    def _wrong_edge(self, message: str, name: str) -> ConfigurationError:
        """Return the error for an invalid start or end, naming the settings it comes from."""
        node = self._incremental_node.get("incremental_sync") or {}
        given = node.get(f"{name}_datetime")
        texts = given.values() if isinstance(given, Mapping) else [given]
        named = {one for text in texts if isinstance(text, str) for one in find_config_keys(text)}
        if named:
            settings = " and ".join(f"'{one}'" for one in sorted(named))
            word = "setting" if len(named) == 1 else "settings"
            message = f"{message.rstrip('.')}. It comes from the {word} {settings}."
        return super()._wrong_edge(message, name)

    def _edges(self, cursor: DatetimeBasedCursor) -> tuple[dt.datetime, dt.datetime]:
        """Return the start and the end of the period to read.

        Slices that share a cursor all end where the first slice of the run ended. The shared state
        never passes that end, so later records would be read again by the next sync.
        """
        start, end = super()._edges(cursor)
        if not cursor.global_substream_cursor:
            return start, end
        run = self._tap.document.runs
        if self._of_run.get("ends", (None,))[0] != run:
            self._of_run["ends"] = (run, end)
        return start, min(end, self._of_run["ends"][1])

    def _stored(self, cursor: DatetimeBasedCursor, context: Context | None) -> dt.datetime | None:
        """Return the datetime up to which a context was sent; None without a bookmark."""
        found = super()._stored(cursor, context)
        seconds = (
            self.stream_state.get(LOOKBACK_WINDOW_KEY) if cursor.global_substream_cursor else None
        )
        if found is None or not seconds or cursor.lookback_window:
            return found
        return found - dt.timedelta(seconds=seconds)

    @property
    def is_wanted(self) -> bool:
        """True if the stream is selected, as far as that is known without its schema.

        The schema is not used because reading it may need requests to the API, and this property
        may be read on the way.
        """
        catalog = self._tap_input_catalog
        if self._metadata is None and (catalog is None or catalog.get_stream(self.name) is None):
            return catalog is None and self.selected_by_default
        return self.selected

    def _outlives(self, error: Exception) -> bool:
        """Return True if the other slices are still read after a slice failed with this error.

        Config errors end the stream, since they affect all slices.
        """
        is_of_one = bool(self.retriever.routers) and isinstance(error, _OF_ONE_SLICE)
        return is_of_one and getattr(error, "failure_type", None) != "config_error"

    def decide_anew(self) -> None:
        """Discard the built components of a StateDelegatingStream once its state is known."""
        if "incremental_stream" in self._node:
            for name in _MADE:
                vars(self).pop(name, None)

    def has_outlived(self, state: Mapping[str, Any]) -> bool:
        """Return True if the stored state is older than the API's ``api_retention_period``."""
        given = self._node.get("api_retention_period")
        period = self._component(given, str | None, _parameters(self._node))
        cursor = self.incremental_sync if period and state else None
        if cursor is None:
            return False
        entries = [state, *(state.get("partitions") or ())]
        values = [one.get("replication_key_value") for one in entries]
        order = make_comparator(cursor, self.name)
        found = [at for one in values if (at := order.instant(one)) is not None]
        return not found or max(found) < parse_duration(period).before(utc_now())

    def translated(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        """Return a stored state in this SDK's format; a state of airbyte-cdk is converted."""
        field, state = partition_field(self._incremental_node), self._migrated(kept)
        return from_cdk_state(
            state,
            cursor_field=self.replication_key,
            partition_field=field,
            keeps_global=self._has_global_cursor,
        )

    def _migrated(self, kept: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a state after the manifest's state migrations.

        Migrations see a state of this SDK in airbyte-cdk's format, the only format they know.
        """
        migrations = self._part("state_migrations", list[StateMigration]) or ()
        state, is_migrated = to_cdk_state(kept) if migrations else kept, False
        for migration in migrations:
            if isinstance(migration, CustomStateMigration):
                migration.of(self._incremental_node)
            if state and migration.should_migrate(state):
                state, is_migrated = migration.migrate(state), True
        return state if is_migrated else kept

    # Slices

    @property
    def partitions(self) -> list[dict[str, Any]] | None:
        """The slices' contexts, which the partition routers find lazily; None without a router."""
        routers = self.retriever.routers
        if not routers:
            return None
        run, known = self._tap.document.runs, self._of_run
        if known.get("run") != run:
            parts = [
                partial(router.contexts, cast(DeclarativeStreamProtocol, self))
                for router in routers
            ]
            coming = cartesian_product(parts)
            if self.replication_key:
                coming = self._iterate_distinct(coming)
            entries = self.state_manager.get_state_partitions() or ()
            before = frozenset(
                freeze_context(one["context"]) for one in entries if "context" in one
            )
            known.update(run=run, slices=PartitionCache(coming), parents={})
            known.update(before=before, begun=time.monotonic())
        return cast("list[dict[str, Any]]", known["slices"])  # callers only iterate

    def _iterate_distinct(self, contexts: Iterable[Context]) -> Iterator[Context]:
        """Yield each slice once: repeated slices would share one bookmark."""
        seen: set[Any] = set()
        repeated = 0
        for context in contexts:
            key = freeze_context(context)
            if key in seen:
                repeated += 1
                continue
            seen.add(key)
            yield context
        if repeated:
            self.log(
                "%d repeated slices were read only once: check which parent records have the"
                " same key.",
                repeated,
                level=logging.WARNING,
            )

    def slices(self) -> Iterable[Context | None]:
        """Return this stream's own slices; [None] if it has just one."""
        known: Iterable[Context] | None = self.partitions
        return known or [None]

    def read_slice(self, context: Context | None) -> Iterator[Record]:
        """Yield the finished records of a slice, for a child stream."""
        manager, key = self.state_manager, str(self.replication_key)
        cursor = None if self._follows is None else manager.cursor(context, replication_key=key)
        keeps = self._begin_context(context)
        try:
            for record in self.get_records(context):
                if cursor is not None:
                    cursor.advance(record.get(key))
                if keeps is None or keeps(record):
                    yield record
        finally:
            self._end_context()
        if cursor is not None:
            cursor.settle()
            manager.finalize_state(manager.get_context_state(context))

    @property
    def parent_names(self) -> list[str]:
        """Names of all direct and indirect parent streams of this stream's slices."""
        parents = get_parent_states(self._incremental_node)
        return [self._component(one.get("name"), str, _parameters(one)) or "" for one in parents]

    def parent(self, declared: Mapping[str, Any]) -> DeclarativeStreamProtocol:
        """Return the stream of a parent's manifest node, which reads all the parent's records."""
        return self._host.parent_stream(declared)

    def resumed(self, position: Any) -> DeclarativeStreamProtocol:
        """Return a copy of this parent stream that reads the records after a stored position."""
        known = copy.deepcopy(self.translated(position)) if isinstance(position, dict) else {}
        follows = StateDocument({"bookmarks": {self.name: known}})
        made = copy.copy(self)
        made.forced_replication_method = None
        vars(made).update(_of_run={}, _follows=follows, _state_manager=self._make_manager(follows))
        if known and "incremental_stream" in self._node:
            made._goes_on = True  # noqa: SLF001  (a copy)
            made.decide_anew()
        return cast(DeclarativeStreamProtocol, made)

    @property
    def position(self) -> Any:
        """The position reached by a parent stream, for `resumed`; None if none is tracked."""
        return None if self._follows is None else self._follows.stream_state(self.name)

    def find_parent_state(self, parent: str) -> Any:
        """Return a parent's position after the last sync of all children of its records.

        Several partition routers give None, so all parents are read in full, as in airbyte-cdk: a
        parent record that is not new may still form a new slice with another router's value.
        """
        if len(self.retriever.routers) > 1:
            return None
        kept = self.stream_state.get("parent_state")
        return kept.get(parent) if isinstance(kept, Mapping) else None

    def remember(self, parent: str, position: Any) -> None:
        """Store a parent's position in the state as soon as this stream has completed."""
        if len(self.retriever.routers) == 1:
            self._of_run["parents"][parent] = position

    def _write_starting_replication_value(self, context: Context | None) -> None:
        if context and self._has_global_cursor:
            self._begin_slice(context)
        super()._write_starting_replication_value(context)

    def _begin_slice(self, context: Context) -> None:
        """Start a new slice at the global cursor minus the lookback window."""
        manager, cursor = self.state_manager, self.incremental_sync
        known = manager.stream_state.get(GLOBAL_CURSOR)
        entry = manager.get_context_state(context)
        if (
            cursor is None
            or not isinstance(known, Mapping)
            or known.get("replication_key") != self.replication_key
            or "replication_key_value" in entry
            or freeze_context(context) in self._of_run.get("before", ())
            or self.replication_method != REPLICATION_INCREMENTAL
        ):
            return
        try:
            reached = cursor.read(known.get("replication_key_value"))
            begin = reached - dt.timedelta(seconds=known.get(LOOKBACK_WINDOW_KEY, 0))
        except (ValueError, TypeError, OverflowError):
            return  # invalid: the slice begins at the start date
        entry["replication_key"] = self.replication_key
        entry["replication_key_value"] = cursor.format.write(begin)
        manager.touch(context)

    def _keep_global_cursor(self) -> bool:
        """Store the latest bookmark of the slices as the global cursor; return True if stored."""
        manager = self.state_manager
        values = [
            one["replication_key_value"]
            for one in manager.get_state_partitions() or ()
            if one.get("replication_key") == self.replication_key and "replication_key_value" in one
        ]
        if not values or self.incremental_sync is None or "begun" not in self._of_run:
            return False
        latest = values[0]
        for value in values[1:]:
            latest = value if manager.order.newer_or_equal(value, latest) else latest
        manager.stream_state[GLOBAL_CURSOR] = {
            "replication_key": self.replication_key,
            "replication_key_value": latest,
            LOOKBACK_WINDOW_KEY: math.ceil(time.monotonic() - self._of_run["begun"]),
        }
        return True

    def _complete_state(self, *, saw_all: bool) -> None:
        super()._complete_state(saw_all=saw_all)
        is_kept = self._has_global_cursor and self._keep_global_cursor()
        parents = self._of_run.get("parents")
        if parents:
            self.stream_state["parent_state"] = parents
        was_earlier = self.stream_state.pop(LOOKBACK_WINDOW_KEY, None)
        if parents or was_earlier or is_kept:
            self._tap.document.touch(self.name)
            self._tap.run.checkpoint(owed=True)


def _parameters(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ``$parameters`` that are in force at a manifest node."""
    found: Mapping[str, Any] = getattr(node, "parameters", None) or {}
    return found


def _is_path(path: Any) -> bool:
    return isinstance(path, (str, list, tuple)) and all(isinstance(step, str) for step in path)


def _keys(given: Any) -> list[str]:
    """Return the primary key's field names; [] if a path leads to a nested value.

    Raises:
        ManifestError: the option is not a name, a list of names, or a list of paths.
    """
    paths = [given] if isinstance(given, str) else given or []
    if not isinstance(paths, (list, tuple)) or not all(map(_is_path, paths)):
        raise ManifestError(f"Invalid primary_key {given!r}: expected a name or a list of names.")
    names = [path if isinstance(path, str) else ".".join(path) for path in paths]
    flat = all(isinstance(path, str) or len(path) == 1 for path in paths)
    return list(filter(None, names)) if flat else []
