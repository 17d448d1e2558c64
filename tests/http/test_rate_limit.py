"""Rate limits: a number of requests per period, for one stream or for a whole tap."""

from __future__ import annotations

import gc
import threading

import pytest

from tap_core.http import rate_limit
from tap_core.http.rate_limit import RateLimiter, get_shared_limiter
from tests.http.server import Reply, page


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_requests_are_spread_evenly():
    clock = Clock()
    made = RateLimiter(clock=clock, sleep=clock.sleep)
    assert [made.take(4) for _ in range(3)] == [0, 0.25, 0.25]
    clock.now += 10
    assert [made.take(30, period=60) for _ in range(3)] == [0, 2, 2]


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_rate_must_be_above_zero(rate):
    with pytest.raises(ValueError, match="must be above zero"):
        RateLimiter().take(rate)


def test_each_thread_gets_its_own_slot():
    waits: list[float] = []
    made = RateLimiter(clock=lambda: 0.0, sleep=waits.append)
    threads = [threading.Thread(target=made.take, args=(10,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(round(wait, 9) for wait in waits) == [n / 10 for n in range(1, 8)]


def test_shared_limiter_lives_as_long_as_its_owner():
    class Owner:
        pass

    owner, other = Owner(), Owner()
    assert get_shared_limiter(owner) is get_shared_limiter(owner)
    assert get_shared_limiter(owner) is not get_shared_limiter(other)
    before = len(rate_limit._shared)
    del owner, other
    gc.collect()
    assert len(rate_limit._shared) <= before - 2


def test_retries_count_towards_the_rate_limit_of_a_stream(source):
    source.server.answers(page({"id": 1}, next="b"), Reply("", 503), page({"id": 2}))
    stream = source.stream(rate_limit=0.01, backoff_jitter=lambda self, value: value)
    assert len(list(stream.get_records(None))) == 2
    assert stream.waits[1] == 2
    assert [90 < wait <= 200 for wait in stream.waits] == [True, False, True]


def test_streams_of_a_tap_share_its_rate_limit(source):
    source.server.answers(page({"id": 1}))
    stream = source.stream(tap={"rate_limit": 0.01})
    other = type(stream)(stream._tap)
    assert len([*stream.get_records(None), *other.get_records(None)]) == 2
    assert stream.waits == []
    assert len(other.waits) == 1
    assert 90 < other.waits[0] <= 100
