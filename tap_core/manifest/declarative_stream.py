"""A declared stream: what a manifest says of it, and what slices it has.

Rules of the room: components are made when a sync needs them, so that discovery asks nothing of
a configuration. A copy of a stream (for a thread, for a window) shares its components and its
slices. A parent is a stream of its own, which reads everything and writes nothing; one that
goes on from where its children left it keeps its position in a state of its own.
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
from tap_core.manifest.interpolation import named_settings
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
    from tap_core.http.origins import Origin
    from tap_core.http.request import Auth
    from tap_core.manifest.async_jobs import JobLimiter
    from tap_core.manifest.components.api_budget import HTTPAPIBudget
    from tap_core.manifest.interfaces import Authenticator
    from tap_core.manifest.loader import Manifest
    from tap_core.manifest.response_cache import ResponseCache
    from tap_core.types import Context, JsonSchema, Record

__all__ = ["DeclarativeStreamBase", "ManifestTapProtocol", "PartitionedStream"]


_MADE: Final = (
    *("declared", "incremental_sync", "own_cursor"),
    *("_selection", "_signer", "_handler", "_decoder"),
)
"""What a stream makes of its declaration when it is first needed."""
_NEW_SLICES: Final = "new_slices"
"""The change that says where new slices begin: at the ``start`` or at the ``global_cursor``."""
_OF_ONE_SLICE: Final = (FatalAPIError, RetriableAPIError, RequestException, FailedRecordsError)
"""What may be wrong with one slice, and not with those behind it."""


class ManifestTapProtocol(Protocol):
    """What a declared stream needs of its tap, beside what every stream needs."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings."""

    @property
    def manifest(self) -> Manifest:
        """The manifest that it stands in."""

    @property
    def changes(self) -> Mapping[str, str]:
        """What is asked of every cursor from outside."""

    @property
    def threads(self) -> int:
        """In how many threads slices and windows may be read."""

    @property
    def jobs(self) -> JobLimiter:
        """How many jobs may be under way at the source."""

    @property
    def budget(self) -> HTTPAPIBudget | None:
        """How many requests the source takes."""

    @property
    def answers(self) -> ResponseCache:
        """Answers that are kept."""

    @property
    def parent_names(self) -> frozenset[str]:
        """Names of the streams whose answers are."""

    @property
    def names_with_state(self) -> frozenset[str]:
        """Names of the streams that had a state when the run began."""

    @property
    def told(self) -> set[str]:
        """What was told of oddities of the manifest."""

    def parent_stream(self, node: Mapping[str, Any]) -> DeclarativeStreamProtocol:
        """Return the stream that reads all of a parent."""

    def signer(self, declared: Authenticator, stream: DeclarativeStreamProtocol) -> Auth:
        """Return what signs requests; streams that declare the same share it."""

    def origins(self, signer: Auth) -> set[Origin]:
        """Return the origins that are known to be declared for what a signer puts on requests."""


class _Requests(metrics.Counter):
    """Counts the requests of a stream, over all of its slices and windows; logs them by time."""

    def exit(self) -> None:
        """Log nothing: one walk through pages may be one request."""

    def with_context(self, value: Context | None) -> None:
        """Leave contexts out: the number is that of all."""


