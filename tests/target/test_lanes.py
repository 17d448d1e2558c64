"""Threads that commit: order within a lane, company between lanes, an end after a failure."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from target_spark.loader.commit_queue import KeyedExecutor


@pytest.fixture
def lanes() -> Iterator[KeyedExecutor]:
    opened = KeyedExecutor(2)
    yield opened
    opened.close()


def never() -> bool:
    return False


def meet(meeting: threading.Barrier) -> None:
    meeting.wait(30)


def hold(go: threading.Event) -> None:
    go.wait(30)


def test_a_lane_keeps_its_order(lanes: KeyedExecutor) -> None:
    done: list[int] = []
    for number in range(50):
        lanes.submit("a", lambda number=number: done.append(number))  # type: ignore[misc]
    lanes.wait(never)
    assert done == list(range(50))


def test_two_lanes_run_side_by_side_and_one_lane_does_not(lanes: KeyedExecutor) -> None:
    meeting = threading.Barrier(2)
    lanes.submit("a", lambda: meet(meeting))
    lanes.submit("b", lambda: meet(meeting))
    lanes.wait(never)
    assert lanes.failure is None
    alone = threading.Lock()
    clashes: list[bool] = []

    def job() -> None:
        clashes.append(not alone.acquire(blocking=False))
        alone.release()

    for _ in range(20):
        lanes.submit("a", job)
    lanes.wait(never)
    assert clashes == [False] * 20


def test_after_a_failure_nothing_new_starts(lanes: KeyedExecutor) -> None:
    done: list[str] = []

    def fail() -> None:
        raise RuntimeError("no")

    lanes.submit("a", fail)
    lanes.wait(never)
    lanes.submit("a", lambda: done.append("a"))
    lanes.submit("b", lambda: done.append("b"))
    lanes.wait(never)
    assert str(lanes.failure) == "no"
    assert done == []


def test_stop_lets_the_running_job_finish_and_no_other_start(lanes: KeyedExecutor) -> None:
    started, go = threading.Event(), threading.Event()
    done: list[str] = []

    def slow() -> None:
        started.set()
        go.wait(30)
        done.append("slow")

    lanes.submit("a", slow, 10)
    lanes.submit("a", lambda: done.append("next"), 5)
    started.wait(30)
    assert lanes.nbytes == 15
    lanes.stop()
    go.set()
    lanes.wait(never)
    assert done == ["slow"]


def test_waiting_ends_when_the_condition_holds(lanes: KeyedExecutor) -> None:
    go = threading.Event()
    lanes.submit("a", lambda: hold(go), 7)
    lanes.wait(lambda: True)
    assert lanes.nbytes == 7
    go.set()
    lanes.wait(lambda: lanes.nbytes == 0)
    assert lanes.nbytes == 0
