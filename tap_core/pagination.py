"""Paginators: from one page of an API to the token of the next, until there is none.

Rules of the room:

- A paginator lives for one walk through the pages of one stream and context. The stream asks
  ``current_value`` for the token of the page it is about to fetch, then hands the response to
  ``advance``, until ``finished``. A page without records ends the walk, and ``advance`` is not
  called, unless ``continue_if_empty`` says otherwise.
- Names, constructors and hooks are singer_sdk's. Authors override ``has_more``, ``get_next``,
  ``get_next_url`` and ``continue_if_empty``, and read ``_value`` and ``_page_size``.
- A falsy token (None, an empty text, 0) is no token. A token equal to the one just used would
  fetch the same page for ever, so it is an error.
- Tokens may let their bearer read the data. An error names one only if it is a plain number.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import ParseResult, urlparse

from tap_core.exceptions import SingerSDKPendingDeprecationWarning

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
TPageToken = TypeVar("TPageToken")

_LONGEST_NUMBER = 10
"""Digits of a page number or offset that is sent as text; what has more could be a key."""


def first(iterable: Iterable[T]) -> T:
    """Return the first element. Raises StopIteration when there is none."""
    return next(iter(iterable))


class BaseAPIPaginator(ABC, Generic[TPageToken]):
    """What is known of a walk through pages: the token of this one, and whether it is the last.

    ``start_value`` is the token of the first page.
    """

    def __init__(self, start_value: TPageToken) -> None:
        self._value: TPageToken = start_value
        self._page_count: int = 0
        self._finished: bool = False
        self._last_seen_record: dict[str, Any] | None = None

    @property
    def current_value(self) -> TPageToken:
        """Token of the page to fetch now."""
        return self._value

    @property
    def finished(self) -> bool:
        """Whether the page just handed in was the last."""
        return self._finished

    @property
    def count(self) -> int:
        """Number of pages handed in so far."""
        return self._page_count

    def __str__(self) -> str:
        return f"{type(self).__name__}<{self.current_value}>"

    def __repr__(self) -> str:
        return str(self)

    def continue_if_empty(self, response: Response) -> bool:  # noqa: ARG002  a hook
        """Tell whether there may be records after a page that has none."""
        return False

    def advance(self, response: Response) -> None:
        """Move on to the page after this response, or finish.

        Raises RuntimeError when the next token is the one just used.
        """
        self._page_count += 1
        new_value = self.get_next(response) if self.has_more(response) else None
        if not new_value:
            self._finished = True
        elif new_value == self._value:
            raise RuntimeError(
                f"Loop detected in pagination. Page {self._page_count} asks for itself as the"
                f" next page: the token, {_described(new_value)}, is the one just used. Check"
                f" that {type(self).__name__} reads it from the right place, that the request"
                " sends it, and that the last page is known by has_more or by having no token."
            )
        else:
            self._value = new_value

    def has_more(self, response: Response) -> bool:  # noqa: ARG002  a hook
        """Tell whether there is a page after this one; if not, `get_next` is not asked."""
        return True

    @abstractmethod
    def get_next(self, response: Response) -> TPageToken | None:
        """Return the token of the page after this one, None if there is none."""
        ...


def _described(token: object) -> str:
    """Say what a token is, and what it holds only if that is a number and thus no secret."""
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
    """For endpoints that answer with everything at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(None, *args, **kwargs)

    def has_more(self, response: Response) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def get_next(self, response: Response) -> None:  # noqa: ARG002
        """Return None."""
        return


# Links


class BaseHATEOASPaginator(BaseAPIPaginator[ParseResult | None], ABC):
    """For APIs whose pages hold the URL of the next one.

    The token is that URL, parsed; None for the first page. Overrides of ``get_url_params``
    usually send ``dict(parse_qsl(next_page_token.query))``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(None, *args, **kwargs)

    @abstractmethod
    def get_next_url(self, response: Response) -> str | None:
        """Return the URL of the next page, None if there is none."""
        ...

    def get_next(self, response: Response) -> ParseResult | None:
        """Return the URL of the next page, parsed."""
        next_url = self.get_next_url(response)
        return urlparse(next_url) if next_url else None


class HeaderLinkPaginator(BaseHATEOASPaginator):
    """For APIs that send a ``Link`` header with ``rel="next"`` (RFC 8288, section 3)."""

    def get_next_url(self, response: Response) -> str | None:
        """Return the URL that the header calls the next one."""
        return response.links.get("next", {}).get("url")


# Tokens


class JSONPathPaginator(BaseAPIPaginator[str | None]):
    """For APIs that send the next token in the body: the first match of a JSONPath."""

    def __init__(self, jsonpath: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(None, *args, **kwargs)
        self._jsonpath = jsonpath

    def get_next(self, response: Response) -> str | None:
        """Return what the path finds first, None if it finds nothing."""
        from tap_core.http.response import parse_first_document

        found: str | None = parse_first_document(response, self._jsonpath)
        return found


class SimpleHeaderPaginator(BaseAPIPaginator[str | None]):
    """For APIs that send the next token in a header, such as ``X-Next-Page``."""

    def __init__(self, key: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(None, *args, **kwargs)
        self._key = key

    def get_next(self, response: Response) -> str | None:
        """Return the header's value, None if there is no such header."""
        return response.headers.get(self._key)


# Numbers: nothing in them says which page is the last


class PageNumberPaginator(BaseAPIPaginator[int]):
    """For APIs whose pages are numbered; ends at `has_more` or at an empty page."""

    def get_next(self, response: Response) -> int | None:  # noqa: ARG002
        """Return the next number."""
        return self._value + 1


class OffsetPaginator(BaseAPIPaginator[int], ABC):
    """For APIs that skip a number of records; ends at `has_more` or at an empty page."""

    def __init__(self, start_value: int, page_size: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(start_value, *args, **kwargs)
        self._page_size = page_size

    @property
    def page_size(self) -> int:
        """Number of records in a page."""
        return self._page_size

    def get_next(self, response: Response) -> int | None:  # noqa: ARG002
        """Return the offset one page further."""
        return self._value + self._page_size


@deprecated(
    "BasePageNumberPaginator is an older name. Use PageNumberPaginator instead.",
    category=SingerSDKPendingDeprecationWarning,
)
class BasePageNumberPaginator(PageNumberPaginator):
    """Older name of `PageNumberPaginator`."""


@deprecated(
    "BaseOffsetPaginator is an older name. Use OffsetPaginator instead.",
    category=SingerSDKPendingDeprecationWarning,
)
class BaseOffsetPaginator(OffsetPaginator):
    """Older name of `OffsetPaginator`."""


# Streams that make their tokens themselves


class LegacyPaginatedStreamProtocol(Protocol[TPageToken]):
    """A stream that overrides ``get_next_page_token`` instead of naming a paginator."""

    def get_next_page_token(
        self, response: Response, previous_token: TPageToken | None
    ) -> TPageToken | None:
        """Return the token of the page after this response, None if there is none."""


class LegacyStreamPaginator(BaseAPIPaginator[TPageToken | None], Generic[TPageToken]):
    """Asks such a stream."""

    def __init__(
        self, stream: LegacyPaginatedStreamProtocol[TPageToken], *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(None, *args, **kwargs)
        self.stream = stream

    def get_next(self, response: Response) -> TPageToken | None:
        """Return what the stream says."""
        return self.stream.get_next_page_token(response, self.current_value)
