"""The API budget of a manifest: rate limits of requests."""

from __future__ import annotations

import threading
import time

import pytest
import requests

from tap_core.http.rate_limit_counters import InProcessCounters
from tap_core.manifest.components.api_budget import HTTPAPIBudget
from tap_core.manifest.errors import ManifestError
from tests.manifest.pieces import build, make_response


def make_request(url: str = "http://api/users", method: str = "GET", **headers: str):
    return requests.Request(method, url, headers=headers).prepare()


class Budget:
    """An API budget with request counters, which measures the waits."""

    def __init__(self, declared: HTTPAPIBudget) -> None:
        self._declared, self._counters = declared, InProcessCounters()

    def take(self, request: requests.PreparedRequest) -> float:
        began = time.monotonic()
        self._declared.take(request, self._counters, time.sleep)
        return time.monotonic() - began

    def update(self, request: requests.PreparedRequest, response: requests.Response) -> None:
        self._declared.update(request, response, self._counters)


def make_budget(*policies: str, options: str = "") -> Budget:
    listed = "".join(f"\n  - {policy}" for policy in policies)
    return Budget(build(f"type: HTTPAPIBudget\n{options}policies:{listed}", HTTPAPIBudget))


def moving_window(*rates: str, matchers: str = "") -> str:
    return (
        f"{{type: MovingWindowCallRatePolicy, rates: [{', '.join(rates)}], matchers: [{matchers}]}}"
    )


def fixed_window(limit: int, period: str = "PT1H", matchers: str = "") -> str:
    return (
        f"{{type: FixedWindowCallRatePolicy, call_limit: {limit}, period: {period},"
        f" matchers: [{matchers}]}}"
    )


@pytest.fixture
def slept(monkeypatch):
    """Record the waits, and advance the clocks by them without sleeping."""
    waits, wall, steady = [], time.time(), time.monotonic()
    monkeypatch.setattr(time, "time", lambda: wall + sum(waits))
    monkeypatch.setattr(time, "monotonic", lambda: steady + sum(waits))
    monkeypatch.setattr(time, "sleep", waits.append)
    return waits


def test_moving_window_limits_the_requests_of_any_interval(slept):
    limiter = make_budget(
        moving_window("{limit: 2, interval: PT1S}", "{limit: 3, interval: PT10S}")
    )
    waits = [limiter.take(make_request()) for _ in range(7)]
    assert waits == pytest.approx([0, 0, 1, 9, 0, 1, 9])


def test_fixed_window_resets_at_its_end(slept):
    limiter = make_budget(fixed_window(2, "PT1M"))
    waits = [limiter.take(make_request()) for _ in range(5)]
    assert waits == pytest.approx([0, 0, 60, 0, 60])


def test_weighted_request_counts_as_several_requests(slept):
    heavy = "{type: HttpRequestRegexMatcher, url_path_pattern: ^/report, weight: 3}"
    light = "{type: HttpRequestRegexMatcher, url_path_pattern: .*}"
    limiter = make_budget(moving_window("{limit: 4, interval: PT1S}", matchers=f"{heavy}, {light}"))
    urls = ["http://api/report", "http://api/users", "http://api/users"]
    assert [limiter.take(make_request(url)) for url in urls] == pytest.approx([0, 0, 1])


@pytest.mark.parametrize(
    ("matcher", "matching", "other"),
    [
        ("method: get", make_request(), make_request(method="POST")),
        ("url_base: 'http://api/'", make_request(), make_request("http://other/users")),
        (
            "url_path_pattern: '^/users$'",
            make_request("http://api/users/?a=1"),
            make_request("http://api/users/7"),
        ),
        ("params: {a: 1}", make_request("http://api/x?b=2&a=1"), make_request("http://api/x?a=2")),
        ("headers: {X-Kind: a}", make_request(**{"x-kind": "a"}), make_request()),
    ],
)
def test_policy_applies_only_to_matching_requests(slept, matcher, matching, other):
    matchers = f"{{type: HttpRequestRegexMatcher, {matcher}}}"
    limiter = make_budget(moving_window("{limit: 1, interval: PT1S}", matchers=matchers))
    assert [limiter.take(matching), limiter.take(other), limiter.take(matching)] == pytest.approx(
        [0, 0, 1]
    )


