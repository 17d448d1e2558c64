"""Loads through Spark Connect: a real server, and clients without a JVM or Spark's jars."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from target_spark.config import settings
from target_spark.storage.commit_retry import FailureKind, classify_failure, first_error_line
from target_spark.storage.job_lock import JobLock
from tests.cluster.connect import ConnectServer
from tests.cluster.connect_client import PEER, ConnectClient, encode_lines, needs_connect

TAP = "tests.cluster.connect_taps:DaysTap"
PEOPLE = {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}
TIMES = {
    "at": {"type": ["null", "string"], "format": "date-time"},
    "sum": {"type": ["null", "number"], "multipleOf": 0.01},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """Start a server with Delta Lake and Iceberg; a test that kills it starts it again."""
    with ConnectServer(tmp_path_factory.mktemp("connect") / "server") as started:
        yield started


def schema(stream: str, properties: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    json_schema = {"properties": dict(properties)}
    return {
        "type": "SCHEMA",
        "stream": stream,
        "schema": json_schema,
        "key_properties": list(keys),
    }


def record(stream: str, **values: Any) -> dict[str, Any]:
    return {"type": "RECORD", "stream": stream, "record": values}


def state(number: int) -> dict[str, Any]:
    return {"type": "STATE", "value": {"bookmarks": {"people": {"at": number}}}}


def states(*numbers: int) -> list[Any]:
    return [state(number)["value"] for number in numbers]


# ------------------------------------------------------------------------------ loading
def messages() -> list[dict[str, Any]]:
    """Return a keyed stream that gets a column and has an invalid value, and one without keys."""
    return [
        schema("people", PEOPLE, "id"),
        schema("events", TIMES),
        record("people", id=1, name="one"),
        record("people", id=2, name="two"),
        record("events", at="2024-05-01T10:00:00+02:00", sum=12345678901234.10),
        record("events", at="1583-01-01T00:00:00Z", sum=None),
        state(1),
        record("people", id=1, name="one again"),
        record("people", id="three", name="no number"),
        schema("people", {**PEOPLE, "age": {"type": ["null", "integer"]}}, "id"),
        record("people", id=3, name=None, age=30),
        state(2),
    ]


@needs_connect
@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.peer
@pytest.mark.parametrize("table_format", ["delta", "iceberg", "parquet"])
def test_tables_and_states_match_those_of_a_local_spark(
    tmp_path: Path, server: ConnectServer, table_format: str
) -> None:
    """A client without a JVM upserts, appends, adds a column and quarantines a row."""
    client = ConnectClient(
        tmp_path, server.url, table_format, flush_rows=2, add_record_metadata=False
    )
    code, out = client.run(messages())
    assert code == 0, client.errors()
    assert out[-1] == state(2)["value"]
    people = [(1, "one again", None), (2, "two", None), (3, "None", 30)]
    if table_format == "parquet":
        people.insert(1, (1, "one", None))
    table_rows = client.rows("people", ["id", "coalesce(name, 'None')", "age"])
    assert table_rows == people
    assert client.rows("events", ["cast(at as string)", "cast(sum as string)"]) == [
        ("1583-01-01 00:00:00", None),
        ("2024-05-01 08:00:00", "12345678901234.10"),
    ]
    assert client.rows("people__quarantine", ["raw"]) == [('{"id": "three", "name": "no number"}',)]


@needs_connect
@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.peer
def test_overwrite_and_scd2_are_supported(tmp_path: Path, server: ConnectServer) -> None:
    """Rows are replaced once the stream is complete, and versions of rows are kept."""
    modes = {"people": {"write_mode": "overwrite"}, "cars": {"write_mode": "scd2"}}
    client = ConnectClient(tmp_path, server.url, streams=modes, overwrite_on_eof="always")
    for name in ("old", "new"):
        code, _ = client.run(
            [
                schema("people", PEOPLE, "id"),
                schema("cars", PEOPLE, "id"),
                record("people", id=len(name), name=name),
                record("cars", id=1, name=name),
                state(1),
            ]
        )
        assert code == 0, client.errors()
        assert client.rows("people", ["name"]) == [(name,)]
    assert client.rows("cars", ["name", "cast(_sdc_is_current as int)"]) == [("new", 1), ("old", 0)]


@needs_connect
@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.peer
def test_doctor_and_last_state_are_supported(tmp_path: Path, server: ConnectServer) -> None:
    """The doctor checks the server, and the last state is read from the tables."""
    client = ConnectClient(tmp_path, server.url)
    code, _ = client.run([schema("people", PEOPLE, "id"), record("people", id=1), state(7)])
    assert code == 0, client.errors()
    assert client.run([], "last-state") == (0, states(7))
    doctor = client.start("doctor")
    out, _ = doctor.communicate(timeout=1800)
    assert doctor.returncode == 0, out.decode() + client.errors()
    assert "java" not in out.decode() + client.errors()


@needs_connect
@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.peer
def test_command_run_resumes_from_the_tables(tmp_path: Path, server: ConnectServer) -> None:
    """The tap runs in the client's process, which is logged; the next run resumes."""
    tap = tmp_path / "tap.json"
    arguments = ("run", "--tap", TAP, "--tap-config", str(tap))
    client = ConnectClient(tmp_path, server.url)
    for last in (2, 3):
        tap.write_text(json.dumps({"last": last}))
        code, out = client.run([], *arguments)
        assert code == 0, client.errors()
        assert out[-1]["bookmarks"]["days"]["replication_key_value"] == f"2024-01-0{last}"
    assert client.rows("days", ["day"]) == [(f"2024-01-0{day}",) for day in (1, 2, 2, 3)]
    assert "The tap is read by this process: the workers of a Spark Connect" in client.errors()


