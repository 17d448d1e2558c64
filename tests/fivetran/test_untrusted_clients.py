"""Requests of untrusted clients: servers as programs, called by a plain gRPC client."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.enums import DataType
from tap_core.protocols.fivetran.port_option import HOST_VARIABLE
from tests.fivetran.connecting import HERE, ROOT
from tests.process_memory import read_memory, read_peak_memory

PATIENCE = 120
SHOP = (sys.executable, str(HERE / "shop.py"))
SPARK = (sys.executable, "-m", "target_spark")
MOST_BYTES = 600 << 20
"""The memory that many concurrent requests may add to a server."""

SECRET = "MARKED-4711"


class Server:
    """A running server and a gRPC client that uses no code of the SDK for its calls."""

    def __init__(self, process: subprocess.Popen[str], service: str) -> None:
        self.process, self.service = process, service
        first = json.loads(process.stdout.readline()) if process.stdout else {}
        self.port = int(first["message"].split()[3])

    @contextmanager
    def method(self, rpc: str) -> Iterator[Any]:
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{self.port}", options=options) as channel:
            yield channel.unary_unary(f"/fivetran_sdk.v2.{self.service}/{rpc}")

    def send(self, rpc: str, request: bytes) -> bytes | grpc.StatusCode:
        """Return the answer, or the status code of an error."""
        with self.method(rpc) as method:
            try:
                return bytes(method(request, timeout=PATIENCE))
            except grpc.RpcError as error:
                status: grpc.StatusCode = error.code()  # type: ignore[attr-defined]
                return status

    def refusal(self, rpc: str, **fields: Any) -> str:
        """Return the message of the failure or task that answers a call."""
        request = getattr(proto_messages, f"{rpc}Request")(**fields)
        response = "WriteBatch" if rpc == "WriteHistoryBatch" else rpc
        kind = getattr(proto_messages, f"{response}Response")
        answer = self.send(rpc, request.SerializeToString())
        assert isinstance(answer, bytes)
        read = kind.FromString(answer)
        text: str = read.failure if rpc == "Test" else read.task.message
        return text


@contextmanager
def running(program: tuple[str, ...], **variables: str) -> Iterator[Server]:
    service = "DestinationConnector" if program[: len(SPARK)] == SPARK else "SourceConnector"
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("TARGET_", "TAP_", "PYTEST"))
    }
    process = subprocess.Popen(
        [*program, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": str(ROOT), HOST_VARIABLE: "127.0.0.1", **variables},
    )
    try:
        yield Server(process, service)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def destination() -> Iterator[Server]:
    with running(SPARK) as server:
        yield server


def table() -> Any:
    column = proto_messages.Column(name="id", type=int(DataType.LONG), primary_key=True)
    return proto_messages.Table(name="orders", columns=[column])


CALLS: dict[str, Mapping[str, Any]] = {
    "Test": {"name": "storage"},
    "DescribeTable": {"schema_name": "s", "table_name": "t"},
    "CreateTable": {"schema_name": "s", "table": table()},
    "AlterTable": {"schema_name": "s", "table": table()},
    "Truncate": {"schema_name": "s", "table_name": "t", "synced_column": "x"},
    "WriteBatch": {"schema_name": "s", "table": table(), "replace_files": ["/etc/shadow"]},
    "WriteHistoryBatch": {"schema_name": "s", "table": table(), "delete_files": ["/etc/shadow"]},
}


@pytest.mark.parametrize("rpc", CALLS)
def test_call_cannot_run_a_program_or_make_java_write_a_file(
    destination: Server, rpc: str, tmp_path: Path
) -> None:
    """SEC1: a call cannot set Spark's Python program or Java options."""
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\nid -un > {tmp_path}/pwned_python\n")
    program.chmod(0o755)
    spark = {
        "spark.driver.extraJavaOptions": f"-Xlog:gc:file={tmp_path}/pwned_java",
        "spark.pyspark.python": str(program),
        "spark.hadoop.fs.s3a.secret.key": SECRET,
    }
    configuration = {"path": str(tmp_path / "t"), "format": "delta", "spark": json.dumps(spark)}
    message = destination.refusal(rpc, configuration=configuration, **CALLS[rpc])
    assert "spark.driver.extraJavaOptions, spark.pyspark.python: a call may not set this" in message
    assert "TARGET_SPARK_ALLOW_SETTINGS" in message
    assert SECRET not in message
    assert str(tmp_path) not in message
    assert sorted(tmp_path.iterdir()) == [program]
    children = Path(f"/proc/{destination.process.pid}/task/{destination.process.pid}/children")
    assert not children.read_text().split()


