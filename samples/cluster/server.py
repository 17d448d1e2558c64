"""The API that `tap_regions` reads, for those who try it: made-up records, real manners.

`python samples/cluster/server.py` prints its address and serves until it is stopped. Every record
follows from its number, so whoever reads a table knows what must be in it. What happens after
`--until` is not there yet. With `--latency 0.1` each page takes as long; `--fail region-07` is out
of order for good where a request says so, `--fail region-07=3` three times; `--most 20` answers
twenty requests a second and tells the others to come back. It wants the token `t-1`. Nothing here
knows about taps.
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

__all__ = ["API", "Answer", "Asked", "serving"]

TOKEN = "t-1"  # noqa: S105  (of a service that has no secrets)
FORMAT = "%Y-%m-%dT%H:%M:%SZ"
START = datetime(2024, 1, 1, tzinfo=timezone.utc)
UNTIL = "2024-01-15T00:00:00Z"
ALWAYS = -1
EVENTS_A_DAY = 24
MOST_A_PAGE = 1_000
Row = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What goes back: a status, a document as bytes, and headers."""

    status: int
    content: bytes
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Asked:
    """One request: its path with the query, when it came, and what it was answered."""

    target: str
    at: float
    status: int


@dataclass
class API:
    """The answers, whatever they are sent through; ``asked`` are the requests that came.

    ``records`` are the orders of each region. ``latency`` is in seconds, and for each answer.
    ``fails`` says for pieces of a request's path or query how many times still a request with it
    fails, ``ALWAYS`` for all of them. ``most`` requests are answered in any one second.
    """

    regions: int = 50
    records: int = 100
    customers: int = 20
    notes: int = 5
    until: str = UNTIL
    latency: float = 0.0
    fails: dict[str, int] = field(default_factory=dict[str, int])
    most: int | None = None
    asked: list[Asked] = field(default_factory=list[Asked])
    _answered: deque[float] = field(default_factory=deque[float], repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    # What there is

    def names(self) -> list[str]:
        """Return the regions."""
        return [f"region-{number:02}" for number in range(self.regions)]

    def orders(self, region: str, since: str = "") -> list[Row]:
        """Return the orders of a region in the order of their numbers, which is not that of time.

        There is one for each hour.
        """
        numbers = range(min(self.records, self._hours()))
        return self._between((_order(region, number) for number in numbers), since)

    def events(self, first: str = "", last: str = "") -> list[Row]:
        """Return the events from one moment to another, both included: one for each hour."""
        return self._between((_event(number) for number in range(self._hours())), first, last)

    def people(self) -> list[Row]:
        """Return the customers."""
        return [{"id": n, "name": f"Customer {n}"} for n in range(1, self.customers + 1)]

    def notes_of(self, customer: int, since: str = "") -> list[Row]:
        """Return the notes on a customer, oldest first: one a day."""
        return self._between((_note(customer, number) for number in range(self.notes)), since)

    def _hours(self) -> int:
        """Return more hours than there are from the start to the end."""
        return max(0, int((_moment(self.until) - START).total_seconds()) // 3600 + 10)

    def _between(self, rows: Iterable[Row], first: str, last: str = "") -> list[Row]:
        end = min(last or self.until, self.until)
        return [row for row in rows if first <= row["updated_at"] <= end]

    # What is answered

    def answer(self, target: str, token: str | None) -> Answer:
        """Answer a request for a path with its query; it takes as long as ``latency`` says."""
        time.sleep(self.latency)
        with self._lock:
            answer = self._refusal(target, token)
            found = answer or Answer(200, b"")
            self.asked.append(Asked(target, time.time(), found.status))
        return answer or self._answer(target)

    def _refusal(self, target: str, token: str | None) -> Answer | None:
        if token != f"Bearer {TOKEN}":
            return _said(401, "Who are you?")
        if self.most is not None and self._is_too_fast(self.most):
            return _said(429, "Not so fast.", {"Retry-After": "1"})
        for piece, times in self.fails.items():
            if piece in target and times:
                self.fails[piece] = times if times == ALWAYS else times - 1
                return _said(500, f"Out of order: {piece}.")
        return None

    def _is_too_fast(self, most: int) -> bool:
        now = time.monotonic()
        while self._answered and self._answered[0] <= now - 1:
            self._answered.popleft()
        if len(self._answered) >= most:
            return True
        self._answered.append(now)
        return False

    def _answer(self, target: str) -> Answer:
        address = urlsplit(target)
        query = dict(parse_qsl(address.query))
        size = min(int(query.get("limit", "50")), MOST_A_PAGE)
        begin = int(query.get("cursor", "0"))
        rows = self._rows(address.path.strip("/").split("/"), query)
        if rows is None:
            return _said(404, "There is no such thing.")
        end = begin + size
        following = str(end) if end < len(rows) else None
        return Answer(200, json.dumps({"data": rows[begin:end], "next": following}).encode())

    def _rows(self, path: list[str], query: dict[str, str]) -> Sequence[Row] | None:
        since = query.get("updated_since", "")
        match path:
            case ["regions", region, "orders"] if region in self.names():
                return self.orders(region, since)
            case ["events"]:
                return self.events(query.get("from", ""), query.get("to", ""))
            case ["customers"]:
                return self.people()
            case ["customers", customer, "notes"] if customer.isdecimal():
                return self.notes_of(int(customer), since)
            case _:
                return None


def _said(status: int, text: str, headers: dict[str, str] | None = None) -> Answer:
    return Answer(status, json.dumps({"error": text}).encode(), headers or {})


# ------------------------------------------------------------------------- the data


@lru_cache(maxsize=100_000)
def _order(region: str, number: int) -> Row:
    """Of each ten orders the later are not those that changed later."""
    hour = number // 10 * 10 + number * 7 % 10
    return {
        "id": number,
        "region": region,
        "amount": number * 25 % 10_000 / 100,
        "customer_id": number % 20 + 1,
        "note": f"Order {number} of {region}",
        "updated_at": _text(hour),
    }


def _event(number: int) -> Row:
    kind = ("opened", "paid", "sent")[number % 3]
    return {"id": f"e-{number}", "kind": kind, "updated_at": _text(number)}


def _note(customer: int, number: int) -> Row:
    at = _text(number * 24 + customer % 24)
    return {"customer_id": customer, "id": number, "text": f"Note {number}", "updated_at": at}


@lru_cache(maxsize=100_000)
def _text(hour: int) -> str:
    return (START + timedelta(hours=hour)).strftime(FORMAT)


def _moment(text: str) -> datetime:
    return datetime.strptime(text, FORMAT).replace(tzinfo=timezone.utc)


# ------------------------------------------------------------------------- the wire


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # a cluster comes all at once


@contextmanager
def serving(api: API, port: int = 0) -> Generator[str, None, None]:
    """Serve an API in threads of their own; give its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            answer = api.answer(self.path, self.headers["Authorization"])
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with _Server(("127.0.0.1", port), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(prog="server.py")
    parser.add_argument("--port", type=int, default=0, help="0 takes any that is free")
    parser.add_argument("--regions", type=int, default=50)
    parser.add_argument("--records", type=int, default=100, help="orders of each region")
    parser.add_argument("--until", default=UNTIL, help=f"a time such as {UNTIL}")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds for each answer")
    parser.add_argument("--fail", action="append", default=[], metavar="TEXT[=TIMES]")
    parser.add_argument("--most", type=int, help="requests that are answered in a second")
    asked = parser.parse_args()
    fails = {
        text: int(times or ALWAYS) for text, _, times in (f.partition("=") for f in asked.fail)
    }
    api = API(
        asked.regions,
        asked.records,
        until=asked.until,
        latency=asked.latency,
        fails=fails,
        most=asked.most,
    )
    with serving(api, asked.port) as address:
        print(address, flush=True)
        Event().wait()


if __name__ == "__main__":
    main()
