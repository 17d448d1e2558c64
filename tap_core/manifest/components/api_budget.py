"""How many requests a source takes in which time, whichever stream sends them.

Rules of the room: the first policy that a request matches counts it, and one that none matches
is not counted. A place is taken under a lock and waited for outside of it. What the API says of
what is left only lowers what is allowed. Words and rules are Airbyte's (its YAML reference,
"HTTPAPIBudget").
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import Final, Protocol
from urllib.parse import parse_qsl, urlsplit

import requests

from tap_core.exceptions import LimitExceededError
from tap_core.http.rate_limit_counters import InProcessCounters, RateCounterStore, RateLimits
from tap_core.incremental.durations import parse_duration
from tap_core.limits.regex import Pattern, compile_pattern
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
        length = (parse_duration(duration).after(_SOME_DAY) - _SOME_DAY).total_seconds()
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
        except (re.error, LimitExceededError) as error:
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
    def _path(self) -> Pattern | None:
        return compile_pattern(self.url_path_pattern) if self.url_path_pattern else None


def _has(found: Mapping[str, object], wanted: Mapping[str, object]) -> bool:
    return all(str(found.get(name)) == str(value) for name, value in wanted.items())


class _Policy(Protocol):
    """So many requests in some time."""

    @property
    def matchers(self) -> list[HttpRequestRegexMatcher]:
        """Which requests it is for; all where there is none."""
        ...

    @property
    def terms(self) -> RateLimits | None:
        """What it allows; None: any number."""
        ...


@dataclass(frozen=True, kw_only=True)
class UnlimitedCallRatePolicy:
    """Any number of requests."""

    matchers: list[HttpRequestRegexMatcher]

    @property
    def terms(self) -> RateLimits | None:
        """Nothing that is counted."""
        return None


@dataclass(frozen=True, kw_only=True)
class FixedWindowCallRatePolicy:
    """So many requests from one moment to the next, at which the API counts anew."""

    period: str
    call_limit: int
    matchers: list[HttpRequestRegexMatcher]

    def __post_init__(self) -> None:
        _refuse_heavy(self.matchers, self.call_limit)
        _ = self._length

    @property
    def terms(self) -> RateLimits | None:
        """What is counted."""
        return RateLimits("fixed", ((self.call_limit, self._length),))

    @cached_property
    def _length(self) -> float:
        return _seconds(self.period)


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


@dataclass(frozen=True, kw_only=True)
class MovingWindowCallRatePolicy:
    """At most so many requests in any such time, for each of the rates."""

    rates: list[Rate]
    matchers: list[HttpRequestRegexMatcher]

    def __post_init__(self) -> None:
        if not self.rates:
            raise ManifestError("A moving window has at least one of `rates`.")
        _refuse_heavy(self.matchers, min(rate.limit for rate in self.rates))

    @property
    def terms(self) -> RateLimits | None:
        """What is counted."""
        return RateLimits("moving", tuple((rate.limit, rate.seconds) for rate in self.rates))


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

    def take(
        self, request: requests.PreparedRequest, counters: RateCounterStore | None = None
    ) -> float:
        """Wait until a request may be sent; return the seconds that were waited.

        ``counters`` are those of the job, where other processes send requests as well.
        """
        found = self._find_policy(request)
        waited = 0.0
        if found is not None:
            name, terms, weight = found
            place = (counters or self._own).ask(name, terms, weight)
            while not place.is_taken:
                waited += _slept(place.wait)
                place = (counters or self._own).ask(name, terms, weight)
            waited += _slept(place.wait)
        return waited

    def update(
        self,
        request: requests.PreparedRequest,
        response: requests.Response,
        counters: RateCounterStore | None = None,
    ) -> None:
        """Learn from an answer how many requests are left."""
        found = self._find_policy(request)
        if found is not None:
            headers = response.headers
            left = _whole(headers.get(self.ratelimit_remaining_header))
            if left is None and response.status_code in self.status_codes_for_ratelimit_hit:
                left = 0
            seconds = _seconds_until(_whole(headers.get(self.ratelimit_reset_header)))
            if left is not None or seconds is not None:
                (counters or self._own).lower(found[0], found[1], left, seconds)

    @cached_property
    def _own(self) -> RateCounterStore:
        return InProcessCounters()

    def _find_policy(self, request: requests.PreparedRequest) -> tuple[str, RateLimits, int] | None:
        """Return the policy that counts a request, and for how much."""
        for number, policy in enumerate(self.policies):
            weight = _weight(policy, request)
            if weight:
                terms = policy.terms
                return None if terms is None else (f"policy {number}", terms, weight)
        return None


def _weight(policy: _Policy, request: requests.PreparedRequest) -> int:
    """Return how many a request counts for, 0 where a policy is not for it."""
    if not policy.matchers:
        return 1
    for matcher in policy.matchers:
        if matcher.matches(request):
            return matcher.weight or 1
    return 0


def _slept(seconds: float) -> float:
    if seconds > 0:
        time.sleep(seconds)
    return seconds


def _seconds_until(number: int | None) -> float | None:
    """Return the seconds until a moment; what is too small for one since 1970 is seconds."""
    return number if number is None or number <= _LONGEST_DELAY else number - time.time()


def _whole(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None
