"""Connections without the key cannot exhaust the rate limit server of a job's driver."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tap_core.http.rate_limit_counters import RateLimits
from target_spark.extract import authenticated_server
from target_spark.extract.rate_limit_server import RateLimitAddress, RateLimitServer

EVEN = RateLimits("even", ((1000.0, 1.0),))

DRIVER = """
import os, resource, sys, threading, time
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
from target_spark.extract.rate_limit_server import RateLimitServer
count = lambda: len(os.listdir("/dev/fd"))
with RateLimitServer() as limiter:
    address = limiter.address
    print(address.port, address.key.hex(), flush=True)
    most = before = count()
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), ended.set()), daemon=True).start()
    while not ended.wait(0.01):  # a line comes when the flood is over
        with open(os.devnull):
            most = max(most, count())
    print(before, most, flush=True)
    deadline = time.monotonic() + 60
    while count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    print(count(), flush=True)
"""

FLOOD = """
import socket, sys, time, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
port, count, seconds, said = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
held = []
until = time.monotonic() + seconds
while time.monotonic() < until:
    if len(held) < count:
        made = socket.socket()
        made.settimeout(60)
        try:
            made.connect(("127.0.0.1", port))
            made.sendall(said.encode())
        except OSError:
            made.close()
        else:
            held.append(made)
    else:
        if len(held) == count:
            print("full", flush=True)
        held.append(None)
        time.sleep(0.05)
"""


class Driver:
    """A separate process with 1,024 descriptors that runs the flooded rate limit server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        port, key = self.line().split()
        self.address = RateLimitAddress("127.0.0.1", int(port), bytes.fromhex(key))

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()


@contextlib.contextmanager
def program(text: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", text, *map(str, arguments)]
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("data", ["", "x" * 70_000], ids=["silent", "loud"])
def test_flood_of_connections_without_the_key_does_not_exhaust_descriptors(data):
    """SEC17: connections without the key do not use up the descriptors of the driver."""
    with program(DRIVER) as process:
        driver = Driver(process)
        early = driver.address.counters()
        assert early.reserve("a", EVEN).is_taken
        with program(FLOOD, driver.address.port, 1500, 600, data) as flood:
            assert flood.stdout is not None
            assert flood.stdout.readline() == "full\n"
            late = RateLimitAddress("localhost", driver.address.port, driver.address.key).counters()
            assert early.reserve("a", EVEN).is_taken
            assert late.reserve("a", EVEN).is_taken
            assert flood.poll() is None
        early._close()
        late._close()
        driver.say("end")
        before, peak = map(int, driver.line().split())
        after = int(driver.line())
        process.wait(60)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.returncode == 0
    assert peak - before < 100
    assert after <= before


def where(limiter: RateLimitServer) -> tuple[str, int]:
    return limiter.address.host, limiter.address.port


def clients(limiter: RateLimitServer, count: int) -> list[RateLimitAddress]:
    """Return addresses that each get a separate connection."""
    address = limiter.address
    return [RateLimitAddress(f"127.0.0.{n + 1}", address.port, address.key) for n in range(count)]


def test_more_workers_than_connections_are_all_served(monkeypatch):
    """The longest silent connection makes room, and its worker connects again."""
    monkeypatch.setattr(authenticated_server, "_MAX_CONNECTIONS", 4)
    monkeypatch.setattr("target_spark.extract.rate_limit_server._FIRST_PAUSE_SECONDS", 0.01)
    with RateLimitServer(bind="0.0.0.0") as limiter:  # noqa: S104  each client has another address
        reserving = [address.counters() for address in clients(limiter, 7)]
        try:
            for _ in range(3):
                assert all(client.reserve("a", EVEN).is_taken for client in reserving)
        finally:
            for client in reserving:
                client._close()


def test_worker_that_connects_during_a_flood_gets_its_reservation(monkeypatch):
    """Several threads open connections without the key without a pause."""
    # More tries in the same time: the flood and the worker share this process.
    monkeypatch.setattr("target_spark.extract.rate_limit_server._FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr("target_spark.extract.rate_limit_server._RETRIES", 9)
    with RateLimitServer(bind="0.0.0.0") as limiter:  # noqa: S104  each client has another address
        is_over = threading.Event()

        def flood() -> None:
            while not is_over.is_set():
                with contextlib.suppress(OSError), socket.socket() as connection:
                    connection.settimeout(1)
                    connection.connect(where(limiter))

        threads = [threading.Thread(target=flood) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for address in clients(limiter, 5):
                client = address.counters()
                assert client.reserve("a", EVEN).is_taken
                client._close()
        finally:
            is_over.set()
            for thread in threads:
                thread.join()


def drip(client: socket.socket) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        client.sendall(b"a")
        time.sleep(0.05)


def test_slow_handshake_is_aborted_at_the_deadline(monkeypatch):
    """SEC17: a client that sends its proof byte by byte is disconnected at the deadline."""
    monkeypatch.setattr("target_spark.extract.rate_limit_server._HANDSHAKE_SECONDS", 0.3)
    ended = pytest.raises((BrokenPipeError, ConnectionResetError))
    with (
        RateLimitServer() as limiter,
        socket.create_connection(where(limiter), 60) as client,
        ended,
    ):
        drip(client)


def refusals(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if "not accepted" in record.getMessage()]


def test_driver_without_descriptors_logs_it_once_and_continues(caplog):
    """Connections wait until descriptors are available again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with RateLimitServer() as limiter, caplog.at_level(logging.WARNING):
        client = socket.socket()
        os.close(lowest := os.dup(client.fileno()))
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            client.connect(where(limiter))
            end = time.monotonic() + 60
            while not refusals(caplog) and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(1.5)  # until the next attempt
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with client, client.makefile("rb") as read:
            client.settimeout(60)
            assert len(read.readline()) == 33
    assert len(refusals(caplog)) == 1
    assert "asyncio" not in {record.name for record in caplog.records}