def test_call_cannot_allow_its_own_settings(destination: Server) -> None:
    configuration = {
        "path": "/lake",
        "TARGET_SPARK_ALLOW_SETTINGS": "*",
        "allow_settings": "*",
        "master": "yarn",
    }
    message = destination.refusal("Test", name="settings", configuration=configuration)
    assert "TARGET_SPARK_ALLOW_SETTINGS, allow_settings, master: a call may not set this" in message


def test_settings_in_the_operators_environment_are_not_restricted(tmp_path: Path) -> None:
    variables = {
        "TARGET_SPARK_MASTER": "local[1]",
        "TARGET_SPARK_SPARK": '{"spark.driver.extraJavaOptions": "-Dx=y"}',
        "TARGET_SPARK_ALLOW_PATHS": str(tmp_path),
    }
    with running(SPARK, **variables) as server:
        message = server.refusal("Test", name="settings", configuration={"path": "/etc"})
        assert message.startswith("path: the operator of this server allows tables only in certain")
        configuration = {"path": str(tmp_path / "lake"), "jars": "x.jar"}
        assert server.refusal("Test", name="settings", configuration=configuration).startswith(
            "jars:"
        )
        allowed = server.refusal("Test", name="nothing", configuration={})
        assert "There is no such test" in allowed


def test_call_cannot_make_a_connector_write_files(tmp_path: Path) -> None:
    """SEC1: a call cannot make a connector write BATCH files."""
    storage = {"root": str(tmp_path / "pwned"), "prefix": "x"}
    batch = {"encoding": {"format": "jsonl", "compression": "none"}, "storage": storage}
    with running(SHOP) as server:
        for name, value in {"batch_config": json.dumps(batch), "sqlalchemy_url": "x"}.items():
            request = proto_messages.TestRequest(name="connection", configuration={name: value})
            answer = server.send("Test", request.SerializeToString())
            assert isinstance(answer, bytes)
            message = proto_messages.TestResponse.FromString(answer).failure
            assert f"{name}: a call may not set this" in message
            assert f"TAP_SHOP_ALLOW_SETTINGS={name}" in message
            update = proto_messages.UpdateRequest(configuration={name: value}).SerializeToString()
            last = proto_messages.UpdateResponse.FromString(b"")
            with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
                method = channel.unary_stream("/fivetran_sdk.v2.SourceConnector/Update")
                for piece in method(update, timeout=PATIENCE):
                    last = proto_messages.UpdateResponse.FromString(piece)
            assert "a call may not set this" in last.task.message
    assert not list(tmp_path.iterdir())
    with running(SHOP, TAP_SHOP_ALLOW_SETTINGS="sqlalchemy_*") as server:
        request = proto_messages.TestRequest(
            name="connection", configuration={"sqlalchemy_url": "x", "people": "2"}
        )
        answer = server.send("Test", request.SerializeToString())
        assert isinstance(answer, bytes)
        assert proto_messages.TestResponse.FromString(answer).success


# Floods ---------------------------------------------------------------------------------------


def send_concurrently(
    server: Server, rpc: str, request: bytes, clients: int, calls: int
) -> list[Any]:
    """Send a request from many clients at once; return the answers and status codes."""
    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(lambda _: server.send(rpc, request), range(calls)))


def text_request(size: int) -> bytes:
    return proto_messages.TestRequest(name="x" * size).SerializeToString()


