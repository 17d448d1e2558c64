"""HTTP server with the API that `tap_regions` reads. It does not depend on `tap_core`.

`python samples/cluster/server.py` prints its URL and serves until it is stopped. It requires the
token `t-1`. The records are computed from their numbers, so a test knows all records that a table
must have.

Options:

- `--until`: time up to which there are records; a later time simulates new records.
- `--latency 0.1`: delay of each response in seconds.
- `--fail region-07`: status 500 for all requests with this text in their URL; `--fail region-07=3`
  for the first three of them.
- `--most 20`: maximum number of requests per second; others get status 429 and `Retry-After: 1`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = ["API", "ReceivedRequest", "Response", "serving"]

TOKEN = "t-1"  # noqa: S105  (test data)
FORMAT = "%Y-%m-%dT%H:%M:%SZ"
START = datetime(2024, 1, 1, tzinfo=timezone.utc)
UNTIL = "2024-01-15T00:00:00Z"
ALWAYS = -1
MAX_PAGE_SIZE = 1_000
Row = dict[str, Any]


@dataclass(frozen=True)
class Response:
    """A response: its status, its body as bytes, and its headers."""

    status: int
    content: bytes
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class ReceivedRequest:
    """A received request and the status of its response.

    Attributes:
        target: Path with the query.
        at: Time of the request, in seconds since the epoch.
        status: Status of the response.
    """

    target: str
    at: float
    status: int


@dataclass
class API:
    """The API without its HTTP server: it returns the responses of requests.

    Attributes:
        regions: Number of regions.
        records: Maximum number of orders of each region.
        customers: Number of customers.
        notes: Maximum number of notes on each customer.
        until: Time up to which there are records.
        latency: Delay of each response, in seconds.
        fails: Parts of URLs with the number of requests with this part that still fail; ``ALWAYS``
            for all of them.
        most: Maximum number of requests per second; None for no limit.
        requests: Received requests, in their order.
    """

    regions: int = 50
    records: int = 100
    customers: int = 20
    notes: int = 5
    until: str = UNTIL
    latency: float = 0.0
    fails: dict[str, int] = field(default_factory=dict[str, int])
    most: int | None = None
    requests: list[ReceivedRequest] = field(default_factory=list[ReceivedRequest])
    _accepted: deque[float] = field(default_factory=deque[float], repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    # Records

    def list_regions(self) -> list[str]:
        """Return the names of the regions."""
        return [f"region-{number:02}" for number in range(self.regions)]

    def list_orders(self, region: str, since: str = "") -> list[Row]:
        """Return the orders of a region that were changed at ``since`` or later.

        There is one change per hour. The orders are sorted by number, not by time of change.
        """
        numbers = range(min(self.records, self._count_hours()))
        return self._filter((_make_order(region, number) for number in numbers), since)

    def list_events(self, first: str = "", last: str = "") -> list[Row]:
        """Return the events from ``first`` to ``last``, both included; there is one per hour."""
        numbers = range(self._count_hours())
        return self._filter((_make_event(number) for number in numbers), first, last)

    def list_customers(self) -> list[Row]:
        """Return the customers."""
        return [{"id": n, "name": f"Customer {n}"} for n in range(1, self.customers + 1)]

    def list_notes(self, customer: int, since: str = "") -> list[Row]:
        """Return the notes on a customer of ``since`` or later, sorted by time; one per day."""
        return self._filter((_make_note(customer, number) for number in range(self.notes)), since)

    def _count_hours(self) -> int:
        """Return a number of hours, at least those from `START` to ``until``."""
        return max(0, int((_parse_time(self.until) - START).total_seconds()) // 3600 + 10)

    def _filter(self, rows: Iterable[Row], first: str, last: str = "") -> list[Row]:
        """Return the rows from ``first`` to ``last`` or ``until``, whichever is earlier."""
        end = min(last or self.until, self.until)
        return [row for row in rows if first <= row["updated_at"] <= end]

    # Responses

    def handle(self, target: str, authorization: str | None) -> Response:
        """Return the response of a request for ``target``, a path with its query."""
        time.sleep(self.latency)
        with self._lock:
            error = self._find_error(target, authorization)
            status = error.status if error else 200
            self.requests.append(ReceivedRequest(target, time.time(), status))
        return error or self._make_page(target)

    def _find_error(self, target: str, authorization: str | None) -> Response | None:
        if authorization != f"Bearer {TOKEN}":
            return _make_error(401, "Invalid token.")
        if self.most is not None and self._exceeds_limit(self.most):
            return _make_error(429, "Too many requests.", {"Retry-After": "1"})
        for part, times in self.fails.items():
            if part in target and times:
                self.fails[part] = times if times == ALWAYS else times - 1
                return _make_error(500, f"Simulated failure of {part}.")
        return None

    def _exceeds_limit(self, limit: int) -> bool:
        """Return True if ``limit`` requests were accepted in the last second; count this one."""
        now = time.monotonic()
        while self._accepted and self._accepted[0] <= now - 1:
            self._accepted.popleft()
        if len(self._accepted) >= limit:
            return True
        self._accepted.append(now)
        return False

    def _make_page(self, target: str) -> Response:
        """Return one page of records; ``next`` is the cursor of the next page, or null."""
        url = urlsplit(target)
        query = dict(parse_qsl(url.query))
        size = min(int(query.get("limit", "50")), MAX_PAGE_SIZE)
        begin = int(query.get("cursor", "0"))
        rows = self._find_rows(url.path.strip("/").split("/"), query)
        if rows is None:
            return _make_error(404, "Not found.")
        end = begin + size
        following = str(end) if end < len(rows) else None
        return Response(200, json.dumps({"data": rows[begin:end], "next": following}).encode())

    def _find_rows(self, path: list[str], query: dict[str, str]) -> Sequence[Row] | None:
        """Return all records of a path, or None if it does not exist."""
        since = query.get("updated_since", "")
        match path:
            case ["regions", region, "orders"] if region in self.list_regions():
                return self.list_orders(region, since)
            case ["events"]:
                return self.list_events(query.get("from", ""), query.get("to", ""))
            case ["customers"]:
                return self.list_customers()
            case ["customers", customer, "notes"] if customer.isdecimal():
                return self.list_notes(int(customer), since)
            case _:
                return None


def _make_error(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return Response(status, json.dumps({"error": text}).encode(), headers or {})


# -------------------------------------------------------------------------- records


@lru_cache(maxsize=100_000)
def _make_order(region: str, number: int) -> Row:
    """Return an order. Within each ten numbers, a higher number is not always a later change."""
    hour = number // 10 * 10 + number * 7 % 10
    return {
        "id": number,
        "region": region,
        "amount": number * 25 % 10_000 / 100,
        "customer_id": number % 20 + 1,
        "note": f"Order {number} of {region}",
        "updated_at": _format_time(hour),
    }


def _make_event(number: int) -> Row:
    kind = ("opened", "paid", "sent")[number % 3]
    return {"id": f"e-{number}", "kind": kind, "updated_at": _format_time(number)}


def _make_note(customer: int, number: int) -> Row:
    time = _format_time(number * 24 + customer % 24)
    return {"customer_id": customer, "id": number, "text": f"Note {number}", "updated_at": time}


@lru_cache(maxsize=100_000)
def _format_time(hour: int) -> str:
    """Return the time that is ``hour`` hours after `START`."""
    return (START + timedelta(hours=hour)).strftime(FORMAT)


def _parse_time(text: str) -> datetime:
    return datetime.strptime(text, FORMAT).replace(tzinfo=timezone.utc)


# ---------------------------------------------------------------------- HTTP server


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # all tasks of a cluster connect at the same time


@contextmanager
def serving(api: API, port: int = 0) -> Generator[str, None, None]:
    """Serve an API in background threads within a ``with`` block, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            response = api.handle(self.path, self.headers["Authorization"])
            self.send_response(response.status)
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(response.content)))
            self.end_headers()
            self.wfile.write(response.content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with _Server(("127.0.0.1", port), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def main() -> None:
    """Run the server until the process is stopped."""
    parser = argparse.ArgumentParser(prog="server.py")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--regions", type=int, default=50, help="number of regions")
    parser.add_argument("--records", type=int, default=100, help="number of orders per region")
    parser.add_argument("--until", default=UNTIL, help="time up to which there are records")
    parser.add_argument("--latency", type=float, default=0.0, help="delay of a response in seconds")
    parser.add_argument("--fail", action="append", default=[], metavar="TEXT[=TIMES]")
    parser.add_argument("--most", type=int, help="maximum number of requests per second")
    options = parser.parse_args()
    fails = {
        text: int(times or ALWAYS) for text, _, times in (f.partition("=") for f in options.fail)
    }
    api = API(
        options.regions,
        options.records,
        until=options.until,
        latency=options.latency,
        fails=fails,
        most=options.most,
    )
    with serving(api, options.port) as url:
        print(url, flush=True)
        Event().wait()


if __name__ == "__main__":
    main()
