"""target-spark as a process: output, exit codes, signals and memory."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from target_spark.storage.uris import to_spark_uri
from tests.bench.process_tree import PeakMemory
from tests.delivered_signals import deliver
from tests.process_memory import read_peak_memory
from tests.target.loader.table_counts import checked_counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "target_spark"]
SCHEMA = {"type": "SCHEMA", "stream": "a", "schema": {"properties": {"id": {"type": "integer"}}}}
PATIENCE = 200


def line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def record(number: int, stream: str = "a") -> bytes:
    return line({"type": "RECORD", "stream": stream, "record": {"id": number}})


def state(value: Any) -> bytes:
    return b'{"type":"STATE","value":%s}\n' % json.dumps(value).encode()


def schema(stream: str = "a", *keys: str) -> bytes:
    return line({**SCHEMA, "stream": stream, "key_properties": list(keys)})


def environment(**variables: str) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("TARGET_")}
    return {**inherited, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "once", **variables}


def config(tmp_path: Path, **overrides: Any) -> Path:
    path = tmp_path / "config.json"
    settings = {"path": str(tmp_path / "tables"), "small_runs": True, **overrides}
    path.write_text(json.dumps({"master": "local[1]", **settings}))
    return path


def run(
    tmp_path: Path, data: bytes, *args: str, env: Mapping[str, str] | None = None, **overrides: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run the target to its end; check its report against the tables if the load is complete."""
    flags = args or ("--config", str(config(tmp_path, **overrides)))
    with checked_counts(Path(overrides.get("path") or tmp_path / "tables")) as ended:
        process = subprocess.run(
            [*COMMAND, *flags],
            input=data,
            capture_output=True,
            env=env or environment(),
            cwd=tmp_path,
            timeout=PATIENCE,
            check=False,
        )
        ended.code, ended.errors = process.returncode, process.stderr.decode()
    return process


