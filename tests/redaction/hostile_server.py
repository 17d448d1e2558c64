"""A server that fails in several ways and echoes the request in its responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.redaction.canaries import CANARIES
from tests.server_thread import serve_in_thread

__all__ = ["MODES", "get_url", "hostile_server"]

MODES = ("ok", "refuses", "breaks", "redirects", "no_tls", "nobody")
"""Answers; 401 with the headers; 500 with the body; a redirect; broken TLS; no listener."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Write no log."""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        mode = self.path.split("/")[1]
        getattr(self, f"_{mode}", self._refuses)(body)

    do_POST = do_GET  # noqa: N815  the name of the base class

    def _ok(self, _body: str) -> None:
        if self.path.endswith("/token"):
            token = {"access_token": CANARIES["access"], "refresh_token": CANARIES["rotated"]}
            self._answer(200, json.dumps({**token, "expires_in": 3600}))
        else:
            self._answer(200, '{"data": [{"id": 1}]}')

    def _refuses(self, body: str) -> None:
        echo = f"You sent {self.path} {body} {dict(self.headers)}"
        self._answer(401, json.dumps({"error": echo, "token": CANARIES["access"]}))

    def _breaks(self, body: str) -> None:
        self._answer(500, f"{self.path}\n{dict(self.headers)}\n{body}", "text/plain")

    def _redirects(self, _body: str) -> None:
        self._answer(302, "", location=f"http://127.0.0.1:9{self.path}&token=zqAccessKn4ry")

    def _answer(
        self, status: int, text: str, kind: str = "application/json", location: str = ""
    ) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def hostile_server() -> Iterator[int]:
    """Run the server on a free loopback port; yield the port."""
    with serve_in_thread(ThreadingHTTPServer(("127.0.0.1", 0), _Handler)) as server:
        yield server.server_address[1]


def get_url(port: int, mode: str) -> str:
    """Return the address of the server with this behaviour, or one without a server."""
    if mode == "nobody":
        return "http://127.0.0.1:9/nobody"
    return f"{'https' if mode == 'no_tls' else 'http'}://127.0.0.1:{port}/{mode}"