class DeclarativeStreamBase(RESTStream[PageToken]):
    """What a stream is declared as."""

    is_parent: bool = False
    """Whether it is read for others' slices: all of it, whatever state it has as itself."""

    _goes_on: bool = False
    """Whether such a parent is read from a position that others have kept for it."""

    TYPE_CONFORMANCE_LEVEL = TypeConformanceLevel.NONE
    adds_context = False
    payload_as_json = False

    def __init__(self, tap: Any, node: Mapping[str, Any]) -> None:
        """Make the stream of a part of a manifest; ``tap`` is a `ManifestTapProtocol`, too."""
        self._host: ManifestTapProtocol = tap
        self._node = node
        self._config = dict(tap.config)
        self._warnings: list[str] = []
        """What is odd in its part of the manifest, until something is read of it."""
        super().__init__(tap, name=self._part("name", str) or "stream")
        self._is_read_by_one = self._makes_jobs
        threads = max(tap.threads, tap.jobs.most) if self._makes_jobs else tap.threads
        self.max_parallel_partitions = self.max_parallel_windows = threads
        self.primary_keys = _keys(self._part("primary_key", Any))
        field = self.replication_key = self._cursor_field()
        if not field:  # the property would look further, and make the stream's components
            self.state_partitioning_keys = []  # slices without a cursor have nothing to keep
        self._scope: TemplateScope = {"config": tap.config}
        """What templates of the request in hand see."""
        self._unsigned_origins: set[Origin] = set()
        """Origins that the manifest declares for requests without an authenticator."""
        self._of_run: dict[str, Any] = {}
        """What is known of slices and parents in this run; shared with copies."""
        tags: dict[str, Any] = {metrics.Tag.STREAM: self.name}
        self._counted: metrics.Counter = _Requests(metrics.Metric.HTTP_REQUEST_COUNT, tags)

    def _part(self, key: str, kind: Any) -> Any:
        """Make one part of the stream and no other."""
        whole = self._node.get("full_refresh_stream", self._node)
        node = whole.get(key)
        if node is None:
            return None
        return self._component(node, kind, _parameters(whole))

    def _component(self, node: Any, kind: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        """Make what a part declares; what is odd there is told when something is read."""
        manifest, warn = self._host.manifest, self._warnings.append
        return build_component(manifest, node, kind, self.config, parameters, warn)

    def _tell_warnings(self) -> None:
        """Log what is odd in what is read now, each sentence once for a tap."""
        sentences, self._warnings[:] = list(self._warnings), []
        for sentence in sentences:
            if sentence not in self._host.told:
                self._host.told.add(sentence)
                self.log("%s", sentence, level=logging.WARNING)

    @property
    def _incremental_node(self) -> Mapping[str, Any]:
        """The part of the document by which it goes on from a state."""
        found: Mapping[str, Any] = self._node.get("incremental_stream", self._node)
        return found

    @property
    def _makes_jobs(self) -> bool:
        """Whether its records are what jobs at the source have made."""
        retriever = self._incremental_node.get("retriever")
        kind = retriever.get("type") if isinstance(retriever, Mapping) else None
        return kind == AsyncRetriever.__name__

    def _cursor_field(self) -> str | None:
        """Return the name of the cursor, whatever settings the rest of it may need."""
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
        """How its records are asked for."""
        found = self.declared.retriever
        return found if isinstance(found, SimpleRetriever) else found.simple

    @cached_property
    def schema(self) -> JsonSchema:
        """JSON Schema of a record, as the manifest's loaders give it."""
        loaders = self._part("schema_loader", SchemaLoader | list[SchemaLoader])
        return load_schema(
            loaders, cast(DeclarativeStreamProtocol, self), self._host.manifest.folder
        )

    @cached_property
    def incremental_sync(self) -> DatetimeBasedCursor | None:  # type: ignore[override]
        """The cursor of dates, with what was asked of it from outside."""
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
            warnings.simplefilter("ignore", UserWarning)  # they were noted when it was built
            return replace(found, **changes) if changes else found

    @property
    def _has_groups(self) -> bool:
        """Whether slices are groups: one member more shifts them, so they share a state."""
        routers = self.retriever.routers
        return len(routers) == 1 and isinstance(routers[0], GroupingPartitionRouter)

    @property
    def _has_global_cursor(self) -> bool:
        """Whether slices that are new begin where the others had come to."""
        return self._host.changes.get(_NEW_SLICES) == "global_cursor"

    def check_edges(self) -> None:
        """Raise ConfigurationError where the start or the end of its cursor is no date-time."""
        try:
            cursor = self.incremental_sync
        except ManifestError as error:
            raise self._wrong_edge(str(error), "start") from None
        if cursor is not None:
            super()._edges(cursor)

    def _wrong_edge(self, message: str, name: str) -> ConfigurationError:
        """Return the error for a start or an end that is no date-time, with its settings."""
        node = self._incremental_node.get("incremental_sync") or {}
        given = node.get(f"{name}_datetime")
        texts = given.values() if isinstance(given, Mapping) else [given]
        named = {one for text in texts if isinstance(text, str) for one in named_settings(text)}
        if named:
            settings = " and ".join(f"'{one}'" for one in sorted(named))
            word = "setting" if len(named) == 1 else "settings"
            message = f"{message.rstrip('.')}. It comes from the {word} {settings}."
        return super()._wrong_edge(message, name)

    def _edges(self, cursor: DatetimeBasedCursor) -> tuple[dt.datetime, dt.datetime]:
        """Return from when until when there is anything to read.

        Slices that share a cursor end where the first of them does. The state does not pass that
        in any case, since its signpost is the earliest end: what is later would come once more.
        """
        start, end = super()._edges(cursor)
        if not cursor.global_substream_cursor:
            return start, end
        run = self._tap.document.runs
        if self._of_run.get("ends", (None,))[0] != run:
            self._of_run["ends"] = (run, end)
        return start, min(end, self._of_run["ends"][1])

    def _stored(self, cursor: DatetimeBasedCursor, context: Context | None) -> dt.datetime | None:
        """Return the instant up to which a context was sent, None for the beginning."""
        found = super()._stored(cursor, context)
        seconds = (
            self.stream_state.get(LOOKBACK_WINDOW_KEY) if cursor.global_substream_cursor else None
        )
        if found is None or not seconds or cursor.lookback_window:
            return found
        return found - dt.timedelta(seconds=seconds)

    @property
    def is_wanted(self) -> bool:
        """Whether it is selected, as far as that is known without its schema.

        An API may have to be asked for the schema, and this be asked on the way.
        """
        catalog = self._tap_input_catalog
        if self._metadata is None and (catalog is None or catalog.get_stream(self.name) is None):
            return catalog is None and self.selected_by_default
        return self.selected

    def _outlives(self, error: Exception) -> bool:
        """Return whether other slices are read behind one that failed: not with wrong settings."""
        is_of_one = bool(self.retriever.routers) and isinstance(error, _OF_ONE_SLICE)
        return is_of_one and getattr(error, "failure_type", None) != "config_error"

    def decide_anew(self) -> None:
        """Forget which of two ways was taken before it was known whether there is a state."""
        if "incremental_stream" in self._node:
            for name in _MADE:
                vars(self).pop(name, None)

    def has_outlived(self, state: Mapping[str, Any]) -> bool:
        """Return whether the API no longer knows what changed since a state of ours."""
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
        """Return a state of this stream as this SDK keeps it, also one of airbyte-cdk."""
        field, state = partition_field(self._incremental_node), self._migrated(kept)
        return from_cdk_state(
            state,
            cursor_field=self.replication_key,
            partition_field=field,
            keeps_global=self._has_global_cursor,
        )

    def _migrated(self, kept: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a state of an older version of the connector as one of this version.

        A migration is asked about airbyte-cdk's form of a state of ours: it knows no other.
        """
        migrations = self._part("state_migrations", list[StateMigration]) or ()
        state, is_migrated = to_cdk_state(kept) if migrations else kept, False
        for migration in migrations:
            if isinstance(migration, CustomStateMigration):
                migration.of(self._incremental_node)
            if state and migration.should_migrate(state):
                state, is_migrated = migration.migrate(state), True
        return state if is_migrated else kept


class PartitionedStream(DeclarativeStreamBase):
    """What slices a stream has, and how far its parents were read."""

    _follows: StateDocument | None = None
    """For a parent that goes on from where its children left it: how far it comes."""

    @property
    def partitions(self) -> list[dict[str, Any]] | None:
        """The contexts of the slices, as far as they are known; None without a router."""
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
                coming = self._each_once(coming)
            entries = self.state_manager.get_state_partitions() or ()
            before = frozenset(
                freeze_context(one["context"]) for one in entries if "context" in one
            )
            known.update(run=run, slices=PartitionCache(coming), parents={})
            known.update(before=before, begun=time.monotonic())
        return cast("list[dict[str, Any]]", known["slices"])  # iterated, and no more than that

    def _each_once(self, contexts: Iterable[Context]) -> Iterator[Context]:
        """Leave out slices that come again: they would have the same bookmark."""
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
                "%d slices came more than once and were read once: see which parents have the"
                " same key.",
                repeated,
                level=logging.WARNING,
            )

    def slices(self) -> Iterable[Context | None]:
        """Yield this stream's own slices, None where it has just one."""
        known: Iterable[Context] | None = self.partitions
        return known or [None]

    def read_slice(self, context: Context | None) -> Iterator[Record]:
        """Yield the finished records of a slice, for a child."""
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
        """Names of the streams that are read for this one's slices, and for theirs."""
        parents = get_parent_states(self._incremental_node)
        return [self._component(one.get("name"), str, _parameters(one)) or "" for one in parents]

    def parent(self, declared: Mapping[str, Any]) -> DeclarativeStreamProtocol:
        """Return the stream of a part of the manifest, which reads all of it for its slices."""
        return self._host.parent_stream(declared)

    def resumed(self, position: Any) -> DeclarativeStreamProtocol:
        """Return a copy of this parent that reads what is new since a position."""
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
        """How far it has been read, for `resumed`."""
        return None if self._follows is None else self._follows.stream_state(self.name)

    def remembered(self, parent: str) -> Any:
        """Return the position of a parent when all children of its records had been synced.

        Slices of several routers have none: there all parents are read, as airbyte-cdk does, since
        what is new for the values of one router need not be for those of another.
        """
        if len(self.retriever.routers) > 1:
            return None
        kept = self.stream_state.get("parent_state")
        return kept.get(parent) if isinstance(kept, Mapping) else None

    def remember(self, parent: str, position: Any) -> None:
        """Keep the position of a parent, as soon as this stream has ended."""
        if len(self.retriever.routers) == 1:
            self._of_run["parents"][parent] = position

    def _write_starting_replication_value(self, context: Context | None) -> None:
        if context and self._has_global_cursor:
            self._begin_slice(context)
        super()._write_starting_replication_value(context)

    def _begin_slice(self, context: Context) -> None:
        """Give a slice that no earlier run had the bookmark of all others, less the lookback."""
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
            return  # it begins at the start, as without one
        entry["replication_key"] = self.replication_key
        entry["replication_key_value"] = cursor.format.write(begin)
        manager.touch(context)

    def _keep_global_cursor(self) -> bool:
        """Keep how far the slices of this run have come; return whether that is known."""
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
    """Return the parameters that are in force in a part of the document."""
    found: Mapping[str, Any] = getattr(node, "parameters", None) or {}
    return found


def _is_path(path: Any) -> bool:
    return isinstance(path, (str, list, tuple)) and all(isinstance(step, str) for step in path)


def _keys(given: Any) -> list[str]:
    """Return the names of the keys; those of nested values are no properties of a record.

    Raises:
        ManifestError: it is not a name, a list of names, or a list of paths.
    """
    paths = [given] if isinstance(given, str) else given or []
    if not isinstance(paths, (list, tuple)) or not all(map(_is_path, paths)):
        raise ManifestError(f"A primary_key is a name or a list of names, not {given!r}.")
    names = [path if isinstance(path, str) else ".".join(path) for path in paths]
    flat = all(isinstance(path, str) or len(path) == 1 for path in paths)
    return list(filter(None, names)) if flat else []
