"""Rate limits of an API, shared by all streams of a connector (the manifest's HTTPAPIBudget).

The first policy that matches a request counts it; a request that matches no policy is not counted.
A request is reserved under a lock, and the caller sleeps outside the lock. Rate limit headers of
the API can only lower the number of allowed requests, never raise it.

Source: Airbyte YAML reference, "HTTPAPIBudget".
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import requests

from tap_core.exceptions import LimitExceededError
from tap_core.http.rate_limit_counters import RateCounterStore, RateLimits
from tap_core.limits.regex import Pattern, compile_pattern
from tap_core.manifest.durations import parse_length
from tap_core.manifest.errors import ManifestError

__all__ = [
    "LONGEST_WAIT",
    "FixedWindowCallRatePolicy",
    "HTTPAPIBudget",
    "HttpRequestRegexMatcher",
    "MovingWindowCallRatePolicy",
    "Rate",
    "UnlimitedCallRatePolicy",
    "parse_count",
]

_MAX_SECONDS: Final = 366 * 86_400
"""Limit of a rate limit reset header; a higher number is a Unix timestamp, not seconds."""

LONGEST_WAIT: Final = 86_400.0
"""Maximum number of seconds that an API may ask the tap to wait; the manifest can change it."""


def _parse_seconds(duration: str) -> float:
    """Return the length of an ISO 8601 duration in seconds; a month counts as 31 days.

    Raises:
        ManifestError: The duration cannot be parsed, or is not positive.
    """
    length = parse_length(duration).total_seconds()
    if length <= 0:
        raise ManifestError(
            f"Invalid budget interval {duration!r}: expected a positive ISO 8601 duration."
        )
    return length


@dataclass(frozen=True, kw_only=True)
class HttpRequestRegexMatcher:
    """Matcher that selects the requests to which a rate limit policy applies.

    A request matches if it satisfies every option that is set. A matching request counts as
    `weight` requests, 1 by default.
    """

    method: str | None = None
    url_base: str | None = None
    url_path_pattern: str | None = None
    params: dict[str, str | int | float | bool] = field(default_factory=dict)
    headers: dict[str, str | int | float | bool] = field(default_factory=dict)
    weight: int | None = None

    def __post_init__(self) -> None:
        if self.weight is not None and self.weight < 1:
            raise ManifestError(f"`weight` is {self.weight}, and must be at least 1.")
        try:
            _ = self._path
        except (re.error, LimitExceededError) as error:
            raise ManifestError(
                f"`url_path_pattern` is not a valid regular expression: {error}."
            ) from None

    def matches(self, request: requests.PreparedRequest) -> bool:
        """Return True if the request satisfies all options that are set.

        The options compare the HTTP method, the base URL, the path, the query parameters and the
        headers.
        """
        parts = urlsplit(request.url or "")
        if self.method and (request.method or "").upper() != self.method.upper():
            return False
        if self.url_base and f"{parts.scheme}://{parts.netloc}" != self.url_base.rstrip("/"):
            return False
        if self._path and not self._path.search(parts.path.rstrip("/")):
            return False
        return _contains(dict(parse_qsl(parts.query)), self.params) and _contains(
            request.headers or {}, self.headers
        )

    @cached_property
    def _path(self) -> Pattern | None:
        return compile_pattern(self.url_path_pattern) if self.url_path_pattern else None


def _contains(actual: Mapping[str, object], expected: Mapping[str, object]) -> bool:
    return all(str(actual.get(name)) == str(value) for name, value in expected.items())


@dataclass(frozen=True, kw_only=True)
class UnlimitedCallRatePolicy:
    """Rate limit policy without a limit: requests that match it are sent at once."""

    matchers: list[HttpRequestRegexMatcher]

    @property
    def limits(self) -> RateLimits | None:
        """Always None, because the number of requests is not limited."""
        return None


@dataclass(frozen=True, kw_only=True)
class FixedWindowCallRatePolicy:
    """Rate limit policy that allows `call_limit` requests per fixed time window of `period`.

    `period` is an ISO 8601 duration, such as ``PT1M``.
    """

    period: str
    call_limit: int
    matchers: list[HttpRequestRegexMatcher]

    def __post_init__(self) -> None:
        _ = self._length
        if self.call_limit < 1:
            raise ManifestError(f"`call_limit` is {self.call_limit}, and must be at least 1.")
        _check_weights(self.matchers, self.call_limit)

    @property
    def limits(self) -> RateLimits | None:
        """Limit for the request counters: `call_limit` requests per fixed window of `period`."""
        return RateLimits("fixed", ((self.call_limit, self._length),))

    @cached_property
    def _length(self) -> float:
        return _parse_seconds(self.period)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Rate limit of at most `limit` requests within any `interval` (an ISO 8601 duration)."""

    limit: int
    interval: str

    def __post_init__(self) -> None:
        _ = self.seconds
        if self.limit < 1:
            raise ManifestError(f"The `limit` of a rate is {self.limit}, and must be at least 1.")

    @cached_property
    def seconds(self) -> float:
        """Length of `interval`, an ISO 8601 duration, in seconds."""
        return _parse_seconds(self.interval)


