"""How many requests a source takes in which time, whichever stream sends them.

Rules of the room: the first policy that a request matches counts it, and one that none matches
is not counted. A place is taken under a lock and waited for outside of it. What the API says of
what is left only lowers what is allowed. Words and rules are Airbyte's (its YAML reference,
"HTTPAPIBudget").
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import Final, Protocol
from urllib.parse import parse_qsl, urlsplit

import requests

from tap_core.incremental.durations import duration_of
from tap_core.manifest.errors import ManifestError

__all__ = [
    "FixedWindowCallRatePolicy",
    "HTTPAPIBudget",
    "HttpRequestRegexMatcher",
    "MovingWindowCallRatePolicy",
    "Rate",
    "UnlimitedCallRatePolicy",
]

_TOO_MANY: Final = 429
_LONGEST_DELAY: Final = 366 * 86_400
_SOME_DAY: Final = datetime(2001, 1, 1, tzinfo=timezone.utc)


def _seconds(duration: str) -> float:
    """Return the length of a period in seconds; a month is one of 31 days.

    Raises:
        ManifestError: it is none, or it is empty.
    """
    try:
        length = (duration_of(duration).after(_SOME_DAY) - _SOME_DAY).total_seconds()
    except ValueError as error:
        raise ManifestError(str(error)) from None
    if length <= 0:
        raise ManifestError(f"A budget counts requests in some time, and {duration!r} is none.")
    return length


@dataclass(frozen=True, kw_only=True)
class HttpRequestRegexMatcher:
    """Tells which requests a policy is for, and how many others one of them counts for."""

    method: str | None = None
    url_base: str | None = None
    url_path_pattern: str | None = None
    params: dict[str, str | int | float | bool] = field(default_factory=dict)
    headers: dict[str, str | int | float | bool] = field(default_factory=dict)
    weight: int | None = None

    def __post_init__(self) -> None:
        if self.weight is not None and self.weight < 1:
            raise ManifestError(f"A request has a `weight` of at least 1, and not {self.weight}.")
        try:
            _ = self._path
        except re.error as error:
            raise ManifestError(f"`url_path_pattern` is no regular expression: {error}.") from None

    def matches(self, request: requests.PreparedRequest) -> bool:
        """Return whether a request is meant."""
        parts = urlsplit(request.url or "")
        if self.method and (request.method or "").upper() != self.method.upper():
            return False
        if self.url_base and f"{parts.scheme}://{parts.netloc}" != self.url_base.rstrip("/"):
            return False
        if self._path and not self._path.search(parts.path.rstrip("/")):
            return False
        return _has(dict(parse_qsl(parts.query)), self.params) and _has(
            request.headers or {}, self.headers
        )

    @cached_property
    def _path(self) -> re.Pattern[str] | None:
        return re.compile(self.url_path_pattern) if self.url_path_pattern else None


def _has(found: Mapping[str, object], wanted: Mapping[str, object]) -> bool:
    return all(str(found.get(name)) == str(value) for name, value in wanted.items())


class _Policy(Protocol):
    """So many requests in some time."""

    @property
    def matchers(self) -> list[HttpRequestRegexMatcher]:
        """Which requests it is for; all where there is none."""

    def wait(self, weight: int) -> float:
        """Take a place, or say how many seconds to wait before asking again."""

    def lower(self, left: int | None, reset_at: float | None) -> None:
        """Learn from the API how many requests are left, and when it counts anew."""


@dataclass(frozen=True, kw_only=True)
class UnlimitedCallRatePolicy:
    """Any number of requests."""

    matchers: list[HttpRequestRegexMatcher]

    def wait(self, weight: int) -> float:  # noqa: ARG002  (as all policies)
        """Say that there is no need to wait."""
        return 0.0

    def lower(self, left: int | None, reset_at: float | None) -> None:
        """Stay without limit."""


class _Window:
    """A window of a policy: how much of it is used, and when the next one begins."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.used = 0
        self.ends_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class FixedWindowCallRatePolicy:
    """So many requests from one moment to the next, at which the API counts anew."""

    period: str
    call_limit: int
    matchers: list[HttpRequestRegexMatcher]

    def __post_init__(self) -> None:
        _refuse_heavy(self.matchers, self.call_limit)
        _ = self._length, self._window

    def wait(self, weight: int) -> float:
        """Take a place in this window, or say for how long it lasts."""
        window, now = self._window, time.time()
        with window.lock:
            ends_at = self._renewed(now)
            if window.used + weight > self.call_limit:
                return max(0.0, ends_at - now)
            window.used += weight
            return 0.0

    def lower(self, left: int | None, reset_at: float | None) -> None:
        """Take over what is left where it is less, and when this window ends."""
        window = self._window
        with window.lock:
            self._renewed(time.time())
            if left is not None:
                window.used = max(window.used, self.call_limit - left)
            if reset_at is not None:
                window.ends_at = reset_at

    def _renewed(self, now: float) -> float:
        """Begin the window that this moment is in; return its end."""
        window = self._window
        if window.ends_at is None:
            window.ends_at = now + self._length
        elif now >= window.ends_at:
            passed = math.floor((now - window.ends_at) / self._length) + 1
            window.ends_at += passed * self._length
            window.used = 0
        return window.ends_at

    @cached_property
    def _length(self) -> float:
        return _seconds(self.period)

    @cached_property
    def _window(self) -> _Window:
        return _Window()


