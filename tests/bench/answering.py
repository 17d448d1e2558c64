"""A server on loopback for benchmarks, in a thread of the benchmark: its cost is not counted.

It says what a function gives for a path and a query, as JSON that is bytes
already; one answer is one write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias
from urllib.parse import parse_qs, urlsplit

__all__ = ["Answer", "Query", "answering"]

Query: TypeAlias = Mapping[str, str]
Answer: TypeAlias = Callable[[str, Query], bytes]


class _Server(ThreadingHTTPServer):
    request_queue_size = 64
    """Connections that come at once: one that is turned away tries again after a second."""


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Serve these answers; give the URL before the paths."""
    server = _Server(("127.0.0.1", 0), _handler(answer))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    """Return what serves these answers."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            body = answer(parts.path, query)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Answers
