"""Progress of a run: its phases, and a live line that does not break lines of other programs."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from target_spark.loader.progress import show_progress
from target_spark.loader.report import Report
from target_spark.phase_timing import Phases
from tests.terminal import TerminalSession, open_terminal

ROOT = Path(__file__).parents[3]
PATIENCE = 200

TAP = """
import sys, time
for number in range(300):
    sys.stderr.write("tap line %d %s\\n" % (number, "x" * (number % 60)))
    sys.stderr.flush()
    time.sleep(0.005)
"""

TARGET = f"""
import logging, subprocess, sys, time
from target_spark.loader.progress import show_progress
from target_spark.loader.report import Report
from tap_core.logging import setup_console_logging

setup_console_logging()
(handler,) = logging.getLogger().handlers
handler.setFormatter(logging.Formatter("%(message)s"))
report, number = Report(), 0
with show_progress(report, logging.getLogger("target")), report.phases.run("reading"):
    time.sleep(0.6)
    tap = subprocess.Popen([sys.executable, "-c", {TAP!r}])
    while tap.poll() is None or number < 100:
        report.count_received("a", 1000, 10)
        logging.getLogger("target").warning("target line %d", number)
        sys.stdout.write('{{"state": %d}}\\n' % number)
        sys.stdout.flush()
        number += 1
        time.sleep(0.01)
"""


def make_counted_report() -> Report:
    report = Report()
    report.count_received("orders", 1234, 5_000_000)
    report.count_commit("orders", 1230, 4, 1.5, nbytes=5_000_000)
    return report


def run_python(session: TerminalSession, program: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    return session.start([sys.executable, "-c", program], env=environment)


def wait_for_last_line(session: TerminalSession, pattern: str) -> None:
    """Wait until the last line of the terminal contains a match of a regular expression."""
    end = time.monotonic() + PATIENCE
    while not re.search(pattern, session.terminal.last_line):
        assert time.monotonic() < end, session.terminal.lines()
        time.sleep(0.01)


@pytest.mark.every_nth_case(3)
@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("start", ["top", "bottom"])
def test_live_line_neither_joins_nor_erases_nor_repeats_lines_of_other_programs(
    width: int, start: str
) -> None:
    before = [f"shell {number}" for number in range(40 if start == "bottom" else 2)]
    with open_terminal(width) as session:
        os.write(session.descriptor, "".join(f"{line}\n" for line in before).encode())
        with run_python(session, TARGET) as target:
            wait_for_last_line(session, r"reading \(")
            assert target.wait(PATIENCE) == 0
        os.write(session.descriptor, b"shell prompt")
    assert b" rows read, " in session.raw
    assert session.terminal.styles == {(0,)}, "the live line has the terminal's own colors"
    lines = session.terminal.lines()
    assert lines[: len(before)] == before
    assert lines[-1] == "shell prompt"
    new_lines = lines[len(before) : -1]
    for kind, expected in {
        "{": '{"state": %d}',
        "target": "target line %d",
        "tap": "tap line %d %s",
    }.items():
        lines_of_kind = [line for line in new_lines if line.startswith(kind)]
        values = [(n, "x" * (n % 60)) if kind == "tap" else n for n in range(len(lines_of_kind))]
        assert lines_of_kind == [(expected % value).rstrip() for value in values]
        assert len(lines_of_kind) == 300 if kind == "tap" else len(lines_of_kind) >= 100
    assert all(line.startswith(("{", "target", "tap")) for line in new_lines)


def test_live_line_returns_a_line_that_a_program_has_not_ended() -> None:
    with open_terminal(80) as session, os.fdopen(os.dup(session.descriptor), "w") as stderr:
        os.write(session.descriptor, b"Password: ")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stderr", stderr)
            patch.setenv("TERM", "xterm")
            report = Report()
            with show_progress(report, logging.getLogger()), report.phases.run("reading"):
                wait_for_last_line(session, r"reading \(")
                os.write(session.descriptor, b"typed")
                wait_for_last_line(session, r"reading \([1-9]\d* s\)")
        os.write(session.descriptor, b" later")
    assert session.terminal.lines() == ["Password: typed later"]


def test_live_line_is_cut_to_the_width_of_the_terminal() -> None:
    with open_terminal(80, 10) as session, os.fdopen(os.dup(session.descriptor), "w") as stderr:
        report = make_counted_report()
        report.count_received("orders", 5, 2_000_000)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stderr", stderr)
            patch.setenv("TERM", "xterm")
            stream = "見" * 50 + "\x1b[2J\n"
            with show_progress(report, logging.getLogger()), report.phases.run(stream):
                wait_for_last_line(
                    session, r"1,239 rows read, 0/s, 1,230 written, 2\.0 MB waiting "
                )
                assert len(session.terminal.last_line) < 80
                assert len(session.terminal.lines()) == 10
    assert session.terminal.lines() == []


def test_live_line_moves_to_the_new_last_line_of_a_larger_terminal() -> None:
    with open_terminal(80, 20) as session, os.fdopen(os.dup(session.descriptor), "w") as stderr:
        report = Report()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stderr", stderr)
            patch.setenv("TERM", "xterm")
            with show_progress(report, logging.getLogger()), report.phases.run("reading"):
                for number in range(25):
                    os.write(session.descriptor, f"line {number}\n".encode())
                wait_for_last_line(session, r"reading \(")
                session.grow(30)
                wait_for_last_line(session, r"reading \(")
                for number in range(25, 50):
                    os.write(session.descriptor, f"line {number}\n".encode())
    assert session.terminal.lines() == [f"line {number}" for number in range(50)]


@pytest.mark.parametrize("terminal", ["dumb", None])
def test_progress_is_logged_on_a_terminal_that_cannot_move_its_cursor(
    terminal: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with (
        open_terminal(80) as session,
        os.fdopen(os.dup(session.descriptor), "w") as stderr,
        monkeypatch.context() as patch,
    ):
        patch.setattr(sys, "stderr", stderr)
        patch.delenv("TERM", raising=False)
        if terminal is not None:
            patch.setenv("TERM", terminal)
        with show_progress(Report(), logging.getLogger("progress"), seconds=0.01):
            while not caplog.messages:
                time.sleep(0.01)
    assert b"\x1b" not in session.raw


def test_progress_lines_name_the_phases(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    report = make_counted_report()
    with (
        report.phases.run("reading"),
        report.run_commit("orders"),
        show_progress(report, logging.getLogger("progress"), seconds=0.01),
    ):
        while not caplog.messages:
            time.sleep(0.01)
    assert re.fullmatch(
        r"Progress: committing orders batch 2 \(\d+ s\), reading \(\d+ s\); orders: 1,234"
        r" received, 1,230 written, 4 quarantined",
        caplog.messages[0],
    )


def test_progress_is_not_shown_without_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    for stderr in (None, io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stderr)
        with show_progress(Report(), logging.getLogger("progress"), seconds=60):
            pass


def test_phases_of_one_name_add_their_seconds() -> None:
    phases = Phases()

    def run() -> None:
        with phases.run("starting Spark"):
            time.sleep(0.02)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert phases.seconds("starting Spark") >= 0.04
    assert phases.seconds("reading") == 0
    assert phases.describe() == ""
