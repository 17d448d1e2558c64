"""Receiving requests: the order in which clients are served, and memory limits."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from tap_core import Stream, Tap
from tap_core.protocols.fivetran import proto_messages, request_limits
from tap_core.protocols.fivetran.connector_service import make_connector_service
from tap_core.protocols.fivetran.grpc_server import Handler, Server, Service
from tap_core.protocols.fivetran.listen_address import ListenAddress
from tap_core.protocols.fivetran.logging import ServerLog
from tap_core.protocols.fivetran.request_limits import (
    RequestLimits,
    RequestReceiver,
    RequestTooLargeError,
    count_values,
    estimate_memory,
)

PATIENCE = 60
SENT = proto_messages.TestRequest(name="sent").SerializeToString()
TEST, UPDATE = (f"/fivetran_sdk.v2.SourceConnector/{name}" for name in ("Test", "Update"))


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (proto_messages.TestRequest(name="x").SerializeToString(), 1),
        (proto_messages.TestRequest(configuration={"a": "b", "c": "d"}).SerializeToString(), 6),
        (b"\x12\x00" * 40, 40),  # entries of a map, two bytes each
        (b"\x0b\x12\x00\x0c", 3),  # an unknown group around one
        (b"\x18" + b"\xff" * 9 + b"\x01", 1),  # the greatest integer
    ],
)
def test_values_of_nested_messages_are_counted(data, count) -> None:
    assert count_values(data, proto_messages.TestRequest.DESCRIPTOR, 1000) == count


def test_counting_stops_just_above_the_limit() -> None:
    assert count_values(b"\x12\x00" * 1_000_000, proto_messages.TestRequest.DESCRIPTOR, 10) == 11


@pytest.mark.parametrize(
    "data",
    [
        b"\x12",
        b"\x12\x05ab",
        b"\x80" * 100_000,
        b"\x0a\xff\xff",
        b"\x18" + b"\xff" * 9 + b"\x02",  # an integer of 65 bits
    ],
)
def test_invalid_message_is_an_error(data) -> None:
    with pytest.raises(ValueError, match="end"):
        count_values(data, proto_messages.TestRequest.DESCRIPTOR, 1000)


def test_total_memory_of_requests_is_limited() -> None:
    """SEC2: the bytes that all calls hold have a limit, which the error names."""
    receiver = RequestReceiver(RequestLimits(held=40_000))
    data = proto_messages.TestRequest(name="x" * 6_000).SerializeToString()

    def received() -> Any:
        return receiver.request(iter([data]), None, proto_messages.TestRequest)

    limit = r"40,000 bytes of memory \(--max-held\): 24,012 are in use, .* would need 24,012"
    with received() as first, pytest.raises(RequestTooLargeError, match=limit), received():
        pass
    assert len(first.name) == 6_000
    with received():  # the first one has ended
        pass


def test_incomplete_requests_release_their_memory() -> None:
    receiver = RequestReceiver(RequestLimits(held=40_000))
    for _ in range(5):
        broken = receiver.request(iter([b"\x12" * 9]), None, proto_messages.TestRequest)
        with pytest.raises(ValueError, match="end"), broken:
            pass
    with receiver.request(iter([b""]), None, proto_messages.TestRequest) as empty:
        assert empty == proto_messages.TestRequest()


def test_memory_estimate_includes_decoded_values_and_json() -> None:
    kind = proto_messages.TestRequest.DESCRIPTOR
    assert estimate_memory(b"\x12\x00" * 1_000, kind, 1 << 30) == 1_000_000
    state = proto_messages.TestRequest(name="[" + "[]," * 1_000 + "[]]").SerializeToString()
    assert estimate_memory(state, kind, 1 << 30) == len(state) + 128_000


class _Sender:
    """A client whose request arrives when its event is set; as a call it records a cancellation."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.is_cancelled = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        assert self.goes_on.wait(PATIENCE)
        return SENT

    def cancel(self) -> None:
        self.is_cancelled = True
        self.goes_on.set()


def test_idle_clients_delay_others_only_briefly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Longer than the thread of a prompt client may be delayed on a busy machine.
    monkeypatch.setattr(f"{RequestReceiver.__module__}._PATIENCE_SECONDS", 1.0)
    receiver = RequestReceiver(RequestLimits())
    silent = [_Sender() for _ in range(5)]

    def receive(sender: _Sender) -> str:
        with receiver.request(sender, sender, proto_messages.TestRequest) as request:
            return str(request.name)

    threads = [threading.Thread(target=receive, args=(client,), daemon=True) for client in silent]
    for thread in threads:
        thread.start()
    # Of the queued idle clients one gets a thread, and the others are cancelled.
    deadline = time.monotonic() + PATIENCE
    while not any(client.is_cancelled for client in silent) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert any(client.is_cancelled for client in silent)
    prompt = _Sender()
    prompt.goes_on.set()
    assert receive(prompt) == "sent"
    assert not prompt.is_cancelled
    for client in silent:
        client.goes_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert not all(client.is_cancelled for client in silent)


class _DelayedThreads(threading.Condition):
    """A condition whose waits last 0.1 seconds longer, as on a machine with many busy threads."""

    def __init__(self) -> None:
        super().__init__()
        self.probes = 0
        self.has_probed = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        is_notified = super().wait(timeout if timeout is None else timeout + 0.1)
        if timeout == request_limits._PROBE_SECONDS:
            self.probes += 1
            if self.probes == 2:  # after the one for the silent client
                self.has_probed.set()
        return is_notified


