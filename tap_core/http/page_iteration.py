"""From page to page: fetch, parse, go on, until a paginator has enough.

Rules of the room: the order of calls is singer_sdk's, since authors' paginators depend on
it: a page's records are all out before the paginator sees its response. A page without
records ends the walk unless the paginator goes on. A walk that goes in circles is ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import requests

__all__ = ["PageFetcher", "iterate_records"]

_NOTHING: Any = object()


class PageFetcher(Protocol):
    """What a paginator is to the walk."""

    @property
    def finished(self) -> bool:
        """Whether there is no page to fetch."""

    def continue_if_empty(self, response: requests.Response) -> bool:
        """Whether a page without records is not the last."""

    def advance(self, response: requests.Response) -> None:
        """Move on to the page after this one."""


def iterate_records(
    walk: PageFetcher,
    fetch: Callable[[], requests.Response],
    parse: Callable[[requests.Response], Iterable[Any]],
    stopped: Callable[[int], None],
    has_ended: Callable[[], bool] = bool,
) -> Iterator[Any]:
    """Yield the records of all pages; ``stopped`` hears how many had any before an empty one.

    ``has_ended`` is asked behind each page whether those that follow are of no interest.

    Raises:
        RuntimeError: the same requests are answered the same over and over.
    """
    pages = 0
    circle = _Circle()
    while not walk.finished:
        response = fetch()
        records = iter(parse(response))
        first = next(records, _NOTHING)
        if first is not _NOTHING:
            circle.check(response)
            yield first
            yield from records
            pages += 1
        elif not walk.continue_if_empty(response):
            stopped(pages)
            return
        if has_ended():
            return
        walk.advance(response)


class _Circle:
    """Notices when tokens repeat in turns (A, B, A, B …), which no paginator sees.

    A page may be read twice, and pages without records as often as an author likes (that
    is how one asks whether a report is ready). Records that come a third time by the same
    request are no progress. Bodies are looked at only where a request repeats.
    """

    def __init__(self) -> None:
        self._answers: dict[int, int | None] = {}

    def check(self, response: requests.Response) -> None:
        """Raise an error when the same request has brought the same page before, and again."""
        request: requests.PreparedRequest | None = response.request
        if request is None:  # a response that was made by hand
            return
        asked = hash((request.method, request.url, _hashable(request.body)))
        if asked not in self._answers:
            self._answers[asked] = None
            return
        answer = hash(response.content)
        if self._answers[asked] == answer:
            raise RuntimeError(
                "Loop detected in pagination. The same page was asked for three times, with"
                " other pages in between, and the answer does not change. Check where the"
                " paginator reads the next token, and how it knows the last page."
            )
        self._answers[asked] = answer


def _hashable(body: Any) -> Any:
    return body if isinstance(body, (str, bytes)) else id(body)
