"""What counts requests, so that no more are sent than a source takes.

Rules of the room: a counter hands out places under a lock and never waits itself: it says how
long its caller has to. What it is asked and what it answers is plain data, so that counters may
stand in this process or in another one that all processes of a job ask.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

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
"""How a budget counts."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What a budget allows: for each of ``rates`` so many requests in so many seconds.

    ``even`` spreads the requests of its one rate evenly, ``fixed`` counts from one moment to the
    next, at which the source counts anew, and ``moving`` holds each rate in any such time.
    """

    kind: LimitKind
    rates: tuple[tuple[float, float], ...]


class Reservation(NamedTuple):
    """Seconds to wait; and whether the request may be sent then, or its place be asked again."""

    wait: float
    is_taken: bool


class RateCounterStore(Protocol):
    """Counts the requests of budgets, each by its name."""

    def ask(self, name: str, terms: RateLimits, weight: int = 1) -> Reservation:
        """Ask for a place for a request that counts for ``weight`` of them."""
        ...

    def lower(
        self, name: str, terms: RateLimits, left: int | None, seconds: float | None = None
    ) -> None:
        """Learn how many requests the source leaves, and in how many seconds it counts anew."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes send requests that count."""
        ...


class _Counter(Protocol):
    """Counts the requests of one budget."""

    def ask(self, terms: RateLimits, weight: int) -> Reservation:
        """Ask for a place."""
        ...

    def lower(self, terms: RateLimits, left: int | None, seconds: float | None) -> None:
        """Learn from the source."""


class LeakyBucket:
    """Spreads requests evenly, without bursts: each gets a moment of its own, in turn."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self._free_at = float("-inf")
        self._lock = threading.Lock()

    def ask(self, terms: RateLimits, weight: int = 1) -> Reservation:
        """Take the next moment, however far off it is."""
        [(requests, seconds)] = terms.rates
        with self._lock:
            now = self._now()
            at = max(now, self._free_at)
            self._free_at = at + weight * seconds / requests
        return Reservation(at - now, is_taken=True)

    def lower(self, terms: RateLimits, left: int | None, seconds: float | None) -> None:  # noqa: ARG002
        """Give no moment before the source counts anew, where it leaves none."""
        if left == 0 and seconds is not None:
            with self._lock:
                self._free_at = max(self._free_at, self._now() + seconds)

    def _now(self) -> float:
        return (self._clock or time.monotonic)()


class FixedWindowCounter:
    """Counts requests from one moment to the next, at which the source counts anew."""

    def __init__(self) -> None:
        self._used = 0.0
        self._ends_at: float | None = None
        self._lock = threading.Lock()

    def ask(self, terms: RateLimits, weight: int) -> Reservation:
        """Take a place in this window, or say for how long it lasts."""
        [(limit, length)] = terms.rates
        with self._lock:
            now = time.monotonic()
            ends_at = self._renewed(now, length)
            if self._used + weight > limit:
                return Reservation(max(0.0, ends_at - now), is_taken=False)
            self._used += weight
            return Reservation(0.0, is_taken=True)

    def lower(self, terms: RateLimits, left: int | None, seconds: float | None) -> None:
        """Take over what is left where it is less, and when this window ends."""
        [(limit, length)] = terms.rates
        with self._lock:
            now = time.monotonic()
            self._renewed(now, length)
            if left is not None:
                self._used = max(self._used, limit - left)
            if seconds is not None:
                self._ends_at = now + seconds

    def _renewed(self, now: float, length: float) -> float:
        """Begin the window that this moment is in; return its end."""
        if self._ends_at is None:
            self._ends_at = now + length
        elif now >= self._ends_at:
            self._ends_at += (math.floor((now - self._ends_at) / length) + 1) * length
            self._used = 0
        return self._ends_at


class SlidingWindowCounter:
    """Remembers when the latest requests were sent, so that each rate holds at any time."""

    def __init__(self) -> None:
        self._moments: deque[float] = deque()
        self._lock = threading.Lock()

    def ask(self, terms: RateLimits, weight: int) -> Reservation:
        """Take a place, or say when there is one."""
        with self._lock:
            now = time.monotonic()
            wait = max(self._until_free(rate, weight, now) for rate in terms.rates)
            if wait > 0:
                return Reservation(wait, is_taken=False)
            self._add(terms, weight, now)
            return Reservation(0.0, is_taken=True)

    def lower(self, terms: RateLimits, left: int | None, seconds: float | None) -> None:
        """Wait for one interval where nothing is left, and it is not said until when."""
        if left != 0 or seconds is not None:
            return
        with self._lock:
            now = time.monotonic()
            free = min(limit - self._sent_within(length, now) for limit, length in terms.rates)
            self._add(terms, max(0, int(free)), now)

    def _until_free(self, rate: tuple[float, float], weight: int, now: float) -> float:
        """Return the seconds until ``weight`` more requests fit into a rate."""
        limit, length = rate
        blocking = len(self._moments) - (int(limit) - weight) - 1
        return self._moments[blocking] + length - now if blocking >= 0 else 0.0

    def _sent_within(self, length: float, now: float) -> int:
        return sum(moment > now - length for moment in self._moments)

    def _add(self, terms: RateLimits, count: int, now: float) -> None:
        self._moments.extend([now] * count)
        most = int(max(limit for limit, _ in terms.rates))
        while len(self._moments) > most:
            self._moments.popleft()


_KINDS: Final[dict[LimitKind, Callable[[], _Counter]]] = {
    "even": LeakyBucket,
    "fixed": FixedWindowCounter,
    "moving": SlidingWindowCounter,
}


class InProcessCounters:
    """Counters of this process, made as they are asked for."""

    is_shared = False

    def __init__(self) -> None:
        self._counters: dict[tuple[str, LimitKind], _Counter] = {}
        self._lock = threading.Lock()

    def ask(self, name: str, terms: RateLimits, weight: int = 1) -> Reservation:
        """Ask the counter of that name for a place."""
        return self._get_counter(name, terms.kind).ask(terms, weight)

    def lower(
        self, name: str, terms: RateLimits, left: int | None, seconds: float | None = None
    ) -> None:
        """Tell the counter of that name what the source says."""
        self._get_counter(name, terms.kind).lower(terms, left, seconds)

    def _get_counter(self, name: str, kind: LimitKind) -> _Counter:
        with self._lock:
            found = self._counters.get((name, kind))
            if found is None:
                found = self._counters[name, kind] = _KINDS[kind]()
            return found
