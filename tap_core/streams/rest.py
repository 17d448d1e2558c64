"""`RESTStream`: stream of records from a JSON API.

Requests, retries and pagination are in `tap_core.streams.http`. This class extracts the records and
the next page's token from a JSON response.
"""

from __future__ import annotations

import abc
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic

import requests

from tap_core.compat.author_overrides import MYPY, AuthorProperty
from tap_core.http.request import Auth
from tap_core.http.request import HTTPRequest as HTTPRequest
from tap_core.http.request import JSONPayload as JSONPayload
from tap_core.http.request import PageContext as PageContext
from tap_core.http.response import JSONResponse, check_content_length, is_empty_body, parse_json
from tap_core.http.transport import DEFAULT_REQUEST_TIMEOUT as DEFAULT_REQUEST_TIMEOUT
from tap_core.pagination import (
    BaseAPIPaginator,
    JSONPathPaginator,
    LegacyStreamPaginator,
    SimpleHeaderPaginator,
)
from tap_core.parsing.jsonpath import extract_jsonpath
from tap_core.streams.http import DEFAULT_PAGE_SIZE as DEFAULT_PAGE_SIZE
from tap_core.streams.http import _HTTPStream as _HTTPStream
from tap_core.streams.http import _TToken as _TToken

if TYPE_CHECKING:
    from tap_core.types import Record

__all__ = [
    "DEFAULT_PAGE_SIZE",
    "DEFAULT_REQUEST_TIMEOUT",
    "HTTPRequest",
    "JSONPayload",
    "PageContext",
    "RESTStream",
]


class RESTStream(_HTTPStream[_TToken], abc.ABC, Generic[_TToken]):
    """Base class of a stream of a JSON API.

    Define ``name``, ``url_base``, ``path`` and ``schema``; ``records_jsonpath`` and
    ``next_page_token_jsonpath`` locate the records and the next page's token in a response.

    Examples:
        >>> class Users(RESTStream):
        ...     name, path = "users", "/users"
        ...     url_base = "https://api.example.com/v3"
        ...     records_jsonpath = "$.data[*]"
        ...     next_page_token_jsonpath = "$.next"
        ...     schema = {"properties": {"id": {"type": "integer"}}}
    """

    next_page_token_jsonpath: str | None = None
    """JSONPath of the next page's token in a response, such as ``$.next``; None (the default) if
    the API has none."""

    payload_as_json: bool = True

    if TYPE_CHECKING and not MYPY:  # pyright accepts a plain value in place of a descriptor
        url_base = AuthorProperty[str]()
        """Base URL of all requests, as a string."""
        authenticator = AuthorProperty[Auth]()
        """Authenticator of the requests: a callable that signs a request."""
        http_headers = AuthorProperty[dict[str, Any]]()
        """Headers of every request, as a dict."""
        http_method = AuthorProperty[str]()
        """HTTP method of every request; GET by default."""
        timeout = AuthorProperty[float]()
        """Seconds to wait for a connection, and for each part of a response."""
        user_agent = AuthorProperty[str]()
        """``User-Agent`` of the requests."""
        records_jsonpath = AuthorProperty[str]()
        """JSONPath of the records in a response, as a string."""

    def parse_response(self, response: requests.Response) -> Iterable[Record]:
        """Return the records of a JSON response, with fractions as ``Decimal``.

        The default takes the elements at `records_jsonpath`. Override it if a JSONPath cannot
        locate the records.

        Args:
            response: Response that passed `validate_response`.

        Returns:
            An iterator of dicts, one per record.

        Raises:
            NotJSONError: The response is not JSON, for example a login page.

        Example:
            def parse_response(self, response):
                for user_id, user in response.json()["users"].items():
                    yield {"id": user_id, **user}
        """
        if is_empty_body(response):
            return iter(())
        return extract_jsonpath(self.records_jsonpath, parse_json(response, self._secrets))

    def _check_body(self, response: requests.Response) -> None:
        """Parse the JSON body immediately, so that a truncated body leads to a retry.

        If the class overrides `parse_response`, only the completeness of the body is checked.
        """
        if type(self).parse_response is not RESTStream.parse_response:
            check_content_length(response)
        elif isinstance(response, JSONResponse) and not is_empty_body(response):
            self._check_document(response.read(self._secrets, self.next_page_token_jsonpath))

    def _check_document(self, document: Any) -> None:
        """Raise an error if a parsed JSON body reports an error. The default does nothing."""

    def get_new_paginator(self) -> BaseAPIPaginator[Any] | None:
        """Return a new paginator for reading one context, or None if there is only one page.

        The default paginator reads the next page's token at `next_page_token_jsonpath` if that is
        set, else in the header ``X-Next-Page``. Override it to return another class of
        `tap_core.pagination`.

        Example:
            def get_new_paginator(self):
                return PageNumberPaginator(start_value=1)
        """
        if hasattr(self, "get_next_page_token"):
            warnings.warn(
                "`RESTStream.get_next_page_token` is deprecated: override `get_new_paginator`.",
                DeprecationWarning,
                stacklevel=2,
            )
            return LegacyStreamPaginator(self)
        if self.next_page_token_jsonpath:
            return JSONPathPaginator(self.next_page_token_jsonpath)
        return SimpleHeaderPaginator("X-Next-Page")
