"""`ManifestStream`: stream of an HTTP API that a manifest declares.

The components of the manifest define its requests and records. The pagination loop, retries,
sessions and threads are those of every HTTP stream; bookmarks are those of the sync engine.

Credentials are sent to the base URL of a requester if its template depends only on the config and
the manifest. If part of a URL comes from a record, a parent's slice or a response, credentials are
sent only to origins that the manifest declares for the same authenticator or lists in
``allowed_hosts``.
"""

from __future__ import annotations

import copy
import itertools
import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, cast

import requests
from requests.exceptions import RequestException

from tap_core import metrics
from tap_core.authenticators import SimpleAuthenticator
from tap_core.exceptions import FatalAPIError, RetriableAPIError, SyncError
from tap_core.http.origins import Origin, Route, check_allowed_hosts, describe_redirect
from tap_core.http.rate_limit import get_counters
from tap_core.http.request import HTTPRequest, PageContext, prepare_request
from tap_core.http.response import JSONResponse, check_content_length
from tap_core.http.response_limits import ResponseLimits
from tap_core.http.retry import RetryState, random_jitter
from tap_core.http.transport import ANNOTATED_ERRORS, annotate_error, refresh_token_after_401
from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.manifest.async_jobs import AsyncJobReader
from tap_core.manifest.components.async_retriever import AsyncRetriever
from tap_core.manifest.components.decoders import JsonDecoder
from tap_core.manifest.components.error_handlers import default_resolution, make_response_error
from tap_core.manifest.components.page_size_reduction import PageSizeState
from tap_core.manifest.components.partition_routers import CHILD_RESPONSE
from tap_core.manifest.components.record_selector import drop_nulls
from tap_core.manifest.components.requester import finalize_request
from tap_core.manifest.components.retrievers import CustomRetriever, SimpleRetriever
from tap_core.manifest.context_reader import ManifestReader
from tap_core.manifest.declared_origins import (
    add_base_origin,
    make_component_route,
    make_trusted_scope,
)
from tap_core.manifest.errors import FailedRecordsError, ManifestError
from tap_core.manifest.failed_records import FailedRecords
from tap_core.manifest.interfaces import (
    DeclarativeStreamProtocol,
    ResponseAction,
    ResponseResolution,
    TemplateScope,
)
from tap_core.manifest.page_loop import PageLoop, PageToken
from tap_core.manifest.pagination_reset import RestartLimiter, RestartPagination, SplitWindow
from tap_core.manifest.property_chunks import PropertyChunkReader
from tap_core.manifest.schema_loading import SchemaLoader, load_schema
from tap_core.manifest.stream_components import StreamComponents
from tap_core.manifest.stream_slices import StreamSlices
from tap_core.manifest.token_rotation import TokenRotator
from tap_core.redaction.http import collect_sent_secrets
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.singerlib.json import dump_json
from tap_core.state.comparison import ReplicationKeyComparator
from tap_core.state.document import StateDocument
from tap_core.streams.http import _HTTPStream
from tap_core.types import JsonSchema
from tap_core.typing.inspect import TypeConformanceLevel

if TYPE_CHECKING:
    from tap_core.http.request import Auth
    from tap_core.manifest.components.record_selector import OnFailure, RecordSelection
    from tap_core.manifest.shared_resources import SharedResources
    from tap_core.types import Context, Record

__all__ = ["ManifestStream"]


_INTERRUPTS: Final[Mapping[ResponseAction, type[RestartPagination]]] = {
    ResponseAction.RESET_PAGINATION: RestartPagination,
    ResponseAction.SPLIT_REQUEST_WINDOW: SplitWindow,
}
"""Exceptions that signal a restart of a slice's pagination, by the action that causes it."""

_OF_ONE_SLICE: Final = (FatalAPIError, RetriableAPIError, RequestException, FailedRecordsError)
"""Errors that may concern one slice only, so that the others are still read."""


class _RequestCounter(metrics.Counter):
    """Counter of all requests of a stream, which logs their number as a metric at intervals."""

    def exit(self) -> None:
        """Do nothing: a log after each pagination would often count a single request."""

    def with_context(self, value: Context | None) -> None:
        """Ignore the context: requests of all contexts are counted together."""


