"""Standard output: complete lines despite threads, full pipes and signals; and the log."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import sys
import threading
import time
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tap_core.io import stdout as stdout_module
from tap_core.io.stdout import StdoutWriter
from tap_core.metrics import Metric, Point, log
from tap_core.protocols.airbyte.logging import MessageHandler, redirect_logging
from tap_core.protocols.airbyte.messages import encode_json, log_line


def test_line_interrupted_by_a_signal_is_completed_first() -> None:
    written: list[bytes] = []

    def put(data: memoryview) -> int:
        if data == b"torn\n":
            written.append(bytes(data[:2]))
            return 2
        if data == b"rn\n" and len(written) == 1:
            written.append(b"")
            raise SystemExit
        written.append(bytes(data))
        return len(data)

    stdout_writer = StdoutWriter(put)
    with suppress(SystemExit):
        stdout_writer.write(b"torn\n")
    stdout_writer.write(b"next\n")
    stdout_writer.write(b"after\n")
    assert b"".join(written) == b"torn\nnext\nafter\n"


def test_signal_directly_after_a_write_does_not_repeat_bytes(monkeypatch: Any) -> None:
    """The handler raises when the reader already has the line."""
    reader, writer = os.pipe()

    def exit_process(_number: int, _frame: object) -> None:
        raise SystemExit

    before = signal.signal(signal.SIGUSR1, exit_process)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        os.read(reader, 7)
        signal.pthread_kill(main, signal.SIGUSR1)

    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        thread = threading.Thread(target=interrupt)
        with StdoutWriter.open() as stdout_writer:
            thread.start()
            with suppress(SystemExit):
                stdout_writer.write(b"first\n,")
                time.sleep(60)
            stdout_writer.write(b"second\n")
    thread.join()
    signal.signal(signal.SIGUSR1, before)
    assert os.read(reader, 100) == b"second\n"
    os.close(reader)


def test_interrupted_line_is_not_awaited_twice_on_a_full_pipe(monkeypatch: Any) -> None:
    """The next write fails if the pipe still does not accept the rest of the line."""
    monkeypatch.setattr(stdout_module, "_RESUME_SECONDS", 0.2)
    reader, writer = os.pipe()
    interrupts = threading.Event()

    def put(data: memoryview) -> int:
        if not interrupts.is_set():
            interrupts.set()
            raise SystemExit
        return os.write(writer, data)

    stdout_writer = StdoutWriter(put, partial(stdout_module.wait_until_writable, writer))
    with suppress(SystemExit):
        stdout_writer.write(b"x" * 300_000 + b"\n")
    with pytest.raises(BrokenPipeError, match="does not accept data"):
        stdout_writer.write(b"a\n")
    assert stdout_writer.is_broken
    os.close(reader)
    os.close(writer)


def test_log_line_does_not_wait_for_a_writing_thread() -> None:
    """The writing thread writes the log line after its own line."""
    written: list[bytes] = []
    writing_started, may_continue = threading.Event(), threading.Event()

    def put(data: memoryview) -> int:
        if data == b"chunk\n":
            writing_started.set()
            may_continue.wait(60)
        written.append(bytes(data))
        return len(data)

    stdout_writer = StdoutWriter(put)
    thread = threading.Thread(target=stdout_writer.write, args=(b"chunk\n",))
    thread.start()
    assert writing_started.wait(60)
    stdout_writer.write_or_queue(b"log\n")
    assert written == []
    may_continue.set()
    thread.join()
    assert written == [b"chunk\n", b"log\n"]


def test_line_written_by_a_signal_handler_comes_after_the_current_one() -> None:
    written: list[bytes] = []

    def put(data: memoryview) -> int:
        if data == b"first\n":
            stdout_writer.write(b"second\n")
        written.append(bytes(data))
        return len(data)

    stdout_writer = StdoutWriter(put)
    stdout_writer.write(b"first\n")
    assert written == [b"first\n", b"second\n"]


def test_nothing_is_written_after_a_failed_write() -> None:
    def put(data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    stdout_writer = StdoutWriter(put)
    with pytest.raises(OSError, match="No space"):
        stdout_writer.write(b"a\n")
    assert stdout_writer.is_broken
    with pytest.raises(BrokenPipeError):
        stdout_writer.write(b"b\n")


def test_non_blocking_pipe_is_written_completely(monkeypatch: Any) -> None:
    """Printed output in the meantime is not among the lines."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    blocks: list[bytes] = []

    def drain() -> None:
        while data := os.read(reader, 65_536):
            blocks.append(data)

    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        thread = threading.Thread(target=drain)
        with StdoutWriter.open() as stdout_writer:
            threading.Timer(0.2, thread.start).start()
            stdout_writer.write(b"x" * 300_000 + b"\n")
            print("elsewhere", flush=True)
            os.write(output.fileno(), b"there too\n")
        print("afterwards", flush=True)
    thread.join()
    os.close(reader)
    assert b"".join(blocks) == b"x" * 300_000 + b"\nafterwards\n"


