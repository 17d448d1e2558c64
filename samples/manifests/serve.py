"""The APIs that these manifests read, for those who try them: made-up records, real manners.

`python samples/manifests/serve.py` prints its address and serves until it is stopped. What happens
after `--until` is not there yet. Articles and messages want the key `k-1`. Nothing here knows
about taps.
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

__all__ = ["API", "Asked", "serving"]

KEY = "k-1"
LATEST = "2023-04-15T07:30:58Z"
FORMAT = "%Y-%m-%dT%H:%M:%SZ"
PAGE = 10
BETWEEN = re.compile(r'last_event_time BETWEEN TIMESTAMP "(\S+)" AND TIMESTAMP "(\S+)"')
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Asked:
    """One request: its path, and the parameters of its query."""

    path: str
    query: dict[str, str]


@dataclass
class API:
    """The answers, whatever they are sent through; ``asked`` are the requests that came."""

    until: str = LATEST
    asked: list[Asked] = field(default_factory=list["Asked"])

    def answer(self, target: str, key: str | None) -> tuple[int, Any]:
        """Answer a request for a path with its query: a status and a document."""
        address = urlsplit(target)
        asked = Asked(address.path, dict(parse_qsl(address.query)))
        self.asked.append(asked)
        match asked.path.strip("/").split("/"):
            case ["search"] if key == KEY:
                return 200, self._articles(asked.query)
            case ["v3", "messages"] if key == KEY:
                return 200, self._messages(asked.query)
            case ["search"] | ["v3", "messages"]:
                return 401, {"message": "Who are you?"}
            case ["r", _, "new"]:
                return 200, self._posts(asked.query)
            case ["rates", day]:
                return 200, _rates(day, asked.query["base"])
            case _:
                return 404, {"message": "There is no such thing."}

    def _articles(self, query: dict[str, str]) -> Any:
        rows = [
            {
                "id": f"world/{number}",
                "type": "article",
                "sectionId": "world",
                "sectionName": "World news",
                "webPublicationDate": at,
                "webTitle": f"What we know, part {number}",
            }
            for number, at in self._moments()
            if query["from-date"] <= at <= query["to-date"]
        ]
        page = int(query.get("page", "1"))
        pages = max((len(rows) + PAGE - 1) // PAGE, 1)
        results = rows[(page - 1) * PAGE : page * PAGE]
        about = {"status": "ok", "total": len(rows), "currentPage": page, "pages": pages}
        return {"response": {**about, "results": results}}

    def _messages(self, query: dict[str, str]) -> Any:
        found = BETWEEN.fullmatch(query["query"])
        if found is None:
            return {"messages": []}
        first, last = found.groups()
        return {
            "messages": [
                {"msg_id": f"m-{number}", "last_event_time": at, "status": "delivered"}
                for number, at in self._moments()
                if first <= at <= last
            ]
        }

    def _posts(self, query: dict[str, str]) -> Any:
        posts = [
            {"name": f"t3_{number}", "title": f"Post {number}", "created_utc": _seconds(at)}
            for number, at in reversed(self._moments())
        ]
        names = [post["name"] for post in posts]
        begin = names.index(query["after"]) + 1 if "after" in query else 0
        end = begin + int(query["limit"])
        children = [{"kind": "t3", "data": post} for post in posts[begin:end]]
        return {
            "data": {"after": names[end - 1] if end < len(names) else None, "children": children}
        }

    def _moments(self) -> list[tuple[int, str]]:
        """Return when something happened, in order: every thirty hours, the latest at LATEST."""
        latest = datetime.strptime(LATEST, FORMAT).replace(tzinfo=timezone.utc)
        moments = [(latest - timedelta(hours=30 * n)).strftime(FORMAT) for n in range(90, -1, -1)]
        return [(number, at) for number, at in enumerate(moments) if at <= self.until]


def _rates(day: str, base: str) -> Any:
    return {"base": base, "date": day, "rates": {"CHF": 0.97, "NOK": 11.4}}


def _seconds(at: str) -> int:
    return int(datetime.strptime(at, FORMAT).replace(tzinfo=timezone.utc).timestamp())


@contextmanager
def serving(api: API, port: int = 0) -> Generator[str, None, None]:
    """Serve an API in threads of their own; give its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            bearer = (self.headers["Authorization"] or "").removeprefix("Bearer ")
            status, document = api.answer(self.path, self.headers["api-key"] or bearer)
            content = json.dumps(document).encode()
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
    """Serve until stopped."""
    parser = argparse.ArgumentParser(prog="serve.py")
    parser.add_argument("--port", type=int, default=0, help="0 takes any that is free")
    parser.add_argument("--until", default=LATEST, help=f"a time such as {LATEST}")
    arguments = parser.parse_args()
    with serving(API(arguments.until), arguments.port) as address:
        print(address, flush=True)
        Event().wait()


if __name__ == "__main__":
    main()
