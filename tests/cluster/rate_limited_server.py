"""A server that answers a limited number of requests per second, and the others with 429."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

__all__ = ["RateLimitedServer"]

ROWS = 5


class RateLimitedServer(ThreadingHTTPServer):
    """The server; ``refused`` counts the requests answered with 429."""

    daemon_threads = True

    def __init__(self, requests_per_second: int) -> None:
        """Create a server that answers this many requests in any period of a second."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.refused = 0
        self._requests_per_second = requests_per_second
        self._answer_times: deque[float] = deque()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.server_port}"

    def take_slot(self) -> bool:
        """Return True if a request may be answered now; count it, or else as refused."""
        with self._lock:
            now = time.monotonic()
            while self._answer_times and self._answer_times[0] <= now - 1:
                self._answer_times.popleft()
            if len(self._answer_times) < self._requests_per_second:
                self._answer_times.append(now)
                return True
            self.refused += 1
            return False


class _Handler(BaseHTTPRequestHandler):
    server: RateLimitedServer

    def do_GET(self) -> None:
        if not self.server.take_slot():
            self.send_response(429)
            self.send_header("Retry-After", "1")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        [shop] = parse_qs(urlsplit(self.path).query)["shop"]
        rows = [{"shop": int(shop), "id": number} for number in range(ROWS)]
        content = json.dumps({"rows": rows}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