def values_request(size: int) -> bytes:
    """Return a table whose columns take two bytes each, and hundreds in memory."""
    columns = b"\x12\x00" * (size // 2)
    return b"\x1a" + _length(len(columns)) + columns


def _length(number: int) -> bytes:
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def json_request(size: int) -> bytes:
    """Return a Test whose Spark settings are a list of lists."""
    return proto_messages.TestRequest(
        name="settings", configuration={"spark": "[" + "[]," * (size // 3) + "[]]"}
    ).SerializeToString()


@pytest.mark.parametrize(
    ("rpc", "make"),
    [
        ("Test", text_request),
        pytest.param("CreateTable", values_request, marks=pytest.mark.thorough),
        pytest.param("Test", json_request, marks=pytest.mark.thorough),
    ],
    ids=["text", "values", "json"],
)
def test_many_large_requests_are_answered_within_a_memory_limit(
    rpc: str, make: Callable[[int], bytes]
) -> None:
    """SEC2: many large requests neither exhaust the memory nor hang."""
    request = make(15 << 20)
    with running(SPARK) as server:
        server.send("Test", text_request(1))
        before = read_memory(server.process.pid)
        answers = send_concurrently(server, rpc, request, clients=20, calls=40)
        assert grpc.StatusCode.DEADLINE_EXCEEDED not in answers
        assert read_peak_memory(server.process.pid) - before < MOST_BYTES
        assert all(isinstance(answer, bytes | grpc.StatusCode) for answer in answers)
        assert isinstance(server.send("Test", text_request(1)), bytes)


def test_destination_refuses_a_message_of_100_megabytes() -> None:
    with running(SPARK) as server:
        server.send("Test", text_request(1))
        before = read_memory(server.process.pid)
        answers = send_concurrently(server, "Test", text_request(100 << 20), clients=4, calls=8)
        assert set(answers) == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert read_peak_memory(server.process.pid) - before < MOST_BYTES
        assert isinstance(server.send("Test", text_request(1)), bytes)


def state_request(size: int) -> bytes:
    """Return an Update whose state is a list of lists, which is large in memory."""
    text = "[" + "[]," * (size // 3) + "[]]"
    return proto_messages.UpdateRequest(state_json=text).SerializeToString()


@pytest.mark.parametrize(
    ("rpc", "make"),
    [("Test", text_request), pytest.param("Update", state_request, marks=pytest.mark.thorough)],
    ids=["text", "state"],
)
def test_connector_answers_many_large_requests_within_a_memory_limit(
    rpc: str, make: Callable[[int], bytes]
) -> None:
    request = make(15 << 20)
    with running(SHOP) as server:
        server.send("Test", text_request(1))
        before = read_memory(server.process.pid)
        answers = send_concurrently(server, rpc, request, clients=16, calls=32)
        assert grpc.StatusCode.DEADLINE_EXCEEDED not in answers
        assert read_peak_memory(server.process.pid) - before < MOST_BYTES
        assert all(isinstance(answer, bytes | grpc.StatusCode) for answer in answers)
        assert isinstance(server.send("Test", text_request(1)), bytes)


def test_operator_can_raise_the_message_limit_to_fivetrans() -> None:
    options = ("--max-request", str(128 << 20), "--max-held", str(1 << 30))
    with running((*SHOP, *options)) as server:
        assert isinstance(server.send("Test", text_request((128 << 20) - 100)), bytes)
        status = server.send("Test", text_request(128 << 20))
        assert status is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_idle_connections_and_calls_do_not_delay_others(
    destination: Server,
) -> None:
    """SEC2: idle connections and calls without a request do not delay other calls."""
    with ExitStack() as stack:
        for _ in range(50):
            silent = socket.create_connection(("127.0.0.1", destination.port), timeout=60)
            stack.enter_context(silent)
        method = stack.enter_context(destination.method("Test"))
        assert method(text_request(1), timeout=PATIENCE)
        channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{destination.port}"))
        never: Any = channel.stream_unary("/fivetran_sdk.v2.DestinationConnector/Test")
        stalled = [never.future(_nothing(stack), timeout=5 * PATIENCE) for _ in range(20)]
        time.sleep(0.5)
        assert _answer_in_time(method)
        for call in stalled:
            call.cancel()


def _answer_in_time(method: Any) -> bytes:
    """Return the answer; repeat a call that was cancelled because its request came late."""
    end = time.monotonic() + PATIENCE
    while True:
        call = method.future(text_request(1), timeout=PATIENCE)
        if call.code() is not grpc.StatusCode.CANCELLED or time.monotonic() > end:
            return bytes(call.result())


def _nothing(stack: ExitStack) -> Iterator[bytes]:
    """Return a request iterator that yields nothing and ends with the test."""
    import threading

    ended = threading.Event()
    stack.callback(ended.set)

    def wait() -> Iterator[bytes]:
        ended.wait(5 * PATIENCE)
        yield from ()

    return wait()