@pytest.mark.parametrize("kind", ["file", "text"])
def test_two_threads_share_standard_output(kind: str, monkeypatch: Any, tmp_path: Path) -> None:
    """The second user begins before the first one ends, and ends after it."""
    path = tmp_path / "output"
    with path.open("w+") as file:
        output = file if kind == "file" else io.StringIO()
        monkeypatch.setattr(sys, "stdout", output)
        first, second = StdoutWriter.open(), StdoutWriter.open()
        first_writer, second_writer = first.__enter__(), second.__enter__()
        first_writer.write(b"first\n")
        first.__exit__(None, None, None)
        second_writer.write(b"second\n")
        print("elsewhere")
        second.__exit__(None, None, None)
        print("afterwards")
        output.seek(0)
        assert output.read() == "first\nsecond\nafterwards\n"


def test_write_without_standard_output_fails(monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with StdoutWriter.open() as stdout_writer, pytest.raises(BrokenPipeError):
        stdout_writer.write(b"a\n")


def test_output_without_a_file_descriptor_gets_text() -> None:
    output = io.StringIO()
    with redirect_stdout(output), StdoutWriter.open() as stdout_writer:
        stdout_writer.write("ü\n".encode())
    assert output.getvalue() == "ü\n"


# The log


@pytest.fixture
def lines() -> list[bytes]:
    return []


@pytest.fixture
def logger(lines: list[bytes]) -> Any:
    handler = MessageHandler(lines.append, lambda text: text.replace("hush", "***"))
    tap_logger = logging.getLogger("tap-x.users")
    tap_logger.setLevel(1)
    with redirect_logging(handler):
        yield tap_logger
    tap_logger.setLevel(logging.NOTSET)


def log_messages(lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line)["log"] for line in lines]


@pytest.mark.parametrize(
    "level, name",
    [(60, "FATAL"), (50, "FATAL"), (40, "ERROR"), (30, "WARN"), (20, "INFO"), (10, "DEBUG")],
)
def test_log_levels_are_those_of_the_protocol(
    logger: Any, lines: list[bytes], level: int, name: str
) -> None:
    """E8: FATAL, ERROR, WARN, INFO, DEBUG, TRACE."""
    logger.log(level, "%s said %d", "hush", 1)
    logger.log(5, "finer")
    assert log_messages(lines) == [
        {"level": name, "message": "tap-x.users: *** said 1"},
        {"level": "TRACE", "message": "tap-x.users: finer"},
    ]


def test_log_of_an_exception_has_its_stack_trace(logger: Any, lines: list[bytes]) -> None:
    try:
        int("hush")
    except ValueError:
        logger.exception("It failed\nhere.")
    [log] = log_messages(lines)
    assert log["stack_trace"].endswith("with base 10: '***'")
    assert log["message"] == r"tap-x.users: It failed\nhere."


@pytest.mark.parametrize(("text", "value"), [("%d of %d", 1), ("%(all)d", {"some": 1})])
def test_log_format_with_wrong_arguments_is_shown_unformatted(
    lines: list[bytes], text: str, value: Any
) -> None:
    record = logging.LogRecord("tap-x", logging.INFO, __file__, 1, text, (value,), None)
    MessageHandler(lines.append, str).emit(record)
    assert log_messages(lines) == [{"level": "INFO", "message": f"tap-x: {text}"}]


def test_metric_is_an_analytics_trace(logger: Any, lines: list[bytes]) -> None:
    """TR1: Singer taps write the same metric to the log."""
    log(logger, Point("counter", Metric.RECORD_COUNT, 3, {"stream": "users"}))
    [line] = lines
    trace = json.loads(line)["trace"]
    assert trace["type"] == "ANALYTICS"
    assert trace["analytics"]["type"] == "record_count"
    assert json.loads(trace["analytics"]["value"])["tags"] == {"stream": "users"}


def test_failure_to_write_the_log_is_ignored(logger: Any) -> None:
    def refuse(line: bytes) -> None:
        raise BrokenPipeError

    with redirect_logging(MessageHandler(refuse, str)):
        logger.info("hello")


def test_lone_surrogates_do_not_break_a_line() -> None:
    """E13: data of the source may contain lone surrogates."""
    assert json.loads(log_line("INFO", "\ud83d!"))["log"]["message"] == "?!"
    assert encode_json({"a": [1]}) == b'{"a":[1]}'
