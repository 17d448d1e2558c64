"""Termination of a running tap by signals, errors and closed pipes, as a real program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.delivered_signals import deliver
from tests.sync.syncing import count_records, parse_messages, read_counts, select_messages

ROOT = Path(__file__).resolve().parents[2]
TAPS = Path(__file__).with_name("terminated_taps.py")
LONG = 60


@contextmanager
def running(folder: Path, ends: str, **options: Any):
    """Start a tap with this setting ``ends``, with its output on a pipe."""
    config = folder / "config.json"
    config.write_text(json.dumps({"ends": ends}))
    tap = subprocess.Popen(
        [sys.executable, str(TAPS), "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=folder,
        **options,
    )
    try:
        yield tap
    finally:
        tap.kill()
        tap.wait()
        tap.stdout.close()
        tap.stderr.close()


def end(tap: subprocess.Popen[bytes], before: bytes = b"") -> tuple[list[dict[str, Any]], str]:
    """Read the remaining output; check that its lines are complete and match the log's counts."""
    out, err = tap.communicate(timeout=LONG)
    messages, log = parse_messages(before + out), err.decode()
    assert read_counts(log) == count_records(messages)
    return messages, log


def read_until(tap: subprocess.Popen[bytes], text: bytes = b"", least: int = 1) -> bytes:
    """Read a tap's output until ``text`` and ``least`` bytes were received."""
    blocks = [b""]
    while text not in blocks[-1] or sum(map(len, blocks)) < least:
        blocks.append(os.read(tap.stdout.fileno(), 1 << 16))
        assert blocks[-1], tap.stderr.read().decode()
    return b"".join(blocks)


def check_unfinished(messages: list[dict[str, Any]]) -> None:
    """Check that the last line is a state that covers all rows, with ``currently_syncing``."""
    assert messages[-1]["type"] == "STATE"
    state = messages[-1]["value"]
    assert state["currently_syncing"] == "a"
    ids = [message["record"]["id"] for message in select_messages(messages, "RECORD", "a")]
    assert ids == list(range(len(ids)))
    # A signal may arrive between a row and its bookmark: at most one row behind, never ahead.
    assert ids[-1] - 1 <= state["bookmarks"]["a"]["replication_key_value"] <= ids[-1]
    assert select_messages(messages, "RECORD", "b") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_while_the_source_sleeps_writes_the_state(tmp_path, number):
    with running(tmp_path, "sleeping") as tap:
        before = read_until(tap, b'"id":2')
        tap.send_signal(number)
        messages, _ = end(tap, before)
        assert tap.returncode == 0
    check_unfinished(messages)


@pytest.mark.parametrize("finalizer", ["__del__", "weakref"])
def test_signal_during_a_finalizer_is_not_ignored(tmp_path, finalizer):
    """Python ignores exceptions of finalizers, such as those that close unused connections."""
    with running(tmp_path, finalizer) as tap:
        messages, log = end(tap)
        assert tap.returncode == 0
    check_unfinished(messages)
    assert "ignored" not in log


@pytest.mark.parametrize(
    "number, least",
    [(signal.SIGTERM, 10_000), (signal.SIGTERM, 2_000_000), (signal.SIGINT, 1_234_567)],
)
def test_signal_while_writing_truncates_no_line(tmp_path, number, least):
    with running(tmp_path, "writing") as tap:
        before = read_until(tap, least=least)
        tap.send_signal(number)
        messages, _ = end(tap, before)
        assert tap.returncode == 0
    check_unfinished(messages)
    assert len(messages) > least // 1_000


def test_signal_is_not_swallowed_by_authors_exception_handlers(tmp_path):
    with running(tmp_path, "swallowing") as tap:
        before = read_until(tap, b'"id":2')
        tap.terminate()
        messages, _ = end(tap, before)
        assert tap.returncode == 0
    check_unfinished(messages)
    assert messages[-1]["value"]["bookmarks"]["a"]["replication_key_value"] == 2


def test_second_signal_ends_a_tap_blocked_on_a_full_pipe(tmp_path):
    """The first signal waits for the current line, which the reader never reads."""
    with running(tmp_path, "writing") as tap:
        read_until(tap, b'"id":0')
        wait_until_blocked_in_write(tap.pid)
        deliver(tap, signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            tap.wait(2)
        tap.terminate()
        assert tap.wait(LONG) == 1


def wait_until_blocked_in_write(pid: int) -> None:
    """Wait until a process sleeps in a write to a pipe."""
    path = Path(f"/proc/{pid}/wchan")
    if not path.exists():
        pytest.skip("this system does not say what a process waits for")
    for _ in range(LONG * 100):
        if "pipe" in path.read_text():
            return
        signal.sigtimedwait([], 0.01)
    pytest.skip("this system does not say that a process waits for a pipe")


def test_error_of_the_author_leaves_valid_output_and_exit_code_one(tmp_path):
    with running(tmp_path, "failing") as tap:
        messages, stderr = end(tap)
        assert tap.returncode == 1
    check_unfinished(messages)
    assert [message["record"]["id"] for message in select_messages(messages, "RECORD")] == [0, 1, 2]
    assert "RuntimeError: the source is on fire" in stderr
    assert "terminated_taps.py" in stderr, "the traceback leads to the author's line"


def test_closed_output_pipe_ends_the_tap_without_a_traceback(tmp_path):
    with running(tmp_path, "writing") as tap:
        read_until(tap, b'"id":0')
        tap.stdout.close()
        stderr = tap.stderr.read().decode()
        assert tap.wait(LONG) == 1
    assert "Traceback" not in stderr
    assert "BrokenPipe" not in stderr


def test_full_disk_is_named_in_the_error(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    config = tmp_path / "config.json"
    config.write_text('{"ends": "soon"}')
    with Path("/dev/full").open("wb") as full:
        process = subprocess.run(
            [sys.executable, str(TAPS), "--config", str(config)],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=LONG,
            check=False,
        )
    assert process.returncode == 1
    assert b"Standard output cannot be written: No space left on device." in process.stderr
    assert b"Traceback" not in process.stderr


def test_tap_resumes_from_a_state_file_with_a_truncated_last_line(tmp_path):
    """The state file has several lines, and the catalog a stream that the tap does not have."""
    lines = [
        {"bookmarks": {"a": {"replication_key": "id", "replication_key_value": n}}} for n in (1, 2)
    ]
    text = "\n".join(map(json.dumps, lines)) + '\n{"bookmarks": {"a": {"repli'
    (tmp_path / "state.json").write_text(text)
    entry = {
        "schema": {"type": "object", "properties": {"id": {"type": "integer"}}},
        "replication_key": "id",
        "metadata": [{"breadcrumb": [], "metadata": {"selected": True}}],
    }
    streams = [{"tap_stream_id": name, "stream": name, **entry} for name in ("a", "nobody")]
    (tmp_path / "catalog.json").write_text(json.dumps({"streams": streams}))
    (tmp_path / "config.json").write_text('{"ends": "failing"}')
    process = subprocess.run(
        [
            sys.executable,
            str(TAPS),
            "--config",
            "config.json",
            "--state",
            "state.json",
            "--catalog",
            "catalog.json",
        ],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        timeout=LONG,
        check=False,
    )
    messages = parse_messages(process.stdout)
    assert messages[0] == {"type": "STATE", "value": lines[-1]}
    assert {message.get("stream") for message in messages} == {None, "a"}
    assert b"nobody" in process.stderr
    assert process.returncode == 1
