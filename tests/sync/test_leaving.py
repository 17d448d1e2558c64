"""The ways in which a tap ends before its end: as a program, on real pipes."""

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

from tests.sync.syncing import counts_of, lines_of, of, parsed

ROOT = Path(__file__).resolve().parents[2]
TAPS = Path(__file__).with_name("leaving_taps.py")
LONG = 60


@contextmanager
def running(folder: Path, ends: str, **more: Any):
    """Start a tap that ends in this way, with its output on a pipe."""
    config = folder / "config.json"
    config.write_text(json.dumps({"ends": ends}))
    tap = subprocess.Popen(
        [sys.executable, str(TAPS), "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=folder,
        **more,
    )
    try:
        yield tap
    finally:
        tap.kill()
        tap.wait()
        tap.stdout.close()
        tap.stderr.close()


def end(tap: subprocess.Popen[bytes], before: bytes = b"") -> tuple[list[dict[str, Any]], str]:
    """Read a tap's output to its end: whole lines, as many as the log counts."""
    out, err = tap.communicate(timeout=LONG)
    messages, log = parsed(before + out), err.decode()
    assert counts_of(log) == lines_of(messages)
    return messages, log


def read_until(tap: subprocess.Popen[bytes], text: bytes = b"", least: int = 1) -> bytes:
    """Read a tap's output until this text and so many bytes came; leave the rest unread."""
    blocks = [b""]
    while text not in blocks[-1] or sum(map(len, blocks)) < least:
        blocks.append(os.read(tap.stdout.fileno(), 1 << 16))
        assert blocks[-1], tap.stderr.read().decode()
    return b"".join(blocks)


def check_unfinished(messages: list[dict[str, Any]]) -> None:
    """The last line is a state that covers each row before it, and says it is not the end."""
    assert messages[-1]["type"] == "STATE"
    state = messages[-1]["value"]
    assert state["currently_syncing"] == "a"
    ids = [message["record"]["id"] for message in of(messages, "RECORD", "a")]
    assert ids == list(range(len(ids)))
    # A signal may fall between a row and its bookmark: never ahead, at most one behind.
    assert ids[-1] - 1 <= state["bookmarks"]["a"]["replication_key_value"] <= ids[-1]
    assert of(messages, "RECORD", "b") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_a_silent_source_writes_the_state(tmp_path, number):
    with running(tmp_path, "sleeping") as tap:
        before = read_until(tap, b'"id":2')
        tap.send_signal(number)
        messages, _ = end(tap, before)
        assert tap.returncode == 0
    check_unfinished(messages)


@pytest.mark.parametrize(
    "number, least",
    [(signal.SIGTERM, 10_000), (signal.SIGTERM, 2_000_000), (signal.SIGINT, 1_234_567)],
)
def test_a_signal_while_writing_tears_no_line(tmp_path, number, least):
    with running(tmp_path, "writing") as tap:
        before = read_until(tap, least=least)
        tap.send_signal(number)
        messages, _ = end(tap, before)
        assert tap.returncode == 0
    check_unfinished(messages)
    assert len(messages) > least // 1_000


def test_a_signal_gets_past_an_author_who_catches_errors(tmp_path):
    with running(tmp_path, "swallowing") as tap:
        before = read_until(tap, b'"id":2')
        tap.terminate()
        messages, _ = end(tap, before)
        assert tap.returncode == 0
    check_unfinished(messages)
    assert messages[-1]["value"]["bookmarks"]["a"]["replication_key_value"] == 2


def test_a_second_signal_ends_a_tap_whose_output_is_not_read(tmp_path):
    """The first waits for the line in hand, which the reader of the full pipe never takes."""
    with running(tmp_path, "writing") as tap:
        read_until(tap, b'"id":0')
        wait_until_stuck(tap.pid)
        tap.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            tap.wait(2)
        tap.terminate()
        assert tap.wait(LONG) == 1


def wait_until_stuck(pid: int) -> None:
    """Wait until a process sleeps in a write to a pipe."""
    path = Path(f"/proc/{pid}/wchan")
    if not path.exists():
        pytest.skip("this system does not say what a process waits for")
    for _ in range(LONG * 100):
        if "pipe" in path.read_text():
            return
        signal.sigtimedwait([], 0.01)
    pytest.skip("this system does not say that a process waits for a pipe")


def test_an_error_of_the_author_leaves_what_was_written_valid(tmp_path):
    with running(tmp_path, "failing") as tap:
        messages, stderr = end(tap)
        assert tap.returncode == 1
    check_unfinished(messages)
    assert [message["record"]["id"] for message in of(messages, "RECORD")] == [0, 1, 2]
    assert "RuntimeError: the source is on fire" in stderr
    assert "leaving_taps.py" in stderr, "the traceback leads to the author's line"


def test_a_reader_that_is_gone_is_no_fault_of_the_tap(tmp_path):
    with running(tmp_path, "writing") as tap:
        read_until(tap, b'"id":0')
        tap.stdout.close()
        stderr = tap.stderr.read().decode()
        assert tap.wait(LONG) == 1
    assert "Traceback" not in stderr
    assert "BrokenPipe" not in stderr


def test_a_full_disk_is_named(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    config = tmp_path / "config.json"
    config.write_text('{"ends": "soon"}')
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, str(TAPS), "--config", str(config)],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=LONG,
            check=False,
        )
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr


def test_what_a_target_left_is_taken_up_again(tmp_path):
    """Several lines of state, the last one torn, and a catalog with a stream of another tap."""
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
    done = subprocess.run(
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
    messages = parsed(done.stdout)
    assert messages[0] == {"type": "STATE", "value": lines[-1]}
    assert {message.get("stream") for message in messages} == {None, "a"}
    assert b"nobody" in done.stderr
    assert done.returncode == 1
