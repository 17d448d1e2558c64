"""Reading standard input in blocks, and writing states to standard output."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tap_core.io.stdin import WakeupPipe, read_blocks
from tap_core.state.reader import read_state
from target_spark.errors import StateOutputError
from target_spark.loader.state_output import StateMessageWriter


@pytest.fixture
def wake_up() -> Iterator[WakeupPipe]:
    opened = WakeupPipe()
    yield opened
    opened.close()


def test_buffers_and_files_are_read_in_blocks_to_their_end(
    tmp_path: Path, wake_up: WakeupPipe
) -> None:
    data = bytes(range(256)) * 10_000
    assert b"".join(filter(None, read_blocks(io.BytesIO(data), wake_up, 1))) == data
    path = tmp_path / "input"
    path.write_bytes(data)
    with path.open("rb") as source:
        sizes = [len(block) for block in read_blocks(source, wake_up, 1) if block is not None]
    assert (sum(sizes), max(sizes)) == (len(data), 1 << 20)


def test_idle_input_yields_none_at_intervals_and_on_wake_up(wake_up: WakeupPipe) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as source:
        blocks = read_blocks(source, wake_up, 0.01)
        assert next(blocks) is None
        os.write(writer, b"x")
        assert next(blocks) == b"x"
        patient = read_blocks(source, wake_up, 1000)
        wake_up_timer = threading.Timer(0.05, wake_up.ring)
        wake_up_timer.start()
        assert next(patient) is None
        os.close(writer)
        wake_up_timer.join()
        assert list(read_blocks(source, wake_up, 0.01)) == []


def test_wake_ups_never_block_their_thread(wake_up: WakeupPipe) -> None:
    for _ in range(100_000):
        wake_up.ring()


def test_only_states_are_written_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    with StateMessageWriter.open() as state_writer:
        os.write(1, b"noise\n")
        state_writer.emit(b'{"a": 1.50}')
    os.write(1, b"after\n")
    out, err = capfd.readouterr()
    assert (out, err) == ('{"a": 1.50}\nafter\n', "noise\n")


def test_states_are_written_to_a_replaced_standard_output() -> None:
    """A caller in Python gets the states of a load with `redirect_stdout`."""
    with redirect_stdout(io.StringIO()) as output, StateMessageWriter.open() as state_writer:
        state_writer.emit(b"{}")
    assert output.getvalue() == "{}\n"


def test_states_are_written_to_the_descriptor_if_sys_stdout_is_closed(capfdbinary) -> None:
    """Python leaves descriptor 1 open when a program closes ``sys.stdout``."""
    closed = io.StringIO()
    closed.close()
    with redirect_stdout(closed), StateMessageWriter.open() as state_writer:
        state_writer.emit(b"{}")
    assert capfdbinary.readouterr().out == b"{}\n"


def through_pipe(blocking: bool, state: bytes) -> bytes:
    """Write a state into a pipe that is read slowly; return the data read from it."""
    reader, writer = os.pipe()
    os.set_blocking(writer, blocking)
    saved_stdout = os.dup(1)
    os.dup2(writer, 1)
    received: list[bytes] = []

    def read() -> None:
        while block := os.read(reader, 1 << 16):
            received.append(block)

    slow = threading.Thread(target=read)
    try:
        with StateMessageWriter.open() as state_writer:
            os.close(writer)
            slow.start()
            state_writer.emit(state)
    finally:
        os.dup2(saved_stdout, 1)
        os.close(saved_stdout)
    slow.join()
    os.close(reader)
    return b"".join(received)


@pytest.mark.parametrize("blocking", [True, False])
def test_large_state_is_written_completely_to_a_slow_pipe(blocking: bool) -> None:
    state = b'"' + b"x" * 3_000_000 + b'"'
    assert through_pipe(blocking, state) == state + b"\n"


@pytest.mark.parametrize("end", ["", "\n", '\n{"bookmarks": {"or'])
def test_state_is_a_line_of_its_own_in_a_file_that_an_earlier_run_left(
    end: str, tmp_path: Path
) -> None:
    """A write of the earlier run may have been cut off, or a text editor left out the line end."""
    path = tmp_path / "state.jsonl"
    path.write_text('{"a": 1}' + end)
    kept = os.dup(1)
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.close(file)
    try:
        with StateMessageWriter.open() as state_writer:
            state_writer.emit(b'{"a": 2}')
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    assert path.read_text() == '{"a": 1}' + end + "\n" * (end != "\n") + '{"a": 2}\n'
    assert read_state(path.read_text(), "state.jsonl") == {"a": 2}


def test_closed_reader_raises_state_output_error() -> None:
    reader, writer = os.pipe()
    saved_stdout = os.dup(1)
    os.dup2(writer, 1)
    os.close(writer)
    os.close(reader)
    try:
        with (
            StateMessageWriter.open() as state_writer,
            pytest.raises(StateOutputError, match="process that reads the states may have ended"),
        ):
            state_writer.emit(b"1")
    finally:
        os.dup2(saved_stdout, 1)
        os.close(saved_stdout)


def test_full_disk_is_named_in_the_state_output_error() -> None:
    saved_stdout = os.dup(1)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, 1)
    os.close(full)
    try:
        with StateMessageWriter.open() as state_writer, pytest.raises(StateOutputError) as caught:
            state_writer.emit(b"1")
    finally:
        os.dup2(saved_stdout, 1)
        os.close(saved_stdout)
    assert "standard output (No space left on device). The rows" in str(caught.value)
    assert "ended" not in str(caught.value)


def test_closed_standard_output_raises_state_output_error() -> None:
    saved_stdout = os.dup(1)
    os.close(1)
    try:
        with (
            pytest.raises(StateOutputError, match="standard output is closed"),
            StateMessageWriter.open(),
        ):
            pass
    finally:
        os.dup2(saved_stdout, 1)
        os.close(saved_stdout)
