"""Rate limiters: a number of requests per period, shared by all streams of a tap.

- Requests are spread evenly, without bursts, so that no period contains more than allowed.
- A slot is reserved under the lock and waited for outside of it, so that threads queue up
  instead of waiting for one another's sleep.
- Limiters belong to an owner, the tap. Where several processes read for one job, the counters
  can be replaced by shared ones (`use_shared_counters`); callers of `RateLimiter` do not change.
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
    """Rate limiter that makes the caller wait until a request may be sent.

    ``clock`` returns the current time in monotonic seconds, and ``sleep`` waits. ``ask`` is a
    function that reserves a request in a counter. If it is None, the limiter has its own counter.
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
        """Wait until one more request is allowed: at most ``requests`` per ``period`` seconds.

        Returns:
            The seconds waited.

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
    """Rate limiters of one tap (the owner) by name, with the counters that they use."""

    def __init__(self, counters: RateCounterStore) -> None:
        self.counters = counters
        self._named: dict[str, RateLimiter] = {}

    def of(self, name: str) -> RateLimiter:
        """Return the limiter with this name, created on first use."""
        made = self._named.get(name)
        if made is None:
            counters = self.counters
            made = self._named[name] = RateLimiter(ask=lambda terms: counters.ask(name, terms))
        return made


_shared: WeakKeyDictionary[object, _Budgets] = WeakKeyDictionary()
_shared_lock = threading.Lock()


def get_shared_limiter(owner: object, name: str = "") -> RateLimiter:
    """Return the rate limiter named ``name`` of a tap (the owner), shared by all its streams.

    It is created on first use and lives as long as the tap.
    """
    with _shared_lock:
        return _budgets(owner).of(name)


def get_counters(owner: object) -> RateCounterStore:
    """Return the request counters of a tap (the owner)."""
    with _shared_lock:
        return _budgets(owner).counters


def use_shared_counters(owner: object, counters: RateCounterStore) -> None:
    """Replace the request counters of a tap (the owner) with counters that processes share."""
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
    """Wait until the rate limits of a stream and of its tap allow one more request.

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

    If there are no other processes, nothing is done.
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
