"""Request counters: they reserve no more requests per period than their rate limits allow."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core.http.rate_limit import (
    get_counters,
    report_retry_after,
    use_shared_counters,
    wait_for_slot,
)
from tap_core.http.rate_limit_counters import InProcessCounters, RateLimits, Reservation
from tests.http.server import Reply, page


class FakeClock:
    """A clock that advances only when the test sets it."""

    def __init__(self) -> None:
        self.seconds = 50.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch):
    fake_clock = FakeClock()
    monkeypatch.setattr(time, "monotonic", fake_clock)
    return fake_clock


def make_limits(kind, *rates) -> RateLimits:
    return RateLimits(kind, rates)


@given(st.lists(st.floats(0, 3), max_size=40), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=50)
def test_no_time_window_exceeds_a_moving_rate_limit(pauses, limit, seconds):
    """In the seconds after each request there are never more requests than the limit."""
    clock, request_times, counters = FakeClock(), [], InProcessCounters()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", clock)
        for pause in pauses:
            clock.seconds += pause
            while not (
                reservation := counters.reserve("a", make_limits("moving", (limit, seconds)))
            ).is_taken:
                clock.seconds += reservation.wait + 1e-9
            request_times.append(clock.seconds)
    for start in request_times:
        assert sum(start <= other < start + seconds - 1e-6 for other in request_times) <= limit


def test_requests_are_counted_separately_per_name(clock):
    """A reservation under one name does not count for another name."""
    counters, limits = InProcessCounters(), make_limits("even", (2, 1.0))
    reservations = [counters.reserve(name, limits) for name in ("a", "a", "b")]
    assert reservations == [Reservation(wait, is_taken=True) for wait in (0, 0.5, 0)]


def test_weighted_request_counts_as_several_requests(clock):
    """The request after one of weight 3 waits as if 3 requests had been sent."""
    counters, limits = InProcessCounters(), make_limits("even", (2, 1.0))
    assert counters.reserve("a", limits, 3).wait == 0
    assert counters.reserve("a", limits).wait == 1.5


def test_requests_wait_until_the_reported_limit_resets(clock):
    """A limit that the source reported applies to all later requests, also without a rate."""
    counters, limits = InProcessCounters(), make_limits("even", (float("inf"), 1.0))
    assert [counters.reserve("a", limits).wait for _ in range(3)] == [0, 0, 0]
    counters.lower("a", limits, 0, 30)
    counters.lower("a", limits, 0, 10)
    counters.lower("a", limits, 7, 90)
    assert [counters.reserve("a", limits).wait for _ in range(2)] == [30, 30]
    clock.seconds += 31
    assert counters.reserve("a", limits).wait == 0


class LimitedTap:
    rate_limit = 4.0


class SharedCounters(InProcessCounters):
    """Counters that are shared with other processes."""

    is_shared = True


@pytest.fixture
def waits(monkeypatch):
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


def test_taps_with_shared_counters_share_the_rate_limit(clock, waits):
    """Earlier requests of the process do not count; both taps of a job use one rate limit."""
    first, second, counters = LimitedTap(), LimitedTap(), SharedCounters()
    wait_for_slot(first, "users", None)
    for tap in (first, second):
        use_shared_counters(tap, counters)
        assert get_counters(tap) is counters
    wait_for_slot(first, "users", 2.0)
    wait_for_slot(second, "users", 2.0)
    assert waits == [0.5, 0.25]


@pytest.mark.parametrize(
    ("counters", "status", "expected_wait"),
    [(SharedCounters(), 429, 20.0), (SharedCounters(), 503, 0.0), (InProcessCounters(), 429, 0.0)],
)
def test_retry_after_of_a_429_delays_all_taps_with_shared_counters(
    clock, waits, counters, status, expected_wait
):
    """Other taps wait only with shared counters, and only for status 429 (too many requests)."""

    class Response:
        status_code = status
        headers = {"Retry-After": "20"}

    first, second = UnlimitedTap(), UnlimitedTap()
    use_shared_counters(first, counters)
    use_shared_counters(second, counters)
    report_retry_after(first, "users", Response())
    wait_for_slot(second, "orders", None)
    assert sum(waits) == 0
    wait_for_slot(second, "users", None)
    assert sum(waits) == expected_wait


class UnlimitedTap:
    """A tap without a rate limit."""


def test_stream_waits_only_once_for_retry_after(source):
    """The stream waits for Retry-After itself; the shared counters add no second wait."""
    source.server.answers(Reply("", 429, {"Retry-After": "1"}), page({"id": 1}))
    stream = source.stream()
    use_shared_counters(stream._tap, SharedCounters())
    start = time.monotonic()
    assert len(list(stream.get_records(None))) == 1
    assert stream.waits[0] == 1
    assert time.monotonic() - start < 60
