"""A server of JSON pages on loopback, in a thread here: what it costs counts for nobody.

Rules of the room: all answers are made before the first request. `/orders?page=N` gives a hundred
records and the number of the next page.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.bench.programs import made

__all__ = ["serving"]

PAGE = 100


class _Server(ThreadingHTTPServer):
    request_queue_size = 64
    """Connections that come at once: one that is turned away tries again after a second."""


@contextmanager
def serving(records: int, *, page: int = PAGE, pause: float = 0.0) -> Iterator[str]:
    """Serve so many records, each page after so many seconds; give the URL before the paths."""
    server = _Server(("127.0.0.1", 0), _handler(_pages(records, page), pause))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _pages(records: int, page: int) -> list[bytes]:
    """Return every page as it goes out."""
    rows = list(made.narrow(records))
    starts = range(0, max(records, 1), page)
    return [
        json.dumps(
            {
                "data": rows[start : start + page],
                "next": number + 2 if start + page < records else None,
            }
        ).encode()
        for number, start in enumerate(starts)
    ]


def _handler(answers: list[bytes], pause: float) -> type[BaseHTTPRequestHandler]:
    """Return what serves these pages."""

    class Pages(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            if pause:
                time.sleep(pause)
            body = answers[int(asked.get("page", ["1"])[0]) - 1]
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Pages
