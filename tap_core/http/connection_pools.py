"""Connection pools that enforce a deadline and a size limit while a response is received.

The pools also refuse to follow a redirect or a link to a link-local address.

The timeout of the requests package applies to each socket read, so a server that sends one byte now
and then never exceeds it. A `Deadline` limits the total time for the status line, headers and body.
If the thread has set no deadline, http.client reads the response without limits.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.client import HTTPMessage, HTTPResponse, RemoteDisconnected
from typing import TYPE_CHECKING, Any, Final, cast

from urllib3 import connectionpool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import LocationValueError
from urllib3.poolmanager import pool_classes_by_scheme

from tap_core.http.link_local import find_link_local, is_link_local
from tap_core.http.origins import make_link_local_error
from tap_core.http.proxies import complete_proxy_url
from tap_core.http.response_limits import IN_FORCE, Deadline

if TYPE_CHECKING:
    import socket

    import requests
    from typing_extensions import Buffer

__all__ = [
    "HTTPConnectionPool",
    "HTTPSConnectionPool",
    "InvalidHostError",
    "limit_pools",
    "limit_proxied_responses",
    "limit_responses",
    "may_set_cookies",
    "skip_cookies",
]


InvalidHostError: Final = LocationValueError
"""Error of urllib3 for a host name that it cannot encode.

The requests package does not convert this error to an exception of requests.
"""

_BUFFER: Final = 32_768
"""Size of a socket read in bytes, large enough for the headers and a page of records."""


class _LimitedStream(io.RawIOBase):
    """Byte stream of one HTTP response with a size limit and a deadline.

    ``raw`` is the unbuffered stream to read from, and ``sock`` is its socket.
    """

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: Deadline) -> None:
        self._raw = raw
        self._socket = sock
        self._deadline = deadline
        self._timeout = sock.gettimeout()
        self._is_timeout_changed = False
        self.has_ended = False
        """True if the server has closed the connection."""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Buffer, /) -> int | None:
        """Read the next bytes of the response into ``buffer``, and return their number.

        Raises:
            ResponseTooSlowError: The deadline has passed.
            ResponseTooLargeError: The response has more bytes than allowed.
            TimeoutError: The server sent nothing for longer than allowed.
        """
        left = timeout = self._deadline.left()
        if left is not None:
            timeout = min(left, self._deadline.longest_silence(left), self._timeout or left)
            self._is_timeout_changed = True
            self._socket.settimeout(timeout)
        try:
            size: int | None = self._raw.readinto(buffer)
        except TimeoutError:
            if left is not None and timeout == left:
                raise self._deadline.make_too_slow_error() from None
            raise
        self._deadline.count(size or 0)
        self.has_ended = size == 0
        return size

    def close(self) -> None:
        """Close the stream, and restore the socket's timeout for the next request."""
        if not self.closed:
            if self._is_timeout_changed and self._socket.fileno() >= 0:
                self._socket.settimeout(self._timeout)
            self._raw.close()
            super().close()


