"""The rate limit server counts the requests of all processes of a job."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import socket
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.http.rate_limit_counters import InProcessCounters, RateLimits
from target_spark.errors import RateLimitServerError
from target_spark.extract import rate_limit_server as module
from target_spark.extract.rate_limit_server import RateLimitAddress, RateLimitServer, StaticShare
from target_spark.extract.tap_factory import TapSpec
from tests.extract.counting_server import CountingServer, get_longest_pause, get_max_requests
from tests.extract.limited_taps import REQUESTS_PER_STREAM, limited
from tests.server_thread import serve_in_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOTS = 4
"""The number of processes that send at the same time."""


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with serve_in_thread(CountingServer()) as counting_server:
        yield counting_server


class Processes:
    """Processes that wait for a job and then start reading at the same moment."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._jobs, self._done = context.Queue(), context.Queue()
        self._start = context.Barrier(SLOTS)
        self._all = [
            context.Process(target=limited, args=(self._jobs, self._start, self._done), daemon=True)
            for _ in range(SLOTS)
        ]
        for process in self._all:
            process.start()

    def read(self, source: TapSpec, *streams: str) -> list[int]:
        """Let each process read these streams; return the numbers of records."""
        for _ in self._all:
            self._jobs.put((source, streams))
        return [self._done.get(timeout=300) for _ in self._all]

    def end(self) -> None:
        for _ in self._all:
            self._jobs.put(None)
        for process in self._all:
            process.join(120)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    pool = Processes()
    yield pool
    pool.end()


class TimedCounters:
    """The counters of a rate limit server, and the time of the first request to them."""

    def __init__(self, counters: Any) -> None:
        self._counters = counters
        self.first = float("inf")

    @classmethod
    def of(cls, limiter: RateLimitServer) -> TimedCounters:
        limiter._counters = counters = cls(limiter._counters)
        return counters

    def reserve(self, *arguments: Any) -> Any:
        self.first = min(self.first, time.monotonic())
        return self._counters.reserve(*arguments)

    def lower(self, *arguments: Any) -> Any:
        return self._counters.lower(*arguments)


def create_source(
    server: CountingServer, limiter: RateLimitServer | None, kind: str = "Limited"
) -> TapSpec:
    tap = f"tests.extract.limited_taps:{kind}"
    permits = None if limiter is None else limiter.address
    return TapSpec("run", tap, {"url": server.url}, permits=permits)


def test_processes_share_the_rate_limits_of_a_tap_and_its_streams(server, processes):
    """All processes together send at most 20 requests per second, and 8 to the slow stream."""
    with RateLimitServer() as limiter:
        counters = TimedCounters.of(limiter)
        counts = processes.read(create_source(server, limiter), "slow", "other")
    assert counts == [2 * REQUESTS_PER_STREAM] * SLOTS
    moments, slow = server.request_times(), server.request_times("/slow")
    assert len(moments) == SLOTS * 2 * REQUESTS_PER_STREAM
    # the slots are even; each process may be late with one reserved slot
    assert get_max_requests(moments) <= 20 + 1 + SLOTS
    assert get_max_requests(slow) <= 8 + 1 + SLOTS
    assert moments[-1] - counters.first >= (len(moments) - 1) / 20
    assert slow[-1] - counters.first >= (len(slow) - 1) / 8


@pytest.mark.thorough
def test_api_budget_of_a_manifest_is_shared_by_all_processes(server, processes):
    """All processes together send at most five requests in any second."""
    with RateLimitServer() as limiter:
        counters = TimedCounters.of(limiter)
        processes.read(create_source(server, limiter, "Declared"), "users")
    moments = server.request_times()
    assert len(moments) == SLOTS * 3
    assert get_max_requests(moments, 0.9) <= 5 + SLOTS
    assert moments[-1] - counters.first >= 2


def test_retry_after_of_one_process_delays_the_others(server, processes):
    """After a 429 no process requests that stream before the time that the source named."""
    server.retry_after_once = 4
    with RateLimitServer() as limiter:
        processes.read(create_source(server, limiter), "slow")
    moments = server.request_times()
    assert len(moments) == SLOTS * REQUESTS_PER_STREAM + 1
    # requests with earlier reservations were already sent
    assert get_longest_pause(moments) >= 2


def pickle_and_load(permits: Any) -> Any:
    """Return a copy of an object made by pickle, as Spark sends objects to workers."""
    return pickle.loads(pickle.dumps(permits))  # noqa: S301


def even(rate: float) -> RateLimits:
    return RateLimits("even", ((rate, 1.0),))


def test_client_without_the_key_is_disconnected():
    """The server closes its connection, and it uses no slots of the job."""
    with RateLimitServer() as limiter:
        address = limiter.address
        stranger = RateLimitAddress(address.host, address.port, b"guessed").counters()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_FIRST_PAUSE_SECONDS", 0.001)
            with pytest.raises(RateLimitServerError, match="this executor cannot reach it"):
                stranger.reserve("a", even(1))
        assert address.counters().reserve("a", even(1)).wait == 0


