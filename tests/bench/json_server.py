"""An HTTP server on loopback that sends JSON documents.

The server runs in a thread of the benchmark, so its CPU time is not part of a result. The documents
are encoded in advance, and each response is one write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias
from urllib.parse import parse_qs, urlsplit

__all__ = ["GetBody", "Query", "serve_json"]

Query: TypeAlias = Mapping[str, str]
"""The parameters of a request's query."""
GetBody: TypeAlias = Callable[[str, Query], bytes]
"""A function that returns the body of the response for a path and a query."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 64
    """Waiting connections; a client whose connection is refused tries again after a second."""


@contextmanager
def serve_json(get_body: GetBody) -> Iterator[str]:
    """Run a server during the block; yield the base URL."""
    server = _Server(("127.0.0.1", 0), _create_handler(get_body))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _create_handler(get_body: GetBody) -> type[BaseHTTPRequestHandler]:
    """Return a class that handles requests with a function."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            body = get_body(parts.path, query)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler
