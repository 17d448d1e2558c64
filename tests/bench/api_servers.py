"""APIs on loopback that the manifests of benchmarks read.

They run in a thread of the benchmark, so their CPU time is not part of a result. All records are
encoded before the first request. `/readings?from=&to=&page=` returns the records of a period in
pages of a hundred, `/parents?page=` the parents, and `/parents/N/children` the five records of a
parent.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from tests.bench.json_server import Query, serve_json
from tests.bench.programs import generator

__all__ = [
    "CHILDREN",
    "END",
    "START",
    "child_records",
    "make_readings",
    "serve_parents",
    "serve_readings",
]

FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
START: Final = "2023-01-01T00:00:00Z"
END: Final = "2024-01-05T23:59:59Z"
"""The end of 37 periods of ten days."""
CHILDREN: Final = 5
"""Records per parent."""
PAGE: Final = 100
"""Records per page."""


def make_readings(count: int) -> list[dict[str, Any]]:
    """Return records of eight columns, at regular intervals from START to END."""
    first, last = (datetime.strptime(text, FORMAT) for text in (START, END))  # noqa: DTZ007
    interval = (last - first) / max(count, 1)
    step = timedelta(seconds=int(interval.total_seconds()))
    times = ((first + number * step).strftime(FORMAT) for number in range(count))
    records = generator.narrow(count)
    return [{**record, "updated_at": time} for record, time in zip(records, times, strict=True)]


def child_records(part: int) -> list[dict[str, Any]]:
    """Return the records of one parent."""
    return [{"part": part, **record} for record in make_readings(CHILDREN)]


@contextmanager
def serve_readings(records: list[dict[str, Any]]) -> Iterator[str]:
    """Serve records by period during the block; yield the base URL."""
    times = [record["updated_at"] for record in records]
    encoded = [json.dumps(record).encode() for record in records]

    def get_body(_path: str, query: Query) -> bytes:
        begin, end = bisect_left(times, query["from"]), bisect_right(times, query["to"])
        start = begin + (int(query["page"]) - 1) * PAGE
        return _join(encoded[start : min(start + PAGE, end)])

    with serve_json(get_body) as url:
        yield url


@contextmanager
def serve_parents(count: int) -> Iterator[str]:
    """Serve parents and the children of each during the block; yield the base URL."""
    parents = [json.dumps(record).encode() for record in generator.parents(count)]
    children = [
        _join([json.dumps(record).encode() for record in child_records(part)])
        for part in range(count)
    ]

    def get_body(path: str, query: Query) -> bytes:
        segments = path.split("/")
        if len(segments) > 2:
            return children[int(segments[2])]
        start = (int(query["page"]) - 1) * PAGE
        return _join(parents[start : start + PAGE])

    with serve_json(get_body) as url:
        yield url


def _join(records: list[bytes]) -> bytes:
    return b'{"data": [' + b", ".join(records) + b"]}"