def test_first_matching_policy_applies(slept):
    free = "{type: HttpRequestRegexMatcher, url_path_pattern: free}"
    limiter = make_budget(f"{{type: UnlimitedCallRatePolicy, matchers: [{free}]}}", fixed_window(1))
    assert [limiter.take(make_request("http://api/free")) for _ in range(3)] == [0, 0, 0]
    limiter.update(make_request("http://api/free"), make_response(429))
    assert limiter.take(make_request("http://api/free")) == 0


def test_reported_remaining_requests_can_only_lower_the_limit(slept):
    limiter = make_budget(
        fixed_window(3), options="ratelimit_remaining_header: Left\nratelimit_reset_header: Reset\n"
    )
    limiter.take(make_request())
    limiter.update(make_request(), make_response(200, Left="50"))
    assert limiter.take(make_request()) == 0
    limiter.update(make_request(), make_response(200, Left="0", Reset=str(int(time.time()) + 30)))
    assert limiter.take(make_request()) == pytest.approx(30, abs=1)


def test_reported_reset_can_be_seconds_from_now(slept):
    limiter = make_budget(fixed_window(3))
    limiter.update(
        make_request(), make_response(200, ratelimit_remaining="0", ratelimit_reset="20")
    )
    assert limiter.take(make_request()) == pytest.approx(20, abs=1)


@pytest.mark.parametrize("reset", ["31000000", "99999999999", "9" * 400])
def test_reported_reset_is_at_most_a_day_away(slept, reset):
    """SEC13: a response cannot make a sync wait without end."""
    limiter = make_budget(fixed_window(3))
    limiter.update(
        make_request(), make_response(200, ratelimit_remaining="0", ratelimit_reset=reset)
    )
    assert limiter.take(make_request()) == pytest.approx(86_400, abs=1)


@pytest.mark.parametrize("reset", ["-5", "-" + "9" * 400])
def test_reported_reset_in_the_past_begins_a_new_window(slept, reset):
    """SEC13: no number of a response ends a sync with a traceback."""
    limiter = make_budget(fixed_window(3))
    limiter.update(
        make_request(), make_response(200, ratelimit_remaining="0", ratelimit_reset=reset)
    )
    assert limiter.take(make_request()) == 0


def test_status_429_exhausts_the_budget(slept):
    limiter = make_budget(moving_window("{limit: 5, interval: PT2S}"))
    limiter.update(make_request(), make_response(500))
    assert limiter.take(make_request()) == 0
    limiter.update(make_request(), make_response(429))
    assert limiter.take(make_request()) == pytest.approx(2)


def test_invalid_rate_limit_headers_are_ignored(slept):
    limiter = make_budget(fixed_window(1))
    limiter.update(
        make_request(), make_response(200, ratelimit_remaining="few", ratelimit_reset="soon")
    )
    assert limiter.take(make_request()) == 0


def test_threads_share_the_api_budget():
    limiter = make_budget(moving_window("{limit: 3, interval: PT0.2S}"))
    start, sent = time.monotonic(), []

    def work():
        for _ in range(3):
            limiter.take(make_request())
            sent.append(time.monotonic() - start)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sent) == 12
    assert max(sent) >= 0.6


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (moving_window("{limit: 0, interval: PT1S}"), "and must be at least 1"),
        (moving_window(), "at least one of `rates`"),
        (moving_window("{limit: 1, interval: soon}"), "not an ISO 8601 duration"),
        (fixed_window(1, "PT0S"), "'PT0S': expected a positive"),
        (fixed_window(0), "`call_limit` is 0, and must be at least 1"),
        (fixed_window(1, matchers="{type: HttpRequestRegexMatcher, weight: 2}"), "never fits"),
        (
            fixed_window(1, matchers="{type: HttpRequestRegexMatcher, weight: 0}"),
            "is 0, and must be at least 1",
        ),
        (
            fixed_window(1, matchers="{type: HttpRequestRegexMatcher, url_path_pattern: '('}"),
            "regular",
        ),
    ],
)
def test_invalid_api_budget_is_rejected_with_its_line(policy, message):
    with pytest.raises(ManifestError, match=message) as error:
        make_budget(policy)
    assert "line" in str(error.value)