@dataclass(frozen=True, kw_only=True)
class MovingWindowCallRatePolicy:
    """Rate limit policy with one or more rates, each counted over a moving time window.

    A request is sent only when every rate still allows one.
    """

    rates: list[Rate]
    matchers: list[HttpRequestRegexMatcher]

    def __post_init__(self) -> None:
        if not self.rates:
            raise ManifestError("A MovingWindowCallRatePolicy needs at least one of `rates`.")
        _check_weights(self.matchers, min(rate.limit for rate in self.rates))

    @property
    def limits(self) -> RateLimits | None:
        """Limits on requests: for each rate, at most ``limit`` in any period of its length."""
        return RateLimits("moving", tuple((rate.limit, rate.seconds) for rate in self.rates))


def _check_weights(matchers: list[HttpRequestRegexMatcher], limit: int) -> None:
    for matcher in matchers:
        if (matcher.weight or 1) > limit:
            raise ManifestError(
                f"A request of `weight` {matcher.weight or 1} never fits into the limit of {limit}."
            )


_CallRatePolicy: TypeAlias = (
    FixedWindowCallRatePolicy | MovingWindowCallRatePolicy | UnlimitedCallRatePolicy
)


@dataclass(frozen=True, kw_only=True)
class HTTPAPIBudget:
    """Rate limit policies of a connector (``api_budget``), shared by its streams and threads."""

    policies: list[_CallRatePolicy]
    ratelimit_reset_header: str = "ratelimit-reset"
    ratelimit_remaining_header: str = "ratelimit-remaining"
    status_codes_for_ratelimit_hit: list[int] = field(default_factory=lambda: [429])

    def take(
        self,
        request: requests.PreparedRequest,
        counters: RateCounterStore,
        sleep: Callable[[float], object],
    ) -> None:
        """Wait until the rate limits of the API budget allow a request, and count the request.

        ``counters`` are the request counters of the tap. ``sleep`` is called with the seconds of
        each wait.
        """
        policy = self._find_policy(request)
        while policy is not None:
            slot = counters.reserve(*policy)
            if slot.wait > 0:
                sleep(slot.wait)
            if slot.is_taken:
                return

    def update(
        self,
        request: requests.PreparedRequest,
        response: requests.Response,
        counters: RateCounterStore,
    ) -> None:
        """Lower the remaining number of requests to the value in a response's rate limit headers.

        If the response has no such value and its status is in `status_codes_for_ratelimit_hit`, the
        remaining number becomes 0. ``counters`` are the request counters of the tap.
        """
        policy = self._find_policy(request)
        if policy is None:
            return
        name, limits, _ = policy
        remaining = parse_count(response.headers.get(self.ratelimit_remaining_header))
        if remaining is None and response.status_code in self.status_codes_for_ratelimit_hit:
            remaining = 0
        seconds = _compute_wait(parse_count(response.headers.get(self.ratelimit_reset_header)))
        if remaining is not None or seconds is not None:
            counters.lower(name, limits, remaining, seconds)

    def _find_policy(self, request: requests.PreparedRequest) -> tuple[str, RateLimits, int] | None:
        """Return the first policy that matches a request, as a tuple (name, limits, weight).

        A request with weight 2, for example, counts as two requests. Return None if no policy
        matches, or if the first policy that matches is unlimited.
        """
        for index, policy in enumerate(self.policies):
            weight = _get_weight(policy, request)
            if weight:
                limits = policy.limits
                return None if limits is None else (f"policy {index}", limits, weight)
        return None


def _get_weight(policy: _CallRatePolicy, request: requests.PreparedRequest) -> int:
    """Return the number of requests that ``request`` counts as under a policy.

    Return 0 if the policy does not apply to the request.
    """
    if not policy.matchers:
        return 1
    for matcher in policy.matchers:
        if matcher.matches(request):
            return matcher.weight or 1
    return 0


def _compute_wait(number: int | None) -> float | None:
    """Convert the number in a rate limit reset header to the seconds until the reset.

    A number above 366 days in seconds is a Unix timestamp; a smaller number is already in seconds.
    The result is at most one day, and negative for a time in the past. None is returned unchanged.
    """
    if number is None:
        return None
    seconds = number - int(time.time()) if number > _MAX_SECONDS else number
    return max(-LONGEST_WAIT, min(seconds, LONGEST_WAIT))


def parse_count(text: str | None) -> int | None:
    """Return the integer in a rate limit header; None if the header is missing or not a number."""
    try:
        return int(text) if text else None
    except ValueError:
        return None
