"""From page to page: which token comes next, and where in a request it goes.

Rules of the room: a walk belongs to one slice and is the only thing here that changes. Numbers of
pages and offsets go by the records that the answer holds, templates by those that were kept. A
token that is empty or zero ends a walk. First requests, last pages and what templates see are
Airbyte's (its YAML reference, "Pagination").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tap_core.http.request import HTTPRequest
from tap_core.incremental.request_options import RequestOption
from tap_core.manifest.components.requester import RequestPath
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Condition,
    InterpolatedValue,
    Page,
    PageCursor,
    PaginationStrategy,
    TemplateScope,
    resolve,
)

__all__ = [
    "CursorPagination",
    "DefaultPaginator",
    "NoPagination",
    "OffsetIncrement",
    "PageIncrement",
]


@dataclass(frozen=True, kw_only=True)
class PageIncrement:
    """Counts pages, until one has fewer records than were asked for."""

    page_size: int | None = None
    start_from_page: int = 0
    inject_on_first_request: bool = False

    @property
    def first_token(self) -> int | None:
        """The first page's number, None where the first request has none."""
        return self.start_from_page if self.inject_on_first_request else None

    @property
    def requested_size(self) -> int | None:
        """How many records a page is asked to have."""
        return self.page_size

    def token_after(self, page: Page, token: Any, scope: TemplateScope) -> int | None:  # noqa: ARG002  (as all strategies)
        """Return the next page's number, None after a short or an empty page."""
        if _is_last(page.size, self.page_size):
            return None
        return 1 + (self.start_from_page if token is None else int(token))


@dataclass(frozen=True, kw_only=True)
class OffsetIncrement:
    """Counts records, until a page has fewer than were asked for; the size may be the answer's."""

    page_size: InterpolatedValue = None
    inject_on_first_request: bool = False

    @property
    def first_token(self) -> int | None:
        """Zero, None where the first request has no offset."""
        return 0 if self.inject_on_first_request else None

    @property
    def requested_size(self) -> int | None:
        """How many records a page is asked to have; None where an answer has to say it."""
        return None if callable(self.page_size) else _number(self.page_size)

    def token_after(self, page: Page, token: Any, scope: TemplateScope) -> int | None:
        """Return the next offset, None after a short or an empty page."""
        size = self.page_size
        if callable(size):
            size = size({**scope, "response": page.document})
        if _is_last(page.size, page.asked_for or _number(size)):
            return None
        return page.size + (0 if token is None else int(token))


@dataclass(frozen=True, kw_only=True)
class CursorPagination:
    """Takes the next token from the answer, until there is none or a condition says so."""

    cursor_value: InterpolatedValue
    page_size: int | None = None
    stop_condition: Condition | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset({"decoder"})

    @property
    def first_token(self) -> None:
        """None: the first answer has the first token."""

    @property
    def requested_size(self) -> int | None:
        """How many records a page is asked to have."""
        return self.page_size

    def token_after(self, page: Page, token: Any, scope: TemplateScope) -> Any:  # noqa: ARG002  (as all strategies)
        """Return the next token; None where the answer has none or the walk is over."""
        seen = {
            **scope,
            "response": page.document,
            "headers": {**page.response.headers, "link": page.response.links},
            "last_record": page.last_record,
            "last_page_size": page.kept,
            "page_size": page.asked_for or self.page_size,
        }
        if self.stop_condition is not None and resolve(self.stop_condition, seen):
            return None
        return resolve(self.cursor_value, seen) or None


@dataclass(frozen=True, kw_only=True)
class DefaultPaginator:
    """Puts the token and the size of a page into requests.

    Raises:
        ManifestError: a size is to be put into requests, and there is none.
    """

    pagination_strategy: PaginationStrategy
    page_size_option: RequestOption | None = None
    page_token_option: RequestOption | RequestPath | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset({"decoder", "url_base"})

    def __post_init__(self) -> None:
        is_sized = getattr(self.pagination_strategy, "page_size", "") is not None
        if self.page_size_option is not None and not is_sized:
            raise ManifestError(
                "There is a `page_size_option` and no size to put there: give the pagination"
                " strategy a `page_size`."
            )

    def walk(self, scope: TemplateScope) -> PageCursor:  # noqa: ARG002  (as all paginators)
        """Begin at the first page."""
        return _Steps(self)


class _Steps:
    """A walk by the tokens of a strategy."""

    def __init__(self, paginator: DefaultPaginator) -> None:
        self._strategy = paginator.pagination_strategy
        self._size_option = paginator.page_size_option
        self._token_option = paginator.page_token_option
        is_sized = self._size_option is not None  # a strategy may have none, and say so by an error
        self._size = self._declared_size = self._strategy.requested_size if is_sized else None
        self._token: Any = self._strategy.first_token

    @property
    def token(self) -> dict[str, Any] | None:
        """What templates see as ``next_page_token``."""
        return None if self._token is None else {"next_page_token": self._token}

    @property
    def size(self) -> int | None:
        """How many records a page is asked to have."""
        return self._size

    def put(self, request: HTTPRequest, scope: TemplateScope) -> None:  # noqa: ARG002  (as all walks)
        """Add the token and the size of the page to a request."""
        option = self._token_option
        if option is not None and self._token is not None:
            option.put(request, self._token)
        if self._size_option is not None and self._size:
            self._size_option.put(request, self._size)

    def advance(self, page: Page, scope: TemplateScope) -> bool:
        """Move on; return whether there is another page."""
        self._token = self._strategy.token_after(page, self._token, scope) or None
        return self._token is not None

    def reset(self) -> None:
        """Go back to the first page."""
        self._token = self._strategy.first_token

    def resize(self, size: int | None) -> None:
        """Ask for so many records a page from now on; None: for as many as is declared."""
        self._size = self._declared_size if size is None else size


@dataclass(frozen=True, kw_only=True)
class NoPagination:
    """One page is all there is."""

    def walk(self, scope: TemplateScope) -> PageCursor:  # noqa: ARG002  (as all paginators)
        """Begin at the only page."""
        return _OnePage()


class _OnePage:
    @property
    def token(self) -> None:
        """None: there is one page."""

    @property
    def size(self) -> None:
        """None: it has what there is."""

    def put(self, request: HTTPRequest, scope: TemplateScope) -> None:
        """Leave a request as it is."""

    def advance(self, page: Page, scope: TemplateScope) -> bool:  # noqa: ARG002  (as all walks)
        """Say that this was all."""
        return False

    def reset(self) -> None:
        """Stay where it is."""

    def resize(self, size: int | None) -> None:
        """Leave it as large as it is."""


def _is_last(size: int, asked_for: int | None) -> bool:
    return size == 0 or bool(asked_for and size < asked_for)


def _number(size: Any) -> int | None:
    """Read the size of a page.

    Raises:
        ManifestError: it is something else than a whole number.
    """
    if size is None or size == "":
        return None
    try:
        return int(size)
    except (TypeError, ValueError):
        raise ManifestError(f"`page_size` is {size!r}, and is to be a whole number.") from None
