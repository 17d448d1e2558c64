"""Requests are counted for a whole job, however many processes send them."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import socket
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tap_core.http.rate_limit_counters import InProcessCounters, RateLimits
from target_spark.errors import RateLimitServerError
from target_spark.extract import rate_limit_server as module
from target_spark.extract.rate_limit_server import RateLimitAddress, RateLimitServer, StaticShare
from target_spark.extract.tap_factory import TapSpec
from target_spark.spark.session import Session, SparkSettings
from tests.extract.counting import Counting, counting, longest_pause, most_in_a_second
from tests.extract.limited_taps import ASKED, limited

SLOTS = 4
"""Processes that send at the same time."""


@pytest.fixture
def server() -> Iterator[Counting]:
    with counting() as made:
        yield made


class Processes:
    """So many processes that wait for what to read, and then begin at the same moment."""

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
        """Let each of them read these streams; return how many records they found."""
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
    made = Processes()
    yield made
    made.end()


class Asked:
    """The counters of an issuer, and when they were first asked."""

    def __init__(self, counters: Any) -> None:
        self._counters = counters
        self.first = float("inf")

    @classmethod
    def of(cls, issuer: RateLimitServer) -> Asked:
        issuer._counters = made = cls(issuer._counters)
        return made

    def ask(self, *given: Any) -> Any:
        self.first = min(self.first, time.monotonic())
        return self._counters.ask(*given)

    def lower(self, *given: Any) -> Any:
        return self._counters.lower(*given)


def source_of(server: Counting, issuer: RateLimitServer | None, kind: str = "Limited") -> TapSpec:
    tap = f"tests.extract.limited_taps:{kind}"
    permits = None if issuer is None else issuer.address
    return TapSpec("run", tap, {"url": server.url}, permits=permits)


def test_processes_share_the_rates_of_a_tap_and_of_its_streams(server, processes):
    """Neither a second nor the whole sees more than the tap's 20, or a stream's 8, a second."""
    with RateLimitServer() as issuer:
        asked = Asked.of(issuer)
        found = processes.read(source_of(server, issuer), "slow", "other")
    assert found == [2 * ASKED] * SLOTS
    moments, slow = server.moments(), server.moments("/slow")
    assert len(moments) == SLOTS * 2 * ASKED
    # the moments are even; each process may be late by one that it has
    assert most_in_a_second(moments) <= 20 + 1 + SLOTS
    assert most_in_a_second(slow) <= 8 + 1 + SLOTS
    assert moments[-1] - asked.first >= (len(moments) - 1) / 20
    assert slow[-1] - asked.first >= (len(slow) - 1) / 8


def test_a_manifest_s_budget_is_one_for_all_processes(server, processes):
    """Five requests in any second, over all processes."""
    with RateLimitServer() as issuer:
        asked = Asked.of(issuer)
        processes.read(source_of(server, issuer, "Declared"), "users")
    moments = server.moments()
    assert len(moments) == SLOTS * 3
    assert most_in_a_second(moments, 0.9) <= 5 + SLOTS
    assert moments[-1] - asked.first >= 2


def test_one_process_that_is_told_to_come_back_tells_the_others(server, processes):
    """After a 429 no process requests that stream before the time that the source named."""
    server.refuse_once = 4
    with RateLimitServer() as issuer:
        processes.read(source_of(server, issuer), "slow")
    moments = server.moments()
    assert len(moments) == SLOTS * ASKED + 1
    # those that had their places before were on their way
    assert longest_pause(moments) >= 2


def travelled(permits: Any) -> Any:
    """Return what a worker gets."""
    return pickle.loads(pickle.dumps(permits))  # noqa: S301


def even(rate: float) -> RateLimits:
    return RateLimits("even", ((rate, 1.0),))


def test_a_client_without_the_key_gets_no_connection():
    """The issuer hangs up, and the places that are left are those of the job."""
    with RateLimitServer() as issuer:
        address = issuer.address
        stranger = RateLimitAddress(address.host, address.port, b"guessed").counters()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_FIRST_PAUSE_SECONDS", 0.001)
            with pytest.raises(RateLimitServerError, match="this executor cannot reach it"):
                stranger.ask("a", even(1))
        assert address.counters().ask("a", even(1)).wait == 0


def test_a_silent_or_invalid_client_delays_no_other():
    """A connection that does not speak is no reason for another one to wait."""
    with RateLimitServer() as issuer:
        where = (issuer.address.host, issuer.address.port)
        with socket.create_connection(where), socket.create_connection(where) as loud:
            loud.sendall(b"x" * 200_000 + b"\n")
            assert issuer.address.counters().ask("a", even(1)).wait == 0


def hang_up(issuer: RateLimitServer) -> None:
    """Close all connections, as a network does."""
    for task in asyncio.all_tasks(issuer._loop):
        if task.get_coro().__name__ == "_serve":
            issuer._loop.call_soon_threadsafe(task.cancel)


def test_a_connection_that_breaks_is_made_again():
    """The schedule goes on where it stood."""
    with RateLimitServer() as issuer:
        counters: Any = issuer.address.counters()
        assert counters.ask("a", even(0.001)).wait == 0
        hang_up(issuer)
        assert 500 < counters.ask("a", even(0.001)).wait <= 1000


def test_an_issuer_that_is_gone_is_an_error_with_the_way_out(monkeypatch):
    """It names the address, and the setting."""
    monkeypatch.setattr(module, "_FIRST_PAUSE_SECONDS", 0.001)
    with RateLimitServer() as issuer:
        address = issuer.address
        counters = address.counters()
        counters.ask("a", even(1))
    with pytest.raises(
        RateLimitServerError, match=rf"127.0.0.1:{address.port}.*spark\.driver\.host"
    ):
        counters.ask("a", even(1))


def test_an_address_that_cannot_be_listened_on_is_an_error():
    """It is one of another machine."""
    with (
        pytest.raises(RateLimitServerError, match=r"192\.0\.2\.1.*spark\.driver\.bindAddress"),
        RateLimitServer(bind="192.0.2.1"),
    ):
        pass


def test_the_key_is_new_for_each_run_and_shown_nowhere():
    """Neither by the address nor by a source that has it."""
    with RateLimitServer() as issuer, RateLimitServer() as other:
        address = issuer.address
        assert address.key != other.address.key
        assert repr(address.key)[2:-1] not in repr(address) + str(
            TapSpec("a", "b", {}, None, address)
        )
        assert travelled(address) == address


def test_a_budget_of_any_number_of_requests_passes_the_wire():
    """What has no rate waits for nothing but for what the source says."""
    with RateLimitServer() as issuer:
        counters = issuer.address.counters()
        free = even(float("inf"))
        assert [counters.ask("a", free).wait for _ in range(3)] == [0, 0, 0]
        counters.lower("a", free, 0, 5000)
        assert 4000 < counters.ask("a", free).wait <= 5000


def test_the_issuer_counts_as_one_process_does():
    """Windows are asked again until they have a place, also over the wire."""
    window = RateLimits("fixed", ((2, 3600.0),))
    local = InProcessCounters()
    with RateLimitServer() as issuer:
        counters = issuer.address.counters()
        for _ in range(3):
            mine, theirs = local.ask("a", window), counters.ask("a", window)
            assert mine.is_taken == theirs.is_taken
            assert mine.wait == pytest.approx(theirs.wait, abs=60)


def test_shares_without_a_driver_never_have_the_same_moment(monkeypatch):
    """Of eight parts with 10 requests a second, two requests are always a tenth apart."""
    now = 1_800_000_000.123
    monkeypatch.setattr(time, "time", lambda: now)
    taken = []
    for number in range(8):
        counters = travelled(StaticShare(number, 8)).counters()
        taken += [now + counters.ask("a", even(10)).wait for _ in range(20)]
    taken.sort()
    assert min(b - a for a, b in pairwise(taken)) == pytest.approx(0.1, abs=1e-4)
    assert taken[0] - now <= 0.1 + 1e-4


def test_a_share_waits_where_the_source_asks_to_come_back(monkeypatch):
    """Its next moment is one of its own after that."""
    now = 1_800_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    counters = StaticShare(1, 4).counters()
    counters.lower("a", even(2), 0, 7.2)
    counters.lower("b", even(2), 3)
    assert counters.ask("a", even(2)).wait == pytest.approx(8.5)
    assert counters.ask("b", even(2), 2).wait == pytest.approx(0.5 + 2)
    counters.lower("c", RateLimits("moving", ((5, 10.0),)), 0)
    assert counters.ask("c", even(float("inf"))).wait == pytest.approx(10)


@pytest.mark.spark
@pytest.mark.thorough
def test_it_listens_where_the_driver_of_a_spark_does():
    """On its host, and on the port that its settings name; a port that is none is refused."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = SparkSettings(master="local[1]", format="parquet", small_runs=True)
    session = Session.start(settings)
    try:
        spark = session.spark()
        spark.conf.set("spark.tap.permits.port", str(port))
        with RateLimitServer.of(spark) as issuer:
            assert (issuer.address.host, issuer.address.port) == ("127.0.0.1", port)
            assert issuer.address.counters().ask("a", even(1)).wait == 0
        spark.conf.set("spark.tap.permits.port", "70000")
        with pytest.raises(RateLimitServerError, match="a port from 0 to 65535, not 70000"):
            RateLimitServer.of(spark)
    finally:
        session.stop()
