"""Paginators and pagination strategies: compute the token of the next page and add it to a request.

The changing state of a pagination is in the `PageCursor` of a slice. To compute page numbers and
offsets, strategies count all records in the response. Templates see only records that passed the
record filter. An empty or zero token ends the pagination.

Source: Airbyte YAML reference, "Pagination".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

from tap_core.http.request import HTTPRequest
from tap_core.incremental.request_options import RequestOption
from tap_core.manifest.components.custom import CustomPaginationStrategy
from tap_core.manifest.components.requester import RequestPath
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Condition,
    InterpolatedValue,
    Page,
    TemplateScope,
    find_variable_names,
    resolve,
)

__all__ = [
    "CursorPagination",
    "DefaultPaginator",
    "NoPagination",
    "OffsetIncrement",
    "PageCursor",
    "PageIncrement",
    "PaginationStrategy",
    "Paginator",
]


@dataclass(frozen=True, kw_only=True)
class PageIncrement:
    """Pagination strategy that requests pages by page number.

    The pagination ends after a page that is empty or has fewer records than `page_size`.
    """

    page_size: int | None = None
    start_from_page: int = 0
    inject_on_first_request: bool = False

    @property
    def first_token(self) -> int | None:
        """Page number in the first request, or None to send no page number.

        It is `start_from_page` if `inject_on_first_request` is set, otherwise None.
        """
        return self.start_from_page if self.inject_on_first_request else None

    @property
    def requested_size(self) -> int | None:
        """Number of records to request per page; None if the manifest sets none."""
        return self.page_size

    def get_next_token(self, page: Page, token: Any, scope: TemplateScope) -> int | None:  # noqa: ARG002  (every strategy takes it)
        """Return the number of the next page, or None if ``page`` was the last one.

        ``token`` is the number that was sent in the request for ``page``; None means the first
        page.
        """
        if _is_last(page.extracted_count, self.page_size):
            return None
        return 1 + (self.start_from_page if token is None else int(token))


@dataclass(frozen=True, kw_only=True)
class OffsetIncrement:
    """Pagination strategy that requests pages by offset, the number of records read so far.

    The pagination ends after a page that is empty or has fewer records than `page_size`.
    `page_size` may be a template that reads the size from the response.
    """

    page_size: Annotated[int | Callable[[TemplateScope], Any] | None, "value"] = None
    inject_on_first_request: bool = False

    @property
    def first_token(self) -> int | None:
        """Offset in the first request, or None to send no offset.

        It is 0 if `inject_on_first_request` is set, otherwise None.
        """
        return 0 if self.inject_on_first_request else None

    @property
    def requested_size(self) -> int | None:
        """Number of records to request per page.

        The property is None if `page_size` is not set, or is a template that reads the response.
        """
        return None if callable(self.page_size) else _parse_page_size(self.page_size)

    def get_next_token(self, page: Page, token: Any, scope: TemplateScope) -> int | None:
        """Return the offset of the next page, or None if ``page`` was the last one.

        ``token`` is the offset that was sent in the request for ``page``; None means 0.
        """
        size = self.page_size
        if callable(size):
            size = size({**scope, "response": page.read_document()})
        if _is_last(page.extracted_count, page.reduced_size or _parse_page_size(size)):
            return None
        return page.extracted_count + (0 if token is None else int(token))


@dataclass(frozen=True, kw_only=True)
class CursorPagination:
    """Pagination strategy that renders each page token from the previous response.

    `cursor_value` is the template of the token. The pagination ends if the token is empty or the
    stop condition is true.
    """

    cursor_value: InterpolatedValue
    page_size: int | None = None
    stop_condition: Condition | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset({"decoder"})

    def __post_init__(self) -> None:
        """Raise ManifestError if a template uses ``next_page_token``, which it is to determine."""
        for name in ("cursor_value", "stop_condition"):
            if "next_page_token" in find_variable_names(getattr(self, name)):
                raise ManifestError(
                    f"The template of `{name}` uses `next_page_token`, which is not available"
                    " there: use `response`, `headers` or `last_record`."
                )

    @property
    def first_token(self) -> None:
        """Always None, because the first request has no token."""

    @property
    def requested_size(self) -> int | None:
        """Number of records to request per page; None if the manifest sets none."""
        return self.page_size

    def get_next_token(self, page: Page, token: Any, scope: TemplateScope) -> Any:  # noqa: ARG002  (every strategy takes it)
        """Return the token of the page after ``page``, or None if ``page`` was the last one."""
        variables = {
            **scope,
            "response": page.read_document(),
            "headers": {**page.response.headers, "link": page.response.links},
            "last_record": page.last_record,
            "last_page_size": page.selected_count,
            "page_size": page.reduced_size or self.page_size,
        }
        if self.stop_condition is not None and resolve(self.stop_condition, variables):
            return None
        return resolve(self.cursor_value, variables) or None


PaginationStrategy: TypeAlias = (
    PageIncrement | OffsetIncrement | CursorPagination | CustomPaginationStrategy
)
"""Component that computes the token of the next page for a `DefaultPaginator`."""


@dataclass(frozen=True, kw_only=True)
class DefaultPaginator:
    """Paginator that adds the page token and the page size of its strategy to each request.

    Raises:
        ManifestError: `page_size_option` is set, but the strategy has no `page_size`.
    """

    pagination_strategy: PaginationStrategy
    page_size_option: RequestOption | None = None
    page_token_option: RequestOption | RequestPath | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset({"decoder", "url_base"})

    def __post_init__(self) -> None:
        has_size = getattr(self.pagination_strategy, "page_size", "") is not None
        if self.page_size_option is not None and not has_size:
            raise ManifestError(
                "There is a `page_size_option`, but no page size to send: set the `page_size`"
                " of the pagination strategy."
            )

    def start_pagination(self) -> PageCursor:
        """Return a new page cursor for a stream slice, positioned at the first page."""
        return PageCursor(self)


@dataclass(frozen=True, kw_only=True)
class NoPagination:
    """Paginator for an API that returns all records of a stream slice in one response."""

    def start_pagination(self) -> PageCursor:
        """Return a new page cursor for a stream slice, positioned at the only page."""
        return PageCursor()


Paginator: TypeAlias = DefaultPaginator | NoPagination
"""Component that requests the pages of a slice one after the other."""


class PageCursor:
    """Position in the pages of a stream slice: the token and the size of the next page to request.

    Without a paginator there is a single page, which is requested without a token or a size.
    """

    def __init__(self, paginator: DefaultPaginator | None = None) -> None:
        self._paginator = paginator
        self._size: int | None = None
        self._token: Any = None
        if paginator is not None:
            self._token = paginator.pagination_strategy.first_token
            if paginator.page_size_option is not None:  # the strategy may raise if no size is sent
                self._size = paginator.pagination_strategy.requested_size
        self._declared_size = self._size

    @property
    def token(self) -> dict[str, Any] | None:
        """Token of the next page to request, as ``{"next_page_token": …}``; None for no token."""
        return None if self._token is None else {"next_page_token": self._token}

    @property
    def size(self) -> int | None:
        """Number of records to request per page; None if the paginator sends no page size."""
        return self._size

    def put(self, request: HTTPRequest) -> None:
        """Add the page token and the page size to a request, as the paginator's options declare."""
        if self._paginator is None:
            return
        token_option = self._paginator.page_token_option
        size_option = self._paginator.page_size_option
        if token_option is not None and self._token is not None:
            token_option.put(request, self._token)
        if size_option is not None and self._size:
            size_option.put(request, self._size)

    def advance(self, page: Page, scope: TemplateScope) -> bool:
        """Move to the page after ``page``; return False if ``page`` was the last one."""
        if self._paginator is None:
            return False
        strategy = self._paginator.pagination_strategy
        self._token = strategy.get_next_token(page, self._token, scope) or None
        return self._token is not None

    def resize(self, size: int | None) -> None:
        """Set the page size for the following requests; None restores the manifest's page size."""
        self._size = self._declared_size if size is None else size


def _is_last(size: int, requested_size: int | None) -> bool:
    return size == 0 or bool(requested_size and size < requested_size)


def _parse_page_size(size: Any) -> int | None:
    """Convert a page size to an integer; return None for None or an empty string.

    Raises:
        ManifestError: The size is not an integer.
    """
    if size is None or size == "":
        return None
    try:
        return int(size)
    except (TypeError, ValueError):
        raise ManifestError(f"`page_size` is {size!r}, and must be an integer.") from None
