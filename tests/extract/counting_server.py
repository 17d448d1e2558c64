"""An HTTP server that records the times of its requests, and their highest rate."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

__all__ = ["CountingServer", "get_longest_pause", "get_max_requests"]


class CountingServer(ThreadingHTTPServer):
    """Records the time and path of each request; can respond with one 429."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[float, str]] = []
        self.processes: set[str] = set()
        self.retry_after_once: float | None = None
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), CountingHandler)

    def record_request(self, path: str, process: str = "") -> float | None:
        with self._lock:
            self.processes.add(process)
            self.arrivals.append((time.monotonic(), path))
            retry_after, self.retry_after_once = self.retry_after_once, None
        return retry_after

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def request_times(self, path: str = "") -> list[float]:
        return sorted(
            moment for moment, request_path in self.arrivals if request_path.startswith(path)
        )


class CountingHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CountingServer

    def do_GET(self) -> None:
        retry_after = self.server.record_request(self.path, self.headers.get("X-Process", ""))
        body = b'[{"id": 1}]'
        self.send_response(200 if retry_after is None else 429)
        if retry_after is not None:
            self.send_header("Retry-After", f"{retry_after:.0f}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def get_max_requests(moments: list[float], seconds: float = 1.0) -> int:
    """Return the largest number of requests within any period of ``seconds``."""
    return max(sum(begin <= moment < begin + seconds for moment in moments) for begin in moments)


def get_longest_pause(moments: list[float]) -> float:
    """Return the longest time between two successive requests, in seconds."""
    return max(later - earlier for earlier, later in pairwise(moments))