def test_delayed_threads_do_not_cancel_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that has arrived may be read late, because other calls keep the processor busy."""
    receiver = RequestReceiver(RequestLimits())
    receiver._changed = delayed = _DelayedThreads()
    silent, late, third = _Sender(), _Sender(), _Sender()
    third.goes_on.set()

    def receive(sender: _Sender) -> None:
        with receiver.request(sender, sender, proto_messages.TestRequest):
            pass

    def start(sender: _Sender) -> threading.Thread:
        thread = threading.Thread(target=receive, args=(sender,), daemon=True)
        thread.start()
        return thread

    def wait_until(is_done: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not is_done() and time.monotonic() < end:
            time.sleep(0.001)
        assert is_done()

    monkeypatch.setattr(request_limits, "_DELAYS", 0)
    threads = [start(silent)]
    wait_until(lambda: receiver._receiving is not None)
    threads.append(start(late))
    wait_until(lambda: receiver._slow is not None)  # the one request that may arrive slowly
    monkeypatch.setattr(request_limits, "_DELAYS", 10 * PATIENCE)
    threads.append(start(third))
    assert delayed.has_probed.wait(PATIENCE)
    late.goes_on.set()
    threads[1].join(PATIENCE)
    assert not late.is_cancelled
    silent.goes_on.set()
    for thread in threads:
        thread.join(PATIENCE)


class _StoppedProcess(threading.Condition):
    """A condition of a process that is stopped for an hour (SIGSTOP) while it measures its delay.

    Other waits end at once, and only ``clock`` advances.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = 0.0
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        self.clock += 3600 if timeout == request_limits._PROBE_SECONDS else timeout
        return False


def test_silent_client_does_not_delay_others_after_a_stop_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEC2: the extension for delayed threads has a limit."""
    receiver = RequestReceiver(RequestLimits())
    receiver._changed = process = _StoppedProcess()
    monkeypatch.setattr(time, "monotonic", lambda: process.clock)
    silent, prompt = _Sender(), _Sender()
    prompt.goes_on.set()

    def receive(sender: _Sender) -> None:
        with receiver.request(sender, sender, proto_messages.TestRequest):
            pass

    thread = threading.Thread(target=receive, args=(silent,), daemon=True)
    thread.start()
    for _ in range(PATIENCE * 100):
        if receiver._receiving is None:
            time.sleep(0.01)
    receive(prompt)
    assert max(process.waits) <= request_limits._SLOW_SECONDS
    silent.goes_on.set()
    thread.join(PATIENCE)


def test_calls_beyond_the_limit_are_refused() -> None:
    """SEC2: the running calls end normally."""
    go_on = threading.Event()

    def wait(_request: Any, _call: Any) -> Any:
        assert go_on.wait(PATIENCE)
        return proto_messages.TestResponse(success=True)

    server = Server(Service("SourceConnector", {"Test": Handler(wait)}, str), ServerLog("x"))
    port = server.start(ListenAddress(0, "127.0.0.1", RequestLimits(calls=3)))
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            method: Any = channel.unary_unary(TEST)
            calls = [method.future(b"", timeout=PATIENCE) for _ in range(9)]
            refused: list[Any] = []
            deadline = time.monotonic() + PATIENCE
            while len(refused) < 6 and time.monotonic() < deadline:
                refused = [call for call in calls if call.done()]
                time.sleep(0.01)
            assert len(refused) == 6
            codes = {call.exception().code() for call in refused}
            assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            go_on.set()
            assert sum(call.exception() is None for call in calls) == 3
            assert method(b"", timeout=PATIENCE)
    finally:
        go_on.set()
        server.stop(5)


@pytest.mark.parametrize("limits", [RequestLimits(calls=1), RequestLimits(held=150_000)])
def test_cancelled_update_counts_against_the_limits_until_its_sync_has_stopped(
    limits: RequestLimits,
) -> None:
    """F18, SEC2: a client cannot start ever more syncs by cancelling each at once."""
    state = json.dumps({"unused": "x" * 20_000})
    request = proto_messages.UpdateRequest(state_json=state).SerializeToString()
    go_on = threading.Event()

    class Slow(Stream):
        name = "slow"
        schema = {"properties": {"n": {"type": "integer"}}}

        def get_records(self, context: Any) -> Iterator[dict[str, Any]]:
            yield {"n": 1}
            assert go_on.wait(PATIENCE)
            yield {"n": 2}

    class TapSlow(Tap):
        name = "tap-slow"

        def discover_streams(self) -> list[Stream]:
            return [Slow(self)]

    journal = ServerLog("x")
    server = Server(make_connector_service(TapSlow, journal), journal)
    port = server.start(ListenAddress(0, "127.0.0.1", limits))
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            update: Any = channel.unary_stream(UPDATE)
            cancelled = update(request, timeout=PATIENCE)
            next(cancelled)
            cancelled.cancel()
            statuses = {call_status(update, request) for _ in range(30)}
            assert statuses == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            go_on.set()
            deadline = time.monotonic() + PATIENCE
            while call_status(update, request) is not None and time.monotonic() < deadline:
                time.sleep(0.01)
            assert call_status(update, request) is None
    finally:
        go_on.set()
        server.stop(5)


def call_status(method: Any, request: bytes) -> grpc.StatusCode | None:
    """Call a method, and return the status of its error, or None if it succeeded."""
    time.sleep(0.01)
    try:
        list(method(request, timeout=PATIENCE))
    except grpc.RpcError as error:
        status: grpc.StatusCode = error.code()
        return status
    return None
