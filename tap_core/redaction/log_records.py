"""Removal of secrets and control characters from log records.

A log record factory cleans each record when it is created. So all handlers and formatters get clean
records, including those in a user's log configuration.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, TypeAlias

from tap_core.redaction.text import escape_control_characters

__all__ = [
    "BUILTIN_FIELDS",
    "CleanRecord",
    "ExcInfo",
    "RedactingFormatter",
    "clean_record",
    "format_error",
    "install_log_redaction",
]

_Redact: TypeAlias = Callable[..., str]
"""Function that removes secrets from a text: `tap_core.redaction.process_secrets.redact`."""
ExcInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)
"""Exception of a log record, as `sys.exc_info` returns it."""

BUILTIN_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
}
"""Attributes of every log record; all others were passed as ``extra``."""

_PYTHON_LINES: Final = ("Traceback (", "\nThe above exception", "\nDuring handling", 'File "')
"""Beginnings of the parts of a traceback that Python writes on several lines."""


class CleanRecord(logging.LogRecord):
    """Log record in whose message secrets are redacted and control characters escaped."""

    def getMessage(self) -> str:  # noqa: N802  the name of the base class
        """Return the message on one line, with its secrets redacted.

        If the arguments do not match the format, the message is returned unformatted: an exception
        would make `logging` print the arguments, including secrets.
        """
        try:
            text = super().getMessage()
        except Exception:  # noqa: BLE001  also of the `__str__` of an argument
            text = str(self.msg)
        return escape_control_characters(_redact(text))


_classes: Final[dict[type, type[CleanRecord]]] = {logging.LogRecord: CleanRecord}


def _get_clean_class(kind: type[logging.LogRecord]) -> type[logging.LogRecord]:
    """Return a subclass of a log record class that redacts the secrets in its message."""
    if kind not in _classes:
        _classes[kind] = type(f"Clean{kind.__name__}", (CleanRecord, kind), {})
    return _classes[kind]


def _redact(text: str, *, by_name: bool = True) -> str:
    """Redact the secrets in a text with the function passed to `install_log_redaction`, if any.

    ``by_name`` is True to also hide values after a secret name, as in ``password=x``. It is False
    to hide only registered secrets.
    """
    return _installed[-1](text, by_name=by_name) if _installed else text


_installed: Final[list[_Redact]] = []


def install_log_redaction(redact: _Redact) -> None:
    """Redact the secrets in all log records that are created from now on.

    ``redact`` is the function that redacts the secrets in a text. Later calls keep the first
    function.
    """
    if not _installed:
        _installed.append(redact)
    make = logging.getLogRecordFactory()
    if not getattr(make, "is_clean", False):
        logging.setLogRecordFactory(_CleanFactory(make))


class _CleanFactory:
    """Log record factory that wraps another factory and redacts the secrets in its records."""

    is_clean = True

    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        """Create a redacted log record; the arguments are those of `logging.LogRecord`."""
        return clean_record(self._make(*args, **kwargs))


def clean_record(record: logging.LogRecord) -> logging.LogRecord:
    """Redact the secrets and escape the control characters in a log record, in place; return it."""
    if isinstance(record, CleanRecord):
        return record
    record.__class__ = _get_clean_class(type(record))
    if record.name:
        record.name = escape_control_characters(record.name)
    if record.threadName:
        record.threadName = escape_control_characters(record.threadName)
    if record.exc_info and record.exc_info[0] is not None:
        record.exc_text = format_error(record.exc_info, _redact)
    if record.stack_info:
        record.stack_info = _redact(record.stack_info)
    return record


class RedactingFormatter(logging.Formatter):
    """Formatter that wraps a user's formatter and redacts the secrets in its output."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner
        if type(inner).formatException is logging.Formatter.formatException:
            vars(inner)["formatException"] = _format_exc_info

    def format(self, record: logging.LogRecord) -> str:
        """Format a log record with the wrapped formatter, and redact the secrets in the text."""
        _clean_extras(clean_record(record))
        try:
            return _redact(self._inner.format(record))
        except Exception as error:  # noqa: BLE001  `logging` would print the arguments
            return (
                f"{record.levelname} {record.getMessage()} ({type(error).__name__} in the format)"
            )


def _clean_extras(record: logging.LogRecord) -> None:
    """Escape control characters in the ``extra`` strings of a log record, in place."""
    for key in vars(record).keys() - BUILTIN_FIELDS:
        value = vars(record)[key]
        if isinstance(value, str):
            setattr(record, key, escape_control_characters(value))


# Tracebacks


def _format_exc_info(exc_info: ExcInfo) -> str:
    return format_error(exc_info, _redact)


def format_error(error: BaseException | ExcInfo, redact: _Redact) -> str:
    """Return the traceback of an error as text with redacted secrets; each message is one line."""
    if isinstance(error, BaseException):
        error = (type(error), error, error.__traceback__)
    trace = traceback.TracebackException(*error)
    _mark_notes(trace)
    return "\n".join(_clean_parts(trace, redact)).rstrip("\n")


def _clean_parts(trace: traceback.TracebackException, redact: _Redact) -> Iterator[str]:
    """Yield the lines of a traceback, with secrets redacted and control characters escaped."""
    for part in trace.format():
        without_margin = part.lstrip(" |+-")  # exception groups have a margin
        is_from_python = without_margin.startswith(_PYTHON_LINES)
        text = redact(part.removesuffix("\n"), by_name=not is_from_python)
        lines = text.split("\n") if is_from_python else [text]
        yield from map(escape_control_characters, lines)


def _mark_notes(trace: traceback.TracebackException | None) -> None:
    """Add the prefix ``Note:`` to the notes of an error and of its causes, in place.

    The notes of the errors in a group are included. Line breaks in a note are escaped, so that a
    note cannot pretend to be another log line.
    """
    while trace is not None:
        for member in getattr(trace, "exceptions", None) or ():
            _mark_notes(member)
        if notes := getattr(trace, "__notes__", None):
            marked = [f"Note: {escape_control_characters(str(note))}" for note in notes]
            vars(trace)["__notes__"] = marked
        trace = trace.__cause__ or trace.__context__
