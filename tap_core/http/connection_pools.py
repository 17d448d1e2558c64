"""Connections whose answers are measured while they are read off the socket.

A timeout of the HTTP client counts for each piece of an answer, so that a server which sends a
byte now and then is never late. Here every piece counts towards one deadline: status line,
headers, lengths of chunks and body. Answers that nobody measures are read as usual.
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
    "measure_answers",
    "measure_proxied_answers",
]


class _Measured(io.RawIOBase):
    """The bytes of one answer; ``raw`` reads them off the socket."""

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
        """Read what comes next.

        Raises:
            ResponseTooSlowError: the deadline is over.
            ResponseTooLargeError: more has come than any answer may have.
            TimeoutError: nothing came for as long as a connection may be silent.
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
        """Close it, and leave the socket to the next request as it was."""
        if not self.closed:
            if self._is_changed and self._socket.fileno() >= 0:
                self._socket.settimeout(self._usual)
            self._raw.close()
            super().close()


class _Response(HTTPResponse):
    """A response of the standard library that is read through `_Measured`."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        deadline = IN_FORCE.deadline
        if deadline is not None:
            self.fp = io.BufferedReader(_Measured(self.fp.detach(), sock, deadline))


class HTTPConnectionPool(connectionpool.HTTPConnectionPool):
    """A pool under the name that errors of urllib3 show, and that is taken out of messages."""

    def _new_conn(self) -> Any:
        return _measured(super()._new_conn())


class HTTPSConnectionPool(connectionpool.HTTPSConnectionPool):
    """The same over TLS."""

    def _new_conn(self) -> Any:
        return _measured(super()._new_conn())


def _measured(connection: Any) -> Any:
    """Have a connection measure its answers, unless a library has put its own in place."""
    is_known = isinstance(connection, (HTTPConnection, HTTPSConnection))
    if is_known and connection.response_class is HTTPResponse:
        connection.response_class = _Response
    return connection


_POOLS: Final = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}


def measure_answers(session: requests.Session) -> None:
    """Have the connections that a session makes from now on measure their answers.

    Adapters and pools of another kind are left as they are.
    """
    adapters: Any = session.adapters
    for adapter in adapters.values():
        manager: Any = getattr(adapter, "poolmanager", None)
        if getattr(manager, "pool_classes_by_scheme", None) is pool_classes_by_scheme:
            manager.pool_classes_by_scheme = _POOLS


def measure_proxied_answers(session: requests.Session, url: str, proxy: str | None) -> None:
    """Have the connections to a proxy measure their answers as well; None for no proxy."""
    try:
        manager: Any = cast("Any", session.get_adapter(url)).proxy_manager_for(proxy)
    except (InvalidSchema, AttributeError):  # which sending says better
        return
    if getattr(manager, "pool_classes_by_scheme", None) is pool_classes_by_scheme:
        manager.pool_classes_by_scheme = _POOLS
