"""Pagination loop: fetch a page, yield its records, advance the paginator.

- All records of a page are yielded before the response is passed to the paginator. This is
  singer_sdk's order of calls, on which paginators of taps depend.
- A page without records ends the loop unless the paginator continues.
- Pagination that requests the same pages again and again raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import requests

from tap_core.exceptions import PaginationLoopError

if TYPE_CHECKING:
    from tap_core.pagination import BaseAPIPaginator

__all__ = ["iterate_records"]

_NO_RECORD: Any = object()


def iterate_records(
    paginator: BaseAPIPaginator[Any],
    fetch: Callable[[], requests.Response],
    parse: Callable[[requests.Response], Iterable[Any]],
    report_stop: Callable[[int], object] = bool,
    has_ended: Callable[[], bool] = bool,
) -> Iterator[Any]:
    """Fetch page after page and yield the records of each page.

    Args:
        paginator: Paginator with the token of the current page.
        fetch: Function that sends the request for the current page.
        parse: Function that returns the records of a response.
        report_stop: Function that is called if an empty page ends the pagination, with the number
            of pages that had records. The default, ``bool``, has no effect.
        has_ended: Function that is called after each page; pagination ends if it returns True. The
            default, ``bool``, returns False.

    Raises:
        PaginationLoopError: The same requests return the same pages again and again.
    """
    pages = 0
    detector = _CycleDetector()
    while not paginator.finished:
        response = fetch()
        records = iter(parse(response))
        first = next(records, _NO_RECORD)
        if first is not _NO_RECORD:
            detector.check(response)
            yield first
            yield from records
            pages += 1
        elif not paginator.continue_if_empty(response):
            report_stop(pages)
            return
        if has_ended():
            return
        paginator.advance(response)


class _CycleDetector:
    """Detector of page tokens that repeat in a cycle (A, B, A, B …).

    Paginators only detect two equal tokens in a row. This class raises an error for the third
    identical response with records to the same request. Pages without records may repeat, because
    some taps poll in this way until a report is ready.
    """

    def __init__(self) -> None:
        self._content_hashes: dict[int, int | None] = {}
        """Hash of a request -> hash of its second response; None until the second response."""

    def check(self, response: requests.Response) -> None:
        """Raise PaginationLoopError if a request has already returned the same body twice."""
        request: requests.PreparedRequest | None = response.request
        if request is None:  # a response that a tap or a test has created itself
            return
        body = request.body
        comparable = body if isinstance(body, (str, bytes)) else id(body)
        key = hash((request.method, request.url, comparable))
        if key not in self._content_hashes:
            self._content_hashes[key] = None
            return
        content_hash = hash(response.content)
        if self._content_hashes[key] == content_hash:
            raise PaginationLoopError(
                "Loop detected in pagination. The same page was requested three times, with"
                " other pages in between, and the response does not change. Check where the"
                " paginator reads the next token, and how it recognizes the last page."
            )
        self._content_hashes[key] = content_hash