class ManifestStream(_HTTPStream[PageToken]):
    """Stream that a DeclarativeStream or StateDelegatingStream of an Airbyte manifest declares."""

    _request_scope: TemplateScope | None = None
    """Interpolation scope of a copy that sends one request of an asynchronous job, else None."""

    _failed_records: FailedRecords | None = None
    """Records of the current context on which templates failed; None raises the first failure."""

    _page_loop: PageLoop
    """Page loop of the current slice."""

    _LOG_REQUEST_METRICS = False  # there may be thousands of slices

    _resume_document: StateDocument | None = None
    """State of a parent that resumes from its child's position; None for other streams."""

    is_parent: bool = False
    """True for a parent that is read in full for its children, regardless of its own state."""

    TYPE_CONFORMANCE_LEVEL = TypeConformanceLevel.NONE
    add_context_to_records = False

    def __init__(self, tap: Any, node: Mapping[str, Any], *, is_description: bool = False) -> None:
        """Create a stream from a node of the manifest.

        Args:
            tap: Tap of the stream, a `ManifestTap`.
            node: Node of the manifest that declares the stream.
            is_description: True for an internal stream from whose records other streams are
                generated. Its responses are cached, and its records keep null fields.
        """
        shared: SharedResources = tap.shared
        self._shared = shared
        self._config = dict(tap.config)
        self._is_description = is_description
        self._components = StreamComponents(shared, node, self._has_known_state)
        super().__init__(tap, name=self._components.build_option("name", str) or "stream")
        self._slices = StreamSlices(self)
        makes_jobs = self._is_read_by_one = self._components.makes_jobs
        threads = max(shared.threads, shared.job_limiter.most) if makes_jobs else shared.threads
        self.max_parallel_partitions = self.max_parallel_windows = threads
        if self._components.has_custom_cursor:
            self.max_parallel_partitions = 1
        self.primary_keys = self._components.primary_key
        field = self.replication_key = self._components.cursor_field
        if not field:  # the inherited property would build the stream's components
            self.state_partitioning_keys = []  # slices without a cursor have no state
        self._scope: TemplateScope = {"config": tap.config}
        """Interpolation scope of the current request."""
        self._unsigned_origins: set[Origin] = set()
        """Origins that the manifest declares for requests without an authenticator."""
        tags: dict[str, Any] = {metrics.Tag.STREAM: self.name}
        self._counted: metrics.Counter = _RequestCounter(metrics.Metric.HTTP_REQUEST_COUNT, tags)

    def _has_known_state(self) -> bool:
        """Return True if this run reads the stream incrementally, because it has a stored state."""
        return not self.is_parent and self.name in self._shared.names_with_state

    def _log_warnings(self) -> None:
        """Log the warnings about the stream's node; the same text is logged once per tap."""
        warnings = self._components.warnings
        sentences, warnings[:] = list(warnings), []
        for sentence in sentences:
            if sentence not in self._shared.logged_warnings:
                self._shared.logged_warnings.add(sentence)
                self.log("%s", sentence, level=logging.WARNING)

    # Components

    @property
    def retriever(self) -> SimpleRetriever:
        """SimpleRetriever of the stream, or the SimpleRetriever inside another retriever."""
        return self._components.retriever

    @cached_property
    def schema(self) -> JsonSchema:
        """JSON Schema of the records, from the schema loaders that the manifest declares."""
        loaders = self._components.build_option("schema_loader", SchemaLoader | list[SchemaLoader])
        return load_schema(
            loaders, cast(DeclarativeStreamProtocol, self), self._shared.manifest.folder
        )

    @property
    def incremental_sync(self) -> DatetimeBasedCursor | None:  # type: ignore[override]
        """DatetimeBasedCursor, with the tap's overrides applied; None for any other cursor."""
        return self._components.datetime_cursor

    @property
    def _reader(self) -> ManifestReader:
        """Reader of this stream's contexts, in slices and time windows."""
        return self._get_reader(
            lambda stream: ManifestReader(
                stream,
                self._components,
                self._slices,
                is_resumed=self._resume_document is not None,
            )
        )

    def check_edges(self) -> None:
        """Raise ConfigurationError if the start or end of the cursor is not a valid datetime."""
        try:
            cursor = self.incremental_sync
        except ManifestError as error:
            raise self._reader.make_edge_error(str(error), "start") from None
        if cursor is not None:
            self._reader.find_time_range(cursor)

    def _order(self) -> ReplicationKeyComparator:
        cursor, usual = self._components.other_cursor, super()._order()
        return usual if cursor is None else cursor.make_comparator(self.name, usual)

    def get_replication_key_signpost(self, context: Context | None = None) -> Any | None:
        """Return the greatest bookmark this sync may store; None for custom and count cursors."""
        has_other = self._components.other_cursor is not None
        return None if has_other else super().get_replication_key_signpost(context)

    def compare_start_date(self, value: str, start_date_value: str) -> str:
        """Return the later of two datetimes; the bookmark ``value`` without a time-based cursor."""
        has_other = self._components.other_cursor is not None
        return value if has_other else super().compare_start_date(value, start_date_value)

    @property
    def _start_date(self) -> Any:
        return None if self._components.other_cursor is not None else super()._start_date

    @property
    def is_probably_selected(self) -> bool:
        """True if the stream is selected, as far as this is known without its schema.

        The schema is not loaded here, because that may send requests to the API, which may need
        this property.
        """
        catalog = self._tap_input_catalog
        if self._metadata is None and (catalog is None or catalog.get_stream(self.name) is None):
            return catalog is None and self.selected_by_default
        return self.selected

    def _continues_after(self, error: Exception) -> bool:
        """Return True if an error concerns one slice only, so that the other slices are read.

        A config error concerns all slices and ends the stream.
        """
        is_of_one = bool(self.retriever.routers) and isinstance(error, _OF_ONE_SLICE)
        return is_of_one and getattr(error, "failure_type", None) != "config_error"

    # State

    def rebuild_components(self) -> None:
        """Discard the components of a StateDelegatingStream, whose state may select other ones."""
        if self._components.is_delegating:
            self._replace_components(self._components.rebuilt(self._has_known_state))

    def _replace_components(self, components: StreamComponents) -> None:
        self._components, self._own_reader = components, None
        for name in ("_selection", "_signer"):
            vars(self).pop(name, None)

    def is_state_expired(self, state: Mapping[str, Any]) -> bool:
        """Return True if all bookmarks of a state are older than ``api_retention_period``."""
        return bool(state) and self._components.is_state_expired(state, self.name)

    def translate_state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a stored state in the format of this SDK, converted if it is airbyte-cdk's."""
        return self._components.translate_state(state, self.replication_key)

    def _write_starting_replication_value(self, context: Context | None) -> None:
        if context and self._components.has_global_cursor:
            self._slices.start_at_global_cursor(context, self.incremental_sync)
        super()._write_starting_replication_value(context)

    def _complete_state(self, *, saw_all: bool) -> None:
        super()._complete_state(saw_all=saw_all)
        cursor = self._components.has_global_cursor and self.incremental_sync
        self._slices.complete(has_global_cursor=bool(cursor))
        metrics.Counter.exit(self._counted)

    # Slices and parent streams

    @property
    def partitions(self) -> list[dict[str, Any]] | None:
        """Contexts of the slices, generated lazily by partition routers; None without routers."""
        me = cast(DeclarativeStreamProtocol, self)
        found = self._slices.find_contexts(
            [partial(router.generate_contexts, me) for router in self.retriever.routers]
        )
        return cast("list[dict[str, Any]] | None", found)  # callers only iterate

    def slices(self) -> Iterable[Context | None]:
        """Return the contexts of this stream's slices; [None] if it has no partition routers."""
        known: Iterable[Context] | None = self.partitions
        return known or [None]

    def read_slice(self, context: Context | None) -> Iterator[Record]:
        """Yield the transformed records of a slice, which define the slices of a child stream."""
        manager, key = self.state_manager, str(self.replication_key)
        cursor = (
            None if self._resume_document is None else manager.cursor(context, replication_key=key)
        )
        keeps = self._reader.begin(context)
        try:
            for record in self.get_records(context):
                if cursor is not None:
                    cursor.advance(record.get(key))
                if keeps is None or keeps(record):
                    yield record
        finally:
            self._reader.end()
        if cursor is not None:
            cursor.settle()
            manager.finalize_state(manager.get_context_state(context))

    @property
    def parent_names(self) -> list[str]:
        """Names of the stream's parent streams, their parents, and so on."""
        return self._components.parent_names

    def parent(self, node: Mapping[str, Any]) -> DeclarativeStreamProtocol:
        """Return the parent stream that ``node`` declares, which reads all of its records."""
        return self._shared.parent_stream(node)

    def resume_from(self, position: Any) -> DeclarativeStreamProtocol:
        """Return a copy of this parent stream that reads only records after a stored position.

        ``position`` None reads all records.
        """
        known = copy.deepcopy(self.translate_state(position)) if isinstance(position, dict) else {}
        follows = StateDocument({"bookmarks": {self.name: known}})
        made = copy.copy(self)
        made.forced_replication_method = None
        vars(made).update(_resume_document=follows, _state_manager=self._make_manager(follows))
        vars(made).update(_slices=StreamSlices(made))
        if self._components.is_delegating:
            has_state = bool(known)
            made._replace_components(self._components.rebuilt(lambda: has_state))
        return cast(DeclarativeStreamProtocol, made)

    @property
    def resume_position(self) -> Any:
        """Position that this parent stream has reached, for `resume_from`; None if not tracked."""
        return (
            None if self._resume_document is None else self._resume_document.stream_state(self.name)
        )

    def find_parent_state(self, parent: str) -> Any:
        """Return the stored position of the parent stream ``parent``; None in the first sync.

        Also return None if the stream has several partition routers. All parent records are then
        read, as in airbyte-cdk, because an old parent record may be part of a new combination.
        """
        has_one = len(self.retriever.routers) == 1
        return self._slices.find_parent_state(parent) if has_one else None

    def keep_parent_state(self, parent: str, position: Any) -> None:
        """Store the position of a parent stream in the state once this stream has completed."""
        if len(self.retriever.routers) == 1:
            self._slices.keep_parent_state(parent, position)

    # Records

    def _prepare_for_threads(self, threads: int) -> None:
        super()._prepare_for_threads(threads)
        _ = self._selection, self._components.error_handler

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the records of a context, except those on which a template fails.

        Raises:
            FailedRecordsError: Records were skipped; raised after all other records are yielded.
        """
        failed = self._failed_records = FailedRecords(self.name, self.primary_keys, self.log)
        yield from super().get_records(context)
        failed.check()

    @property
    def _has_ended(self) -> bool:
        """True if a newest-first feed has reached records of an earlier sync, so reading stops."""
        current = self._reader.current_slice
        return super()._has_ended if current is None else current.reader.is_past

    @property
    def _has_gap(self) -> bool:
        return self._failed_records is not None and self._failed_records.count > 0

    @property
    def _on_failure(self) -> OnFailure | None:
        return None if self._failed_records is None else self._failed_records.add

    # Requests of a slice

    def _make_scope(self, context: Context | None) -> TemplateScope:
        """Return the template variables for a request: config, slice and time window."""
        if self._request_scope is not None:
            return self._request_scope
        cursor, window = self.incremental_sync, self.stream_interval
        partition, fields = self._reader.find_partition(context)
        if cursor is not None and window is not None:
            fields = cursor.fields(window)
        whole = partition.merge(fields)
        return {
            **self._reader.state_scope,
            "config": self.config,
            **dict.fromkeys(["stream_slice", "stream_partition", "stream_interval"], whole),
            "partition": partition,
            "stream_name": self.name,
            "next_page_token": None,
        }

    @property
    def url_base(self) -> str:
        """Empty string, because the requesters of a manifest build complete URLs."""
        return ""

    def request_records(self, context: Context | None) -> Iterable[Record]:
        """Request all pages of a slice, or of its current time window, and yield their records."""
        self._log_warnings()
        retriever = self._components.declared.retriever
        if isinstance(retriever, CustomRetriever):
            yield from retriever.records(self._make_scope(context), self.schema, self._read_pages)
            return
        if isinstance(retriever, AsyncRetriever):
            yield from self._read_job(retriever, self._make_scope(context))
            return
        reset, cursor = self.retriever.pagination_reset, self.incremental_sync
        restarts = self._restarts = RestartLimiter(
            reset, cursor, self._components.error_handler.max_tries
        )
        while True:
            self._scope = self._make_scope(context)
            try:
                yield from restarts.track_records(super().request_records(context))
            except SplitWindow as restart:
                yield from self._read_halves(context, restart.error)
                return
            except RestartPagination as restart:
                self.stream_interval = restarts.next_window(restart, self.stream_interval)
                self.log(
                    "The pages of a slice are read again from the first one: %s", restart.error
                )
            else:
                return

    def _read_halves(self, context: Context | None, error: SyncError) -> Iterator[Record]:
        """Split the current time window, and yield the records of both halves.

        ``error`` is the error of the API for the whole window. It is raised if the manifest
        declares no window splitting.
        """
        splitting, cursor = self.retriever.request_window_splitting, self.incremental_sync
        if splitting is None or cursor is None or self.stream_interval is None:
            raise error
        for window in splitting.split(cursor, self.stream_interval, error):
            self.log("A window is split: now reading %s to %s", window.start_time, window.end_time)
            self.stream_interval = window
            yield from self.request_records(context)

    # Asynchronous jobs

    def _read_job(self, retriever: AsyncRetriever, scope: TemplateScope) -> Iterable[Record]:
        """Return the records of a slice that an asynchronous job of the API exports."""
        place = f"Stream '{self.name}'"
        if stream_slice := scope["stream_slice"]:
            place += f", slice {dump_json(dict(stream_slice), default=str)}"
        run, place = self._tap.run, self._secrets().hide(place)
        reader = AsyncJobReader(self, retriever, scope, self._shared.job_limiter, run, place)
        return self._selection(reader.records(), scope, lambda: None, self._on_failure)

    def with_request_only(
        self, retriever: SimpleRetriever, scope: TemplateScope, *, into_file: bool = False
    ) -> ManifestStream:
        """Return a copy of the stream that sends the requests of another retriever, without slices.

        ``scope`` contains template variables; ``into_file`` True stores response bodies in files.
        """
        made = self._copy_with_retriever(retriever)
        selection = retriever.record_selector.make_selection()
        vars(made).update(_request_scope=scope, _selection=selection, _stores_responses=into_file)
        return made

    def send_request(self) -> requests.Response:
        """Send the retriever's request, with retries, and return the response.

        Raises:
            SyncError, requests.exceptions.RequestException: the request failed.
        """
        self._scope = scope = self._make_scope(None)
        asked = finalize_request(self.retriever.requester.request(scope))
        params, as_json = asked.encode_params(), asked.as_json
        ready = self._build_request(
            asked.method, asked.url, params, asked.headers, asked.data, as_json
        )
        tries = RetryState(self._request)
        try:
            response = self.request_decorator(tries)(ready, None)
        except (*ANNOTATED_ERRORS, RestartPagination) as raised:
            error = raised.error if isinstance(raised, RestartPagination) else raised
            hidden = self._secrets() | collect_sent_secrets(ready)
            annotate_error(error, self.name, ready, tries.count, hidden)
            raise error from None
        self._counted.increment()
        return response

    def _read_pages(self, context: Context | None) -> Iterable[Record]:
        """Yield the records of a slice for a custom retriever, which may read several slices."""
        made = copy.copy(self)
        made._components = copy.copy(self._components)
        declared = replace(self._components.declared, retriever=self.retriever)
        vars(made._components)["declared"] = declared
        made._reader.current_slice = self._reader.current_slice
        return made.request_records(context)

    def get_new_paginator(self) -> Any:
        """Return a new `PageLoop`, the paginator of the current slice."""
        scope, declared = self._scope, self._components.declared
        selector = self.retriever.record_selector
        cursor = self.retriever.paginator.start_pagination(scope)
        whole = getattr(selector.extractor, "replace_decoder", None)
        changed = declared.transformations or selector.schema_normalization != "None"
        pristine = not changed and self._request_scope is None
        made: Callable[..., PageLoop] = PageLoop
        properties = self.retriever.requester.properties
        if properties is not None:
            made = partial(
                PropertyChunkReader, chunks=properties.make_chunks(self), merging=properties.merging
            )
        reduction = self.retriever.page_size_reduction
        self._page_loop = made(
            cursor,
            scope,
            self._components.decoder.decode,
            self._selection,
            is_pristine=pristine and whole is None,
            documents=whole and whole(self._components.decoder),
            on_page_read=self._restarts.count_page,
            page_sizes=reduction and PageSizeState(reduction, cursor.size),
            admits=self._admits,
            on_failure=self._on_failure,
        )
        return self._page_loop

    @property
    def _admits(self) -> Callable[[Record], bool] | None:
        """Client-side filter of the cursor: True for a record to keep; None without a filter.

        The paginator counts only records that pass the filter.
        """
        cursor, record_filter = self.incremental_sync, self._record_filter
        filters = cursor is not None and cursor.is_client_side_incremental
        return record_filter.admits if filters and record_filter is not None else None

    def parse_response(self, response: requests.Response) -> Iterable[Record]:
        """Return the records in the response for one page of the current slice."""
        return self._page_loop.parse(response)

    def get_http_request(self, *, page: PageContext[PageToken]) -> HTTPRequest:
        """Return the request for a page.

        The requester creates it; paginator, partition routers and cursor add their parameters.
        """
        assert page.next_page_token is not None  # noqa: S101 - `PageLoop` sets a token
        token, retriever = page.next_page_token, self.retriever
        scope = self._scope = token.scope
        request = retriever.requester.request(scope)
        token.cursor.put(request)
        later = bool(scope["next_page_token"])
        if later and retriever.ignore_stream_slicer_parameters_on_paginated_requests:
            return finalize_request(request)
        for router in retriever.routers:
            router.put(request, scope)
        self._add_slice_options(request, scope)
        return finalize_request(request)

    def _add_slice_options(self, request: HTTPRequest, scope: TemplateScope) -> None:
        """Add the bounds of the current time window to a request, or a custom cursor's values."""
        current = self._reader.current_slice
        if current is None:
            super()._add_window_options(request)
        else:
            current.reader.put(request, scope, current.cursor_slice)

    def _add_window_options(self, request: HTTPRequest) -> None:
        """Do nothing, because `_add_slice_options` adds the bounds of the time window."""

    # Record selection

    def iterate_records(self, retriever: SimpleRetriever | AsyncRetriever) -> Iterable[Record]:
        """Yield the records of another retriever, for example a schema loader's, without slices."""
        return self._copy_with_retriever(retriever).request_records(None)

    def _copy_with_retriever(self, retriever: SimpleRetriever | AsyncRetriever) -> ManifestStream:
        """Return a copy of the stream with another retriever, and without slices and cursor."""
        made = copy.copy(self)
        made._replace_components(self._components.with_retriever(retriever))
        vars(made).update(schema={}, _record_filter=None, _failed_records=None)
        return made

    def _make_selection(self) -> RecordSelection:
        """Return the function that selects the records in documents and transforms them."""
        cursor = self.incremental_sync
        return self.retriever.record_selector.make_selection(
            self._components.declared.transformations,
            lambda: self.schema,
            transform_first=cursor is not None and cursor.is_client_side_incremental,
        )

    @cached_property
    def _selection(self) -> RecordSelection:
        """Function that selects and transforms records, and removes their top-level nulls."""
        select = self._make_selection()
        return select if self._is_description else drop_nulls(select)

    # Requests

    def get_http_request_counter(self) -> metrics.Counter:
        """Return the counter of all requests of this stream, which is logged as a metric."""
        return self._counted

    def build_prepared_request(self, *args: Any, **kwargs: Any) -> requests.PreparedRequest:
        """Return a request without credentials, which are added each time it is sent."""
        asked = requests.Request(*args, **{"auth": lambda unsigned: unsigned, **kwargs})
        return prepare_request(self.requests_session, asked, user_agent=self.user_agent)

    @cached_property
    def _signer(self) -> Auth:
        declared = self.retriever.requester.authenticator
        if declared is None:
            return SimpleAuthenticator()
        return self._shared.get_signer(declared, cast(DeclarativeStreamProtocol, self))

    @property
    def authenticator(self) -> Auth:
        """Callable that adds credentials to a request; equal authenticators share one callable."""
        return self._signer

    @property
    def timeout(self) -> Any:
        """Timeout of a request in seconds, or a pair of connect timeout and read timeout."""
        return self.retriever.requester.timeout or super().timeout

    def _send(
        self,
        request: requests.PreparedRequest,
        context: Context | None,
        authenticator: Auth,
    ) -> requests.Response:
        """Return the response to a request: from the cache, or sent within the API budget."""
        if (known := self._find_embedded_page(context)) is not None:
            return known

        def send(asked: requests.PreparedRequest) -> requests.Response:
            response = self._send_once(asked.copy(), context, authenticator)
            while self._has_other_token(response):
                response = self._send_once(asked.copy(), context, authenticator)
            return response

        answers = self._shared.response_cache
        return answers.fetch(request, send, self._is_success) if self._is_cached else send(request)

    def _send_once(
        self, request: requests.PreparedRequest, context: Context | None, authenticator: Auth
    ) -> requests.Response:
        """Add credentials to a request and send it once; then update API budget and quotas."""
        budget, counters = self._shared.budget, None
        if budget is not None:
            counters = get_counters(self._tap)
            budget.take(request, counters)
        response = super()._send(request, context, authenticator)
        if budget is not None:
            budget.update(request, response, counters)
        if isinstance(self._signer, TokenRotator):
            self._signer.update_quotas(request, response)
        return response

    def _has_other_token(self, response: requests.Response) -> bool:
        """Return True if a rate-limited request can be sent again at once with another token."""
        if not isinstance(self._signer, TokenRotator):
            return False
        is_limited = self._resolve_response(response).action is ResponseAction.RATE_LIMITED
        return is_limited and self._signer.has_other_token(response.request)

    def _find_embedded_page(self, context: Context | None) -> requests.Response | None:
        """Return the first page of a slice if the parent's record contains it, otherwise None.

        A parent's record may contain all of its child records. Return None if the slice has a
        bookmark, because only newer records are then needed.
        """
        page = getattr(context, "extra_fields", {}).get(CHILD_RESPONSE)
        if page is None or self._scope.get("next_page_token"):
            return None
        kept = self.replication_method == REPLICATION_INCREMENTAL
        if kept and self.get_context_state(context).get("replication_key_value"):
            return None
        return JSONResponse.of(page)

    def _is_success(self, response: requests.Response) -> bool:
        return self._resolve_response(response).action in {
            ResponseAction.SUCCESS,
            ResponseAction.IGNORE,
        }

    def _resolve_response(self, response: requests.Response) -> ResponseResolution:
        return self._components.error_handler.interpret(
            response, self._scope
        ) or default_resolution(response)

    @property
    def _is_cached(self) -> bool:
        """True if responses are cached, because child streams read them or ``use_cache`` is set."""
        if self._request_scope is not None:
            return False  # the response to a request for a job's status changes
        is_used_again = self._is_description or self.name in self._shared.parent_names
        return is_used_again or self.retriever.requester.use_cache

    def fetch(self, request: HTTPRequest, scope: TemplateScope) -> requests.Response:
        """Send a component's request, without the stream's credentials; return the response."""
        before, self._scope = self._scope, scope  # a request of the stream may wait for this one
        params, as_json = request.encode_params(), bool(request.as_json)
        ready = self._build_request(
            request.method, request.url, params, request.headers, request.data, as_json
        )
        try:
            return self.request_decorator(self._send_component_request)(ready, None)
        finally:
            self._scope = before

    def _send_component_request(
        self, request: requests.PreparedRequest, context: Context | None
    ) -> requests.Response:
        route = make_component_route(request, self._components.node, self._is_secure)
        response = self._exchange(request, context, lambda asked: asked, route, follows=False)
        if (redirect := describe_redirect(response)) is not None:
            raise redirect
        resolution = self._resolve_response(response)
        if resolution.action is ResponseAction.REDUCE_PAGE_SIZE:  # the request is not for a page
            raise self._error(resolution, response)
        self.validate_response(response)
        return response

    # Errors

    def validate_response(self, response: requests.Response) -> None:
        """Apply the action that the error handler chooses for a response.

        Raises:
            RetriableAPIError, FatalAPIError: the action treats the response as an error.
        """
        resolution = self._resolve_response(response)
        if resolution.action is ResponseAction.SUCCESS:
            return
        if resolution.action is ResponseAction.IGNORE:
            self.log("%s", resolution.message or f"Status {response.status_code} is ignored.")
            return
        if resolution.action is ResponseAction.REFRESH_TOKEN_THEN_RETRY:
            refresh_token_after_401(self.authenticator, response)
        error = self._error(resolution, response)
        if resolution.action is ResponseAction.REDUCE_PAGE_SIZE:
            self._page_loop.reduce(error)
            return
        raise _INTERRUPTS[resolution.action](error) if resolution.action in _INTERRUPTS else error

    def _error(self, resolution: ResponseResolution, response: requests.Response) -> SyncError:
        message = self.response_error_message(response)
        if resolution.message:
            secrets = self._secrets() | collect_sent_secrets(response.request)
            message = f"{secrets.hide(resolution.message)} ({message})"
        return make_response_error(resolution, message, response)

    def backoff_max_tries(self) -> int:
        """Return the maximum number of attempts per request, including the first."""
        return self._components.error_handler.max_tries

    def backoff_jitter(self, value: float) -> float:
        """Return ``value`` unchanged, because the waits of the error handler include jitter."""
        return value

    def backoff_wait_generator(self) -> Generator[float, Any, None]:
        """Yield the error handler's waits in seconds; by default 1, 2, 4 … plus a jitter."""
        begun, limit = time.monotonic(), self._components.error_handler.max_seconds
        error = yield 0.0
        for tries in itertools.count(1):
            if limit is not None and time.monotonic() - begun >= limit:
                return
            response = getattr(error, "response", None)
            told = self._components.error_handler.compute_wait(response, tries, self._scope)
            error = yield random_jitter(2.0 ** (tries - 1)) if told is None else told

    def _check_body(self, response: requests.Response) -> None:
        """Parse a JSON body immediately, so that a truncated body leads to a retry.

        If the record extractor reads the response itself, only the length of the body is checked,
        because the body need not be JSON.
        """
        if hasattr(self.retriever.record_selector.extractor, "replace_decoder"):
            if not self._stores_responses:
                check_content_length(response)
            return
        is_json = isinstance(self._components.decoder, JsonDecoder) and response.content
        if is_json and isinstance(response, JSONResponse):
            response.read(self._secrets)

    # Origins that may receive credentials

    def _route(self, authenticator: Auth) -> Route:
        """Return the rules that decide which hosts may receive the authenticator's credentials."""
        route = super()._route(authenticator)
        route.allowed_hosts = check_allowed_hosts(self.retriever.requester.allowed_hosts)
        route.setting = f"`allowed_hosts` of the requester of the stream '{self.name}'"
        return route

    @property
    def _limits(self) -> ResponseLimits:
        usual = super()._limits
        size, download, seconds = self.retriever.requester.limits
        return ResponseLimits(
            usual.max_response_bytes if size is None else size,
            usual.max_download_bytes if download is None else download,
            usual.max_response_seconds if seconds is None else seconds,
        )

    def _begin_pagination(self, request: requests.PreparedRequest) -> None:
        """Do nothing: the manifest defines the allowed origins, not the first request."""

    def _may_get_credentials(self, origin: Origin) -> bool:
        """Return True if an origin (scheme, host, port) may receive the credentials."""
        return origin in self._known_origins or origin in self._declared_origins()

    def _is_secure(self) -> bool:
        """Return True if an origin that may receive the credentials uses HTTPS."""
        return any(one.scheme == "https" for one in self._declared_origins())

    @property
    def _known_origins(self) -> set[Origin]:
        """Origins (scheme, host, port) found so far that may receive the credentials."""
        is_signed = self.retriever.requester.authenticator is not None
        return self._shared.get_origins(self._signer) if is_signed else self._unsigned_origins

    def _declared_origins(self) -> set[Origin]:
        """Return the origins that may receive the credentials, including that of the requester."""
        routers = None if self._request_scope is not None else self.retriever.routers
        scope = make_trusted_scope(self._scope, self.config, self.name, routers)
        base = self.retriever.requester.find_base_url(scope)
        return add_base_origin(self._known_origins, base, self._components.node)
