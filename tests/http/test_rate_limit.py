"""Rate limits: a number of requests per period, for one stream or for a whole tap."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from tap_core.http import rate_limit
from tap_core.http.rate_limit import get_counters, wait_for_slot
from tests.http.server import Reply, page


class Owner:
    """A tap without a rate limit."""


@pytest.fixture
def now(monkeypatch):
    """A clock that advances when the code under test sleeps; the list has its time."""
    seconds = [100.0]

    def sleep(wait: float) -> None:
        seconds[0] += wait

    monkeypatch.setattr(time, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(time, "sleep", sleep)
    return seconds


def wait_times(now, owner, limit, count):
    """Return the seconds that each of several requests of a stream waits."""
    waits = []
    for _ in range(count):
        began = now[0]
        wait_for_slot(owner, "users", limit)
        waits.append(now[0] - began)
    return waits


def test_requests_are_spread_evenly(now):
    owner = Owner()
    assert wait_times(now, owner, 4, 3) == [0, 0.25, 0.25]
    now[0] += 10
    assert wait_times(now, owner, 0.5, 3) == [0, 2, 2]


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_rate_must_be_above_zero(rate):
    with pytest.raises(ValueError, match="must be above zero"):
        wait_for_slot(Owner(), "users", rate)


def test_each_thread_gets_its_own_slot(monkeypatch):
    waits: list[float] = []
    owner = Owner()
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: 0.0)
        patch.setattr(time, "sleep", waits.append)
        threads = [
            threading.Thread(target=wait_for_slot, args=(owner, "users", 10)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(round(wait, 9) for wait in waits) == [n / 10 for n in range(1, 8)]


def test_counters_live_as_long_as_their_owner():
    owner, other = Owner(), Owner()
    assert get_counters(owner) is get_counters(owner)
    assert get_counters(owner) is not get_counters(other)
    before = len(rate_limit._counters)
    del owner, other
    gc.collect()
    assert len(rate_limit._counters) <= before - 2


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
