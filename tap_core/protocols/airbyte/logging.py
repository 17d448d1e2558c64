"""Logging as messages of the Airbyte protocol.

While a command runs, each log record is written to standard output as a LOG message, and each
metric as an ANALYTICS trace. If standard error is a terminal, the log is written there too. Secrets
of the configuration are redacted. A failure to write the log is ignored.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Final

from tap_core.logging import without_console
from tap_core.metrics import Point
from tap_core.protocols.airbyte.messages import analytics_line, log_line
from tap_core.redaction import redact, redact_line
from tap_core.redaction.log_records import clean_record, format_error

__all__ = ["MessageHandler", "redirect_logging"]

_LEVELS: Final = (
    (logging.CRITICAL, "FATAL"),
    (logging.ERROR, "ERROR"),
    (logging.WARNING, "WARN"),
    (logging.INFO, "INFO"),
    (logging.DEBUG, "DEBUG"),
)


class MessageHandler(logging.Handler):
    """Logging handler that writes log records as Airbyte LOG messages."""

    def __init__(self, write: Callable[[bytes], None], hide: Callable[[str], str]) -> None:
        """Create a logging handler.

        ``write`` writes complete lines, and ``hide`` returns a text with its secrets redacted.
        """
        super().__init__()
        self._write = write
        self._hide = hide

    def emit(self, record: logging.LogRecord) -> None:
        """Write a log record as an Airbyte LOG message, or a metric as an ANALYTICS trace."""
        with contextlib.suppress(OSError):  # the reader is gone: the next RECORD message raises
            self._write(self._line(clean_record(record)))

    def _line(self, record: logging.LogRecord) -> bytes:
        point = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if record.msg == "METRIC: %s" and isinstance(point, Point):
            return analytics_line(point.metric.value, self._hide(str(point)))
        trace = None
        if record.exc_info and record.exc_info[0] is not None:
            trace = self._hide(format_error(record.exc_info, redact))
        # The name of the logger often contains the stream's name.
        text = f"{record.name}: {redact_line(self._hide(record.getMessage()))}"
        return log_line(_level(record.levelno), text, trace)


def _level(number: int) -> str:
    return next((name for least, name in _LEVELS if number >= least), "TRACE")


@contextlib.contextmanager
def redirect_logging(handler: MessageHandler) -> Iterator[None]:
    """Send all log records and Python warnings to ``handler`` during the ``with`` block.

    If standard error is a terminal, they are also written there.
    """
    root = logging.getLogger()
    console = contextlib.nullcontext() if _is_terminal() else without_console()
    logging.captureWarnings(capture=True)
    root.addHandler(handler)
    try:
        with console, warnings.catch_warnings():
            warnings.filterwarnings("once", category=DeprecationWarning)
            yield
    finally:
        root.removeHandler(handler)
        logging.captureWarnings(capture=False)


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False