def test_silent_or_invalid_client_does_not_delay_others():
    """A connection that sends nothing or garbage does not block other connections."""
    with RateLimitServer() as limiter:
        where = (limiter.address.host, limiter.address.port)
        with socket.create_connection(where), socket.create_connection(where) as invalid:
            invalid.sendall(b"x" * 200_000 + b"\n")
            assert limiter.address.counters().reserve("a", even(1)).wait == 0


def hang_up(limiter: RateLimitServer) -> None:
    """Close all connections, as a network failure does."""
    for task in asyncio.all_tasks(limiter._loop):
        if task.get_coro().__name__ == "_serve":
            limiter._loop.call_soon_threadsafe(task.cancel)


def test_client_reconnects_after_a_broken_connection():
    """The reservations made before are kept."""
    with RateLimitServer() as limiter:
        counters: Any = limiter.address.counters()
        assert counters.reserve("a", even(0.001)).wait == 0
        hang_up(limiter)
        assert 500 < counters.reserve("a", even(0.001)).wait <= 1000


def test_unreachable_rate_limit_server_is_an_error_with_a_hint(monkeypatch):
    """The error names the address and the Spark setting."""
    monkeypatch.setattr(module, "_FIRST_PAUSE_SECONDS", 0.001)
    with RateLimitServer() as limiter:
        address = limiter.address
        counters = address.counters()
        counters.reserve("a", even(1))
    with pytest.raises(
        RateLimitServerError, match=rf"127.0.0.1:{address.port}.*spark\.driver\.host"
    ):
        counters.reserve("a", even(1))


def test_address_of_another_machine_cannot_be_bound():
    """The error names the address and the Spark setting to change."""
    with (
        pytest.raises(RateLimitServerError, match=r"192\.0\.2\.1.*spark\.driver\.bindAddress"),
        RateLimitServer(bind="192.0.2.1"),
    ):
        pass


def test_key_is_new_for_each_run_and_never_shown():
    """The repr of the address and of a TapSpec do not contain it."""
    with RateLimitServer() as limiter, RateLimitServer() as other:
        address = limiter.address
        assert address.key != other.address.key
        assert repr(address.key)[2:-1] not in repr(address) + str(
            TapSpec("a", "b", {}, None, address)
        )
        assert pickle_and_load(address) == address


def test_unlimited_rate_is_sent_to_the_server():
    """Requests without a rate limit wait only for a limit that the source reported."""
    with RateLimitServer() as limiter:
        counters = limiter.address.counters()
        free = even(float("inf"))
        assert [counters.reserve("a", free).wait for _ in range(3)] == [0, 0, 0]
        counters.lower("a", free, 0, 5000)
        assert 4000 < counters.reserve("a", free).wait <= 5000


def test_server_reserves_like_counters_in_process():
    """Reservations in fixed windows have the same result locally and through the server."""
    window = RateLimits("fixed", ((2, 3600.0),))
    local = InProcessCounters()
    with RateLimitServer() as limiter:
        counters = limiter.address.counters()
        for _ in range(3):
            expected, actual = local.reserve("a", window), counters.reserve("a", window)
            assert expected.is_taken == actual.is_taken
            assert expected.wait == pytest.approx(actual.wait, abs=60)


def test_static_shares_never_send_at_the_same_time(monkeypatch):
    """Eight shares of 10 requests per second are always a tenth of a second apart."""
    now = 1_800_000_000.123
    monkeypatch.setattr(time, "time", lambda: now)
    moments = []
    for number in range(8):
        counters = StaticShare(number, 8)
        moments += [now + counters.reserve("a", even(10)).wait for _ in range(20)]
    moments.sort()
    assert min(b - a for a, b in pairwise(moments)) == pytest.approx(0.1, abs=1e-4)
    assert moments[0] - now <= 0.1 + 1e-4


def test_static_share_waits_for_a_reported_limit(monkeypatch):
    """After the wait, a task with a static share uses its next slot."""
    now = 1_800_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    counters = StaticShare(1, 4)
    counters.lower("a", even(2), 0, 7.2)
    counters.lower("b", even(2), 3)
    assert counters.reserve("a", even(2)).wait == pytest.approx(8.5)
    assert counters.reserve("b", even(2), 2).wait == pytest.approx(0.5 + 2)
    counters.lower("c", RateLimits("moving", ((5, 10.0),)), 0)
    assert counters.reserve("c", even(float("inf"))).wait == pytest.approx(10)


@pytest.mark.spark
@pytest.mark.thorough
def test_server_listens_on_the_host_of_the_spark_driver(spark: SparkSession):
    """The server uses the configured port; an invalid port is rejected."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    spark.conf.set("spark.tap.permits.port", str(port))
    with RateLimitServer.of(spark) as limiter:
        assert (limiter.address.host, limiter.address.port) == ("127.0.0.1", port)
        assert limiter.address.counters().reserve("a", even(1)).wait == 0
    spark.conf.set("spark.tap.permits.port", "70000")
    with pytest.raises(RateLimitServerError, match="a port from 0 to 65535, not 70000"):
        RateLimitServer.of(spark)
