"""What the bridge to the JVM logs of a connection that broke, kept back where the JVM is gone.

Rules of the room: py4j logs such an error with its stack, in part under no name of its own,
before it raises it. Where the JVM has ended, whoever asked is told that in words, and the
stacks would only hide them. Nothing else is kept back: not what is no broken connection,
and nothing while the JVM lives.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["restore", "silence_disconnects"]

_LOGGERS: Final = ("", "py4j.java_gateway", "py4j.clientserver")
_BROKEN: Final = {"Py4JNetworkError", "OSError"}


class _Quiet(logging.Filter):
    """Lets through what is not of a JVM that is gone."""

    def __init__(self, is_gone: Callable[[], bool]) -> None:
        super().__init__()
        self._is_gone = is_gone

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether to log a record."""
        return not (_is_broken_connection(record) and self._is_gone())


def silence_disconnects(is_gone: Callable[[], bool]) -> logging.Filter:
    """Keep back what the bridge says of a broken connection if ``is_gone`` says so then."""
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of each socket that closes
    quiet = _Quiet(is_gone)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(quiet)
    return quiet


def restore(quiet: logging.Filter) -> None:
    """Keep nothing back any more."""
    for name in _LOGGERS:
        logging.getLogger(name).removeFilter(quiet)


def _is_broken_connection(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    of_bridge = Path(record.pathname).parent.name == "py4j"
    return of_bridge and any(kind.__name__ in _BROKEN for kind in type(error).__mro__)
