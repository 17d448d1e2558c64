"""Counters of requests for rate limits.

A counter reserves slots under a lock and never waits: it returns the seconds that the caller must
wait. Arguments and results are plain data, so that the counters may live in this process or in
another one that all processes of a job share.
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
"""Counting method of a budget."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The limits of a budget: each pair in ``rates`` is (number of requests, period in seconds).

    ``even`` spaces the requests of its single rate evenly. ``fixed`` counts requests per fixed
    window and restarts at its end, as the source does. ``moving`` enforces each rate in any window
    of its length.
    """

    kind: LimitKind
    rates: tuple[tuple[float, float], ...]


class Reservation(NamedTuple):
    """Result of a request for a slot: the seconds to wait, and True if the slot is reserved.

    If it is not reserved, the caller must request it again after the wait.
    """

    wait: float
    is_taken: bool


class RateCounterStore(Protocol):
    """Counters of requests, one per budget name."""

    def ask(self, name: str, terms: RateLimits, weight: int = 1) -> Reservation:
        """Request a slot for a request that counts as ``weight`` requests."""
        ...

    def lower(
        self, name: str, terms: RateLimits, left: int | None, seconds: float | None = None
    ) -> None:
        """Apply the remaining requests and the seconds until reset that the source reported."""

    @property
    def is_shared(self) -> bool:
        """True if requests of other processes are counted too."""
        ...


class LeakyBucket:
    """Counter that spaces requests evenly, without bursts: each request gets its own time slot."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self._free_at = float("-inf")
        self._lock = threading.Lock()

    def ask(self, terms: RateLimits, weight: int = 1) -> Reservation:
        """Reserve the next slot, regardless of how far in the future it is."""
        [(requests, seconds)] = terms.rates
        with self._lock:
            now = self._now()
            at = max(now, self._free_at)
            self._free_at = at + weight * seconds / requests
        return Reservation(at - now, is_taken=True)

    def lower(self, terms: RateLimits, left: int | None, seconds: float | None) -> None:  # noqa: ARG002
        """Reserve no slot before the source resets its count, if it has no requests remaining."""
        if left == 0 and seconds is not None:
            with self._lock:
                self._free_at = max(self._free_at, self._now() + seconds)

    def _now(self) -> float:
        return (self._clock or time.monotonic)()


class FixedWindowCounter:
    """Counter that restarts at the end of each fixed window."""

    def __init__(self) -> None:
        self._used = 0.0
        self._ends_at: float | None = None
        self._lock = threading.Lock()

    def ask(self, terms: RateLimits, weight: int) -> Reservation:
        """Reserve a slot in the current window, or return the seconds until the window ends."""
        [(limit, length)] = terms.rates
        with self._lock:
            now = time.monotonic()
            ends_at = self._renewed(now, length)
            if self._used + weight > limit:
                return Reservation(max(0.0, ends_at - now), is_taken=False)
            self._used += weight
            return Reservation(0.0, is_taken=True)

    def lower(self, terms: RateLimits, left: int | None, seconds: float | None) -> None:
        """Apply the source's remaining count if it is lower, and its reset as the window's end."""
        [(limit, length)] = terms.rates
        with self._lock:
            now = time.monotonic()
            self._renewed(now, length)
            if left is not None:
                self._used = max(self._used, limit - left)
            if seconds is not None:
                self._ends_at = now + seconds

    def _renewed(self, now: float, length: float) -> float:
        """Start the window that contains ``now``, if needed, and return the window's end."""
        if self._ends_at is None:
            self._ends_at = now + length
        elif now >= self._ends_at:
            self._ends_at += (math.floor((now - self._ends_at) / length) + 1) * length
            self._used = 0
        return self._ends_at


class SlidingWindowCounter:
    """Counter that keeps the latest requests' times, so that each rate holds in any window."""

    def __init__(self) -> None:
        self._moments: deque[float] = deque()
        self._lock = threading.Lock()

    def ask(self, terms: RateLimits, weight: int) -> Reservation:
        """Reserve a slot, or return the seconds until one is free."""
        with self._lock:
            now = time.monotonic()
            wait = max(self._until_free(rate, weight, now) for rate in terms.rates)
            if wait > 0:
                return Reservation(wait, is_taken=False)
            self._add(terms, weight, now)
            return Reservation(0.0, is_taken=True)

    def lower(self, terms: RateLimits, left: int | None, seconds: float | None) -> None:
        """Use up the free slots if the source has no requests remaining and gives no reset time."""
        if left != 0 or seconds is not None:
            return
        with self._lock:
            now = time.monotonic()
            free = min(
                limit - self._count_requests_within(length, now) for limit, length in terms.rates
            )
            self._add(terms, max(0, int(free)), now)

    def _until_free(self, rate: tuple[float, float], weight: int, now: float) -> float:
        """Return the seconds until ``weight`` more requests fit into a rate."""
        limit, length = rate
        blocking = len(self._moments) - (int(limit) - weight) - 1
        return self._moments[blocking] + length - now if blocking >= 0 else 0.0

    def _count_requests_within(self, length: float, now: float) -> int:
        return sum(moment > now - length for moment in self._moments)

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
    """Request counters in the memory of this process, one per budget, created on first use."""

    is_shared = False

    def __init__(self) -> None:
        self._counters: dict[tuple[str, LimitKind], _RequestCounter] = {}
        self._lock = threading.Lock()

    def ask(self, name: str, terms: RateLimits, weight: int = 1) -> Reservation:
        """Reserve ``weight`` requests in the budget ``name``, whose limits are ``terms``."""
        return self._get_counter(name, terms.kind).ask(terms, weight)

    def lower(
        self, name: str, terms: RateLimits, left: int | None, seconds: float | None = None
    ) -> None:
        """Pass the limits that the source reported to the counter with this name."""
        self._get_counter(name, terms.kind).lower(terms, left, seconds)

    def _get_counter(self, name: str, kind: LimitKind) -> _RequestCounter:
        with self._lock:
            found = self._counters.get((name, kind))
            if found is None:
                found = self._counters[name, kind] = _KINDS[kind]()
            return found
