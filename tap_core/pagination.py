"""Paginators, which determine the token of the next page from the response of a page.

- A paginator is used for one stream and one partition or parent record. The stream reads
  ``current_value``, fetches the page and passes the response to ``advance``, until ``finished`` is
  True. A page without records also ends the pagination, unless ``continue_if_empty`` returns True.
- A falsy token (None, an empty string, 0) ends the pagination. Two equal tokens in a row are an
  error.
- Error messages show a token only if it is a number, because other tokens may grant access to data.
- Names, constructors and hooks are those of singer_sdk.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import ParseResult, urlparse

from tap_core.exceptions import PaginationLoopError, SingerSDKPendingDeprecationWarning

if sys.version_info >= (3, 13):
    from warnings import deprecated
else:
    from typing_extensions import deprecated

if TYPE_CHECKING:
    from requests import Response

__all__ = [
    "BaseAPIPaginator",
    "BaseHATEOASPaginator",
    "BaseOffsetPaginator",
    "BasePageNumberPaginator",
    "HeaderLinkPaginator",
    "JSONPathPaginator",
    "LegacyPaginatedStreamProtocol",
    "LegacyStreamPaginator",
    "OffsetPaginator",
    "PageNumberPaginator",
    "SimpleHeaderPaginator",
    "SinglePagePaginator",
    "T",
    "TPageToken",
    "first",
]

T = TypeVar("T")
"""Type variable without a bound, as singer_sdk's module has it."""
TPageToken = TypeVar("TPageToken")
"""Type of a page token, such as `int` for page numbers and `str` for cursors."""

_LONGEST_NUMBER = 10
"""Maximum length of a numeric token in error messages; longer digits could be a secret."""


def first(iterable: Iterable[T]) -> T:
    """Return the first item of an iterable; raise StopIteration if it is empty."""
    return next(iter(iterable))


class BaseAPIPaginator(ABC, Generic[TPageToken]):
    """Base class of paginators, which store the token of the current page and count the pages.

    ``start_value`` is the token of the first page. Subclasses define `get_next`.
    """

    def __init__(self, start_value: TPageToken) -> None:
        self._value: TPageToken = start_value
        self._page_count: int = 0
        self._finished: bool = False
        self._last_seen_record: dict[str, Any] | None = None

    @property
    def current_value(self) -> TPageToken:
        """Token of the page to request next."""
        return self._value

    @property
    def finished(self) -> bool:
        """True if there are no more pages."""
        return self._finished

    @property
    def count(self) -> int:
        """Number of pages for which `advance` was called."""
        return self._page_count

    def __str__(self) -> str:
        return f"{type(self).__name__}<{self.current_value}>"

    def __repr__(self) -> str:
        return str(self)

    def continue_if_empty(self, response: Response) -> bool:  # noqa: ARG002  a hook
        """Return True to continue after a page without records. By default, return False."""
        return False

    def advance(self, response: Response) -> None:
        """Set `current_value` to the token of the next page, or set `finished`.

        Raises:
            PaginationLoopError: The next token equals the current one. Longer loops are detected by
                `tap_core.http.page_iteration`.
        """
        self._page_count += 1
        new_value = self.get_next(response) if self.has_more(response) else None
        if not new_value:
            self._finished = True
        elif new_value == self._value:
            raise PaginationLoopError(
                f"Loop detected in pagination. Page {self._page_count} asks for itself as the"
                f" next page: the token, {_describe_token(new_value)}, is the one just used. Check"
                f" that {type(self).__name__} reads it from the right place, that the request"
                " sends it, and that the last page is known by has_more or by having no token."
            )
        else:
            self._value = new_value

    def has_more(self, response: Response) -> bool:  # noqa: ARG002  a hook
        """Return True if another page may follow, or False to end without calling `get_next`."""
        return True

    @abstractmethod
    def get_next(self, response: Response) -> TPageToken | None:
        """Return the token of the next page, or None on the last page."""
        ...


def _describe_token(token: object) -> str:
    """Describe a page token for error messages, such as ``str of 20 characters``.

    Only a number is shown, because other tokens may contain secrets.
    """
    kind = type(token).__name__
    if isinstance(token, ParseResult):
        return f"a link to {token.hostname or 'the same host'} ({kind})"
    if not isinstance(token, str):
        return f"{kind} {token}" if isinstance(token, (int, float)) else kind
    if token.isdecimal() and len(token) <= _LONGEST_NUMBER:
        return f"{kind} '{token}'"
    return f"{kind} of {len(token)} characters"


# One page


