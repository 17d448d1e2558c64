"""Rate limiters: a maximum number of requests per period, shared by all streams of a tap.

- Requests are spread evenly, without bursts, so that no period exceeds the limit.
- A limiter reserves a time slot under a lock, but sleeps without the lock, so that other threads
  can reserve theirs meanwhile.
- Limiters belong to a tap, their owner. If several processes run one sync, `use_shared_counters`
  replaces the counters by ones that the processes share.
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

    ``clock`` returns monotonic seconds, and ``sleep`` replaces `time.sleep`. ``ask`` reserves a
    request in a counter; with None, the limiter has a separate counter.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        ask: Callable[[RateLimits], Reservation] | None = None,
    ) -> None:
        self._ask = ask or LeakyBucket(clock).ask
        self._sleep = sleep

    def take(self, requests: float, period: float = 1.0) -> float:
        """Sleep until one more request is allowed, and return the seconds slept.

        At most ``requests`` are allowed per ``period``, in seconds.

        Raises:
            ValueError: ``requests`` is not positive.
        """
        if not requests > 0:
            raise ValueError(f"A rate limit must be above zero, and {requests!r} is not.")
        wait = self._ask(_even(requests, period)).wait
        if wait > 0:
            (self._sleep or time.sleep)(wait)
        return wait


class _Budgets:
    """Rate limiters of one tap, each with a name, and the counters that they use."""

    def __init__(self, counters: RateCounterStore) -> None:
        self.counters = counters
        self._named: dict[str, RateLimiter] = {}

    def of(self, name: str) -> RateLimiter:
        """Return the limiter of the budget ``name``, created on first use."""
        made = self._named.get(name)
        if made is None:
            counters = self.counters
            made = self._named[name] = RateLimiter(ask=lambda terms: counters.ask(name, terms))
        return made


_shared: WeakKeyDictionary[object, _Budgets] = WeakKeyDictionary()
_shared_lock = threading.Lock()


def get_shared_limiter(owner: object, name: str = "") -> RateLimiter:
    """Return the rate limiter named ``name`` that all streams of a tap share.

    It is created on first use and exists as long as the tap, ``owner``.
    """
    with _shared_lock:
        return _budgets(owner).of(name)


def get_counters(owner: object) -> RateCounterStore:
    """Return the request counters of the tap ``owner``."""
    with _shared_lock:
        return _budgets(owner).counters


def use_shared_counters(owner: object, counters: RateCounterStore) -> None:
    """Replace the request counters of the tap ``owner`` by counters shared between processes."""
    with _shared_lock:
        _shared[owner] = _Budgets(counters)


def _budgets(owner: object) -> _Budgets:
    found = _shared.get(owner)
    if found is None:
        found = _shared[owner] = _Budgets(InProcessCounters())
    return found


def _even(requests: float, period: float = 1.0) -> RateLimits:
    return RateLimits("even", ((requests, period),))


# Called by a stream for each of its requests


def wait_for_slot(owner: Any, stream: str, limit: float | None) -> None:
    """Sleep until the rate limits of a stream and of its tap allow one more request.

    The tap's limit is applied last, so that waiting for the stream's limit cannot make the request
    exceed it. With shared counters, also wait for a Retry-After that another process received.

    Args:
        owner: Tap.
        stream: Name of the stream.
        limit: Requests per second of the stream; None means no limit.
    """
    if limit is not None or get_counters(owner).is_shared:
        get_shared_limiter(owner, _format_stream(stream)).take(math.inf if limit is None else limit)
    if of_all := getattr(owner, "rate_limit", None):
        get_shared_limiter(owner).take(of_all)


def report_retry_after(owner: object, stream: str, response: Any) -> None:
    """Share the Retry-After of a 429 response with other processes that sync the same tap.

    Nothing happens for other responses, or if the tap runs in one process.
    """
    if response.status_code != _TOO_MANY_REQUESTS:
        return
    counters = get_counters(owner)
    if not counters.is_shared:
        return
    from tap_core.http.retry import retry_after

    seconds = retry_after(SimpleNamespace(response=response))
    if seconds is not None:
        counters.lower(_format_stream(stream), _even(math.inf), 0, seconds)


def _format_stream(stream: str) -> str:
    return f"stream {stream}"
