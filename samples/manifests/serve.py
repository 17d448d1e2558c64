"""HTTP server with the APIs that the sample manifests read. It does not depend on `tap_core`.

`python samples/manifests/serve.py` prints its URL and serves until it is stopped. It has generated
records up to `--until`; a later time simulates new records. Articles and messages require the API
key `k-1`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = ["API", "ReceivedRequest", "serving"]

KEY = "k-1"
LATEST = "2023-04-15T07:30:58Z"
FORMAT = "%Y-%m-%dT%H:%M:%SZ"
PAGE_SIZE = 10
CONDITION = re.compile(r'last_event_time BETWEEN TIMESTAMP "(\S+)" AND TIMESTAMP "(\S+)"')


@dataclass(frozen=True)
class ReceivedRequest:
    """A received request: its path and its query parameters."""

    path: str
    query: dict[str, str]


@dataclass
class API:
    """The APIs without their HTTP server: it returns the responses of requests.

    Attributes:
        until: Time up to which there are records.
        requests: Received requests, in their order.
    """

    until: str = LATEST
    requests: list[ReceivedRequest] = field(default_factory=list["ReceivedRequest"])

    def handle(self, target: str, key: str | None) -> tuple[int, Any]:
        """Return status and JSON body of the response for ``target``, a path with its query."""
        url = urlsplit(target)
        request = ReceivedRequest(url.path, dict(parse_qsl(url.query)))
        self.requests.append(request)
        match request.path.strip("/").split("/"):
            case ["search"] if key == KEY:
                return 200, self._find_articles(request.query)
            case ["v3", "messages"] if key == KEY:
                return 200, self._find_messages(request.query)
            case ["search"] | ["v3", "messages"]:
                return 401, {"message": "Invalid API key."}
            case ["r", _, "new"]:
                return 200, self._find_posts(request.query)
            case ["rates", day]:
                return 200, _make_rates(day, request.query["base"])
            case _:
                return 404, {"message": "Not found."}

    def _find_articles(self, query: dict[str, str]) -> Any:
        rows = [
            {
                "id": f"world/{number}",
                "type": "article",
                "sectionId": "world",
                "sectionName": "World news",
                "webPublicationDate": time,
                "webTitle": f"What we know, part {number}",
            }
            for number, time in self.list_times()
            if query["from-date"] <= time <= query["to-date"]
        ]
        page = int(query.get("page", "1"))
        pages = max((len(rows) + PAGE_SIZE - 1) // PAGE_SIZE, 1)
        results = rows[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
        counts = {"total": len(rows), "currentPage": page, "pages": pages}
        return {"response": {"status": "ok", **counts, "results": results}}

    def _find_messages(self, query: dict[str, str]) -> Any:
        condition = CONDITION.fullmatch(query["query"])
        if condition is None:
            return {"messages": []}
        first, last = condition.groups()
        return {
            "messages": [
                {"msg_id": f"m-{number}", "last_event_time": time, "status": "delivered"}
                for number, time in self.list_times()
                if first <= time <= last
            ]
        }

    def _find_posts(self, query: dict[str, str]) -> Any:
        posts = [
            {"name": f"t3_{number}", "title": f"Post {number}", "created_utc": _to_seconds(time)}
            for number, time in reversed(self.list_times())
        ]
        names = [post["name"] for post in posts]
        begin = names.index(query["after"]) + 1 if "after" in query else 0
        end = begin + int(query["limit"])
        children = [{"kind": "t3", "data": post} for post in posts[begin:end]]
        return {
            "data": {"after": names[end - 1] if end < len(names) else None, "children": children}
        }

    def list_times(self) -> list[tuple[int, str]]:
        """Return numbers and times of the records up to ``until``, in ascending order.

        There is a record every 30 hours; the last one is at `LATEST`.
        """
        latest = datetime.strptime(LATEST, FORMAT).replace(tzinfo=timezone.utc)
        times = [(latest - timedelta(hours=30 * n)).strftime(FORMAT) for n in range(90, -1, -1)]
        return [(number, time) for number, time in enumerate(times) if time <= self.until]


def _make_rates(day: str, base: str) -> Any:
    return {"base": base, "date": day, "rates": {"CHF": 0.97, "NOK": 11.4}}


def _to_seconds(time: str) -> int:
    return int(datetime.strptime(time, FORMAT).replace(tzinfo=timezone.utc).timestamp())


@contextmanager
def serving(api: API, port: int = 0) -> Generator[str, None, None]:
    """Serve an API in background threads within a ``with`` block, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            bearer = (self.headers["Authorization"] or "").removeprefix("Bearer ")
            status, body = api.handle(self.path, self.headers["api-key"] or bearer)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def main() -> None:
    """Run the server until the process is stopped."""
    parser = argparse.ArgumentParser(prog="serve.py")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument(
        "--until", default=LATEST, help=f"time of the last record, such as {LATEST}"
    )
    arguments = parser.parse_args()
    with serving(API(arguments.until), arguments.port) as url:
        print(url, flush=True)
        Event().wait()


if __name__ == "__main__":
    main()
