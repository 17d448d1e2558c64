"""Rate limiters: a maximum number of requests per period, shared by all streams of a tap.

- Requests are spread evenly, without bursts, so that no period exceeds the limit.
- A limiter reserves a time slot under a lock, but sleeps without the lock, so that other threads
  can reserve theirs meanwhile.
- Each limiter belongs to a tap (``owner``). If several processes run one sync,
  `use_shared_counters` replaces the tap's counters with counters that the processes share.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final
from weakref import WeakKeyDictionary

from tap_core.http.rate_limit_counters import (
    InProcessCounters,
    LeakyBucket,
    RateCounterStore,
    RateLimits,
    Reservation,
)

__all__ = [
    "RateLimiter",
    "get_counters",
    "get_shared_limiter",
    "report_retry_after",
    "use_shared_counters",
    "wait_for_slot",
]

_TOO_MANY_REQUESTS: Final = 429


class RateLimiter:
    """Rate limiter that makes the caller sleep until a request may be sent.

    Args:
        clock: Function that returns monotonic seconds.
        sleep: Function that sleeps for a number of seconds; by default `time.sleep`.
        reserve: Function that reserves a time slot in a counter; by default the limiter has its own
            counter, which uses ``clock``.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        reserve: Callable[[RateLimits], Reservation] | None = None,
    ) -> None:
        self._reserve = reserve or LeakyBucket(clock).reserve
        self._sleep = sleep

    def take(self, requests: float, period: float = 1.0) -> float:
        """Sleep until one more request is allowed, and return the seconds slept.

        At most ``requests`` are allowed in each ``period`` (in seconds).

        Raises:
            ValueError: ``requests`` is not positive.
        """
        if not requests > 0:
            raise ValueError(f"A rate limit must be above zero, and {requests!r} is not.")
        wait = self._reserve(_make_limits(requests, period)).wait
        if wait > 0:
            (self._sleep or time.sleep)(wait)
        return wait


class _TapLimiters:
    """Rate limiters of one tap by name, with the request counters that they use."""

    def __init__(self, counters: RateCounterStore) -> None:
        self.counters = counters
        self._limiters: dict[str, RateLimiter] = {}

    def get(self, name: str) -> RateLimiter:
        """Return the rate limiter with a name; it is created on first use."""
        limiter = self._limiters.get(name)
        if limiter is None:
            counters = self.counters
            limiter = RateLimiter(reserve=lambda terms: counters.reserve(name, terms))
            self._limiters[name] = limiter
        return limiter


_shared: WeakKeyDictionary[object, _TapLimiters] = WeakKeyDictionary()
_shared_lock = threading.Lock()


def get_shared_limiter(owner: object, name: str = "") -> RateLimiter:
    """Return the rate limiter that all streams of a tap share under a name.

    It is created on first use and exists as long as the tap, ``owner``.
    """
    with _shared_lock:
        return _get_limiters(owner).get(name)


def get_counters(owner: object) -> RateCounterStore:
    """Return the request counters that the rate limiters of the tap ``owner`` use."""
    with _shared_lock:
        return _get_limiters(owner).counters


def use_shared_counters(owner: object, counters: RateCounterStore) -> None:
    """Make the rate limiters of the tap ``owner`` use request counters that processes share."""
    with _shared_lock:
        _shared[owner] = _TapLimiters(counters)


def _get_limiters(owner: object) -> _TapLimiters:
    found = _shared.get(owner)
    if found is None:
        found = _shared[owner] = _TapLimiters(InProcessCounters())
    return found


def _make_limits(requests: float, period: float = 1.0) -> RateLimits:
    """Return the limit for evenly spaced requests; ``period`` is in seconds."""
    return RateLimits("even", ((requests, period),))


# Called by a stream for each of its requests


def wait_for_slot(owner: Any, stream: str, limit: float | None) -> None:
    """Sleep until the rate limits of a stream and of its tap allow one more request.

    The tap's limit is applied last, so that waiting for the stream's limit cannot make the request
    exceed it. If several processes sync the tap, also wait for a Retry-After that another one
    received.

    Args:
        owner: Tap.
        stream: Name of the stream.
        limit: Requests per second of the stream; None means no limit.
    """
    if limit is not None or get_counters(owner).is_shared:
        get_shared_limiter(owner, _format_stream(stream)).take(math.inf if limit is None else limit)
    if tap_limit := getattr(owner, "rate_limit", None):
        get_shared_limiter(owner).take(tap_limit)


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

    seconds = retry_after(SimpleNamespace(response=response))
    if seconds is not None:
        counters.lower(_format_stream(stream), _make_limits(math.inf), 0, seconds)


def _format_stream(stream: str) -> str:
    return f"stream {stream}"
