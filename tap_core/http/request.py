"""HTTP requests of streams, and their preparation for sending.

A stream describes a request as an `HTTPRequest`, which a tap's code may change. The requests
session of the stream then prepares it, so that its authenticators and adapters are applied. This
module sends nothing.
"""

from __future__ import annotations

import sys
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from string import ascii_letters, digits, hexdigits
from typing import Any, Final, Generic, TypeAlias
from urllib.parse import urlencode

import requests
from requests.cookies import RequestsCookieJar
from requests.exceptions import InvalidHeader
from requests.structures import CaseInsensitiveDict
from requests.utils import requote_uri

from tap_core.exceptions import SingerSDKDeprecationWarning
from tap_core.http.unsendable_requests import explain_unsendable
from tap_core.singerlib.json import dump_json
from tap_core.types import Context

if sys.version_info >= (3, 13):
    from typing import TypeVar
else:
    from typing_extensions import TypeVar

__all__ = [
    "Auth",
    "HTTPRequest",
    "JSONPayload",
    "PageContext",
    "RequestFunc",
    "build_body_arguments",
    "prepare_request",
]

Auth: TypeAlias = Callable[[requests.PreparedRequest], requests.PreparedRequest]
"""An authenticator or a function that adds credentials to a request and returns it."""

RequestFunc: TypeAlias = Callable[[requests.PreparedRequest, Context | None], requests.Response]
"""A function that sends a request and returns the response.

The second argument is the stream's context: the values that identify a partition or parent record.
"""

JSONPayload: TypeAlias = (
    Iterable[bytes]
    | str
    | bytes
    | list[tuple[Any, Any]]
    | tuple[tuple[Any, Any]]
    | Mapping[str, Any]
    | None
)
"""Types that the body of a request may have."""

_Token = TypeVar("_Token", default=Any)

_UNRESERVED: Final = frozenset(f"{ascii_letters}{digits}-._~=&")
"""Characters of a query string that need no quoting, including the separators ``=`` and ``&``."""


@dataclass(slots=True)
class HTTPRequest:
    """HTTP request of a stream, before its preparation; a tap's code may change every field."""

    url: str
    method: str = "GET"
    params: dict[str, Any] = field(default_factory=dict)
    """Query parameters: None omits a parameter, a list or tuple repeats it."""
    headers: dict[str, str] = field(default_factory=dict)
    data: JSONPayload = None
    """The body; ``as_json`` selects whether it is sent as JSON."""
    safe_query_chars: str = ""
    """ASCII characters that are not quoted in the query string."""
    as_json: bool | None = None
    """True to send the body as JSON; None to use the stream's ``payload_as_json``."""

    def encode_params(self) -> str:
        """Return the query parameters as a URL-encoded string, such as ``page=2&sort=id``.

        Raises:
            FatalAPIError: A parameter has a lone surrogate.
        """
        params: Any = self.params
        if isinstance(params, str):
            warnings.warn(
                "A query given as a string is deprecated: return a dict from get_url_params()"
                " and name in HTTPRequest.safe_query_chars what must not be quoted.",
                SingerSDKDeprecationWarning,
                stacklevel=2,
            )
            return params
        pairs = [
            (name, item)
            for name, value in (params or {}).items()
            for item in (value if isinstance(value, (list, tuple)) else (value,))
            if item is not None
        ]
        if all(type(name) is str and type(item) in {str, int} for name, item in pairs):
            plain = "&".join([f"{name}={item}" for name, item in pairs])
            count = len(pairs)
            if _UNRESERVED.issuperset(plain) and plain.count("=") == count == plain.count("&") + 1:
                return plain  # nothing to quote
        with explain_unsendable({}):
            return urlencode(pairs, safe=self.safe_query_chars)


@dataclass(frozen=True, slots=True)
class PageContext(Generic[_Token]):
    """Values for the request of one page: the stream's context and the page token.

    The context identifies a partition or a parent record. The paginator returns the page token.
    """

    stream_context: Context | None
    next_page_token: _Token | None


def build_body_arguments(data: Any, *, as_json: bool) -> dict[str, Any]:
    """Return the keyword arguments of `requests.Request` for the body ``data``.

    ``as_json`` is True to send the body as JSON. A JSON body with a ``Decimal`` is serialized here,
    because the json module rejects decimals. In this case, the result also contains the
    Content-Type header.
    """
    if not as_json:
        return {"data": data}
    if not _has_decimals(data):
        return {"json": data}
    return {"data": dump_json(data).encode(), "headers": {"Content-Type": "application/json"}}