class SinglePagePaginator(BaseAPIPaginator[None]):
    """Paginator for endpoints that return all records in one response."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(None, *args, **kwargs)

    def has_more(self, response: Response) -> bool:  # noqa: ARG002
        """Return False, because there is only one page."""
        return False

    def get_next(self, response: Response) -> None:  # noqa: ARG002
        """Return None, because there is only one page."""
        return


# Links


class BaseHATEOASPaginator(BaseAPIPaginator[ParseResult | None], ABC):
    """Paginator for APIs whose responses contain the URL of the next page.

    The token is the parsed URL, or None for the first page. Overrides of ``get_url_params``
    usually return ``dict(parse_qsl(next_page_token.query))``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(None, *args, **kwargs)

    @abstractmethod
    def get_next_url(self, response: Response) -> str | None:
        """Return the URL of the next page from a response, or None on the last page."""
        ...

    def get_next(self, response: Response) -> ParseResult | None:
        """Return the parsed URL of the next page, or None on the last page."""
        next_url = self.get_next_url(response)
        return urlparse(next_url) if next_url else None


class HeaderLinkPaginator(BaseHATEOASPaginator):
    """Paginator for APIs that return a ``Link`` header with ``rel="next"`` (RFC 8288)."""

    def get_next_url(self, response: Response) -> str | None:
        """Return the next page's URL from the ``Link`` header, or None without a ``next`` link."""
        return response.links.get("next", {}).get("url")


# Tokens


class JSONPathPaginator(BaseAPIPaginator[str | None]):
    """Paginator for APIs that return the next page's token in the JSON body, at ``jsonpath``."""

    def __init__(self, jsonpath: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(None, *args, **kwargs)
        self._jsonpath = jsonpath

    def get_next(self, response: Response) -> str | None:
        """Return the next page's token: the first match of the JSONPath in the body, or None."""
        from tap_core.http.response import parse_first_document

        token: str | None = parse_first_document(response, self._jsonpath)
        return token


class SimpleHeaderPaginator(BaseAPIPaginator[str | None]):
    """Paginator for APIs that return the next page's token in a header, such as ``X-Next-Page``."""

    def __init__(self, key: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(None, *args, **kwargs)
        self._key = key

    def get_next(self, response: Response) -> str | None:
        """Return the next page's token from the paginator's response header; None without it."""
        return response.headers.get(self._key)


# Page numbers and offsets


class PageNumberPaginator(BaseAPIPaginator[int]):
    """Paginator that counts page numbers until `has_more` returns False or a page is empty."""

    def get_next(self, response: Response) -> int | None:  # noqa: ARG002
        """Return the number of the next page: the current page number plus 1."""
        return self._value + 1


class OffsetPaginator(BaseAPIPaginator[int], ABC):
    """Paginator that counts record offsets until `has_more` returns False or a page is empty."""

    def __init__(self, start_value: int, page_size: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(start_value, *args, **kwargs)
        self._page_size = page_size

    @property
    def page_size(self) -> int:
        """Number of records per page."""
        return self._page_size

    def get_next(self, response: Response) -> int | None:  # noqa: ARG002
        """Return the offset of the next page: the current offset plus the page size."""
        return self._value + self._page_size


@deprecated(
    "BasePageNumberPaginator is an older name. Use PageNumberPaginator instead.",
    category=SingerSDKPendingDeprecationWarning,
)
class BasePageNumberPaginator(PageNumberPaginator):
    """Deprecated name of `PageNumberPaginator`, kept for compatibility with singer_sdk."""


@deprecated(
    "BaseOffsetPaginator is an older name. Use OffsetPaginator instead.",
    category=SingerSDKPendingDeprecationWarning,
)
class BaseOffsetPaginator(OffsetPaginator):
    """Deprecated name of `OffsetPaginator`, kept for compatibility with singer_sdk."""


# Streams that override get_next_page_token


class LegacyPaginatedStreamProtocol(Protocol[TPageToken]):
    """Interface of a stream that overrides ``get_next_page_token`` instead of using a paginator."""

    def get_next_page_token(
        self, response: Response, previous_token: TPageToken | None
    ) -> TPageToken | None:
        """Return the token of the page after ``response``, or None if it is the last page."""


class LegacyStreamPaginator(BaseAPIPaginator[TPageToken | None], Generic[TPageToken]):
    """Paginator for streams that override the deprecated method ``get_next_page_token``."""

    def __init__(
        self, stream: LegacyPaginatedStreamProtocol[TPageToken], *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(None, *args, **kwargs)
        self.stream = stream

    def get_next(self, response: Response) -> TPageToken | None:
        """Return the next page's token, from the stream's method ``get_next_page_token``."""
        return self.stream.get_next_page_token(response, self.current_value)
