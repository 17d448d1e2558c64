"""Open connections of a server whose clients prove that they know a key.

Invariant: at most ``most`` connections are open, and at most ``most_unproven`` of them without a
proof. If there are too many, the oldest connection without a proof is closed first. A proven
connection is closed only if all are proven: the one that has been idle longest, because a client
whose connection is closed connects again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final

__all__ = ["AuthenticatedConnections", "get_max_connections", "serve_connections"]

logger: logging.Logger = logging.getLogger(__name__)

_MOST: Final = 4096
_MOST_UNPROVEN: Final = 64
_PAUSE_SECONDS: Final = 1.0
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""TCP keep-alive options: a client whose machine disappeared is detected after two minutes."""


class AuthenticatedConnections:
    """The open connections of a server whose clients must prove that they know a secret key.

    If a new connection exceeds a limit, an old connection is closed. It is the oldest connection
    that has not proven the key. If all have proven it, it is the connection that has been idle
    longest.

    Args:
        most: The maximum number of connections.
        most_unproven: The maximum number of connections that have not yet proven the key.
    """

    def __init__(self, most: int, most_unproven: int = _MOST_UNPROVEN) -> None:
        self._most = most
        self._most_unproven = min(most_unproven, most)
        self._unproven: OrderedDict[asyncio.StreamWriter, None] = OrderedDict()
        self._proven: OrderedDict[asyncio.StreamWriter, None] = OrderedDict()

    def add(self, connection: asyncio.StreamWriter) -> None:
        """Add a new connection, which has not yet proven that it knows the key.

        If a limit is exceeded, an old connection is closed.
        """
        if len(self._unproven) >= self._most_unproven:
            self._close_first(self._unproven)
        elif len(self) >= self._most:
            self._close_first(self._unproven or self._proven)
        self._unproven[connection] = None

    def prove(self, connection: asyncio.StreamWriter) -> None:
        """Record that the client of a connection has proven that it knows the key.

        Raises:
            ConnectionAbortedError: The connection has been closed because there were too many.
        """
        if connection not in self._unproven:
            raise ConnectionAbortedError
        del self._unproven[connection]
        self._proven[connection] = None

    def touch(self, connection: asyncio.StreamWriter) -> None:
        """Record that a proven connection was just used, so that it is not closed as idle.

        Raises:
            ConnectionAbortedError: The connection has been closed because there were too many.
        """
        if connection not in self._proven:
            raise ConnectionAbortedError
        self._proven.move_to_end(connection)

    def discard(self, connection: asyncio.StreamWriter) -> None:
        """Close a connection immediately, and remove it from the open connections."""
        self._unproven.pop(connection, None)
        self._proven.pop(connection, None)
        connection.transport.abort()

    def __len__(self) -> int:
        return len(self._unproven) + len(self._proven)

    @staticmethod
    def _close_first(connections: OrderedDict[asyncio.StreamWriter, None]) -> None:
        first, _ = connections.popitem(last=False)
        first.transport.abort()


def get_max_connections() -> int:
    """Return the maximum number of connections that the server may have open.

    It is half of the number of files that the process may open, but at least 1 and at most 4096.
    """
    try:
        import resource
    except ImportError:  # Windows has no limit of file descriptors
        return _MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else max(1, min(_MOST, soft // 2))


async def serve_connections(listener: socket.socket) -> AsyncIterator[socket.socket]:
    """Accept connections on a listening socket and yield each of them.

    After each connection, other tasks of the event loop run. If the process has no free file
    descriptors, a warning is logged once, and the server retries every second. Until then new
    connections wait in the operating system's queue.
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
        await asyncio.sleep(0)


def _keep_alive(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
