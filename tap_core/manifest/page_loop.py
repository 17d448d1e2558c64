"""Pagination of a manifest's stream, for the request loop in `tap_core.http.page_iteration`.

A page without records does not end the pagination; the manifest's paginator decides. An error
response that the error handler ignores has no records and ends the pagination.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tap_core.http.fail_fast import limit_wait
from tap_core.manifest.components.paginators import PageCursor
from tap_core.manifest.interfaces import Page, TemplateScope

if TYPE_CHECKING:
    import requests

    from tap_core.exceptions import SyncError
    from tap_core.manifest.components.page_size_reduction import PageSizeState
    from tap_core.manifest.components.record_selector import OnFailure, RecordSelection
    from tap_core.types import Record

__all__ = ["PageLoop", "PageToken"]


@dataclass(frozen=True, slots=True)
class PageToken:
    """Page to request: its position in the pagination, and the request's template variables."""

    cursor: PageCursor
    scope: TemplateScope


@dataclass(slots=True)
class _PageCounts:
    """Record counts of one page, and its last record that passed the filters, for the paginator.

    `size` counts the records in the response, `kept` those that passed the filters.
    """

    size: int = 0
    kept: int = 0
    last: Record | None = None


class PageLoop:
    """Pagination of one stream slice: parses each response and finds the next page.

    Args:
        cursor: Page cursor of the slice.
        scope: Template variables of the slice.
        decode: Function that yields the documents of a response.
        select: Function that yields the records of documents.
        sleep: Function that sleeps for a number of seconds, or until the sync ends.
        is_pristine: True if the first document of a response is kept for the paginator's templates.
            False if processing the records may change it; it is then decoded again.
        decode_for_records: Function used instead of ``decode`` for the records, if the record
            extractor parses responses itself; None uses ``decode``.
        on_page_read: Function called with each page's record count before the next page is
            requested.
        page_sizes: Current page size, if the manifest declares a page size reduction.
        admits: Client-side record filter: a function that returns True to keep a record.
        on_failure: Callback for a record on which a template fails; None raises the error.
    """

    def __init__(
        self,
        cursor: PageCursor,
        scope: TemplateScope,
        decode: Callable[[requests.Response], Iterator[Any]],
        select: RecordSelection,
        *,
        sleep: Callable[[float], None],
        is_pristine: bool,
        decode_for_records: Callable[[requests.Response], Iterator[Any]] | None,
        on_page_read: Callable[[int], None],
        page_sizes: PageSizeState | None,
        admits: Callable[[Record], bool] | None,
        on_failure: OnFailure | None,
    ) -> None:
        self.finished: bool = False
        self._cursor = cursor
        self._scope = scope
        self._decode = decode
        self._decode_for_records = decode_for_records or decode
        self._select = select
        self._sleep = sleep
        self._is_pristine = is_pristine
        self._on_page_read = on_page_read
        self._page_sizes = page_sizes
        self._admits = admits
        self._on_failure = on_failure
        self._must_repeat: bool = False
        self._first_document: Any = None
        self._counts = _PageCounts()

    @property
    def current_value(self) -> PageToken:
        """Position of the page to request next, and the template variables of the request."""
        return PageToken(self._cursor, {**self._scope, "next_page_token": self._cursor.token})

    def reduce(self, error: SyncError) -> None:
        """Reduce the page size after the API rejected a request, and wait before the next attempt.

        ``error`` is the API's error; it is raised if the manifest declares no page size reduction.

        Raises:
            SyncError: The page size cannot be reduced further.
        """
        if self._page_sizes is None:
            raise error
        self._sleep(limit_wait(self._page_sizes.reduce(error)))
        self._cursor.resize(self._page_sizes.size)
        self._must_repeat = True

    def parse(self, response: requests.Response) -> Iterator[Record]:
        """Yield the records of a page's response; nothing if the page is requested again."""
        if self._must_repeat:
            return
        counts = self._counts = _PageCounts()
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            self.finished = True
            return

        def count_extracted() -> None:
            counts.size += 1

        admits = self._admits
        documents = self._keep_first(self._decode_for_records(response))
        for record in self._select(documents, self._scope, count_extracted, self._on_failure):
            if admits is not None and not admits(record):
                continue
            counts.kept += 1
            counts.last = record
            yield record

    def _keep_first(self, documents: Iterator[Any]) -> Iterator[Any]:
        """Yield the documents of a response, and keep the first one for the paginator's templates.

        The first document is not kept if the processing of records may change it.
        """
        self._first_document = None
        for document in documents:
            if self._is_pristine and self._first_document is None:
                self._first_document = document
            yield document

    def _read_document(self, response: requests.Response) -> Any:
        """Return the first document of a response for the paginator's templates; {} without one.

        The document is decoded again if the processing of records may have changed it.
        """
        if self._is_pristine:
            return {} if self._first_document is None else self._first_document
        return next(self._decode(response), {})

    def continue_if_empty(self, response: requests.Response) -> bool:  # noqa: ARG002  a hook
        """Return True, so that `advance` is called even after a page without records."""
        return True

    def advance(self, response: requests.Response) -> None:
        """Go to the next page; stay on the current page if it must be requested again."""
        must_repeat, self._must_repeat = self._must_repeat, False
        if self.finished or must_repeat:
            return
        counts = self._counts
        self._on_page_read(counts.kept)
        read_document = partial(self._read_document, response)
        page_sizes = self._page_sizes
        reduced_size = None if page_sizes is None else page_sizes.size
        page = Page(response, read_document, counts.size, counts.kept, counts.last, reduced_size)
        if page_sizes is not None:
            page_sizes.record_success()
            self._cursor.resize(page_sizes.size)
        self.finished = not self._cursor.advance(page, self._scope)
