"""Signals and slow or closed readers: rows are committed with their states, no process is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.target.cli.test_target_cli import (
    COMMAND,
    PATIENCE,
    Running,
    config,
    environment,
    ids,
    read_report,
    record,
    running,
    schema,
    state,
)
from tests.target.loader.crash_run import left_behind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

GONE_SECONDS = 60


def wait_for_no_processes(folder: Path) -> None:
    """Wait until no process of a run is left; the end of a killed JVM may take a moment."""
    end = time.monotonic() + GONE_SECONDS
    while processes := left_behind(folder):
        assert time.monotonic() < end, processes
        time.sleep(0.05)


def get_jvm(folder: Path) -> int | None:
    """Return the process id of the JVM that the job's lock file names."""
    for lease in (folder / "tables" / "_target_spark").glob("*.lease"):
        with suppress(ValueError):
            lock = json.loads(lease.read_bytes())
            return lock.get("jvm")
    return None


def is_writing_rows(folder: Path) -> bool:
    """Return True if Spark writes files of the table that are not committed yet."""
    return any((folder / "tables" / "a").glob(".target-spark-*"))


def start_sender(target: Running) -> threading.Thread:
    """Start a thread that sends rows and states until the pipe is closed."""

    def send() -> None:
        with suppress(BrokenPipeError, ValueError):
            for start in range(1, 10**9, 1000):
                rows = [record(n) for n in range(start, start + 1000)]
                target.send(*rows, state(start + 999))

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def last_state(target: Running) -> int:
    return int(target.lines[-1]) if target.lines else 0


