"""Suppression of py4j's log messages about a broken connection when the JVM ends or has ended.

py4j logs such errors with stack traces, partly through the root logger. These messages would hide
the target's message about the end of the JVM. No other log messages are suppressed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["restore", "silence_disconnects"]

_LOGGERS: Final = ("", "py4j.java_gateway", "py4j.clientserver")
_BROKEN: Final = {"Py4JNetworkError", "OSError"}


class _DisconnectFilter(logging.Filter):
    """Log filter that drops py4j's messages about a broken connection after the JVM has ended."""

    def __init__(self, is_gone: Callable[[], bool]) -> None:
        super().__init__()
        self._is_gone = is_gone

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False to drop a log record about a broken connection if the JVM has ended."""
        return not (_is_broken_connection(record) and self._is_gone())


def silence_disconnects(is_gone: Callable[[], bool]) -> logging.Filter:
    """Suppress py4j's log messages about a broken connection after the JVM has ended.

    Args:
        is_gone: Function that returns True if the JVM has ended.

    Returns:
        The log filter, which `restore` removes.
    """
    logging.getLogger("py4j").setLevel(logging.WARNING)  # INFO has each closed socket
    log_filter = _DisconnectFilter(is_gone)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(log_filter)
    return log_filter


def restore(log_filter: logging.Filter) -> None:
    """Remove the log filter ``log_filter``, which `silence_disconnects` has added and returned."""
    for name in _LOGGERS:
        logging.getLogger(name).removeFilter(log_filter)


def _is_broken_connection(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    is_from_py4j = Path(record.pathname).parent.name == "py4j"
    return is_from_py4j and any(kind.__name__ in _BROKEN for kind in type(error).__mro__)
