"""Connections whose answers are measured while they are read off the socket.

A timeout of the HTTP client counts for each piece of an answer, so that a server which sends a
byte now and then is never late. Here every piece counts towards one deadline: status line,
headers, lengths of chunks and body. Answers that nobody measures are read as usual.
"""

from __future__ import annotations

import io
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any, Final

from requests.exceptions import InvalidSchema
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.poolmanager import pool_classes_by_scheme

from tap_core.http.limits import Deadline, deadline_in_force

if TYPE_CHECKING:
    import socket

    import requests
    from typing_extensions import Buffer

__all__ = ["measure_answers"]


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
        left = deadline.left()
        if left is not None:
            self._is_changed = True
            self._socket.settimeout(left if self._usual is None else min(left, self._usual))
        try:
            size: int | None = self._raw.readinto(buffer)
        except TimeoutError:
            if left is not None and not deadline.is_silent():
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
        deadline = deadline_in_force()
        if deadline is not None:
            deadline.begin()
            self.fp = io.BufferedReader(_Measured(self.fp.detach(), sock, deadline))


class _Pool(HTTPConnectionPool):
    def _new_conn(self) -> Any:
        return _measured(super()._new_conn())


class _SecurePool(HTTPSConnectionPool):
    def _new_conn(self) -> Any:
        return _measured(super()._new_conn())


def _measured(connection: Any) -> Any:
    """Have a connection measure its answers, unless a library has put its own in place."""
    is_known = isinstance(connection, (HTTPConnection, HTTPSConnection))
    if is_known and connection.response_class is HTTPResponse:
        connection.response_class = _Response
    return connection


_POOLS: Final = {"http": _Pool, "https": _SecurePool}


def measure_answers(session: requests.Session, url: str, proxy: str | None = None) -> None:
    """Have the connections that a session makes from now on measure their answers.

    Sessions with adapters or pools of another kind are left as they are.
    """
    try:
        adapter: Any = session.get_adapter(url)
    except InvalidSchema:  # which sending says better
        return
    managers: list[Any] = [getattr(adapter, "poolmanager", None)]
    if proxy is None and getattr(managers[0], "pool_classes_by_scheme", None) is _POOLS:
        return
    if proxy is not None and hasattr(adapter, "proxy_manager_for"):
        managers.append(adapter.proxy_manager_for(proxy))
    for manager in managers:
        if getattr(manager, "pool_classes_by_scheme", None) is pool_classes_by_scheme:
            manager.pool_classes_by_scheme = _POOLS
