"""Rate limits: a maximum number of requests per second, shared by all streams of a tap.

- Requests are spread evenly, without bursts, so that no second exceeds the limit.
- A thread reserves a time slot under a lock, but sleeps without the lock, so that other threads
  can reserve slots meanwhile.
- The request counters belong to a tap (``owner``). If several processes run one sync,
  `use_shared_counters` replaces the tap's counters with counters that the processes share.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any, Final
from weakref import WeakKeyDictionary

from tap_core.http.rate_limit_counters import InProcessCounters, RateCounterStore, RateLimits

__all__ = ["get_counters", "report_retry_after", "use_shared_counters", "wait_for_slot"]

_TOO_MANY_REQUESTS: Final = 429

_counters: WeakKeyDictionary[object, RateCounterStore] = WeakKeyDictionary()
_lock = threading.Lock()


def get_counters(owner: object) -> RateCounterStore:
    """Return the request counters of the tap ``owner``; they are created on first use."""
    with _lock:
        counters = _counters.get(owner)
        if counters is None:
            counters = _counters[owner] = InProcessCounters()
        return counters


def use_shared_counters(owner: object, counters: RateCounterStore) -> None:
    """Make the rate limits of the tap ``owner`` use ``counters``, which several processes share."""
    with _lock:
        _counters[owner] = counters


def _take_slot(counters: RateCounterStore, name: str, requests: float) -> None:
    """Sleep until a rate limit of ``requests`` requests per second allows one more request.

    ``counters`` contains the counter of the limit, under the name ``name``.

    Raises:
        ValueError: ``requests`` is not positive.
    """
    if not requests > 0:
        raise ValueError(f"A rate limit must be above zero, and {requests!r} is not.")
    wait = counters.reserve(name, _make_limits(requests)).wait
    if wait > 0:
        time.sleep(wait)


def _make_limits(requests: float) -> RateLimits:
    """Return the rate limit for ``requests`` evenly spaced requests per second."""
    return RateLimits("even", ((requests, 1.0),))


# Called by a stream for each of its requests


def wait_for_slot(owner: Any, stream: str, limit: float | None) -> None:
    """Sleep until the rate limits of a stream and of its tap allow one more request.

    The limit of the stream comes first, so that a slot in the tap's limit is reserved only when the
    stream can use it at once. If another process that syncs the same tap has received a Retry-After
    header, the function also waits for the time in that header.

    Args:
        owner: Tap.
        stream: Name of the stream.
        limit: Requests per second of the stream; None means no limit.
    """
    counters = get_counters(owner)
    if limit is not None or counters.is_shared:
        _take_slot(counters, _format_stream(stream), math.inf if limit is None else limit)
    if tap_limit := getattr(owner, "rate_limit", None):
        _take_slot(counters, "", tap_limit)


def report_retry_after(owner: object, stream: str, response: Any) -> None:
    """Share the Retry-After time of a 429 response with other processes that sync the same tap.

    Other responses are ignored, and so is any response if the tap runs in only one process.
    """
    if response.status_code != _TOO_MANY_REQUESTS:
        return
    counters = get_counters(owner)
    if not counters.is_shared:
        return
    from tap_core.http.retry import retry_after

    seconds = retry_after(response)
    if seconds is not None:
        counters.lower(_format_stream(stream), _make_limits(math.inf), 0, seconds)


def _format_stream(stream: str) -> str:
    return f"stream {stream}"
