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
LONG = 60
PARTITIONS = range(4)


@contextmanager
def running(folder: Path, ends: str, **config: Any):
    """Start a tap with this setting ``ends``, with its output on a pipe."""
    path = folder / "config.json"
    path.write_text(json.dumps({"ends": ends, **config}))
    tap = subprocess.Popen(
        [sys.executable, str(TAPS), "--config", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=folder,
    )
    try:
        yield tap
    finally:
        tap.kill()
        tap.wait()
        tap.stdout.close()
        tap.stderr.close()


def read_until(tap: subprocess.Popen[bytes], ready) -> bytes:
    """Read a tap's output until ``ready`` returns True."""
    output = b""
    while not ready(output):
        block = os.read(tap.stdout.fileno(), 1 << 16)
        assert block, tap.stderr.read().decode()
        output += block
    return output


def all_have_begun(output: bytes) -> bool:
    return all(b'"id":2,"p":%d}' % partition in output for partition in PARTITIONS)


def end(tap: subprocess.Popen[bytes], before: bytes) -> tuple[list[dict[str, Any]], str]:
    """Read the remaining output; check that its lines are complete and match the log's counts."""
    out, err = tap.communicate(timeout=LONG)
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_all_threads_at_their_next_record(tmp_path, number):
    with running(tmp_path, "sleeping") as tap:
        before = read_until(tap, all_have_begun)
        tap.send_signal(number)
        messages, stderr = end(tap, before)
        assert tap.returncode == 0
    bookmarks = check_unfinished(messages)
    assert all(value >= 2 for value in bookmarks.values())
    for partition in PARTITIONS:
        assert f"closed {partition}" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("least", [10_000, 1_234_567])
def test_signal_while_threads_write_truncates_no_line(tmp_path, least):
    with running(tmp_path, "writing") as tap:
        before = read_until(tap, lambda output: len(output) > least)
        tap.terminate()
        messages, _ = end(tap, before)
        assert tap.returncode == 0
    check_unfinished(messages)


@contextmanager
def silent_server():
    """Start a server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def test_signal_does_not_wait_for_a_pending_response(tmp_path):
    with silent_server() as url, running(tmp_path, "asking", url=url) as tap:
        before = read_until(tap, all_have_begun)
        tap.terminate()
        messages, stderr = end(tap, before)
        assert tap.returncode == 0
    assert set(check_unfinished(messages).values()) == {2}
    assert "still wait for a response" in stderr


def test_second_signal_ends_the_tap_immediately(tmp_path):
    """It does not wait for the response, for which the tap otherwise waits some seconds."""
    patient = {"grace_seconds": 10 * LONG}
    with silent_server() as url, running(tmp_path, "asking", url=url, **patient) as tap:
        read_until(tap, all_have_begun)
        deliver(tap, signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            tap.wait(2)
        tap.terminate()
        tap.communicate(timeout=LONG)
        assert tap.returncode == 1


def test_second_signal_ends_threads_blocked_on_a_full_pipe(tmp_path):
    with running(tmp_path, "writing") as tap:
        read_until(tap, lambda output: b'"id":0' in output)
        wait_until_full(tap.stdout)
        deliver(tap, signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            tap.wait(2)
        tap.terminate()
        assert tap.wait(LONG) == 1


def test_failing_partition_stops_the_others_and_is_named(tmp_path):
    with running(tmp_path, "failing") as tap:
        messages, stderr = end(tap, b"")
        assert tap.returncode == 1
    bookmarks = check_unfinished(messages)
    assert bookmarks[0] == 2
    assert "Stream 'a', {'p': 0}: RuntimeError: the source is on fire" in stderr
    assert "parallel_taps.py" in stderr, "the traceback leads to the author's line"
    assert all(f"closed {partition}" in stderr for partition in PARTITIONS)


def test_closed_output_pipe_ends_the_tap_without_a_traceback(tmp_path):
    with running(tmp_path, "writing") as tap:
        read_until(tap, lambda output: b'"id":0' in output)
        tap.stdout.close()
        stderr = tap.stderr.read().decode()
        assert tap.wait(LONG) == 1
    assert "Traceback" not in stderr
    assert "BrokenPipe" not in stderr


def test_slow_reader_gets_complete_lines_and_no_thread_is_left(tmp_path):
    with running(tmp_path, "soon") as tap:
        blocks = []
        while block := os.read(tap.stdout.fileno(), 1 << 12):
            blocks.append(block)
        stderr = tap.stderr.read().decode()
        assert tap.wait(LONG) == 0, stderr
    messages = parse_messages(b"".join(blocks))
    assert len(select_messages(messages, "RECORD", "a")) == 2_000 * len(PARTITIONS)
    assert select_messages(messages, "RECORD", "b")[0]["record"] == {"id": 0}, (
        "threads that are left"
    )
    partitions = messages[-1]["value"]["bookmarks"]["a"]["partitions"]
    assert partitions == [
        {"context": {"p": partition}, "replication_key": "id", "replication_key_value": 1_999}
        for partition in PARTITIONS
    ]
