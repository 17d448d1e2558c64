"""Progress of a running load: a live table on a terminal, a log line every ten seconds elsewhere.

Output goes to standard error only, never to standard output. On a terminal the table is shown below
the log, and disappears when the run ends and the report is printed. All figures are read from the
report; this module counts nothing.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tap_core.redaction import redact_line
from target_spark.loader.report import Report, StreamCounts

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["show_progress"]

_SECONDS: Final = 10.0
_PER_SECOND: Final = 4
_ROWS_LEFT: Final = 6
"""Lines of the terminal that are reserved for other output than streams."""


@contextmanager
def show_progress(
    report: Report, logger: logging.Logger, seconds: float = _SECONDS
) -> Iterator[None]:
    """Context manager: show the progress of a run on standard error until the block ends.

    Args:
        report: The run report with the row counts to show.
        logger: The logger for progress lines. They are logged instead if standard error is not a
            terminal.
        seconds: The seconds between two progress lines.
    """
    if sys.stderr is not None and sys.stderr.isatty():
        with _on_terminal(report):
            yield
        return
    ended = threading.Event()

    def log_progress() -> None:
        while not ended.wait(seconds):
            logger.info("Progress: %s", report.progress())

    thread = threading.Thread(target=log_progress, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _on_terminal(report: Report) -> Iterator[None]:
    from rich.console import Console
    from rich.file_proxy import FileProxy
    from rich.live import Live

    console = Console(file=sys.stderr)
    rates = _Rates()
    live = Live(
        get_renderable=lambda: _table(report, rates, console),
        console=console,
        refresh_per_second=_PER_SECOND,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    handlers = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
    ]
    above: Any = FileProxy(console, sys.stderr)
    for handler in handlers:
        handler.setStream(above)
    try:
        with live:
            yield
    finally:
        for handler in handlers:
            handler.setStream(sys.stderr)


class _Rates:
    """Rows per second of each stream, measured over the last five seconds."""

    _OVER: Final = 5.0

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[float, int]]] = {}

    def of(self, stream: str, rows: int, now: float) -> float:
        """Record a stream's row count, and return the current number of rows per second.

        Args:
            stream: The name of the stream.
            rows: The number of rows received so far.
            now: The current time in seconds, as a value of `time.monotonic`.
        """
        seen = self._seen.setdefault(stream, [])
        seen.append((now, rows))
        while len(seen) > 2 and now - seen[0][0] > self._OVER:  # noqa: PLR2004  (first and last)
            del seen[0]
        then, before = seen[0]
        elapsed = now - then
        return (rows - before) / elapsed if elapsed else 0.0


def _table(report: Report, rates: _Rates, console: Console) -> Table:
    from rich.table import Table
    from rich.text import Text

    streams, now = report.streams(), time.monotonic()
    table = Table(box=None, pad_edge=False)
    table.add_column("stream")
    for head in ("read", "rows/s", "written", "waiting"):
        table.add_column(head, justify="right")
    rows = {name: rates.of(name, counts.received, now) for name, counts in streams.items()}
    room = max(1, console.height - _ROWS_LEFT)
    liveliest = sorted(streams, key=lambda name: (rows[name], streams[name].waiting))[-room:]
    for name in (each for each in streams if each in liveliest):
        table.add_row(Text(redact_line(name)), *_cells(streams[name], rows[name]))
    if len(streams) > 1:
        total = StreamCounts(
            received=sum(each.received for each in streams.values()),
            written=sum(each.written for each in streams.values()),
            waiting=sum(each.waiting for each in streams.values()),
        )
        table.add_row(f"{len(streams)} streams", *_cells(total, sum(rows.values())))
    return table


def _cells(counts: StreamCounts, rate: float) -> tuple[str, str, str, str]:
    waiting = f"{counts.waiting / 1e6:,.1f} MB" if counts.waiting > 0 else ""
    return f"{counts.received:,}", f"{rate:,.0f}", f"{counts.written:,}", waiting