class _Response(HTTPResponse):
    """HTTP response that is read through a `_LimitedStream` if the thread has set a deadline."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        deadline = IN_FORCE.deadline
        self._limited: _LimitedStream | None = None
        if deadline is not None:
            self._limited = _LimitedStream(self.fp.detach(), sock, deadline)
            self.fp = io.BufferedReader(self._limited, _BUFFER)

    def begin(self) -> None:
        """Read the status line and the headers of the response.

        Common responses are parsed without the slow email parser of http.client, all others with
        it. Interim responses are skipped (RFC 9110, section 15.2).

        Raises:
            RemoteDisconnected: The connection was closed before the end of the headers. http.client
                accepts such a response, whose body is then empty (RFC 9112, section 8).
        """
        this: Any = self
        is_new = this.headers is None and not this.debuglevel and vars(this)["_method"] != "HEAD"
        start = this.fp.peek() if is_new else b""
        head = _parse_head(start)
        if head is None:
            super().begin()
            while HTTPStatus.SWITCHING_PROTOCOLS < this.status < HTTPStatus.OK:  # such as 103
                this.headers = None
                super().begin()
            if self._limited is not None and self._limited.has_ended:
                self.close()
                raise RemoteDisconnected("Remote end closed connection within the headers")
            return
        this.fp.read(start.index(_HEAD_END) + len(_HEAD_END))
        self._set_head(*head)

    def _set_head(self, reason: str, headers: HTTPMessage) -> None:
        """Set the attributes that `HTTPResponse.begin` sets, for a response with the status 200.

        ``reason`` is the reason phrase of the status line.
        """
        this: Any = self
        this.version, this.code, this.status, this.reason = 11, 200, 200, reason
        this.headers = this.msg = headers
        this.chunked = headers.get("Transfer-Encoding", "").lower() == "chunked"
        if this.chunked:
            this.chunk_left = None
        length = None if this.chunked else headers.get("Content-Length")
        this.length = None if length is None else int(length)
        is_closed = "close" in headers.get("Connection", "").lower()
        this.will_close = is_closed or not (this.chunked or length is not None)


_HEAD_END: Final = b"\r\n\r\n"
_STATUS_200: Final = "HTTP/1.1 200"
_MOST_HEADERS: Final = 64
_MOST_DIGITS: Final = 18


def _parse_head(start: bytes) -> tuple[str, HTTPMessage] | None:
    """Parse the status line and the headers at the start of a common HTTP response.

    Return the reason phrase and the headers. Return None if http.client must parse them, because
    they are incomplete or the status is not 200. The same applies to folded lines, a multipart
    type, an invalid length, and characters other than printable ASCII.
    """
    text = start[: max(start.find(_HEAD_END), 0)].decode("latin-1")
    first, *lines = text.split("\r\n")
    reason = first.removeprefix(_STATUS_200)
    is_plain = text.isascii() and first.isprintable() and "".join(lines).isprintable()
    if not is_plain or reason == first or reason[:1] not in {"", " "} or len(lines) > _MOST_HEADERS:
        return None
    headers = HTTPMessage()
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or " " in name:
            return None
        headers[name] = value.lstrip(" ")
    headers.set_payload("")
    kind = headers.get("Content-Type", "").lower()
    length = headers.get("Content-Length", "0")
    is_usual = length.isdigit() and len(length) <= _MOST_DIGITS
    is_usual = is_usual and not kind.startswith(("multipart", "message"))
    return (reason.strip(), headers) if is_usual else None


class HTTPConnectionPool(connectionpool.HTTPConnectionPool):
    """HTTP connection pool that limits the size of responses and the time to receive them.

    It has the same name as urllib3's class, because error messages contain the class name.
    """

    def _new_conn(self) -> Any:
        return _limit_connection(super()._new_conn())


class HTTPSConnectionPool(connectionpool.HTTPSConnectionPool):
    """HTTPS connection pool that limits the size of responses and the time to receive them."""

    def _new_conn(self) -> Any:
        return _limit_connection(super()._new_conn())


def _limit_connection(connection: Any) -> Any:
    """Make a new connection read responses with limits, and return the connection.

    A connection that other code has changed is left as it is.
    """
    is_known = isinstance(connection, (HTTPConnection, HTTPSConnection))
    if is_known and connection.response_class is HTTPResponse:
        connection.response_class = _Response
        connection._new_conn = partial(_connect, connection, connection._new_conn)  # noqa: SLF001
    return connection


def _connect(connection: Any, connect: Callable[[], socket.socket]) -> socket.socket:
    """Open a connection with ``connect``, a method of urllib3, and return the connection's socket.

    The address of the socket is checked as well as the host name, because urllib3 resolves the name
    again. Connections to a proxy are not checked, because the proxy resolves the name.

    Raises:
        UntrustedHostError: A response led the request to a link-local address.
    """
    if not IN_FORCE.is_undeclared_host or connection.proxy:
        return connect()
    if address := find_link_local(connection.host, connection.port):
        raise make_link_local_error(connection.host, address)
    connected = connect()
    address = str(connected.getpeername()[0])
    if is_link_local(address):
        connected.close()
        raise make_link_local_error(connection.host, address)
    return connected


_POOLS: Final = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}


def limit_responses(session: requests.Session) -> None:
    """Limit the size of a session's future responses and the time to receive them.

    Custom adapters and connection pools are not changed.
    """
    adapters: Any = session.adapters
    for adapter in adapters.values():
        limit_pools(getattr(adapter, "poolmanager", None))


def limit_pools(manager: Any) -> None:
    """Make a urllib3 pool manager limit responses, unless it already uses custom pool classes."""
    if getattr(manager, "pool_classes_by_scheme", None) is pool_classes_by_scheme:
        manager.pool_classes_by_scheme = _POOLS


def may_set_cookies(response: Any) -> bool:
    """Return False if a urllib3 response certainly sets no cookies.

    This is known of a response that came through a connection pool of this SDK.
    """
    original = getattr(response, "_original_response", None)
    return (
        type(original) is not _Response
        or "Set-Cookie" in original.msg
        or "Set-Cookie2" in original.msg
    )


def skip_cookies(response: Any) -> None:
    """Make the requests package skip its slow search for cookies if a response sets none.

    Args:
        response: The urllib3 response. It is not changed unless it came through a connection pool
            of this SDK and was read to its end.
    """
    if not may_set_cookies(response) and vars(response)["_original_response"].isclosed():
        vars(response)["_original_response"] = None


def limit_proxied_responses(session: requests.Session, url: str, proxy: str) -> None:
    """Limit the size of responses to ``url`` through ``proxy``, and the time to receive them.

    Do nothing if the URL of the proxy cannot be used.
    """
    try:
        adapter = cast("Any", session.get_adapter(url))
        manager: Any = adapter.proxy_manager_for(complete_proxy_url(proxy))
    except (ValueError, AttributeError):  # sending the request raises a clearer error
        return
    limit_pools(manager)
