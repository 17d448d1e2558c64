"""Counters of requests, which determine when a rate-limited request may be sent.

A counter reserves a time slot for a request and never sleeps: it returns the seconds that the
caller must wait. Arguments and results are plain data, so that all processes of a sync may call
counters in one other process.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

__all__ = [
    "FixedWindowCounter",
    "InProcessCounters",
    "LeakyBucket",
    "LimitKind",
    "RateCounterStore",
    "RateLimits",
    "Reservation",
    "SlidingWindowCounter",
]

LimitKind = Literal["even", "fixed", "moving"]
"""Counting method of rate limits; see `RateLimits`."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Rate limits that hold together for the same requests, for example those of one API.

    Attributes:
        kind: Counting method. ``even``: requests are spaced evenly. ``fixed``: requests are counted
            in consecutive windows of the period. ``moving``: the limit holds in every period of
            that length, whenever it begins.
        rates: The limits, each as (number of requests, period in seconds).
    """

    kind: LimitKind
    rates: tuple[tuple[float, float], ...]


class Reservation(NamedTuple):
    """Result of an attempt to reserve a time slot for a request.

    Attributes:
        wait: Seconds that the caller must wait.
        is_taken: True if the caller may send the request after waiting; False if it must wait and
            then try to reserve a slot again.
    """

    wait: float
    is_taken: bool


class RateCounterStore(Protocol):
    """Store of request counters, one for each budget (the requests that share rate limits)."""

    def reserve(self, name: str, terms: RateLimits, weight: int = 1) -> Reservation:
        """Try to reserve a time slot for a request, which counts as ``weight`` requests.

        ``name`` is the name of the request's budget, and ``terms`` are the rate limits of the
        budget.
        """
        ...

    def lower(
        self, name: str, terms: RateLimits, left: int | None, seconds: float | None = None
    ) -> None:
        """Lower the budget ``name`` to the number of remaining requests that the API reported.

        ``left`` is that number, and ``seconds`` the time until the API resets its count. Each is
        None if it was not reported. ``terms`` are the rate limits of the budget.
        """

    @property
    def is_shared(self) -> bool:
        """True if these request counters also count the requests of other processes."""
        ...


class LeakyBucket:
    """Counter for evenly spaced requests: it assigns to each request the next free time slot."""

    def __init__(self) -> None:
        self._free_at = float("-inf")
        self._lock = threading.Lock()

    def reserve(self, terms: RateLimits, weight: int = 1) -> Reservation:
        """Reserve ``weight`` consecutive time slots, and return the wait until the first one.

        ``terms`` contains the rate limit, which determines the length of a slot.
        """
        [(requests, seconds)] = terms.rates
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._free_at)
            self._free_at = begin + weight * seconds / requests
        return Reservation(begin - now, is_taken=True)

    def lower(self, terms: RateLimits, left: int | None, seconds: float | None) -> None:  # noqa: ARG002
        """If the API reports that no requests remain (``left`` is 0), block all slots for a time.

        ``seconds`` is the length of this time; if it was not reported, nothing is blocked.
        ``terms`` is ignored.
        """
        if left == 0 and seconds is not None:
            with self._lock:
                self._free_at = max(self._free_at, time.monotonic() + seconds)


class FixedWindowCounter:
    """Counter for fixed time windows; it is reset to 0 at the start of each window."""

    def __init__(self) -> None:
        self._used = 0.0
        self._ends_at: float | None = None
        self._lock = threading.Lock()

    def reserve(self, terms: RateLimits, weight: int) -> Reservation:
        """Reserve ``weight`` requests in the current window, or return the wait until the next one.

        ``terms`` contains the rate limit: the number of requests per window, and the window's
        seconds.
        """
        [(limit, length)] = terms.rates
        with self._lock:
            now = time.monotonic()
            ends_at = self._renew_window(now, length)
            if self._used + weight > limit:
                return Reservation(max(0.0, ends_at - now), is_taken=False)
            self._used += weight
            return Reservation(0.0, is_taken=True)

    def lower(self, terms: RateLimits, left: int | None, seconds: float | None) -> None:
        """Lower the number of remaining requests to the number that the API reported.

        ``left`` is that number, and ``seconds`` the time until the window ends. Either is missing
        (None) if the API did not report it. ``terms`` contains the rate limit.
        """
        [(limit, length)] = terms.rates
        with self._lock:
            now = time.monotonic()
            self._renew_window(now, length)
            if left is not None:
                self._used = max(self._used, limit - left)
            if seconds is not None:
                self._ends_at = now + seconds

    def _renew_window(self, now: float, length: float) -> float:
        """Return the end time of the current window; if it has ended, start a new window first.

        ``now`` is the current time, and ``length`` the length of a window in seconds.
        """
        if self._ends_at is None:
            self._ends_at = now + length
        elif now >= self._ends_at:
            self._ends_at += (math.floor((now - self._ends_at) / length) + 1) * length
            self._used = 0
        return self._ends_at


class SlidingWindowCounter:
    """Counter for limits that hold in any period: it stores the times of recent requests."""

    def __init__(self) -> None:
        self._moments: deque[float] = deque()
        self._lock = threading.Lock()

    def reserve(self, terms: RateLimits, weight: int) -> Reservation:
        """Reserve ``weight`` requests if the rate limits allow them now, otherwise return the wait.

        ``terms`` contains the rate limits.
        """
        with self._lock:
            now = time.monotonic()
            wait = max(self._until_free(rate, weight, now) for rate in terms.rates)
            if wait > 0:
                return Reservation(wait, is_taken=False)
            self._add(terms, weight, now)
            return Reservation(0.0, is_taken=True)

    def lower(self, terms: RateLimits, left: int | None, seconds: float | None) -> None:
        """Count the limit as used up if the API reports no remaining requests (``left`` is 0).

        As in airbyte-cdk, do nothing if the API also reports the ``seconds`` until the reset.
        ``terms`` contains the rate limits.
        """
        if left != 0 or seconds is not None:
            return
        with self._lock:
            now = time.monotonic()
            free = min(
                limit - sum(moment > now - length for moment in self._moments)
                for limit, length in terms.rates
            )
            self._add(terms, max(0, int(free)), now)

    def _until_free(self, rate: tuple[float, float], weight: int, now: float) -> float:
        """Return the seconds until ``weight`` more requests are within a rate limit.

        ``rate`` is the limit: (number of requests, period in seconds).
        """
        limit, length = rate
        blocking = len(self._moments) - (int(limit) - weight) - 1
        return self._moments[blocking] + length - now if blocking >= 0 else 0.0

    def _add(self, terms: RateLimits, count: int, now: float) -> None:
        self._moments.extend([now] * count)
        most = int(max(limit for limit, _ in terms.rates))
        while len(self._moments) > most:
            self._moments.popleft()


_RequestCounter: TypeAlias = LeakyBucket | FixedWindowCounter | SlidingWindowCounter
"""Counter of the requests of one budget."""

_KINDS: Final[dict[LimitKind, Callable[[], _RequestCounter]]] = {
    "even": LeakyBucket,
    "fixed": FixedWindowCounter,
    "moving": SlidingWindowCounter,
}


class InProcessCounters:
    """Store of request counters in the memory of this process, with one counter per budget."""

    is_shared = False

    def __init__(self) -> None:
        self._counters: dict[tuple[str, LimitKind], _RequestCounter] = {}
        self._lock = threading.Lock()

    def reserve(self, name: str, terms: RateLimits, weight: int = 1) -> Reservation:
        """Try to reserve a time slot for a request, which counts as ``weight`` requests.

        ``name`` is the name of the request's budget, and ``terms`` are the budget's rate limits.
        """
        return self._get_counter(name, terms.kind).reserve(terms, weight)

    def lower(
        self, name: str, terms: RateLimits, left: int | None, seconds: float | None = None
    ) -> None:
        """Lower the budget ``name`` to the number of remaining requests that the API reported.

        ``left`` is that number, and ``seconds`` the time until the API resets its count. Each is
        None if it was not reported. ``terms`` are the rate limits of the budget.
        """
        self._get_counter(name, terms.kind).lower(terms, left, seconds)

    def _get_counter(self, name: str, kind: LimitKind) -> _RequestCounter:
        with self._lock:
            counter = self._counters.get((name, kind))
            if counter is None:
                counter = self._counters[name, kind] = _KINDS[kind]()
            return counter
