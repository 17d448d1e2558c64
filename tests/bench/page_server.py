"""An API on loopback that returns records in pages.

It runs in a thread of the benchmark, so its CPU time is not part of a result. All pages are encoded
before the first request. `/orders?page=N` returns the records of a page and the number of the next
page.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench.json_server import Query, serve_json
from tests.bench.programs import generator

__all__ = ["serve_pages"]

PAGE = 100
"""Records per page."""


@contextmanager
def serve_pages(
    records: int, *, page: int = PAGE, delay: float = 0.0, times: list[float] | None = None
) -> Iterator[str]:
    """Serve generated records during the block; yield the base URL.

    Args:
        records: The number of records.
        page: Records per page.
        delay: Seconds before each response.
        times: A list to which the server adds the monotonic time of each request and response.
    """
    pages = _encode_pages(records, page)

    def get_body(_path: str, query: Query) -> bytes:
        if times is not None:
            times.append(time.monotonic())
        if delay:
            time.sleep(delay)
        if times is not None:
            times.append(time.monotonic())
        return pages[int(query.get("page", "1")) - 1]

    with serve_json(get_body) as url:
        yield url


def _encode_pages(records: int, page: int) -> list[bytes]:
    """Return the body of each page."""
    rows = list(generator.narrow(records))
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