def _has_decimals(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_decimals(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(_has_decimals(item) for item in value)
    return isinstance(value, Decimal)


def prepare_request(
    session: requests.Session, request: requests.Request, *, user_agent: str
) -> requests.PreparedRequest:
    """Prepare a request with a session's cookies, headers and authentication.

    ``user_agent`` is the User-Agent header of a request that has none.

    Raises:
        requests.exceptions.InvalidHeader: A header has a value that HTTP does not allow.
        FatalAPIError: A parameter or the body has a lone surrogate.
    """
    headers = dict(request.headers)
    if not any(name.lower() == "user-agent" for name in headers):
        headers["User-Agent"] = user_agent
    request.headers = headers
    with explain_unsendable(ChainMap(headers, session.headers or {}), kind=InvalidHeader):
        if not _adds_headers_only(session) or request.cookies or not request.auth:
            return session.prepare_request(request)
        return _prepare_plain(session, request)


def _prepare_plain(
    session: requests.Session, request: requests.Request
) -> requests.PreparedRequest:
    """Prepare a request as ``session.prepare_request`` does, but faster.

    The result is correct only if the session adds nothing but headers (`_adds_headers_only`).
    """
    ready = requests.PreparedRequest()
    ready.prepare_method(request.method)
    url = _join_query(request.url, request.params)
    if url is None:
        ready.prepare_url(request.url, request.params)
    else:
        ready.url = url
    ready.headers = _prepare_headers(session.headers, request.headers)
    # The session has no cookies; merging them is slow.
    vars(ready)["_cookies"] = RequestsCookieJar()
    ready.prepare_body(request.data, request.files, request.json)
    ready.prepare_auth(request.auth, request.url)
    ready.prepare_hooks(request.hooks)
    return ready


def _adds_headers_only(session: requests.Session) -> bool:
    """Return True if a session adds no cookies, parameters or hooks to its requests."""
    adds = session.cookies or session.params or any((session.hooks or {}).values())
    return type(session) is requests.Session and not adds


_LONGEST_CACHED: Final = 2_000
"""Maximum length of a cached header name or value, in characters, to limit the cache's memory."""
_HEX: Final = frozenset(hexdigits)
_QUERY_CHARACTERS: Final = frozenset(f"{ascii_letters}{digits}-._~!$&'()*+,;=:@/?%")
"""Characters of a query that the requests package does not change."""


def _join_query(url: Any, query: Any) -> str | None:
    """Return a URL with a query string added, encoded as the requests package would encode it.

    Return None for unusual characters; the requests package must then prepare the URL.
    """
    if type(url) is not str or type(query) is not str:
        return None
    if not (_QUERY_CHARACTERS.issuperset(query) and _has_valid_escapes(query)):
        return None
    base = _prepare_base(url)
    if base is None or not query:
        return base
    return f"{base}?{requote_uri(query) if '%' in query else query}"


@lru_cache(maxsize=256)
def _prepare_base(url: str) -> str | None:
    """Return a URL as the requests package prepares it, or None for an unusual URL.

    Unusual URLs have a scheme other than HTTP and HTTPS, a query, a fragment or invalid escapes.
    """
    is_plain = url.startswith(("http://", "https://")) and "?" not in url and "#" not in url
    if not is_plain or not _has_valid_escapes(url):
        return None
    ready = requests.PreparedRequest()
    ready.prepare_url(url, None)
    return ready.url


def _has_valid_escapes(text: str) -> bool:
    """Return True if every percent sign in a URL begins an escape, such as ``%20``."""
    return "%" not in text or all(
        len(part) > 1 and _HEX.issuperset(part[:2]) for part in text.split("%")[1:]
    )


def _prepare_headers(session_headers: Any, headers: Mapping[str, Any]) -> CaseInsensitiveDict[Any]:
    """Return the headers of a session, updated with a request's headers and checked for validity.

    Results are cached, because most requests of a stream have the same headers.
    """
    is_plain = type(session_headers) is CaseInsensitiveDict
    pairs = tuple(
        vars(session_headers)["_store"].values() if is_plain else (session_headers or {}).items()
    )
    items = tuple(headers.items())
    texts = [text for pair in (*pairs, *items) for text in pair]
    is_short = all(type(text) is str and len(text) <= _LONGEST_CACHED for text in texts)
    merged = (_merge_headers if is_short else _merge_headers.__wrapped__)(pairs, items)
    copy: CaseInsensitiveDict[Any] = CaseInsensitiveDict()
    vars(copy)["_store"] = vars(merged)["_store"].copy()
    return copy


@lru_cache(maxsize=64)
def _merge_headers(
    session_headers: tuple[tuple[str, Any], ...], headers: tuple[tuple[str, Any], ...]
) -> CaseInsensitiveDict[Any]:
    """Return the headers of a session, updated with a request's headers and checked for validity.

    A header to which the request gives the value None is removed.
    """
    merged: CaseInsensitiveDict[Any] = CaseInsensitiveDict(dict(session_headers))
    merged.update(dict(headers))
    for name in [name for name, value in merged.items() if value is None]:
        del merged[name]
    ready = requests.PreparedRequest()
    ready.prepare_headers(merged)
    return ready.headers
