"""Connection pools that enforce a deadline and a size limit while a response is received.

The timeout of requests applies to each socket read, so a server that sends one byte now and then
never exceeds it. Here status line, headers, chunk framing and body all count towards one
`Deadline`. Responses without a deadline in force are read by http.client as usual.
"""

from __future__ import annotations

import io
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any, Final, cast

from requests.exceptions import InvalidSchema
from urllib3 import connectionpool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.poolmanager import pool_classes_by_scheme

from tap_core.http.response_limits import IN_FORCE, Deadline

if TYPE_CHECKING:
    import socket

    import requests
    from typing_extensions import Buffer

__all__ = [
    "HTTPConnectionPool",
    "HTTPSConnectionPool",
    "limit_proxied_responses",
    "limit_responses",
]


class _LimitedStream(io.RawIOBase):
    """Byte stream of one HTTP response that enforces a size limit and a deadline while it is read.

    ``raw`` is the stream that reads from the socket.
    """

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: Deadline) -> None:
        self._raw = raw
        self._socket = sock
        self._deadline = deadline
        self._usual = sock.gettimeout()
        self._is_changed = False

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Buffer, /) -> int | None:
        """Read the next bytes from the socket into ``buffer`` and count them.

        Raises:
            ResponseTooSlowError: the deadline has passed.
            ResponseTooLargeError: more bytes were received than any response may have.
            TimeoutError: the connection was silent for longer than allowed.
        """
        deadline = self._deadline
        left = wait = None if deadline.begun is None else deadline.left()
        if left is not None:
            wait = min(left, deadline.longest_silence(left), self._usual or left)
            self._is_changed = True
            self._socket.settimeout(wait)
        try:
            size: int | None = self._raw.readinto(buffer)
        except TimeoutError:
            if left is not None and wait == left:
                raise deadline.overdue() from None
            raise
        deadline.count(size or 0)
        return size

    def close(self) -> None:
        """Close the stream and reset the socket's timeout for the next request."""
        if not self.closed:
            if self._is_changed and self._socket.fileno() >= 0:
                self._socket.settimeout(self._usual)
            self._raw.close()
            super().close()


class _Response(HTTPResponse):
    """HTTP response that is read through `_LimitedStream` while this thread has a deadline."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        deadline = IN_FORCE.deadline
        if deadline is not None:
            self.fp = io.BufferedReader(_LimitedStream(self.fp.detach(), sock, deadline))


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
    """Replace a connection's response class with one that has limits, and return the connection.

    If other code has already replaced the response class, the connection is not changed.
    """
    is_known = isinstance(connection, (HTTPConnection, HTTPSConnection))
    if is_known and connection.response_class is HTTPResponse:
        connection.response_class = _Response
    return connection


_POOLS: Final = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}


def limit_responses(session: requests.Session) -> None:
    """Limit the size of a session's future responses and the time to receive them.

    Custom adapters and connection pools are not changed.
    """
    adapters: Any = session.adapters
    for adapter in adapters.values():
        manager: Any = getattr(adapter, "poolmanager", None)
        if getattr(manager, "pool_classes_by_scheme", None) is pool_classes_by_scheme:
            manager.pool_classes_by_scheme = _POOLS


def limit_proxied_responses(session: requests.Session, url: str, proxy: str | None) -> None:
    """Limit the size of responses to ``url`` through ``proxy``, and the time to receive them.

    ``proxy`` is None for requests without a proxy; then nothing is changed.
    """
    try:
        manager: Any = cast("Any", session.get_adapter(url)).proxy_manager_for(proxy)
    except (InvalidSchema, AttributeError):  # sending the request raises a clearer error
        return
    if getattr(manager, "pool_classes_by_scheme", None) is pool_classes_by_scheme:
        manager.pool_classes_by_scheme = _POOLS