FALSIFYING = {
    "spark.sql.session.timeZone": "Europe/Berlin",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
}


@needs_connect
@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.peer
def test_settings_of_the_server_do_not_change_values(tmp_path: Path) -> None:
    """Each session sets the settings that affect values."""
    import pyarrow.parquet

    times = ["2024-07-01T12:00:00.000001Z", "2024-07-01T12:00:00+02:00", "1500-01-01T00:00:00"]
    with ConnectServer(tmp_path / "server", conf=FALSIFYING) as server:
        client = ConnectClient(tmp_path, server.url, "parquet")
        code, _ = client.run(
            [schema("events", TIMES), *(record("events", at=time) for time in times)]
        )
        assert code == 0, client.errors()
    table_rows = pyarrow.parquet.read_table(tmp_path / "tables" / "events").to_pylist()
    assert sorted(row["at"].isoformat() for row in table_rows) == [
        "1500-01-01T00:00:00+00:00",
        "2024-07-01T10:00:00+00:00",
        "2024-07-01T12:00:00.000001+00:00",
    ]


# ------------------------------------------------------------------------------ rejected
@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"staging": None}, "staging"),
        ({"staging": "s3a://bucket/staging"}, "staging"),
        ({"remote": "http://spark:15002"}, "remote"),
        ({"remote": "sc://spark/;session_id=1"}, "remote"),
        ({"master": "spark://spark:7077"}, "master"),
        ({"jars": ["delta.jar"]}, "jars"),
        ({"retain_days": 8, "format": "iceberg", "path": "s3a://bucket"}, "retain_days"),
        ({"spark": {"spark.sql.session.timeZone": "Europe/Berlin"}}, "spark"),
    ],
)
def test_settings_unsupported_by_spark_connect_are_rejected(
    wrong: dict[str, Any], word: str
) -> None:
    """A setting that Spark Connect cannot apply is an error of the configuration."""
    good = {"remote": "sc://spark:15002", "staging": "/shared/staging", "path": "/shared/tables"}
    assert settings.find_faults(good) == []
    faults = settings.find_faults({**good, **wrong})
    assert [fault for fault in faults if word in fault.partition(" ")[0]], faults


def test_unavailable_server_is_a_retryable_failure() -> None:
    """A client's errors about an unavailable server or a lost session are transient."""
    from grpc import StatusCode
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException, UnknownException

    text = "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE"
    text += '\n\tdetails = "Connection refused"\n\tdebug_error_string = "much more"\n>'
    away = SparkConnectGrpcException(text, grpc_status_code=StatusCode.UNAVAILABLE)
    forgotten = UnknownException("gone", errorClass="INVALID_HANDLE.SESSION_CLOSED")
    other = SparkConnectGrpcException("no", grpc_status_code=StatusCode.PERMISSION_DENIED)
    assert [classify_failure(error) for error in (away, forgotten, other)] == [
        FailureKind.SERVER_LOST,
        FailureKind.SERVER_LOST,
        FailureKind.PERMANENT,
    ]
    assert first_error_line(away).startswith("Spark Connect: UNAVAILABLE: Connection refused")