@dataclass(frozen=True, kw_only=True)
class Rate:
    """So many requests in any such time."""

    limit: int
    interval: str

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ManifestError(f"A rate has a `limit` of at least 1, and not {self.limit}.")
        _ = self.seconds

    @cached_property
    def seconds(self) -> float:
        """The interval."""
        return _seconds(self.interval)


class _Log:
    """When the latest requests were sent, a moment for each."""

    def __init__(self, most: int) -> None:
        self.lock = threading.Lock()
        self.moments: deque[float] = deque(maxlen=most)


@dataclass(frozen=True, kw_only=True)
class MovingWindowCallRatePolicy:
    """At most so many requests in any such time, for each of the rates."""

    rates: list[Rate]
    matchers: list[HttpRequestRegexMatcher]

    def __post_init__(self) -> None:
        if not self.rates:
            raise ManifestError("A moving window has at least one of `rates`.")
        _refuse_heavy(self.matchers, min(rate.limit for rate in self.rates))
        _ = self._log

    def wait(self, weight: int) -> float:
        """Take a place, or say when there is one."""
        now = time.monotonic()
        with self._log.lock:
            moments = self._log.moments
            seconds = max(_until_free(moments, rate, weight, now) for rate in self.rates)
            if seconds <= 0:
                moments.extend([now] * weight)
            return max(0.0, seconds)

    def lower(self, left: int | None, reset_at: float | None) -> None:
        """Wait for one interval where the API has nothing left, and says not until when."""
        if left != 0 or reset_at is not None:
            return
        now = time.monotonic()
        with self._log.lock:
            moments = self._log.moments
            free = min(rate.limit - _used(moments, rate, now) for rate in self.rates)
            moments.extend([now] * max(0, free))

    @cached_property
    def _log(self) -> _Log:
        return _Log(max(rate.limit for rate in self.rates))


def _until_free(moments: deque[float], rate: Rate, weight: int, now: float) -> float:
    """Return the seconds until ``weight`` more requests fit into a rate."""
    blocking = len(moments) - (rate.limit - weight) - 1
    return moments[blocking] + rate.seconds - now if blocking >= 0 else 0.0


def _used(moments: deque[float], rate: Rate, now: float) -> int:
    return sum(moment > now - rate.seconds for moment in moments)


def _refuse_heavy(matchers: list[HttpRequestRegexMatcher], limit: int) -> None:
    for matcher in matchers:
        if (matcher.weight or 1) > limit:
            raise ManifestError(
                f"A request of `weight` {matcher.weight or 1} never fits into a limit of {limit}."
            )


@dataclass(frozen=True, kw_only=True)
class HTTPAPIBudget:
    """The policies of a source; shared by its streams and their threads."""

    policies: list[FixedWindowCallRatePolicy | MovingWindowCallRatePolicy | UnlimitedCallRatePolicy]
    ratelimit_reset_header: str = "ratelimit-reset"
    ratelimit_remaining_header: str = "ratelimit-remaining"
    status_codes_for_ratelimit_hit: list[int] = field(default_factory=lambda: [_TOO_MANY])

    def take(self, request: requests.PreparedRequest) -> float:
        """Wait until a request may be sent; return the seconds that were waited."""
        found = self._policy_of(request)
        waited = 0.0
        if found is not None:
            policy, weight = found
            while (seconds := policy.wait(weight)) > 0:
                time.sleep(seconds)
                waited += seconds
        return waited

    def update(self, request: requests.PreparedRequest, response: requests.Response) -> None:
        """Learn from an answer how many requests are left."""
        found = self._policy_of(request)
        if found is not None:
            headers = response.headers
            left = _whole(headers.get(self.ratelimit_remaining_header))
            if left is None and response.status_code in self.status_codes_for_ratelimit_hit:
                left = 0
            found[0].lower(left, _moment(_whole(headers.get(self.ratelimit_reset_header))))

    def _policy_of(self, request: requests.PreparedRequest) -> tuple[_Policy, int] | None:
        """Return the policy that counts a request, and for how much."""
        for policy in self.policies:
            if not policy.matchers:
                return policy, 1
            for matcher in policy.matchers:
                if matcher.matches(request):
                    return policy, matcher.weight or 1
        return None


def _moment(number: int | None) -> float | None:
    """Return a moment in seconds since 1970; what is too small for that is seconds from now."""
    return number if number is None or number > _LONGEST_DELAY else time.time() + number


def _whole(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None
