"""APIs on loopback that manifests are made for, in a thread here: what they cost is nobody's.

Every record is bytes before the first request; an answer is only put together.
`/readings?from=&to=&page=` gives the records of a window in pages of a hundred, `/parents?page=`
the parents, `/parents/N/children` five records of each.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from tests.bench.answering import Query, answering
from tests.bench.programs import made

__all__ = ["CHILDREN", "END", "START", "children", "families", "readings", "records_between"]

FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
START: Final = "2023-01-01T00:00:00Z"
END: Final = "2024-01-05T23:59:59Z"
"""37 times ten days."""
CHILDREN: Final = 5
PAGE: Final = 100


def records_between(count: int) -> list[dict[str, Any]]:
    """Return so many records of eight columns, evenly from START to END."""
    first, last = (datetime.strptime(text, FORMAT) for text in (START, END))  # noqa: DTZ007
    step = (last - first) / max(count, 1)
    whole = timedelta(seconds=int(step.total_seconds()))
    moments = ((first + number * whole).strftime(FORMAT) for number in range(count))
    return [{**row, "updated_at": at} for row, at in zip(made.narrow(count), moments, strict=True)]


def children(part: int) -> list[dict[str, Any]]:
    """Return the records of one parent."""
    return [{"part": part, **row} for row in records_between(CHILDREN)]


@contextmanager
def readings(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Serve records by windows of time; give the URL before the paths."""
    moments = [row["updated_at"] for row in rows]
    encoded = [json.dumps(row).encode() for row in rows]

    def answer(_: str, query: Query) -> bytes:
        begin, end = bisect_left(moments, query["from"]), bisect_right(moments, query["to"])
        start = begin + (int(query["page"]) - 1) * PAGE
        return _data(encoded[start : min(start + PAGE, end)])

    with answering(answer) as url:
        yield url


@contextmanager
def families(parents: int) -> Iterator[str]:
    """Serve so many parents and the children of each; give the URL before the paths."""
    encoded = [json.dumps(row).encode() for row in made.parents(parents)]
    of_parent = [
        _data([json.dumps(row).encode() for row in children(part)]) for part in range(parents)
    ]

    def answer(path: str, query: Query) -> bytes:
        words = path.split("/")
        if len(words) > 2:
            return of_parent[int(words[2])]
        start = (int(query["page"]) - 1) * PAGE
        return _data(encoded[start : start + PAGE])

    with answering(answer) as url:
        yield url


def _data(rows: list[bytes]) -> bytes:
    return b'{"data": [' + b", ".join(rows) + b"]}"