def test_sessions_of_a_killed_run_are_stored_in_the_lock_file(tmp_path: Path) -> None:
    """Sessions that may still run are listed until they are known to have ended."""
    first = JobLock.acquire(str(tmp_path), "job")
    first.record_sessions(["session-1"])
    first.release()
    second = JobLock.acquire(str(tmp_path), "job")
    assert second.leftover_sessions == ("session-1",)
    second.record_sessions([])
    second.release()
    third = JobLock.acquire(str(tmp_path), "job")
    assert third.leftover_sessions == ()
    third.release()


@needs_connect
@pytest.mark.thorough
@pytest.mark.peer
def test_unreachable_server_is_an_error_without_its_token(tmp_path: Path) -> None:
    """The run ends soon, names the setting, and hides the secret."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"sc://127.0.0.1:{nobody.getsockname()[1]}"
        client = ConnectClient(tmp_path, f"{url}/;use_ssl=false;x-api=geheim99;token=geheim77")
        code, out = client.run([schema("people", PEOPLE, "id"), record("people", id=1), state(1)])
    assert (code, out) == (1, [])
    assert url in client.errors()
    assert "remote" in client.errors()
    assert "geheim" not in client.errors()


@needs_connect
@pytest.mark.thorough
@pytest.mark.peer
def test_local_files_are_accessed_without_a_jvm_and_others_rejected(tmp_path: Path) -> None:
    """A session needs no server until its first query, and none is made."""
    (tmp_path / "day").mkdir()
    (tmp_path / "day" / "rows").write_text("1")
    os.utime(tmp_path / "day" / "rows", (1_000, 2_000))
    program = f"""
import os, sys
from pathlib import Path
from pyspark.sql.connect.session import SparkSession
from target_spark.errors import UnsupportedError
from target_spark.storage import hadoop_fs

spark, folder = SparkSession("sc://127.0.0.1:1"), Path({str(tmp_path)!r})
print(hadoop_fs.get_last_modified(spark, str(folder)))
print(hadoop_fs.get_last_modified(spark, str(folder / "missing")))
hadoop_fs.fetch_file(spark, str(folder / "day" / "rows"), folder / "copy")
for call in (
    lambda: hadoop_fs.get_last_modified(spark, "s3a://bucket/day"),
    lambda: hadoop_fs.fetch_file(spark, "s3a://bucket/day/rows", folder / "other"),
):
    try:
        call()
    except UnsupportedError as error:
        print(error)
sys.stdout.flush()
os._exit(0)  # instead of asking the server to end the session
"""
    process = subprocess.run(
        [str(PEER), "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    modified, missing, *errors = process.stdout.splitlines()
    assert (modified, missing, (tmp_path / "copy").read_text()) == ("2000.0", "None", "1")
    assert [error.split(" can ")[0] for error in errors] == [
        f"Through Spark Connect (the setting remote) s3a://bucket/{path}"
        for path in ("day", "day/rows")
    ]


@needs_connect
@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.peer
def test_server_without_jars_or_settings_is_rejected_with_the_options(
    tmp_path: Path,
) -> None:
    """Jars, extensions and settings that a client cannot supply are named before any row."""
    messages = [schema("people", PEOPLE, "id"), record("people", id=1), state(1)]
    with ConnectServer(tmp_path / "server", formats=()) as bare:
        for name, option in {
            "delta": "--packages io.delta:delta-spark_4.1_2.13",
            "iceberg": "--packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13",
        }.items():
            folder = tmp_path / name
            folder.mkdir()
            client = ConnectClient(folder, bare.url, name)
            assert client.run(messages) == (1, [])
            assert option in client.errors()
            assert "spark.sql.extensions=" in client.errors()
        folder = tmp_path / "static"
        folder.mkdir()
        static = {"spark.sql.warehouse.dir": "/x", "spark.hadoop.fs.s3a.secret.key": "geheim"}
        client = ConnectClient(folder, bare.url, "parquet", spark=static)
        assert client.run(messages) == (1, [])
        assert all(key in client.errors() for key in static)
        assert "geheim" not in client.errors()


# ------------------------------------------------------------------------------ faults
class Reader:
    """Reads the states of a run in a thread."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.states: list[Any] = []
        self._process = process
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.states.extend(json.loads(line) for line in self._process.stdout)

    def wait_for(self, count: int, seconds: float = 1800) -> None:
        end = time.monotonic() + seconds
        while len(self.states) < count:
            assert time.monotonic() < end, self.states
            assert self._process.poll() is None
            time.sleep(0.1)

    def end(self) -> int:
        code = self._process.wait(1800)
        self._thread.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # data that a killed process did not read
                pipe.close()
        return code


