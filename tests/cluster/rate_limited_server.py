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

    def __init__(self, a_second: int) -> None:
        """Answer ``a_second`` requests in any one second."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.refused = 0
        self._a_second = a_second
        self._answered: deque[float] = deque()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.server_port}"

    def admits(self) -> bool:
        """Return True if a request is answered now."""
        with self._lock:
            now = time.monotonic()
            while self._answered and self._answered[0] <= now - 1:
                self._answered.popleft()
            if len(self._answered) < self._a_second:
                self._answered.append(now)
                return True
            self.refused += 1
            return False


class _Handler(BaseHTTPRequestHandler):
    server: RateLimitedServer

    def do_GET(self) -> None:
        if not self.server.admits():
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
