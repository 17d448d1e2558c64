"""The gRPC server of Fivetran's calls: its answers, and that only a signal ends it."""

from __future__ import annotations

import json
import signal
import site
import socket
import threading
from collections.abc import Iterator
from urllib.parse import quote

import grpc
import pytest

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.grpc_server import Handler, Server, Service
from tap_core.protocols.fivetran.listen_address import ListenAddress
from tap_core.protocols.fivetran.logging import ServerLog
from tests.fivetran.server_process import PATIENCE, Running, running
from tests.peers import PEERS, missing_reason, peer_python

HEADER = 8_000
"""A header size in bytes that every proxy accepts."""


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as started:
        started.connect()
        yield started
        assert started.test("still there").success, "some test has ended the server"
        assert all(set(json.loads(line)) == KEYS for line in started.lines)


@pytest.fixture
def own_server() -> Iterator[Running]:
    """Start a server whose log has no late lines of other tests."""
    with running() as started:
        started.connect()
        yield started


PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
"""Characters that gRPC does not percent-encode in a header."""

KEYS = {"level", "message", "message-origin"}


def states(answers) -> list[str]:
    return [answer.checkpoint.state_json for answer in answers]


# ------------------------------------------------------------------------- answers


def test_call_is_answered_and_logged_with_its_duration(server: Running) -> None:
    """F2: the log is JSON lines of three keys on standard output."""
    assert server.test("plain").success
    line = server.await_line("Test: the test plain in")
    assert line["level"] == "INFO"
    assert line["message-origin"] == "sdk_connector"
    assert line["message"].endswith(" s")


def test_stream_may_yield_messages_and_bytes(server: Running) -> None:
    """F12: an Update streams and ends."""
    assert states(server.update("")) == ['{"n":1}', '{"n":2}']
    server.await_line("Update: 1 table in")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_server_listens_on_ipv4_and_ipv6(server: Running, host: str) -> None:
    """F1: the server listens on IPv4, and on IPv6 if the machine has it."""
    if host == "[::1]" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    with grpc.insecure_channel(f"{host}:{server.port}") as channel:
        method = channel.unary_unary("/fivetran_sdk.v2.SourceConnector/Test")
        assert method(proto_messages.TestRequest(name="x").SerializeToString(), timeout=30)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_nine_calls_run_concurrently(server: Running) -> None:
    """Each call waits for all others, so none would end if one were queued."""
    streams = [server.update("meet") for _ in range(5)]
    calls = [server.call("Test", proto_messages.TestRequest(name="meet")) for _ in range(4)]
    assert [len(list(stream)) for stream in streams] == [2] * 5
    assert all(call.result() for call in calls)


def test_prints_and_warnings_of_the_tap_keep_the_log_valid(own_server: Running) -> None:
    """F2, F5: a retry is logged once per call, and only the log is on standard output."""
    logs = []
    for _ in range(2):
        start = len(own_server.lines)
        own_server.test("print")
        own_server.await_line("Test: the test print")
        logs.append([json.loads(line)["message"] for line in own_server.lines[start:]])
    assert "UserWarning: some warning" in logs[0]
    for texts in logs:
        *before, _ = texts
        assert set(before) <= {"Trying again, time 0", "UserWarning: some warning"}
        assert before.count("Trying again, time 0") == 1


# ------------------------------------------------------------------------- failures


@pytest.mark.parametrize("name", ["error", "exit", "abyss"])
def test_exception_of_a_call_becomes_its_answer(server: Running, name: str) -> None:
    """F4: no exception is unhandled, and the process continues."""
    message = server.test(name).failure
    assert message.endswith(", 100 % sure")
    line = server.await_line("Test failed after")
    assert line["level"] == "SEVERE"
    assert message in line["message"]


