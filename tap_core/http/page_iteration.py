"""Pagination loop: fetch a page, yield its records, advance the paginator.

- All records of a page are yielded before the paginator sees the response. This is singer_sdk's
  order of calls, on which paginators of taps depend.
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

_NOTHING: Any = object()


def iterate_records(
    paginator: BaseAPIPaginator[Any],
    fetch: Callable[[], requests.Response],
    parse: Callable[[requests.Response], Iterable[Any]],
    stopped: Callable[[int], object] = bool,
    has_ended: Callable[[], bool] = bool,
) -> Iterator[Any]:
    """Fetch page after page and yield the records of each page.

    Args:
        paginator: Paginator with the token of the current page.
        fetch: Function that sends the request for the current page.
        parse: Function that returns the records of a response.
        stopped: Function that is called if an empty page ends the pagination, with the number of
            pages that had records.
        has_ended: Function that is called after each page; pagination ends if it returns True.

    Raises:
        PaginationLoopError: The same requests return the same pages again and again.
    """
    pages = 0
    detector = _CycleDetector()
    while not paginator.finished:
        response = fetch()
        records = iter(parse(response))
        first = next(records, _NOTHING)
        if first is not _NOTHING:
            detector.check(response)
            yield first
            yield from records
            pages += 1
        elif not paginator.continue_if_empty(response):
            stopped(pages)
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
        self._answers: dict[int, int | None] = {}

    def check(self, response: requests.Response) -> None:
        """Raise PaginationLoopError if a request has already returned the same body twice."""
        request: requests.PreparedRequest | None = response.request
        if request is None:  # a response that a tap or a test has created itself
            return
        asked = hash((request.method, request.url, _hashable(request.body)))
        if asked not in self._answers:
            self._answers[asked] = None
            return
        answer = hash(response.content)
        if self._answers[asked] == answer:
            raise PaginationLoopError(
                "Loop detected in pagination. The same page was requested three times, with"
                " other pages in between, and the response does not change. Check where the"
                " paginator reads the next token, and how it recognizes the last page."
            )
        self._answers[asked] = answer


def _hashable(body: Any) -> Any:
    return body if isinstance(body, (str, bytes)) else id(body)