def test_signal_during_spark_startup_ends_the_run_after_startup(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running(tmp_path, flush_rows=1) as target:
        target.send(schema(), record(1), state(1), record(2), state(2))
        target.until(lambda: get_jvm(tmp_path) is not None)
        target.process.send_signal(signal.SIGTERM)
        assert target.end() == 0, target.errors.decode()
        assert read_report(target.errors)["outcome"] == "stopped by a signal"
        assert last_state(target) <= 2
        written = ids(spark, tmp_path) if (tmp_path / "tables" / "a").exists() else []
        assert written == [*range(1, last_state(target) + 1)]
    wait_for_no_processes(tmp_path)


def test_signal_during_a_commit_lets_the_commit_finish(spark: SparkSession, tmp_path: Path) -> None:
    rows = [record(n) for n in range(1, 40_001)]
    with running(tmp_path, flush_rows=40_000) as target:
        target.send(schema(), *rows, state(40_000), record(40_001), state(40_001))
        target.until(lambda: is_writing_rows(tmp_path))
        target.process.send_signal(signal.SIGTERM)
        assert target.end() == 0, target.errors.decode()
        assert target.lines == [b"40000\n"]
    assert len(ids(spark, tmp_path)) == 40_000
    wait_for_no_processes(tmp_path)


def test_signal_ends_the_wait_for_spool_space(spark: SparkSession, tmp_path: Path) -> None:
    with running(tmp_path, flush_rows=1000, max_spool_bytes=20_000) as target:
        target.send(schema())
        sender = start_sender(target)
        target.until(lambda: last_state(target) > 0)
        target.process.send_signal(signal.SIGTERM)
        assert target.end() == 0, target.errors.decode()
        written = ids(spark, tmp_path)
        assert last_state(target) <= len(written)
        assert written == [*range(1, len(written) + 1)]
        with suppress(BrokenPipeError):
            target.stdin.close()
        sender.join(PATIENCE)
    wait_for_no_processes(tmp_path)


def test_second_signal_ends_the_jvm(tmp_path: Path) -> None:
    with running(tmp_path, flush_rows=100_000) as target:
        target.send(schema(), *(record(n) for n in range(1, 100_001)), state(1))
        target.until(lambda: is_writing_rows(tmp_path))
        target.process.send_signal(signal.SIGTERM)
        target.process.send_signal(signal.SIGINT)
        code = target.end()
        assert code in {0, 128 + signal.SIGTERM, 128 + signal.SIGINT}
        assert code != 0 or target.lines == [b"1\n"]
    wait_for_no_processes(tmp_path)


def test_interrupted_overwrite_leaves_the_old_table(spark: SparkSession, tmp_path: Path) -> None:
    complete_input = b"".join([schema(), record(1), record(2), state({"x": 1})])
    (tmp_path / "whole").write_bytes(complete_input)
    arguments = ["--config", str(config(tmp_path, write_mode="overwrite"))]
    subprocess.run(
        [*COMMAND, *arguments, "--input", "whole"], env=environment(), cwd=tmp_path, check=True
    )
    assert ids(spark, tmp_path) == [1, 2]

    for end in ("signal", "death"):
        with running(tmp_path, write_mode="overwrite") as target:
            target.send(schema(), record(7), state({"currently_syncing": "a"}), record(8))
            target.until(lambda: get_jvm(tmp_path) is not None)
            if end == "signal":
                target.process.send_signal(signal.SIGTERM)
                assert target.end() == 0
            else:  # the tap died: its end of the pipe is closed
                target.stdin.close()
                assert target.end() == 1
                assert b"tables of a were not overwritten" in target.errors
            assert target.lines == []
            assert read_report(target.errors)["complete"] is False
        assert ids(spark, tmp_path) == [1, 2]
    wait_for_no_processes(tmp_path)


TAP = """
import json, sys, time
print(json.dumps({"type": "SCHEMA", "stream": "a", "key_properties": [],
    "schema": {"properties": {"id": {"type": "integer"}}}}))
n = 0
while True:
    n += 1
    print(json.dumps({"type": "RECORD", "stream": "a", "record": {"id": n}}))
    print(json.dumps({"type": "STATE", "value": n}), flush=True)
    time.sleep(0.002)
"""


def test_control_c_in_a_pipe_ends_the_tap_and_commits_received_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The terminal sends SIGINT to all processes of the pipe."""
    (tmp_path / "tap.py").write_text(TAP)
    path = config(tmp_path, flush_rows=100)
    command = " ".join(f"'{word}'" for word in [*COMMAND, "--config", str(path)])
    line = (
        f"trap : INT; '{sys.executable}' tap.py | (trap : INT; {command} > states; echo $? > code)"
    )
    with subprocess.Popen(
        ["sh", "-c", line],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as shell:
        states = tmp_path / "states"
        end = time.monotonic() + PATIENCE
        while not (states.exists() and states.stat().st_size):
            assert time.monotonic() < end
            time.sleep(0.02)
        os.killpg(shell.pid, signal.SIGINT)
        shell.wait(PATIENCE)
    assert (tmp_path / "code").read_text() == "0\n"
    covered = int(states.read_bytes().split()[-1])
    assert covered
    written = ids(spark, tmp_path)  # the state of the last row may not have arrived
    assert written == [*range(1, len(written) + 1)]
    assert covered <= len(written) <= covered + 1
    wait_for_no_processes(tmp_path)


def test_reader_that_closes_the_pipe_after_one_state_is_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = config(tmp_path, flush_rows=1)
    with subprocess.Popen(
        [*COMMAND, "--config", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=tmp_path,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(schema() + record(1) + state(1))
        process.stdin.flush()
        assert process.stdout.readline() == b"1\n"
        process.stdout.close()  # as `head -1` does
        process.stdin.write(record(2) + state(2))
        process.stdin.flush()
        errors = process.stderr.read()
        assert process.wait(PATIENCE) == 1
        assert b"process that reads the states may have ended" in errors
    assert ids(spark, tmp_path) == [1, 2]
    wait_for_no_processes(tmp_path)


def test_slow_reader_receives_every_state_and_no_row_is_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A full pipe delays the states; no row is missing or duplicated."""
    filler = "x" * 100_000  # more than a pipe takes, so that the first state blocks
    path = config(tmp_path, flush_rows=10)
    with subprocess.Popen(
        [*COMMAND, "--config", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        cwd=tmp_path,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(schema())
        for n in range(1, 51):
            process.stdin.write(record(n) + (state([n, filler]) if n % 10 == 0 else b""))
        process.stdin.close()
        assert process.stdout.read(1) == b"["
        time.sleep(2)
        output = b"[" + process.stdout.read()
        assert process.wait(PATIENCE) == 0
    states = [json.loads(line)[0] for line in output.splitlines()]
    assert states == sorted(set(states))
    assert states[-1] == 50
    assert ids(spark, tmp_path) == [*range(1, 51)]
    wait_for_no_processes(tmp_path)
