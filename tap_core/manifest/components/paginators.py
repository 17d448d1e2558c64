"""Paginators and pagination strategies: the token of the next page and its place in a request.

The page cursor of a slice holds all mutable state. Page numbers and offsets count the records in
the response; templates see the records that passed the record selector. An empty or zero token
ends the pagination.

Source: Airbyte YAML reference, "Pagination".
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
    """Pagination strategy that counts pages, until a page has fewer records than requested."""

    page_size: int | None = None
    start_from_page: int = 0
    inject_on_first_request: bool = False

    @property
    def first_token(self) -> int | None:
        """Number of the first page, or None if the first request has no page number."""
        return self.start_from_page if self.inject_on_first_request else None

    @property
    def requested_size(self) -> int | None:
        """Page size to request, in records, or None."""
        return self.page_size

    def token_after(self, page: Page, token: Any, scope: TemplateScope) -> int | None:  # noqa: ARG002  (as all strategies)
        """Return the number of the next page, or None after a short or empty page."""
        if _is_last(page.size, self.page_size):
            return None
        return 1 + (self.start_from_page if token is None else int(token))


@dataclass(frozen=True, kw_only=True)
class OffsetIncrement:
    """Pagination strategy that counts records, until a page has fewer than requested.

    A template may read the page size from the response.
    """

    page_size: InterpolatedValue = None
    inject_on_first_request: bool = False

    @property
    def first_token(self) -> int | None:
        """Offset 0, or None if the first request has no offset."""
        return 0 if self.inject_on_first_request else None

    @property
    def requested_size(self) -> int | None:
        """Page size to request, in records; None if a template reads the size from the response."""
        return None if callable(self.page_size) else _number(self.page_size)

    def token_after(self, page: Page, token: Any, scope: TemplateScope) -> int | None:
        """Return the next offset, or None after a short or empty page."""
        size = self.page_size
        if callable(size):
            size = size({**scope, "response": page.document})
        if _is_last(page.size, page.asked_for or _number(size)):
            return None
        return page.size + (0 if token is None else int(token))


@dataclass(frozen=True, kw_only=True)
class CursorPagination:
    """Pagination strategy that takes the next token from the response.

    The pagination ends if the response has no token or the stop condition is true.
    """

    cursor_value: InterpolatedValue
    page_size: int | None = None
    stop_condition: Condition | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset({"decoder"})

    @property
    def first_token(self) -> None:
        """None: the first response contains the first token."""

    @property
    def requested_size(self) -> int | None:
        """Page size to request, in records, or None."""
        return self.page_size

    def token_after(self, page: Page, token: Any, scope: TemplateScope) -> Any:  # noqa: ARG002  (as all strategies)
        """Return the next token, or None if the pagination ends."""
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
    """Paginator that adds the page token and the page size to requests.

    Raises:
        ManifestError: there is a `page_size_option`, but the strategy has no `page_size`.
    """

    pagination_strategy: PaginationStrategy
    page_size_option: RequestOption | None = None
    page_token_option: RequestOption | RequestPath | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset({"decoder", "url_base"})

    def __post_init__(self) -> None:
        is_sized = getattr(self.pagination_strategy, "page_size", "") is not None
        if self.page_size_option is not None and not is_sized:
            raise ManifestError(
                "There is a `page_size_option`, but no page size to send: set the `page_size`"
                " of the pagination strategy."
            )

    def walk(self, scope: TemplateScope) -> PageCursor:  # noqa: ARG002  (as all paginators)
        """Return a page cursor at the first page."""
        return _Steps(self)


class _Steps:
    """Page cursor that advances by the tokens of a pagination strategy."""

    def __init__(self, paginator: DefaultPaginator) -> None:
        self._strategy = paginator.pagination_strategy
        self._size_option = paginator.page_size_option
        self._token_option = paginator.page_token_option
        is_sized = self._size_option is not None  # a strategy without one may raise
        self._size = self._declared_size = self._strategy.requested_size if is_sized else None
        self._token: Any = self._strategy.first_token

    @property
    def token(self) -> dict[str, Any] | None:
        """Value of ``next_page_token`` in templates."""
        return None if self._token is None else {"next_page_token": self._token}

    @property
    def size(self) -> int | None:
        """Page size to request, in records, or None."""
        return self._size

    def put(self, request: HTTPRequest, scope: TemplateScope) -> None:  # noqa: ARG002  (as all walks)
        """Add the page token and the page size to a request."""
        option = self._token_option
        if option is not None and self._token is not None:
            option.put(request, self._token)
        if self._size_option is not None and self._size:
            self._size_option.put(request, self._size)

    def advance(self, page: Page, scope: TemplateScope) -> bool:
        """Advance to the next page, and return True if there is one."""
        self._token = self._strategy.token_after(page, self._token, scope) or None
        return self._token is not None

    def reset(self) -> None:
        """Return to the first page."""
        self._token = self._strategy.first_token

    def resize(self, size: int | None) -> None:
        """Set the page size for the next requests; None restores the declared size."""
        self._size = self._declared_size if size is None else size


@dataclass(frozen=True, kw_only=True)
class NoPagination:
    """Paginator of a stream with a single page per slice."""

    def walk(self, scope: TemplateScope) -> PageCursor:  # noqa: ARG002  (as all paginators)
        """Return a page cursor at the only page."""
        return _OnePage()


class _OnePage:
    @property
    def token(self) -> None:
        """None: there is only one page."""

    @property
    def size(self) -> None:
        """None: no page size is requested."""

    def put(self, request: HTTPRequest, scope: TemplateScope) -> None:
        """Return without changing the request."""

    def advance(self, page: Page, scope: TemplateScope) -> bool:  # noqa: ARG002  (as all walks)
        """Return False: there is no other page."""
        return False

    def reset(self) -> None:
        """Do nothing: the only page is the first page."""

    def resize(self, size: int | None) -> None:
        """Do nothing: no page size is requested."""


def _is_last(size: int, asked_for: int | None) -> bool:
    return size == 0 or bool(asked_for and size < asked_for)


def _number(size: Any) -> int | None:
    """Return the page size as an integer, or None if it is not set.

    Raises:
        ManifestError: the size is not an integer.
    """
    if size is None or size == "":
        return None
    try:
        return int(size)
    except (TypeError, ValueError):
        raise ManifestError(f"`page_size` is {size!r}, and must be an integer.") from None
