"""Progress of a running load: a live line on a terminal, otherwise a log line every ten seconds.

The live line is the last line of the terminal. All other lines are set as the terminal's scrolling
region, so the tap, the JVM and this process write as if the terminal were one line shorter. Each
change of the terminal is one write, which the kernel does not mix with other output. Output goes to
standard error only. All numbers are read from the report.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from tap_core.redaction import redact_line
from target_spark.loader.report import Report

__all__ = ["is_terminal", "show_progress"]

_SECONDS: Final = 10.0
_REFRESH_SECONDS: Final = 0.25
_RATE_SECONDS: Final = 5.0
_MIN_HEIGHT: Final = 4
"""Minimum height of a terminal, in lines, for the live line."""

_SAVE, _RESTORE = "\x1b7", "\x1b8"
"""Control sequences that save and restore the position and colors of the cursor (DECSC, DECRC)."""
_WHOLE_REGION: Final = f"{_SAVE}\x1b[r{_RESTORE}"
"""Control sequence that makes all lines of the terminal scroll again (DECSTBM). DECSTBM moves the
cursor, so its position is saved and restored."""


def is_terminal() -> bool:
    """Return True if standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def show_progress(
    report: Report, logger: logging.Logger, seconds: float = _SECONDS
) -> Iterator[Callable[[], None]]:
    """Context manager: show the progress of a run on standard error until the block ends.

    Args:
        report: The run report with the phases and the row counts to show.
        logger: The logger for progress lines. They are logged if standard error is not a terminal
            that can show a live line.
        seconds: The seconds between two progress lines.

    Yields:
        A function that removes the live line at once, without waiting for other threads. Call it
        if the process ends before the block does.
    """
    ended = threading.Event()
    line = _LiveLine(sys.stderr.fileno()) if _can_move_cursor() else None
    draw = _make_draw(report, line) if line is not None else None

    def show() -> None:
        while not ended.wait(_REFRESH_SECONDS if draw else seconds):
            if draw is None:
                logger.info("Progress: %s", report.progress())
            else:
                draw()

    def clear() -> None:
        ended.set()
        if line is not None:
            line.clear(0)

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield clear
    finally:
        ended.set()
        thread.join()
        if line is not None:
            line.clear()


def _can_move_cursor() -> bool:
    return is_terminal() and os.environ.get("TERM", "dumb") != "dumb"


def _make_draw(report: Report, line: _LiveLine) -> Callable[[], None]:
    """Return a function that shows the report's current row counts and phases in ``line``."""
    counted: deque[tuple[float, int]] = deque()

    def draw() -> None:
        now, streams = time.monotonic(), report.streams().values()
        received = sum(counts.received for counts in streams)
        counted.append((now, received))
        while now - counted[0][0] > _RATE_SECONDS:
            counted.popleft()
        then, before = counted[0]
        parts = []
        if received:
            rate = (received - before) / (now - then) if now > then else 0.0
            written = sum(counts.written for counts in streams)
            waiting = sum(counts.waiting for counts in streams) / 1e6
            parts.append(f"{received:,} rows read, {rate:,.0f}/s, {written:,} written")
            parts += [f"{waiting:,.1f} MB waiting"] if waiting > 0 else []
        line.draw(" | ".join([", ".join(parts), report.phases.describe()]).strip(" |"))

    return draw


class _LiveLine:
    """Last line of a terminal, which shows progress and does not scroll with the other lines."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._height = 0

    def draw(self, text: str) -> None:
        """Show a text in the last line of the terminal, cut to the terminal's width.

        Nothing is drawn while the terminal is too small or accepts no output, or while this process
        is in the background.
        """
        from rich.cells import set_cell_size

        width, height = self._measure()
        if height < _MIN_HEIGHT:
            self.clear(0)
            return
        if not self._is_in_foreground():
            return
        reserve = "" if height == self._height else _reserve_last_line(height)
        fitted_text = set_cell_size(redact_line(text), width - 1).rstrip()
        line = f"{reserve}{_SAVE}\x1b[m\x1b[{height};1H\x1b[2K{fitted_text}{_RESTORE}"
        if self._write(line, 0):
            self._height = height

    def clear(self, wait_seconds: float | None = None) -> None:
        """Empty the last line of the terminal, and let all its lines scroll again.

        ``wait_seconds`` is the longest wait for a terminal that accepts no output; None to wait
        without limit.
        """
        height, self._height = self._height, 0
        if height:
            text = f"{_SAVE}\x1b[r\x1b[m\x1b[{height};1H\x1b[2K{_RESTORE}"
            self._write(text, wait_seconds)

    def _measure(self) -> tuple[int, int]:
        try:
            return os.get_terminal_size(self._descriptor)
        except OSError:  # the terminal has been closed
            return 0, 0

    def _is_in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:  # not the terminal that controls this process
            return True

    def _write(self, text: str, wait_seconds: float | None) -> bool:
        """Write a text to the terminal, and return True.

        Return False if the terminal is closed, or accepts no text within ``wait_seconds`` (None to
        wait without limit).
        """
        data = text.encode(errors="replace")
        with suppress(OSError):
            if select.select([], [self._descriptor], [], wait_seconds)[1]:
                while data:
                    data = data[os.write(self._descriptor, data) :]
        return not data


def _reserve_last_line(height: int) -> str:
    """Return the control sequences that make all lines of a terminal but the last one scroll.

    A line feed first ensures that the cursor is above the last line. Everything below the cursor is
    erased, such as a progress line drawn before the terminal was resized.
    """
    room = f"\x1bD{_SAVE}\r\x1b[J"
    return f"{_WHOLE_REGION}{room}\x1b[1;{height - 1}r{_RESTORE}\x1b[A"