@pytest.mark.parametrize("name", ["error", "exit", "abyss"])
def test_error_in_a_stream_is_its_last_answer(server: Running, name: str) -> None:
    """F4: a Task ends the sync after the answers already sent."""
    *before, last = server.update(name)
    assert states(before) == ['{"n":1}', '{"n":2}']
    assert last.task.message.endswith(", 100 % sure")
    assert server.await_line("Update failed after")["level"] == "SEVERE"


def test_error_of_a_call_without_task_is_a_status_with_an_alert(server: Running) -> None:
    """F4: the status details are a JSON object with an alert of the type TASK."""
    request = proto_messages.SchemaRequest(configuration={"name": 'a "quote" \n 100 %'})
    code, details = server.failure("Schema", request)
    assert code is grpc.StatusCode.INTERNAL
    document = json.loads(details)
    assert document["alert_type"] == "TASK"
    assert document["message"] == 'ValueError: a "quote" \n 100 %, 100 % sure'


def test_long_error_fits_into_a_response_header(server: Running) -> None:
    """F4: below 8 kB, counted as gRPC encodes it."""
    _, details = server.failure(
        "Schema", proto_messages.SchemaRequest(configuration={"name": "long"})
    )
    assert json.loads(details)["message"].startswith("ValueError: üü")
    assert len(quote(details, safe=PLAIN)) < HEADER
    assert len(server.test("long").failure.encode()) < HEADER
    assert len(server.await_line("Test failed after")["message"].encode()) < HEADER


def test_error_whose_explanation_fails_is_reported(server: Running) -> None:
    assert "KeyError, then TypeError" in server.test("unsayable").failure


def test_invalid_request_is_refused_with_a_status(server: Running) -> None:
    code, details = server.failure("Update", b"\xff\xff\xff")
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "version 2" in json.loads(details)["message"]


@pytest.mark.parametrize("rpc", ["Nonsense", "ConfigurationForm"])
def test_call_without_a_handler_is_unimplemented(server: Running, rpc: str) -> None:
    assert server.failure(rpc, b"")[0] is grpc.StatusCode.UNIMPLEMENTED


def test_answer_larger_than_fivetrans_limit_is_an_error(server: Running) -> None:
    """Messages are at most 128 MB in both directions."""
    *_, last = server.update("large")
    assert "134,217,728" in last.task.message


def test_request_larger_than_fivetrans_limit_is_refused(server: Running) -> None:
    """The library refuses it; the log names the option, because it does not know the reason."""
    code, _ = server.failure("Test", bytes(2**27 + 1))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    line = server.await_line("Test was cancelled by the client")
    assert "its request did not arrive. A request may have at most" in line["message"]
    assert "(--max-request)" in line["message"]


def test_call_without_a_request_is_not_handled(server: Running) -> None:
    """A call whose message gRPC has refused may look like this, too."""
    method = server.channel.stream_unary("/fivetran_sdk.v2.SourceConnector/Test")
    error = method.future(iter(()), timeout=PATIENCE).exception()
    assert error.code() is grpc.StatusCode.CANCELLED
    line = server.await_line("Test was cancelled by the client")
    assert "its request did not arrive" in line["message"]


# ------------------------------------------------------------------------- ends


def test_cancelled_stream_is_notified_and_the_next_one_runs(own_server: Running) -> None:
    """F18: the server stays usable."""
    answers = own_server.update("endless")
    next(answers)
    answers.cancel()
    ends = {"end reported", "closed", "Update was cancelled by the client after"}
    messages: list[str] = []
    while not all(any(line.startswith(end) for line in messages) for end in ends):
        messages.append(own_server.await_line("")["message"])  # in any order
    assert messages.count("end reported") == messages.count("closed") == 1
    assert len(states(own_server.update(""))) == 2


