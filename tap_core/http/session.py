"""HTTP session of a stream: a `requests.Session` that does less work for each request.

Its adapter caches the connection pool of each host, which `HTTPAdapter` looks up for each request.
`Session.send` and `HTTPAdapter.send` are not overridden. Code that replaces these methods, such as
test doubles and instrumentation, therefore receives every request.
"""

from __future__ import annotations

from functools import lru_cache
from http.cookiejar import Cookie, DefaultCookiePolicy
from typing import Any, Final

import requests
from requests.adapters import HTTPAdapter
from requests.cookies import RequestsCookieJar
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers

from tap_core.http.connection_pools import limit_pools, may_set_cookies

__all__ = ["make_session"]

_MOST_POOLS: Final = 32
"""Maximum number of connection pools in the cache of an adapter; urllib3 itself keeps ten open."""
_MOST_COOKIES: Final = 300
_LONGEST_COOKIE: Final = 4096
"""Maximum number of bytes of a cookie's name and value, as in browsers (RFC 6265, section 6.1)."""


def make_session() -> requests.Session:
    """Return a new `requests.Session` with limits for responses (size, time) and for cookies.

    Adapters that other code has installed in place of the default ones are not changed.
    """
    session = requests.Session()
    session.cookies.set_policy(_BoundedCookiePolicy(session.cookies))
    for prefix, adapter in list(session.adapters.items()):
        if type(adapter) is HTTPAdapter:
            session.mount(prefix, _Adapter())
    return session


class _BoundedCookiePolicy(DefaultCookiePolicy):
    """Cookie policy that ignores long cookies, and new ones if ``jar`` has 300 cookies.

    A session keeps cookies for all pages of a stream; without a limit they could fill the memory.
    """

    def __init__(self, jar: RequestsCookieJar) -> None:
        super().__init__()
        self._jar = jar

    def set_ok(self, cookie: Cookie, request: Any) -> bool:
        """Return True if the session may keep a cookie that it received."""
        if len(cookie.name) + len(cookie.value or "") > _LONGEST_COOKIE:
            return False
        if len(self._jar) >= _MOST_COOKIES and not any(
            (known.domain, known.path, known.name) == (cookie.domain, cookie.path, cookie.name)
            for known in self._jar
        ):
            return False
        return super().set_ok(cookie, request)


class _Adapter(HTTPAdapter):
    """HTTP adapter that caches the connection pool of each origin."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Create the pool manager, and clear the cache of connection pools."""
        super().init_poolmanager(*args, **kwargs)
        self._pools: dict[tuple[str, bool], Any] = {}
        limit_pools(self.poolmanager)

    def get_connection_with_tls_context(
        self,
        request: requests.PreparedRequest,
        verify: Any,
        proxies: Any = None,
        cert: Any = None,
    ) -> Any:
        """Return the connection pool for a request, from the cache if possible."""
        origin, _ = _split_url(request.url)
        if proxies or cert or not origin or (verify is not True and verify is not False):
            return super().get_connection_with_tls_context(request, verify, proxies, cert)
        pool = self._pools.get((origin, verify))
        if pool is None or pool.pool is None:  # closed, by the session or as the least used one
            pool = super().get_connection_with_tls_context(request, verify, proxies, cert)
            if len(self._pools) >= _MOST_POOLS:
                self._pools.clear()
            self._pools[origin, verify] = pool
        return pool

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        """Return the target of the request line: path and query or, for a proxy, the full URL."""
        _, target = ("", "") if proxies else _split_url(request.url)
        return target or super().request_url(request, proxies)

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Return the `requests.Response` for a urllib3 response.

        If the response sets no cookies, the slow search for cookies is skipped.
        """
        if may_set_cookies(resp) or type(req.url) is not str:
            return super().build_response(req, resp)
        response = requests.Response()
        response.status_code = resp.status
        response.headers = CaseInsensitiveDict()
        vars(response.headers)["_store"].update(
            (name.lower(), (name, value)) for name, value in resp.headers.itermerged()
        )
        response.encoding = _get_encoding(resp.headers.get("content-type"))
        response.raw, response.reason = resp, resp.reason
        response.url, response.request = req.url, req
        vars(response)["connection"] = self
        return response


def _split_url(url: Any) -> tuple[str, str]:
    """Split a URL into two parts: the origin, and the request target that begins with its path.

    ``https://example.com/a?b=1`` gives ``("https://example.com", "/a?b=1")``. Both are empty if the
    URL needs a full parser, for example because it has a user name or a fragment.
    """
    if type(url) is not str:
        return "", ""
    is_plain = url.startswith(("http://", "https://")) and url.isascii() and url.isprintable()
    if not is_plain or any(sign in url for sign in " #@\\") or url.endswith("?"):
        return "", ""
    start = url.find("/", len("https://"))
    return ("", "") if start < 0 or "?" in url[:start] else (url[:start], url[start:])


@lru_cache(maxsize=64)
def _get_encoding(content_type: str | None) -> str | None:
    """Return the encoding that the requests package derives from a Content-Type header, or None."""
    return get_encoding_from_headers(CaseInsensitiveDict({"content-type": content_type or ""}))
