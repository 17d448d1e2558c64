"""A budget of requests: so many in a period, for whoever shares it.

Rules of the room: requests are spread evenly, without bursts, so that no window of time
sees more than the rate allows. A place is taken under the lock and waited for outside of
it, so that threads queue up and do not wait for one another's sleep. Budgets belong to an
owner, a tap; where several processes read for one job, the counters of its budgets are told
to stand elsewhere (`use_shared_counters`), and whoever takes a place notices nothing of it.
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
    """Hands out the moments at which requests may be sent.

    ``clock`` gives seconds that never go back, ``sleep`` waits for some. With ``ask``, the
    moments are handed out by whoever answers it.
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
        """Wait until one more request fits into ``requests`` per ``period`` seconds.

        Returns:
            The seconds waited.

        Raises:
            ValueError: the number of requests is not above zero.
        """
        if not requests > 0:
            raise ValueError(f"A rate limit must be above zero, and {requests!r} is not.")
        wait = self._ask(_even(requests, period)).wait
        if wait > 0:
            (self._sleep or time.sleep)(wait)
        return wait


class _Budgets:
    """The budgets of one owner, and what counts them."""

    def __init__(self, counters: RateCounterStore) -> None:
        self.counters = counters
        self._named: dict[str, RateLimiter] = {}

    def of(self, name: str) -> RateLimiter:
        """Return the budget of that name."""
        made = self._named.get(name)
        if made is None:
            counters = self.counters
            made = self._named[name] = RateLimiter(ask=lambda terms: counters.ask(name, terms))
        return made


_shared: WeakKeyDictionary[object, _Budgets] = WeakKeyDictionary()
_shared_lock = threading.Lock()


def get_shared_limiter(owner: object, name: str = "") -> RateLimiter:
    """Return the one budget of that name of an owner, a tap; it lives as long as the owner."""
    with _shared_lock:
        return _budgets(owner).of(name)


def get_counters(owner: object) -> RateCounterStore:
    """Return what counts an owner's requests."""
    with _shared_lock:
        return _budgets(owner).counters


def use_shared_counters(owner: object, counters: RateCounterStore) -> None:
    """Let an owner's requests be counted by these counters, with those of other processes."""
    with _shared_lock:
        _shared[owner] = _Budgets(counters)


def _budgets(owner: object) -> _Budgets:
    found = _shared.get(owner)
    if found is None:
        found = _shared[owner] = _Budgets(InProcessCounters())
    return found


def _even(requests: float, period: float = 1.0) -> RateLimits:
    return RateLimits("even", ((requests, period),))


# What a stream asks for each of its requests


def wait_for_slot(owner: Any, stream: str, limit: float | None) -> None:
    """Wait until the rate limits of a stream and of its tap let one more request pass.

    The tap's comes last, so that it holds whatever a stream waited for before. Where other
    processes read the same source, also until the moment that the source told one of them.
    """
    if limit is not None or get_counters(owner).is_shared:
        get_shared_limiter(owner, _named(stream)).take(math.inf if limit is None else limit)
    if of_all := getattr(owner, "rate_limit", None):
        get_shared_limiter(owner).take(of_all)


def report_retry_after(owner: object, stream: str, response: Any) -> None:
    """Tell the other processes of a job when the source asks to come back.

    In one process, the thread that was told waits, and the others find out by themselves.
    """
    counters = get_counters(owner)
    if response.status_code != _TOO_MANY_REQUESTS or not counters.is_shared:
        return
    from tap_core.http.retry import retry_after

    seconds = retry_after(SimpleNamespace(response=response))
    if seconds is not None:
        counters.lower(_named(stream), _even(math.inf), 0, seconds)


def _named(stream: str) -> str:
    return f"stream {stream}"