def test_signal_lets_calls_finish_and_interrupts_streams() -> None:
    with running() as server:
        server.connect()
        stream = server.update("endless")
        next(stream)
        lingering = server.call("Test", proto_messages.TestRequest(name="linger"))
        server.await_line("lingering")
        server.process.send_signal(signal.SIGTERM)
        assert lingering.result()
        with pytest.raises(grpc.RpcError) as cut:
            list(stream)
        assert cut.value.code() is grpc.StatusCode.UNAVAILABLE
        assert server.await_exit() == 0
        messages = [json.loads(line)["message"] for line in server.lines]
        assert any(text.startswith("Update was cut short") for text in messages)
        assert messages.count("end reported") == messages.count("closed") == 1
        assert messages[-1] == "closing"


def test_signal_received_by_another_thread_ends_the_server() -> None:
    with running() as server:
        server.connect()
        assert server.test("signal").success
        assert server.await_exit() == 0


def test_second_signal_ends_the_server_at_once() -> None:
    with running() as server:
        server.connect()
        staying = server.call("Test", proto_messages.TestRequest(name="stay"))
        server.await_line("staying")
        server.process.send_signal(signal.SIGINT)
        server.await_line("Stopping")
        server.process.send_signal(signal.SIGTERM)
        assert server.await_exit() == 1
        assert json.loads(server.lines[-1])["message"] == "closing"
        assert staying.exception().code() is grpc.StatusCode.UNAVAILABLE


def test_port_in_use_is_reported_and_ends_the_program(server: Running) -> None:
    with running(server.port) as second:
        assert second.await_exit() == 1
        line = json.loads(second.lines[0])
        assert line["level"] == "SEVERE"
        assert line["message"].startswith(f"Port {server.port} cannot be listened on: Address")
        assert line["message"].endswith("Choose another one with --port.")


@pytest.mark.peer
def test_server_works_with_the_oldest_supported_grpc_and_protobuf() -> None:
    python = peer_python("fivetran_wire")
    if python is None:
        pytest.skip(missing_reason("fivetran_wire"))
    last = site.getsitepackages()
    versions = " ".join(pin.partition("==")[2] for pin in PEERS["fivetran_wire"])
    with running(0, str(python), *last) as server:
        server.connect()
        assert server.test("versions").failure == versions
        assert server.test("error").failure == "ValueError: a value does not fit, 100 % sure"
        *before, last_answer = server.update("error")
        assert states(before) == ['{"n":1}', '{"n":2}']
        assert last_answer.task.message
        assert server.failure("Schema", b"\xff")[0] is grpc.StatusCode.INVALID_ARGUMENT
        assert server.failure("Nonsense", b"")[0] is grpc.StatusCode.UNIMPLEMENTED
        answers = server.update("endless")
        next(answers)
        answers.cancel()
        server.await_line("Update was cancelled")
        with running(server.port, str(python), *last) as second:
            assert second.await_exit() == 1
        server.process.send_signal(signal.SIGTERM)
        assert server.await_exit() == 0


def test_call_longer_than_the_grace_period_is_cancelled_and_notified() -> None:
    """The server runs in this process, because the grace period of the program is a minute."""
    started, ended = threading.Event(), threading.Event()

    def stay(_request, call):
        call.on_end(ended.set)
        started.set()
        ended.wait(PATIENCE)
        return proto_messages.TestResponse(success=True)

    service = Service("SourceConnector", {"Test": Handler(stay)}, str)
    server = Server(service, ServerLog("sdk_connector"))
    port = server.start(ListenAddress(0, "127.0.0.1"))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        method = channel.unary_unary("/fivetran_sdk.v2.SourceConnector/Test")
        call = method.future(b"", timeout=PATIENCE)
        started.wait(PATIENCE)
        assert server.stop(0.05)
        assert call.exception().code() in {grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE}


@pytest.mark.parametrize("port", [-1, 70_000])
def test_port_number_out_of_range_is_an_error(port: int) -> None:
    service = Service("SourceConnector", {}, str)
    with pytest.raises(OSError, match="0 to 65535"):
        Server(service, ServerLog("sdk_connector")).start(ListenAddress(port))
