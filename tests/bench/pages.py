"""A server of JSON pages on loopback, in a thread of the benchmark: its cost is not counted.

All answers are made before the first request. `/orders?page=N` gives a hundred
records and the number of the next page.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench.answering import Query, answering
from tests.bench.programs import made

__all__ = ["serving"]

PAGE = 100


@contextmanager
def serving(
    records: int, *, page: int = PAGE, pause: float = 0.0, asked: list[float] | None = None
) -> Iterator[str]:
    """Serve so many records, each page after so many seconds; give the URL before the paths.

    ``asked`` gets the moments at which requests came, and those at which answers were ready.
    """
    answers = _pages(records, page)

    def answer(_path: str, query: Query) -> bytes:
        if asked is not None:
            asked.append(time.monotonic())
        if pause:
            time.sleep(pause)
        if asked is not None:
            asked.append(time.monotonic())
        return answers[int(query.get("page", "1")) - 1]

    with answering(answer) as url:
        yield url


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
