"""The API budget of a manifest: rate limits of requests."""

from __future__ import annotations

import threading
import time

import pytest
import requests

from tap_core.http.rate_limit_counters import InProcessCounters
from tap_core.manifest.components.api_budget import HTTPAPIBudget
from tap_core.manifest.errors import ManifestError
from tests.manifest.pieces import answer, made


def asked(url: str = "http://api/users", method: str = "GET", **headers: str):
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


def budget(*policies: str, more: str = "") -> Budget:
    listed = "".join(f"\n  - {one}" for one in policies)
    return Budget(made(f"type: HTTPAPIBudget\n{more}policies:{listed}", HTTPAPIBudget))


def moving(*rates: str, matchers: str = "") -> str:
    return (
        f"{{type: MovingWindowCallRatePolicy, rates: [{', '.join(rates)}], matchers: [{matchers}]}}"
    )


def fixed(limit: int, period: str = "PT1H", matchers: str = "") -> str:
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
    found = budget(moving("{limit: 2, interval: PT1S}", "{limit: 3, interval: PT10S}"))
    waits = [found.take(asked()) for _ in range(7)]
    assert waits == pytest.approx([0, 0, 1, 9, 0, 1, 9])


def test_fixed_window_resets_at_its_end(slept):
    found = budget(fixed(2, "PT1M"))
    waits = [found.take(asked()) for _ in range(5)]
    assert waits == pytest.approx([0, 0, 60, 0, 60])


def test_weighted_request_counts_as_several_requests(slept):
    heavy = "{type: HttpRequestRegexMatcher, url_path_pattern: ^/report, weight: 3}"
    light = "{type: HttpRequestRegexMatcher, url_path_pattern: .*}"
    found = budget(moving("{limit: 4, interval: PT1S}", matchers=f"{heavy}, {light}"))
    urls = ["http://api/report", "http://api/users", "http://api/users"]
    assert [found.take(asked(url)) for url in urls] == pytest.approx([0, 0, 1])


@pytest.mark.parametrize(
    ("matcher", "matching", "other"),
    [
        ("method: get", asked(), asked(method="POST")),
        ("url_base: 'http://api/'", asked(), asked("http://other/users")),
        (
            "url_path_pattern: '^/users$'",
            asked("http://api/users/?a=1"),
            asked("http://api/users/7"),
        ),
        ("params: {a: 1}", asked("http://api/x?b=2&a=1"), asked("http://api/x?a=2")),
        ("headers: {X-Kind: a}", asked(**{"x-kind": "a"}), asked()),
    ],
)
def test_policy_applies_only_to_matching_requests(slept, matcher, matching, other):
    one = f"{{type: HttpRequestRegexMatcher, {matcher}}}"
    found = budget(moving("{limit: 1, interval: PT1S}", matchers=one))
    assert [found.take(matching), found.take(other), found.take(matching)] == pytest.approx(
        [0, 0, 1]
    )


def test_first_matching_policy_applies(slept):
    one = "{type: HttpRequestRegexMatcher, url_path_pattern: free}"
    found = budget(f"{{type: UnlimitedCallRatePolicy, matchers: [{one}]}}", fixed(1))
    assert [found.take(asked("http://api/free")) for _ in range(3)] == [0, 0, 0]
    found.update(asked("http://api/free"), answer(429))
    assert found.take(asked("http://api/free")) == 0


def test_reported_remaining_requests_can_only_lower_the_limit(slept):
    found = budget(
        fixed(3), more="ratelimit_remaining_header: Left\nratelimit_reset_header: Reset\n"
    )
    found.take(asked())
    found.update(asked(), answer(200, Left="50"))
    assert found.take(asked()) == 0
    found.update(asked(), answer(200, Left="0", Reset=str(int(time.time()) + 30)))
    assert found.take(asked()) == pytest.approx(30, abs=1)


def test_reported_reset_can_be_seconds_from_now(slept):
    found = budget(fixed(3))
    found.update(asked(), answer(200, ratelimit_remaining="0", ratelimit_reset="20"))
    assert found.take(asked()) == pytest.approx(20, abs=1)


@pytest.mark.parametrize("reset", ["31000000", "99999999999", "9" * 400])
def test_reported_reset_is_at_most_a_day_away(slept, reset):
    """SEC13: a response cannot make a sync wait without end."""
    found = budget(fixed(3))
    found.update(asked(), answer(200, ratelimit_remaining="0", ratelimit_reset=reset))
    assert found.take(asked()) == pytest.approx(86_400, abs=1)


@pytest.mark.parametrize("reset", ["-5", "-" + "9" * 400])
def test_reported_reset_in_the_past_begins_a_new_window(slept, reset):
    """SEC13: no number of a response ends a sync with a traceback."""
    found = budget(fixed(3))
    found.update(asked(), answer(200, ratelimit_remaining="0", ratelimit_reset=reset))
    assert found.take(asked()) == 0


def test_status_429_exhausts_the_budget(slept):
    found = budget(moving("{limit: 5, interval: PT2S}"))
    found.update(asked(), answer(500))
    assert found.take(asked()) == 0
    found.update(asked(), answer(429))
    assert found.take(asked()) == pytest.approx(2)


def test_invalid_rate_limit_headers_are_ignored(slept):
    found = budget(fixed(1))
    found.update(asked(), answer(200, ratelimit_remaining="few", ratelimit_reset="soon"))
    assert found.take(asked()) == 0


def test_threads_share_the_api_budget():
    found = budget(moving("{limit: 3, interval: PT0.2S}"))
    begun, sent = time.monotonic(), []

    def work():
        for _ in range(3):
            found.take(asked())
            sent.append(time.monotonic() - begun)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(sent) == 12
    assert max(sent) >= 0.6


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (moving("{limit: 0, interval: PT1S}"), "and must be at least 1"),
        (moving(), "at least one of `rates`"),
        (moving("{limit: 1, interval: soon}"), "not an ISO 8601 duration"),
        (fixed(1, "PT0S"), "'PT0S': expected a positive"),
        (fixed(0), "`call_limit` is 0, and must be at least 1"),
        (fixed(1, matchers="{type: HttpRequestRegexMatcher, weight: 2}"), "never fits"),
        (
            fixed(1, matchers="{type: HttpRequestRegexMatcher, weight: 0}"),
            "is 0, and must be at least 1",
        ),
        (fixed(1, matchers="{type: HttpRequestRegexMatcher, url_path_pattern: '('}"), "regular"),
    ],
)
def test_invalid_api_budget_is_rejected_with_its_line(policy, words):
    with pytest.raises(ManifestError, match=words) as error:
        budget(policy)
    assert "line" in str(error.value)
