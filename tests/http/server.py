"""A real HTTP server on loopback that sends scripted replies and records its requests."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.server_thread import serve_in_thread

__all__ = ["ReceivedRequest", "Reply", "Server", "page", "serving"]

_PATIENCE = 60
"""Seconds."""


@dataclass(frozen=True)
class ReceivedRequest:
    """One request as the server received it."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """A response of the server.

    Attributes:
        body: The body as bytes, text or a JSON value.
        keep: The number of bytes of the body that are sent; None for all.
        length: Whether the `Content-Length` of the whole body is sent.
        reset: Whether the connection is reset after the body.
        reason: The reason phrase of the status line; None for the usual one.
    """

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    keep: int | None = None
    length: bool = True
    reset: bool = False
    chunked: bool = False
    silent: bool = False
    reason: str | None = None

    @property
    def bytes(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


def page(*records: Any, **fields: Any) -> Reply:
    """Return a page of records: a JSON object with the list ``data``."""
    return Reply({"data": list(records), **fields})


class Server:
    """Sends the replies of a script in turn, then repeats the last one.

    A script may also be a function of the request.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[ReceivedRequest] = []
        self.closing = threading.Event()
        self._script: list[Reply] | Callable[[ReceivedRequest], Reply] = []

    def answers(self, *replies: Reply) -> None:
        self._script = list(replies)

    def answers_by(self, script: Callable[[ReceivedRequest], Reply]) -> None:
        self._script = script

    def count_requests(self, least: int) -> int:
        """Return the number of received requests, once there are ``least`` or after a minute.

        A client that gives up may do so before the server has received its request.
        """
        end = time.monotonic() + _PATIENCE
        while len(self.requests) < least and time.monotonic() < end:
            time.sleep(0.01)
        return len(self.requests)

    def reply(self, request: ReceivedRequest) -> Reply:
        self.requests.append(request)
        if callable(self._script):
            return self._script(request)
        return self._script.pop(0) if len(self._script) > 1 else self._script[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65_536  # headers and body are sent together
    test_server: Server

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        parts = urlsplit(self.path)
        request = ReceivedRequest(
            method=self.command,
            path=parts.path,
            query=parse_qs(parts.query, keep_blank_values=True),
            headers=dict(self.headers.items()),
            body=self.rfile.read(length),
        )
        reply = self.test_server.reply(request)
        if reply.silent:
            self.test_server.closing.wait(20)
            self.close_connection = True
            return
        self._send(reply)

    def __getattr__(self, name: str) -> Any:
        """Answer every HTTP method in the same way."""
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def _send(self, reply: Reply) -> None:
        body = reply.bytes
        self.send_response(reply.status, reply.reason)
        headers = {"Content-Type": "application/json", **reply.headers}
        if reply.chunked:
            headers["Transfer-Encoding"] = "chunked"
        elif reply.length and reply.status != 204:
            headers.setdefault("Content-Length", str(len(body)))
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        sent = body if reply.keep is None else body[: reply.keep]
        if reply.chunked:
            chunk = b"%x\r\n%s\r\n" % (len(sent), sent) if sent else b""
            sent = chunk + (b"0\r\n\r\n" if reply.keep is None else b"")
        self.wfile.write(sent)
        if reply.keep is not None or not reply.length or reply.reset:
            self.wfile.flush()
            self.close_connection = True
            if reply.reset:
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.connection.close()

    def finish(self) -> None:
        try:
            super().finish()
        except OSError:
            return

    def log_message(self, *args: Any) -> None:
        """Log nothing."""


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def shutdown_request(self, request: Any) -> None:
        try:
            super().shutdown_request(request)
        except OSError:
            return

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: the tests drop connections on purpose."""


@contextmanager
def serving(wrap: Callable[[socket.socket], socket.socket] | None = None) -> Iterator[Server]:
    """Serve on a free port; ``wrap`` puts TLS around the listening socket."""
    handler = type("Handler", (_Handler,), {})
    listener, scheme = _Listener(("127.0.0.1", 0), handler), "http"
    if wrap is not None:
        listener.socket, scheme = wrap(listener.socket), "https"
    server = Server(f"{scheme}://127.0.0.1:{listener.server_address[1]}")
    handler.test_server = server  # type: ignore[attr-defined]
    with serve_in_thread(listener):
        try:
            yield server
        finally:
            server.closing.set()
