"""HTTP servers that run in a thread of the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import TypeVar

__all__ = ["serve_in_thread"]

_Server = TypeVar("_Server", bound=BaseServer)


@contextmanager
def serve_in_thread(server: _Server) -> Iterator[_Server]:
    """Serve in a thread during the block, and close the server at its end."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
