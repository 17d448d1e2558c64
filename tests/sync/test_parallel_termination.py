"""Termination of a running tap with worker threads, as a real program."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.delivered_signals import deliver
from tests.full_pipes import wait_until_full
from tests.sync.syncing import count_records, parse_messages, read_counts, select_messages

ROOT = Path(__file__).resolve().parents[2]
TAPS = Path(__file__).with_name("parallel_taps.py")
TIMEOUT = 60
PARTITIONS = range(4)


@contextmanager
def run_tap(folder: Path, mode: str, **config: Any):
    """Start a tap with this setting ``mode``; its output is a pipe."""
    path = folder / "config.json"
    path.write_text(json.dumps({"mode": mode, **config}))
    process = subprocess.Popen(
        [sys.executable, str(TAPS), "--config", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=folder,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def read_until(process: subprocess.Popen[bytes], is_complete) -> bytes:
    """Read a tap's output until ``is_complete`` returns True."""
    output = b""
    while not is_complete(output):
        block = os.read(process.stdout.fileno(), 1 << 16)
        assert block, process.stderr.read().decode()
        output += block
    return output


def have_all_started(output: bytes) -> bool:
    return all(b'"id":2,"p":%d}' % partition in output for partition in PARTITIONS)


def finish(process: subprocess.Popen[bytes], before: bytes) -> tuple[list[dict[str, Any]], str]:
    """Read the remaining output; check that its lines are complete and match the log's counts."""
    out, err = process.communicate(timeout=TIMEOUT)
    messages, log = parse_messages(before + out), err.decode()
    assert read_counts(log) == count_records(messages)
    return messages, log


def check_unfinished(messages: list[dict[str, Any]]) -> dict[int, int]:
    """Check that the last line is a state that is not ahead of rows; return its bookmarks."""
    assert messages[-1]["type"] == "STATE"
    state = messages[-1]["value"]
    assert state["currently_syncing"] == "a"
    assert select_messages(messages, "RECORD", "b") == []
    rows = defaultdict(list)
    for message in select_messages(messages, "RECORD", "a"):
        rows[message["record"]["p"]].append(message["record"]["id"])
    bookmarks = {}
    for entry in state["bookmarks"]["a"]["partitions"]:
        partition = entry["context"]["p"]
        bookmarks[partition] = entry.get("replication_key_value", -1)
        assert bookmarks[partition] <= max(rows[partition], default=-1)
        assert rows[partition] == sorted(rows[partition])
        assert set(rows[partition]) >= set(range(bookmarks[partition] + 1))
    return bookmarks


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_all_threads_at_their_next_record(tmp_path, signal_number):
    with run_tap(tmp_path, "sleeping") as process:
        before = read_until(process, have_all_started)
        process.send_signal(signal_number)
        messages, stderr = finish(process, before)
        assert process.returncode == 0
    bookmarks = check_unfinished(messages)
    assert all(value >= 2 for value in bookmarks.values())
    for partition in PARTITIONS:
        assert f"closed {partition}" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("min_bytes", [10_000, 1_234_567])
def test_signal_while_threads_write_truncates_no_line(tmp_path, min_bytes):
    with run_tap(tmp_path, "writing") as process:
        before = read_until(process, lambda output: len(output) > min_bytes)
        process.terminate()
        messages, _ = finish(process, before)
        assert process.returncode == 0
    check_unfinished(messages)


@contextmanager
def silent_server():
    """Start a server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def test_signal_does_not_wait_for_a_pending_response(tmp_path):
    with silent_server() as url, run_tap(tmp_path, "requesting", url=url) as process:
        before = read_until(process, have_all_started)
        process.terminate()
        messages, stderr = finish(process, before)
        assert process.returncode == 0
    assert set(check_unfinished(messages).values()) == {2}
    assert "still wait for a response" in stderr


def test_second_signal_ends_the_tap_immediately(tmp_path):
    """It does not wait for the response, for which the tap otherwise waits some seconds."""
    options = {"grace_seconds": 10 * TIMEOUT}
    with silent_server() as url, run_tap(tmp_path, "requesting", url=url, **options) as process:
        read_until(process, have_all_started)
        deliver(process, signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        process.terminate()
        process.communicate(timeout=TIMEOUT)
        assert process.returncode == 1


def test_second_signal_ends_threads_blocked_on_a_full_pipe(tmp_path):
    with run_tap(tmp_path, "writing") as process:
        read_until(process, lambda output: b'"id":0' in output)
        wait_until_full(process.stdout)
        deliver(process, signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        process.terminate()
        assert process.wait(TIMEOUT) == 1


def test_failing_partition_stops_the_others_and_is_named(tmp_path):
    with run_tap(tmp_path, "failing") as process:
        messages, stderr = finish(process, b"")
        assert process.returncode == 1
    bookmarks = check_unfinished(messages)
    assert bookmarks[0] == 2
    assert "Stream 'a', {'p': 0}: RuntimeError: the source is on fire" in stderr
    assert "parallel_taps.py" in stderr, "the traceback leads to the author's line"
    assert all(f"closed {partition}" in stderr for partition in PARTITIONS)


def test_closed_output_pipe_ends_the_tap_without_a_traceback(tmp_path):
    with run_tap(tmp_path, "writing") as process:
        read_until(process, lambda output: b'"id":0' in output)
        process.stdout.close()
        stderr = process.stderr.read().decode()
        assert process.wait(TIMEOUT) == 1
    assert "Traceback" not in stderr
    assert "BrokenPipe" not in stderr


def test_slow_reader_gets_complete_lines_and_no_thread_is_left(tmp_path):
    with run_tap(tmp_path, "finishing") as process:
        blocks = []
        while block := os.read(process.stdout.fileno(), 1 << 12):
            blocks.append(block)
        stderr = process.stderr.read().decode()
        assert process.wait(TIMEOUT) == 0, stderr
    messages = parse_messages(b"".join(blocks))
    assert len(select_messages(messages, "RECORD", "a")) == 2_000 * len(PARTITIONS)
    assert select_messages(messages, "RECORD", "b")[0]["record"] == {"id": 0}, (
        "the number of remaining threads"
    )
    partitions = messages[-1]["value"]["bookmarks"]["a"]["partitions"]
    assert partitions == [
        {"context": {"p": partition}, "replication_key": "id", "replication_key_value": 1_999}
        for partition in PARTITIONS
    ]