def batches(numbers: Sequence[int]) -> list[bytes]:
    """Return, for each number, a batch of two streams and its state, as lines."""
    return [
        encode_lines(
            [
                *(record("people", id=key, name=f"in {number}") for key in (number, number + 1)),
                *(record("events", sum=number) for _ in range(2)),
                state(number),
            ]
        )
        for number in numbers
    ]


HEAD = encode_lines([schema("people", PEOPLE, "id"), schema("events", TIMES)])


@needs_connect
@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.peer
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_server_restart_loses_no_row(tmp_path: Path, table_format: str) -> None:
    """The server is killed during a commit and restarts: the run continues in new sessions."""
    with ConnectServer(tmp_path / "server") as server:
        client = ConnectClient(
            tmp_path, server.url, table_format, flush_rows=2, max_parallel_commits=2
        )
        run = client.start()
        reader = Reader(run)
        assert run.stdin is not None
        run.stdin.write(HEAD + batches([0])[0])
        run.stdin.flush()
        reader.wait_for(1)
        run.stdin.write(b"".join(batches(range(1, 6))))
        run.stdin.close()
        time.sleep(1)  # the next commits are in progress
        server.kill()
        server.start()
        assert reader.end() == 0, client.errors()
        assert reader.states[-1] == state(5)["value"]
        assert client.rows("people", ["id"]) == [(key,) for key in range(7)]
        assert client.rows("events", ["cast(sum as int)"]) == sorted(
            [(key,) for key in range(6) for _ in range(2)]
        )


@needs_connect
@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.peer
def test_unavailable_server_ends_the_run_and_the_next_completes(
    tmp_path: Path,
) -> None:
    """No uncommitted row is acknowledged; rows after the last state are sent again."""
    with ConnectServer(tmp_path / "server") as server:
        client = ConnectClient(tmp_path, server.url, flush_rows=2)
        run = client.start()
        reader = Reader(run)
        assert run.stdin is not None
        run.stdin.write(HEAD + batches([0])[0])
        run.stdin.flush()
        reader.wait_for(1)
        server.kill()
        run.stdin.write(b"".join(batches(range(1, 6))))
        run.stdin.close()
        assert reader.end() == 1
        assert reader.states == states(0)
        assert "Spark Connect server (the setting remote) did not respond" in client.errors()
        server.start()
        next_run = client.start()
        out, _ = next_run.communicate(HEAD + b"".join(batches(range(1, 6))), timeout=1800)
        assert next_run.returncode == 0, client.errors()
        assert json.loads(out.splitlines()[-1]) == state(5)["value"]
        assert client.rows("people", ["id"]) == [(key,) for key in range(7)]
        assert client.rows("events", ["cast(sum as int)"]) == sorted(
            [(key,) for key in range(6) for _ in range(2)]
        )


@needs_connect
@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.peer
def test_second_run_is_rejected_and_a_killed_run_resumed(
    tmp_path: Path, server: ConnectServer
) -> None:
    """The second run fails at the job lock; after the first is killed, a third resumes."""
    client = ConnectClient(tmp_path, server.url, flush_rows=2)
    first = client.start()
    reader = Reader(first)
    assert first.stdin is not None
    first.stdin.write(HEAD + batches([0])[0])
    first.stdin.flush()
    reader.wait_for(1)
    assert client.run([schema("people", PEOPLE, "id"), record("people", id=9)]) == (1, [])
    assert "is alive" in client.errors() or "another run" in client.errors().lower()
    first.stdin.write(batches([1])[0])
    first.stdin.flush()
    os.kill(first.pid, signal.SIGKILL)
    assert reader.end() == -signal.SIGKILL
    third = client.start()
    out, _ = third.communicate(HEAD + batches([1])[0], timeout=1800)
    assert third.returncode == 0, client.errors()
    assert [json.loads(line) for line in out.splitlines()][-1] == state(1)["value"]
    assert client.rows("people", ["id"]) == [(0,), (1,), (2,)]