class Running:
    """A running target whose standard input stays open."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stderr is not None
        self.process = process
        self.stdin: IO[bytes] = process.stdin
        self.lines: list[bytes] = []
        self.errors = b""
        self._pumps = [threading.Thread(target=self._read_errors, args=(process.stderr,))]
        if process.stdout is not None:
            self._pumps.append(threading.Thread(target=self._read_lines, args=(process.stdout,)))
        for pump in self._pumps:
            pump.start()

    def _read_lines(self, stdout: IO[bytes]) -> None:
        self.lines.extend(stdout)

    def _read_errors(self, stderr: IO[bytes]) -> None:
        for text in stderr:
            self.errors += text

    def send(self, *data: bytes) -> None:
        self.stdin.write(b"".join(data))
        self.stdin.flush()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition; fail if the process ends or PATIENCE is over."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, self.errors.decode()
            assert time.monotonic() < end, self.errors.decode()
            time.sleep(0.02)

    def end(self) -> int:
        self.process.wait(PATIENCE)
        for pump in self._pumps:
            pump.join()
        return self.process.returncode


@contextmanager
def running(
    tmp_path: Path, *, is_read: bool = True, variables: Mapping[str, str] = {}, **overrides: Any
) -> Iterator[Running]:
    """Yield a running target; with ``is_read=False`` the reader of its output is closed.

    ``variables`` are added to its environment, and ``overrides`` to its settings.
    """
    reader, unread = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [*COMMAND, "--config", str(config(tmp_path, **overrides))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if is_read else unread,
        stderr=subprocess.PIPE,
        env=environment(**variables),
        cwd=tmp_path,
    ) as process:
        os.close(unread)
        target = Running(process)
        try:
            yield target
        finally:
            if process.poll() is None:
                process.kill()
            with suppress(BrokenPipeError):
                target.stdin.close()
            target.end()


def read_report(errors: bytes) -> dict[str, Any]:
    (text,) = (row for row in errors.decode().splitlines() if row.startswith("REPORT: "))
    report: dict[str, Any] = json.loads(text.removeprefix("REPORT: "))
    return report


def ids(spark: SparkSession, tmp_path: Path, stream: str = "a", form: str = "delta") -> list[int]:
    read = spark.read.format(form).load(to_spark_uri(str(tmp_path / "tables" / stream)))
    return sorted(row[0] for row in read.select("id").collect())


# Without Spark


def test_about_lists_every_setting_without_loading_spark() -> None:
    script = (
        "import sys; from target_spark.target import TargetSpark\n"
        "TargetSpark.cli.main(['--about', '--format=json'], standalone_mode=False)\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, env=environment(), check=True
    )
    about, _, loaded = process.stdout.decode().rstrip().rpartition("\n")
    assert loaded == "[]"
    settings = json.loads(about)["settings"]["properties"]
    assert {"path", "format", "write_mode", "flush_rows", "spark", "job"} <= settings.keys()
    assert all(setting["description"] for setting in settings.values())


def test_help_and_version_are_printed(tmp_path: Path) -> None:
    assert b"--input" in run(tmp_path, b"", "--help").stdout
    assert run(tmp_path, b"", "--version").stdout.startswith(b"target-spark v")


def test_all_invalid_settings_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(
        json.dumps(
            {
                "format": "parquet",
                "write_mode": "upsert",
                "flush_rows": 0,
                "numbers_as_decimal": "38,39",
                "spark": {"driver": "x"},
                "streams": {"a": {"write_mode": "replace"}},
            }
        )
    )
    process = run(tmp_path, b"", "--config", str(path))
    assert process.returncode == 1
    assert process.stdout == b""
    errors = process.stderr.decode()
    for word in (
        "'path'",
        "parquet cannot replace",
        "flush_rows",
        "38 digits",
        "driver",
        "replace",
    ):
        assert word in errors


def test_stream_of_the_settings_is_not_called_absent_after_an_error(tmp_path: Path) -> None:
    process = run(tmp_path, schema("a"), streams={"a": {"sort_by": ["idd"]}})
    errors = process.stderr.decode()
    assert process.returncode == 1
    assert "streams.a.sort_by: the stream has no property 'idd'" in errors
    assert "not in the input" not in errors


def test_settings_are_read_from_the_environment_and_input_from_a_file(tmp_path: Path) -> None:
    messages = tmp_path / "messages.jsonl"
    messages.write_bytes(schema() + state({"x": 1}))
    env = environment(TARGET_SPARK_PATH=str(tmp_path / "tables"), TARGET_SPARK_FORMAT="parquet")
    process = run(tmp_path, b"", "--config", "ENV", "--input", str(messages), env=env)
    assert (process.returncode, process.stdout) == (0, b'{"x": 1}\n')


def without_java() -> dict[str, str]:
    env = environment(PATH="/nowhere")
    env.pop("JAVA_HOME", None)
    return env


def test_input_without_rows_needs_no_java(tmp_path: Path) -> None:
    process = run(tmp_path, schema() + state(1) + schema() + state([2.50]), env=without_java())
    assert (process.returncode, process.stdout) == (0, b"[2.5]\n")
    assert read_report(process.stderr)["complete"] is True
    assert not (tmp_path / "tables").exists()


def test_missing_java_is_an_error_before_the_input_ends(tmp_path: Path) -> None:
    path = config(tmp_path)
    with subprocess.Popen(
        [*COMMAND, "--config", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=without_java(),
    ) as process:
        assert process.stdin is not None
        process.stdin.write(schema() + record(1) + state(1))
        process.stdin.flush()
        assert process.wait(PATIENCE) == 1  # though the input is still open
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read() == b""
        assert b"No Java was found" in process.stderr.read()


def test_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    process = run(tmp_path, schema() + record(1), path=str(tmp_path / "file" / "tables"))
    assert process.returncode == 1
    assert b"cannot be written" in process.stderr
    assert b"Traceback" not in process.stderr
    process = run(tmp_path, schema(), staging=str(tmp_path / "file" / "staging"))
    assert process.returncode == 1
    assert b"Set staging to a folder" in process.stderr


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)]
)
def test_signal_ends_a_command_by_this_signal(tmp_path: Path, number: signal.Signals) -> None:
    """A shell script that the user interrupts stops, because the command ended by the signal."""
    command = [*COMMAND, "replay", "a", "--schema", "-", "--config", str(config(tmp_path))]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), **pipes) as process:
        assert process.stdin is not None
        process.stdin.write(b" " * (1 << 20))  # more than a pipe holds, so the command runs now
        end = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end:
            process.send_signal(number)  # Python misses one that comes just before it reads
            with suppress(subprocess.TimeoutExpired):  # a second one could disturb the end
                process.wait(5)
        assert process.poll() == -number
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_empty_input_is_complete_with_a_warning_about_the_tap(tmp_path: Path) -> None:
    for blank in (b"", b"\n \r\n"):
        process = run(tmp_path, blank)
        assert process.returncode == 0
        assert (
            b"The input was empty. If a tap was to write it, the tap has failed" in process.stderr
        )
    assert b"The input was empty" not in run(tmp_path, b"\n{\n").stderr


@pytest.mark.parametrize("truncated", [b'{"type":"STATE","val', b"not json\n" + state(2)])
def test_invalid_line_is_an_error_after_the_states_before_it(
    tmp_path: Path, truncated: bytes
) -> None:
    process = run(tmp_path, schema() + state(1) + truncated)
    assert (process.returncode, process.stdout) == (1, b"1\n")
    assert b"Line 3 is not a Singer message" in process.stderr
    advice = b"a tap writes messages to standard output, and logs to standard error"
    assert (advice in process.stderr) == truncated.startswith(b"not json")
    assert b"Traceback" not in process.stderr
    assert "Line 3" in read_report(process.stderr)["outcome"]


def test_closed_standard_output_is_an_error(tmp_path: Path) -> None:
    with running(tmp_path, is_read=False) as target:
        target.send(schema(), state(1))
        target.stdin.close()
        assert target.end() == 1
        assert b"process that reads the states may have ended" in target.errors


def test_signal_without_pending_rows_exits_with_0(tmp_path: Path) -> None:
    with running(tmp_path) as target:
        target.send(schema(), state(1))
        target.until(lambda: target.lines == [b"1\n"])
        target.process.send_signal(signal.SIGINT)
        assert target.end() == 0
        assert read_report(target.errors)["outcome"] == "stopped by a signal"


def test_second_signal_ends_a_blocked_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--config", str(config(tmp_path))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(schema() + state("x" * 3_000_000))  # more than a pipe takes
        process.stdin.flush()
        assert process.stdout.read(1) == b'"'  # it writes, and the reader has stopped
        deliver(process, signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM


def test_incomplete_overwrite_without_rows_is_an_error(tmp_path: Path) -> None:
    process = run(tmp_path, schema(), env=without_java(), write_mode="overwrite")
    assert process.returncode == 1
    assert b"tables of a were not overwritten" in process.stderr
    assert read_report(process.stderr)["complete"] is False


@pytest.mark.thorough
def test_large_states_that_repeat_cost_little_cpu(tmp_path: Path) -> None:
    partitions = [{"context": {"id": n}, "replication_key_value": n} for n in range(5000)]
    document = {"bookmarks": {"a": {"partitions": partitions}}}
    text = state(document)

    def cost(count: int) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        process = run(tmp_path, schema() + text * count)
        assert process.returncode == 0
        assert set(process.stdout.splitlines()) == {json.dumps(document).encode()}
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    one_state, many_states = cost(1), cost(200)
    parsing = time.process_time()
    for _ in range(200):
        json.loads(text)
    assert many_states < 3 * one_state + 5 * (time.process_time() - parsing)


# With Spark

pytest_spark = pytest.mark.spark


@pytest_spark
def test_states_are_emitted_during_the_run_until_a_signal_stops_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    with running(tmp_path, flush_rows=2, report=str(report)) as target:
        target.send(schema(), record(1), state(0), record(2), state({"é": [1.50, None]}))
        target.until(lambda: len(target.lines) == 1)
        assert target.lines == [json.dumps({"é": [1.50, None]}).encode() + b"\n"]
        assert ids(spark, tmp_path) == [1, 2]

        second = run(tmp_path, schema() + record(9) + state("second"))
        assert (second.returncode, second.stdout) == (1, b"")
        assert f"process {target.process.pid}".encode() in second.stderr

        target.send(record(3), state("never"))  # half a batch: it must not be committed now
        target.until(lambda: b"never" not in b"".join(target.lines))
        target.process.send_signal(signal.SIGTERM)
        assert target.end() == 0
        assert len(target.lines) == 1
    assert ids(spark, tmp_path) == [1, 2]
    assert json.loads(report.read_text())["streams"]["a"]["written"] == 2
    assert b"\nREPORT: " in target.errors


@pytest_spark
def test_rows_before_a_truncated_line_are_committed_with_their_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = schema() + record(1) + state(1) + record(2) + record(3)
    process = run(tmp_path, data[:-7])
    assert (process.returncode, process.stdout) == (1, b"1\n")
    assert b"The input ended within a message. Line 5" in process.stderr
    assert ids(spark, tmp_path) == [1, 2]


@pytest.mark.thorough
@pytest_spark
def test_closed_standard_output_is_an_error_after_the_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running(tmp_path, is_read=False, flush_rows=1) as target:
        target.send(schema(), record(1), state(1))
        assert target.end() == 1  # though the input is still open
        assert b"process that reads the states may have ended" in target.errors
    assert ids(spark, tmp_path) == [1]


@pytest_spark
@pytest.mark.thorough
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_quarantined_rows_are_reported_without_a_java_stack_trace(
    tmp_path: Path, table_format: str
) -> None:
    bad_record = line(
        {"type": "RECORD", "stream": "a", "record": {"id": 2, "name": 1e300, "n": "x"}}
    )
    keyed = {"id": {"type": "integer"}, "n": {"type": ["integer", "null"]}}
    schema_line = line({**SCHEMA, "schema": {"properties": keyed}, "key_properties": ["id"]})
    for data in (schema_line + record(1), schema_line + record(1) + bad_record):
        process = run(tmp_path, data, format=table_format, write_mode="upsert")
        assert process.returncode == 0
    errors = process.stderr.decode()
    assert "n: not an integer of 64 bits" in errors
    assert "\n\tat " not in errors


@pytest.mark.thorough
@pytest_spark
def test_target_process_uses_at_most_150_megabytes(tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak of a process's memory is read from /proc")
    json_schema = {"properties": {"id": {"type": "integer"}, "x": {"type": "string"}}}
    head = line({"type": "SCHEMA", "stream": "a", "schema": json_schema})
    wide = line({"type": "RECORD", "stream": "a", "record": {"id": 1, "x": "y" * 1000}})
    long = line({"type": "RECORD", "stream": "a", "record": {"id": 2, "x": "z" * 15_000_000}})
    with running(tmp_path, format="parquet", flush_bytes=40_000_000) as target:
        target.send(head)
        for _ in range(40):
            target.send(wide * 2000)
        target.send(long, state(1))
        # All rows are in the spool; the commit needs no memory of this process.
        target.until(
            lambda: b"written" in target.errors or read_peak_memory(target.process.pid) > 0
        )
        target.stdin.close()
        highest = 0
        while target.process.poll() is None:
            highest = max(highest, read_peak_memory(target.process.pid))
            time.sleep(0.05)
        assert target.end() == 0, target.errors.decode()
        assert read_report(target.errors)["streams"]["a"]["written"] == 80_001
        assert 0 < highest < 150_000 << 10


@pytest_spark
@pytest.mark.thorough
@pytest.mark.parametrize("length, count", [(1 << 20, 230), (15 << 20, 12)])
def test_large_rows_take_no_more_than_600_megabytes(
    tmp_path: Path, length: int, count: int
) -> None:
    """SEC13: row groups are bounded from the first row on, and large rows go in small batches."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak of a process's memory is read from /proc")
    json_schema = {"properties": {"id": {"type": "integer"}, "x": {"type": "string"}}}
    head = line({"type": "SCHEMA", "stream": "a", "schema": json_schema})
    peaks: list[int] = []
    for size in (1, length):
        folder = tmp_path / str(size)
        folder.mkdir()
        options: dict[str, Any] = {"master": "local[2]", "format": "delta", "small_runs": False}
        with running(folder, **options) as target, PeakMemory(target.process.pid) as memory:
            wide = {"type": "RECORD", "stream": "a", "record": {"id": 1, "x": "y" * size}}
            target.send(head, *[line(wide)] * count, state(1))
            target.stdin.close()
            assert target.end() == 0, target.errors.decode()
        peaks.append(memory.jvm)
    assert peaks[0] < peaks[1] < peaks[0] + 600 * 1024 * 1024


@pytest.mark.thorough
@pytest_spark
def test_paths_may_have_any_characters_in_the_locale_c(tmp_path: Path) -> None:
    """Python uses UTF-8 for paths then. Java does so only in a locale with UTF-8."""
    env = {**environment(), "LC_ALL": "C"}
    process = run(tmp_path, schema("s_😀") + record(1, "s_😀") + state(1), env=env)
    assert (process.returncode, process.stdout) == (0, b"1\n"), process.stderr.decode()
    assert list((tmp_path / "tables").glob("*😀*"))
