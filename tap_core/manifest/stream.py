"""`ManifestStream`: stream of an HTTP API that a manifest declares.

The components of the manifest define its requests and records. `ManifestClient` sends the requests,
`ManifestReader` reads the partitions of the stream in slices and time windows, and the sync engine
manages the bookmarks.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

import requests

from tap_core.exceptions import SyncError
from tap_core.http.request import HTTPRequest
from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.manifest.async_jobs import AsyncJobReader, poll_sleep
from tap_core.manifest.components.async_retriever import AsyncRetriever
from tap_core.manifest.components.pagination_reset import (
    RestartLimiter,
    RestartPagination,
    SplitWindow,
)
from tap_core.manifest.components.partition_routers import CHILD_RESPONSE
from tap_core.manifest.components.record_selector import drop_nulls
from tap_core.manifest.components.requester import finalize_request
from tap_core.manifest.components.retrievers import CustomRetriever, SimpleRetriever
from tap_core.manifest.context_reader import ManifestReader
from tap_core.manifest.failed_records import FailedRecords
from tap_core.manifest.http_client import ManifestClient
from tap_core.manifest.interfaces import DeclarativeStreamProtocol, TemplateScope
from tap_core.manifest.page_loop import PageToken
from tap_core.manifest.schema_loading import SchemaLoader, load_schema
from tap_core.manifest.stream_components import StreamComponents
from tap_core.manifest.stream_slices import StreamSlices
from tap_core.redaction.process_secrets import install_redaction
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.singerlib.json import dump_json
from tap_core.state.document import StateDocument
from tap_core.streams.core import Stream
from tap_core.streams.state import make_state_manager
from tap_core.types import JsonSchema
from tap_core.typing.inspect import TypeConformanceLevel

if TYPE_CHECKING:
    from tap_core.incremental.record_filter import CursorRecordFilter
    from tap_core.incremental.time_windows import TimeWindow
    from tap_core.manifest.components.record_selector import RecordSelection
    from tap_core.manifest.interfaces import ErrorHandler
    from tap_core.manifest.shared_resources import SharedResources
    from tap_core.types import Context, Record

__all__ = ["ManifestStream"]


class ManifestStream(Stream):
    """Stream that a manifest declares as DeclarativeStream or StateDelegatingStream."""

    stream_interval: TimeWindow | None = None
    """Time window that is being read; None if the stream is not read in time windows."""

    max_parallel_windows: int = 1
    """Number of threads that read time windows of one partition concurrently."""

    _cursor_record_filter: CursorRecordFilter | None = None
    """Filter for the records of the current window; None if the API filters them."""

    _failed_records: FailedRecords | None = None
    """Counter of records on which a template failed; if None, the first failure is raised."""

    _resume_document: StateDocument | None = None
    """State from which a parent stream resumes, stored by its child; None for other streams."""

    is_parent: bool = False
    """True for a parent stream that child streams read completely, regardless of its state."""

    TYPE_CONFORMANCE_LEVEL = TypeConformanceLevel.NONE
    add_context_to_records = False

    def __init__(self, tap: Any, node: Mapping[str, Any], *, is_description: bool = False) -> None:
        """Create a stream from a node of the manifest.

        Args:
            tap: Tap of the stream, a `ManifestTap`.
            node: Node of the manifest that declares the stream.
            is_description: True if other streams are generated from the records of this internal
                stream. Its responses are cached, and its records keep null fields.
        """
        shared: SharedResources = tap.shared
        self._shared = shared
        self._is_description = is_description
        self.components = StreamComponents(shared, node, self._has_known_state)
        install_redaction()
        super().__init__(tap, name=self.components.build_option("name", str) or "stream")
        self._slices = StreamSlices(self)
        self._own_client = ManifestClient(
            self, tap, shared, self.components, is_description=is_description
        )
        threads = shared.threads
        self._is_read_by_one_process = self.components.makes_jobs
        if self.components.makes_jobs:
            threads = max(threads, shared.job_limiter.max_jobs)
        self.max_parallel_partitions = self.max_parallel_windows = threads
        if self.components.has_custom_cursor:
            self.max_parallel_partitions = 1
        self.primary_keys = self.components.primary_key
        cursor_field = self.replication_key = self.components.cursor_field
        if not cursor_field:  # the inherited property would build the stream's components
            self.state_partitioning_keys = []  # slices without a cursor have no state

    def _has_known_state(self) -> bool:
        """Return True if this run reads the stream incrementally, because it has a stored state."""
        return not self.is_parent and self.name in self._shared.names_with_state

    # Components

    @property
    def retriever(self) -> SimpleRetriever:
        """SimpleRetriever of the stream, or the one in its AsyncRetriever or CustomRetriever."""
        return self.components.retriever

    @cached_property
    def schema(self) -> JsonSchema:
        """JSON Schema of the records, from the schema loaders that the manifest declares."""
        loaders = self.components.build_option("schema_loader", SchemaLoader | list[SchemaLoader])
        return load_schema(
            loaders, cast(DeclarativeStreamProtocol, self), self._shared.manifest.folder
        )

    @property
    def incremental_sync(self) -> DatetimeBasedCursor | None:
        """DatetimeBasedCursor with the user's ``cutoff`` and ``boundary``; None if not declared."""
        return self.components.datetime_cursor

    @property
    def _context_reader(self) -> ManifestReader:
        """Reader that yields the records of a partition by slices or time windows."""
        return self._get_context_reader(
            lambda stream: ManifestReader(
                stream, self.components, self._slices, is_resumed=self._resume_document is not None
            )
        )

    @property
    def is_probably_selected(self) -> bool:
        """True if the stream is selected, as far as this is known without its schema.

        The schema is not loaded: that may send requests, which may need this property.
        """
        catalog = self._tap_input_catalog
        if self._metadata is None and (catalog is None or catalog.get_stream(self.name) is None):
            return catalog is None and self.selected_by_default
        return self.selected

    # State

    def rebuild_components(self) -> None:
        """Discard the built components of a StateDelegatingStream after its state has changed.

        They are built again when needed. The state decides if the full-refresh or the incremental
        stream is read.
        """
        if self.components.is_delegating:
            self._replace_components(self.components.rebuild(self._has_known_state))

    def _replace_components(self, components: StreamComponents) -> None:
        self.components, self._own_context_reader = components, None
        vars(self).pop("_selection", None)  # cached, made by the former components

    def _write_starting_replication_value(self, context: Context | None) -> None:
        self._slices.set_first_bookmark(context, self.components)
        super()._write_starting_replication_value(context)

    # Slices and parent streams

    @property
    def partitions(self) -> list[dict[str, Any]] | None:
        """Partition values of each slice, generated lazily; None without partition routers."""
        stream = cast(DeclarativeStreamProtocol, self)
        contexts = self._slices.find_contexts(
            [partial(router.generate_contexts, stream) for router in self.retriever.routers]
        )
        return cast("list[dict[str, Any]] | None", contexts)  # callers only iterate

    def slices(self) -> Iterable[Context | None]:
        """Return the partition values of each slice; [None] if there are no partition routers."""
        return self.partitions or (None,)

    def read_slice(self, context: Context | None) -> Iterator[Record]:
        """Yield the transformed records of one slice, for child streams of this stream."""
        return self._context_reader.read_slice(context)

    def parent(self, node: Mapping[str, Any]) -> DeclarativeStreamProtocol:
        """Return the parent stream that ``node`` declares, to read all of its records."""
        return self._shared.parent_stream(node, self)

    def resume_from(self, position: Any) -> DeclarativeStreamProtocol:
        """Return a copy of this parent stream that resumes from the stored state ``position``.

        ``position`` None reads all records.
        """
        state: dict[str, Any] = {}
        if isinstance(position, dict):
            state = copy.deepcopy(self.components.translate_state(position, self.replication_key))
        has_state = bool(state)
        resumed = copy.copy(self)
        resumed.forced_replication_method = None
        resumed._resume_document = StateDocument({"bookmarks": {self.name: state}})
        resumed._state_manager = make_state_manager(self, resumed._resume_document)
        resumed._slices = StreamSlices(resumed)
        if self.components.is_delegating:
            resumed._replace_components(self.components.rebuild(lambda: has_state))
        return cast(DeclarativeStreamProtocol, resumed)

    @property
    def resume_position(self) -> Any:
        """State that this parent stream has reached, for `resume_from` in the next sync.

        Streams that `resume_from` did not create have None. The state is read after the last slice,
        because each slice may change a bookmark that several slices share.
        """
        if self._resume_document is None:
            return None
        self.state_manager.finalize_state()
        self._slices.store_shared_state(has_global_cursor=self.components.has_global_cursor)
        return self._resume_document.stream_state(self.name)

    def find_parent_state(self, parent: str) -> Any:
        """Return the state of the parent stream ``parent`` that this stream has stored.

        Return None in the first sync, or with several partition routers. All parent records are
        then read, as in airbyte-cdk, because an old parent record may be part of a new combination.
        """
        return self._slices.find_parent_state(parent) if len(self.retriever.routers) == 1 else None

    def keep_parent_state(self, parent: str, position: Any) -> None:
        """Keep a parent stream's state until this stream's state is stored, after all slices."""
        if len(self.retriever.routers) == 1:
            self._slices.keep_parent_state(parent, position)

    # Records

    def _prepare_for_threads(self, threads: int) -> None:
        self._client.prepare_for_threads(threads)
        _ = self._selection

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the records of a partition; skip records on which a template fails.

        Raises:
            FailedRecordsError: Records were skipped; raised after all other records are yielded.
        """
        failed = self._failed_records = FailedRecords(self.name, self.primary_keys, self.log)
        yield from self._context_reader.read(context)
        failed.check()

    def request_records(self, context: Context | None) -> Iterable[Record]:
        """Request all pages of a stream slice or of its time window, and yield their records."""
        self._shared.log_warnings(self.components.warnings, self.log)
        client, failed = self._client, self._failed_records
        retriever, reader = self.components.declared.retriever, self._context_reader
        if isinstance(retriever, CustomRetriever):
            yield from retriever.records(
                reader.make_scope(context), self.schema, self._read_with_simple_retriever
            )
            return
        if isinstance(retriever, AsyncRetriever):
            yield from self._read_job(retriever, reader.make_scope(context))
            return
        reset, cursor = self.retriever.pagination_reset, self.incremental_sync
        restarts = RestartLimiter(reset, cursor, self.components.error_handler.max_tries)
        while True:
            scope = client.scope = reader.make_scope(context)
            pages = self.components.make_page_loop(
                cast(DeclarativeStreamProtocol, self),
                scope,
                self._selection,
                may_change_documents=client.fixed_scope is not None,
                on_page_read=restarts.count_page,
                admits=reader.admits,
                on_failure=None if failed is None else failed.add,
            )
            records = client.read_pages(
                pages, self._make_request, context, lambda: reader.has_ended
            )
            try:
                yield from restarts.track_records(records)
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
        """Split the current time window in two, and yield the records of both halves.

        ``error`` is the API's error for the whole window. This error is raised if the manifest does
        not declare that windows may be split.
        """
        splitting, cursor = self.retriever.request_window_splitting, self.incremental_sync
        if splitting is None or cursor is None or self.stream_interval is None:
            raise error
        for window in splitting.split(cursor, self.stream_interval, error):
            self.log("A window is split: now reading %s to %s", window.start_time, window.end_time)
            self.stream_interval = window
            yield from self.request_records(context)

    def sleep(self, seconds: float) -> None:
        """Sleep before a request; raise an error as soon as the sync ends."""
        poll_sleep(self._tap.run, seconds)

    # Asynchronous jobs

    def _read_job(self, retriever: AsyncRetriever, scope: TemplateScope) -> Iterable[Record]:
        """Return the records of a stream slice that an asynchronous job of the API exports."""
        location = f"Stream '{self.name}'"
        if stream_slice := scope["stream_slice"]:
            location += f", slice {dump_json(dict(stream_slice), default=str)}"
        location = self._client.collect_secrets().hide(location)
        limiter, run = self._shared.job_limiter, self._tap.run
        reader = AsyncJobReader(self, retriever, scope, limiter, run, location)
        on_failure = None if self._failed_records is None else self._failed_records.add
        return self._selection(reader.records(), scope, lambda: None, on_failure)

    def with_request_only(
        self, retriever: SimpleRetriever, scope: TemplateScope, *, into_file: bool = False
    ) -> ManifestStream:
        """Return a copy of the stream that sends only the requests of another retriever.

        ``scope`` contains template variables; ``into_file`` True stores response bodies in files.
        """
        copied = self._copy_with_retriever(retriever)
        copied._selection = retriever.record_selector.make_selection()
        copied._client.fixed_scope, copied._client.into_file = scope, into_file
        return copied

    def send_request(self) -> requests.Response:
        """Send one request, with retries; only for a copy of the stream from `with_request_only`.

        Raises:
            SyncError, requests.exceptions.RequestException: The request failed.
        """
        scope = self._client.scope = self._context_reader.make_scope(None)
        return self._client.send(finalize_request(self.retriever.requester.request(scope)))

    def _read_with_simple_retriever(self, context: Context | None) -> Iterable[Record]:
        """Return the records of a slice, as a SimpleRetriever would read them.

        The connector's retriever class calls it as ``super().read_records``, also repeatedly.
        """
        copied = copy.copy(self)
        copied.components = copy.copy(self.components)
        copied.components.declared = replace(self.components.declared, retriever=self.retriever)
        copied._context_reader.current_slice = self._context_reader.current_slice
        return copied.request_records(context)

    # Pages

    def _make_request(self, token: PageToken) -> HTTPRequest:
        """Return the request for a page.

        The request has the options of the paginator, the partition routers and the cursor.
        """
        retriever, scope = self.retriever, token.scope
        self._client.scope = scope
        request = retriever.requester.request(scope)
        token.cursor.put(request)
        is_later_page = bool(scope["next_page_token"])
        if is_later_page and retriever.ignore_stream_slicer_parameters_on_paginated_requests:
            return finalize_request(request)
        for router in retriever.routers:
            router.put(request, scope)
        self._context_reader.add_slice_options(request, scope)
        return finalize_request(request)

    # Record selection

    def iterate_records(self, retriever: SimpleRetriever | AsyncRetriever) -> Iterable[Record]:
        """Yield the records of another retriever, such as a schema loader's, without slices."""
        return self._copy_with_retriever(retriever).request_records(None)

    def _copy_with_retriever(self, retriever: SimpleRetriever | AsyncRetriever) -> ManifestStream:
        """Return a copy of the stream with another retriever, and without slices and cursor."""
        copied = copy.copy(self)
        copied._replace_components(self.components.with_retriever(retriever))
        copied.schema = {}
        copied._cursor_record_filter = copied._failed_records = None
        return copied

    @cached_property
    def _selection(self) -> RecordSelection:
        """Function that yields the selected and transformed records of a response.

        It removes top-level fields with null, unless other streams are generated from the records.
        """
        cursor = self.incremental_sync
        select = self.retriever.record_selector.make_selection(
            self.components.declared.transformations,
            lambda: self.schema,
            transform_first=cursor is not None and cursor.is_client_side_incremental,
        )
        return select if self._is_description else drop_nulls(select)

    # Requests

    @property
    def _client(self) -> ManifestClient:
        """HTTP client that sends the requests; each copy of the stream has a separate client."""
        client = self._own_client
        if client.stream is not self or client.components is not self.components:
            client = self._own_client = client.copy_for(self, self.components)
        return client

    def fetch(
        self, request: HTTPRequest, scope: TemplateScope, error_handler: ErrorHandler | None = None
    ) -> requests.Response:
        """Send a component's own request, such as a login, without the stream's credentials."""
        return self._client.fetch(request, scope, error_handler)

    def find_embedded_page(self, context: Context | None) -> Any:
        """Return the first page of a slice if it is part of the parent record.

        Return None if it is not, or if only records after a bookmark are needed.
        """
        page = getattr(context, "extra_fields", {}).get(CHILD_RESPONSE)
        if page is None or self._client.scope.get("next_page_token"):
            return None
        if self.replication_method != REPLICATION_INCREMENTAL:
            return page
        has_bookmark = self.get_context_state(context).get("replication_key_value")
        return None if has_bookmark else page
