"""Limits on the open connections of a server whose clients authenticate with a secret key.

If a new connection exceeds a limit, the oldest unauthenticated connection is closed. If all are
authenticated, the connection that has been idle longest is closed, and its client connects again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final

__all__ = ["AuthenticatedConnections", "accept_connections", "get_max_connections"]

logger: logging.Logger = logging.getLogger(__name__)

_MAX_CONNECTIONS: Final = 4096
_UNAUTHENTICATED_LIMIT: Final = 64
_PAUSE_SECONDS: Final = 1.0
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""TCP keep-alive options, which detect after two minutes that the machine of a client is gone."""


class AuthenticatedConnections:
    """The open connections of a server whose clients authenticate with a secret key.

    At most 64 connections may be unauthenticated. If a new connection exceeds this number or
    ``limit``, the oldest unauthenticated connection is closed. If all are authenticated, the one
    that was idle longest is closed.

    Args:
        limit: The maximum number of open connections.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._unauthenticated_limit = min(_UNAUTHENTICATED_LIMIT, limit)
        self._unauthenticated: OrderedDict[asyncio.StreamWriter, None] = OrderedDict()
        self._authenticated: OrderedDict[asyncio.StreamWriter, None] = OrderedDict()

    def add(self, connection: asyncio.StreamWriter) -> None:
        """Add a new connection, whose client has not authenticated yet.

        If there are too many connections, an old one is closed.
        """
        if len(self._unauthenticated) >= self._unauthenticated_limit:
            self._close_oldest(self._unauthenticated)
        elif len(self) >= self._limit:
            self._close_oldest(self._unauthenticated or self._authenticated)
        self._unauthenticated[connection] = None

    def mark_authenticated(self, connection: asyncio.StreamWriter) -> None:
        """Mark a connection as authenticated.

        Raises:
            ConnectionAbortedError: The connection has been closed because there were too many.
        """
        if connection not in self._unauthenticated:
            raise ConnectionAbortedError
        del self._unauthenticated[connection]
        self._authenticated[connection] = None

    def mark_used(self, connection: asyncio.StreamWriter) -> None:
        """Record that an authenticated connection was just used, so that it is not closed as idle.

        Raises:
            ConnectionAbortedError: The connection has been closed because there were too many.
        """
        if connection not in self._authenticated:
            raise ConnectionAbortedError
        self._authenticated.move_to_end(connection)

    def discard(self, connection: asyncio.StreamWriter) -> None:
        """Close a connection at once, and remove it from the open connections."""
        self._unauthenticated.pop(connection, None)
        self._authenticated.pop(connection, None)
        connection.transport.abort()

    def __len__(self) -> int:
        return len(self._unauthenticated) + len(self._authenticated)

    @staticmethod
    def _close_oldest(connections: OrderedDict[asyncio.StreamWriter, None]) -> None:
        first, _ = connections.popitem(last=False)
        first.transport.abort()


def get_max_connections() -> int:
    """Return the maximum number of open connections: half of the process's limit of open files.

    The result is at least 1 and at most 4096.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        _MAX_CONNECTIONS
        if soft == resource.RLIM_INFINITY
        else max(1, min(_MAX_CONNECTIONS, soft // 2))
    )


async def accept_connections(listener: socket.socket) -> AsyncIterator[socket.socket]:
    """Accept connections on a listening socket until cancelled, and yield the socket of each.

    If the process has no free file descriptor, retry every second. The first failure is logged as a
    warning.
    """
    loop = asyncio.get_running_loop()
    has_warned = False
    while True:
        try:
            connection, _ = await loop.sock_accept(listener)
        except OSError as error:
            if error.errno not in _OUT_OF_RESOURCES:
                await asyncio.sleep(0)  # the client has disconnected already
                continue
            if not has_warned:
                has_warned = True
                logger.warning(
                    "Connections of workers are not accepted (%s); retrying every second."
                    " Raise the limit of open files (ulimit -n).",
                    error.strerror,
                )
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        connection.settimeout(0)
        _keep_alive(connection)
        yield connection
        await asyncio.sleep(0)  # let other tasks run


def _keep_alive(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
