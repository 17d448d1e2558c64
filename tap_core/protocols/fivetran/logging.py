"""Log of a gRPC server on standard output, as JSON lines in Fivetran's format.

- A line has a level (INFO, WARNING, SEVERE), a message and an origin. Nothing else is written to
  standard output. Other prints go to standard error.
- Secrets of the active calls and of the latest ended calls are redacted. Messages are cut to
  Fivetran's maximum length, and no line has a traceback.
- A retried error is logged once per call, as a warning. The number of similar warnings is limited.
- A failure to write the log never stops a call.

Source: Fivetran's Partner SDK development guide, "Logging".
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from tap_core.io.stdout import StdoutWriter
from tap_core.logging import plugin_log_level
from tap_core.redaction import escape_control_characters, redact, write_to_stderr
from tap_core.redaction.log_records import clean_record, format_error

__all__ = ["Level", "ServerLog", "format_count", "truncate_text"]

Level: TypeAlias = Literal["INFO", "WARNING", "SEVERE"]

_SERVER_LOGGER: Final = "fivetran"
"""Logger whose INFO records are logged. Other loggers are logged from WARNING on."""

_MAX_BYTES: Final = 7_800
"""Maximum size of a text in a gRPC trailer, in bytes. gRPC allows 8 kB."""

_MAX_CHARACTERS: Final = 100_000
"""Maximum length of a text in characters; the rest is cut off before secrets are redacted."""

_MAX_OLD_REDACTORS: Final = 32
"""Number of redaction functions to keep from ended calls, whose threads may still log."""

_MAX_SIMILAR: Final = 10
"""Maximum number of warnings with the same template per call, in case each row causes one."""

_MAX_TEMPLATES: Final = 200
"""Maximum number of different templates of warnings per call."""

_RETRY_LOGGER: Final = "tap_core.http.retry"
"""Logger of the retries of requests."""

_RETRY_TEXTS: Final = ("Backing off", "; retrying in ")
"""Texts in log messages that announce the retry of a request."""

_GIVE_UP_FUNCTION: Final = "_log_giveup"
"""Function of the backoff library whose log records are dropped: the call reports the error."""

_LoggedWarnings: TypeAlias = dict[tuple[str, str], set[tuple[str, ...]]]
"""Arguments of the logged warnings, by logger name and message template."""


@dataclass(slots=True, eq=False)
class _CallLogState:
    """State of the server's log for one gRPC call.

    Attributes:
        redactors: Functions that redact the secrets of the call's settings.
        logged_warnings: Warnings that were logged during the call and are not repeated.
    """

    redactors: list[Callable[[str], str]] = field(default_factory=list)
    logged_warnings: _LoggedWarnings = field(default_factory=dict)


_current_call: ContextVar[_CallLogState | None] = ContextVar("current_call", default=None)


class ServerLog:
    """Log of a gRPC server for Fivetran: JSON lines on standard output, without secrets.

    Args:
        origin: Value of ``message-origin`` in each line: the kind of server that writes it.
        scrub: Function that removes addresses and other text that must not be logged.
    """

    def __init__(self, origin: str, scrub: Callable[[str], str] = str) -> None:
        self._origin = origin
        self._scrub = scrub
        self._output: StdoutWriter | None = None
        self._lock = threading.Lock()
        self._calls: list[_CallLogState] = []
        self._old_redactors: deque[Callable[[str], str]] = deque(maxlen=_MAX_OLD_REDACTORS)
        self._logged_warnings: _LoggedWarnings = {}

    def write(self, level: Level, text: str) -> None:
        """Write one line to the log of the server. Secrets in the text are redacted."""
        message = escape_control_characters(self.clean(text))
        content = {"level": level, "message": message, "message-origin": self._origin}
        line = json.dumps(content, ensure_ascii=False)
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if self._output is not None:
                self._output.write(f"{line}\n".encode())
            else:
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()

    def clean(self, text: str) -> str:
        """Redact the secrets in a text for Fivetran's log or users, and limit its length.

        The secrets of the active gRPC calls and of the latest ended calls are redacted.
        """
        with self._lock:
            redactors = list(self._old_redactors)
            for state in self._calls:
                redactors += state.redactors
        try:
            cleaned = _replace_surrogates(text[:_MAX_CHARACTERS])
            for redactor in redactors:
                cleaned = redactor(cleaned)
            return truncate_text(self._scrub(redact(cleaned)))
        except Exception as error:  # noqa: BLE001  never log an uncleaned text
            return f"A text could not be cleaned for the log ({type(error).__name__})."

    def add_redactor(self, redactor: Callable[[str], str]) -> None:
        """Register a function that redacts secrets in all later log lines.

        ``redactor`` returns a text without its secrets. It remains registered until the current
        gRPC call has ended, and for some time afterwards.
        """
        state = _current_call.get()
        with self._lock:
            redactors = self._old_redactors if state is None else state.redactors
            redactors.append(redactor)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Context manager for the log of one gRPC call, which runs in the ``with`` block.

        Secrets registered in the block are redacted until the call has ended and for some time
        after. A warning that is repeated in the block is logged once.
        """
        state = _CallLogState()
        with self._lock:
            self._calls.append(state)
        _current_call.set(state)
        try:
            yield
        finally:
            if _current_call.get() is state:  # an abandoned stream may end in another thread
                _current_call.set(None)
            with self._lock:
                self._calls.remove(state)
                self._old_redactors.extend(state.redactors)
                self._logged_warnings.clear()  # of the call's threads, which have no current call

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Write Python's log records and warnings to this log during the ``with`` block.

        Prints to standard output go to standard error instead. A nested block has no effect.
        """
        if self._output is not None:
            yield
            return
        with ExitStack() as stack:
            self._output = stack.enter_context(StdoutWriter.open())
            stack.callback(setattr, self, "_output", None)
            stack.enter_context(_replace_root_handler(_LogHandler(self._write_record)))
            stack.enter_context(_log_warnings())
            yield

    def _write_record(self, record: logging.LogRecord) -> None:
        """Write a Python log record as a line of this log.

        Skip repetitions of an earlier warning, and the record that says that retries have ended.
        """
        if record.funcName == _GIVE_UP_FUNCTION:
            return
        is_retried = any(text in str(record.msg) for text in _RETRY_TEXTS)
        is_counted = is_retried or record.levelno >= logging.WARNING
        if is_counted and self._is_repetition(record, 1 if is_retried else _MAX_SIMILAR):
            return
        self.write("WARNING" if is_retried else _get_level(record.levelno), _format_record(record))
        if record.exc_info and record.exc_info[1] and plugin_log_level(_SERVER_LOGGER) == "DEBUG":
            write_to_stderr(self.clean(format_error(record.exc_info, redact)) + "\n")

    def _is_repetition(self, record: logging.LogRecord, limit: int) -> bool:
        """Return True if a log record repeats an earlier one of the gRPC call.

        Records that differ only in numbers are repetitions. After ``limit`` different records with
        the same message template (``record.msg``), further ones count as repetitions too.
        """
        values = record.args if isinstance(record.args, tuple) else (record.args,)
        key = tuple(str(value) for value in values if not isinstance(value, (int, float)))
        state = _current_call.get()
        with self._lock:
            logged = self._logged_warnings if state is None else state.logged_warnings
            if len(logged) >= _MAX_TEMPLATES:
                return True
            similar = logged.setdefault((record.name, str(record.msg)), set())
            if key in similar or len(similar) >= limit:
                return True
            similar.add(key)
            return False


def format_count(number: int, noun: str) -> str:
    """Return a number with a noun in the singular or plural: "1 row", "2,000 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def truncate_text(text: str) -> str:
    """Shorten a text to 7,800 bytes, so that it fits into a gRPC trailer.

    The trailer is the metadata at the end of a response. It holds the text as JSON in ASCII.
    """
    size = 0
    for position, character in enumerate(text):
        size += _count_bytes(character)
        if size > _MAX_BYTES:
            return f"{text[:position]}..."
    return text


def _count_bytes(character: str) -> int:
    """Return the number of bytes of the character ``character`` in a gRPC trailer.

    The trailer holds JSON in ASCII, in which most other characters are escaped.
    """
    if character in '"\\':
        return 2
    if character.isascii() and character.isprintable():
        return 3 if character == "%" else 1
    return 6 if character <= "\uffff" else 12


def _replace_surrogates(text: str) -> str:
    """Return a text that UTF-8 can encode. Lone surrogates are replaced with U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _get_level(number: int) -> Level:
    if number >= logging.ERROR:
        return "SEVERE"
    return "WARNING" if number >= logging.WARNING else "INFO"


def _format_record(record: logging.LogRecord) -> str:
    """Return the text of a log record, followed by the class of its exception, if any."""
    text = clean_record(record).getMessage()
    if record.exc_info and record.exc_info[0]:
        return f"{text} ({record.exc_info[0].__name__})"
    return text


class _LogHandler(logging.Handler):
    """Logging handler that passes records to a function ``write_record``.

    INFO records are passed only from the server's own logger and the logger of retried requests.
    """

    def __init__(self, write_record: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._write_record = write_record

    def emit(self, record: logging.LogRecord) -> None:
        is_ours = f"{record.name}.".startswith((f"{_SERVER_LOGGER}.", f"{_RETRY_LOGGER}."))
        if record.levelno < (logging.INFO if is_ours else logging.WARNING):
            return
        try:
            self._write_record(record)
        except Exception:  # noqa: BLE001  logging's own error handling
            self.handleError(record)


@contextmanager
def _replace_root_handler(handler: logging.Handler) -> Iterator[None]:
    """Make ``handler`` the only handler of Python's root logger during the ``with`` block."""
    root = logging.getLogger()
    info_loggers = [logging.getLogger(_SERVER_LOGGER), logging.getLogger(_RETRY_LOGGER)]
    handlers = list(root.handlers)
    levels = {logger: logger.level for logger in (root, *info_loggers)}
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for logger in info_loggers:
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        for logger, level in levels.items():
            logger.setLevel(level)


@contextmanager
def _log_warnings() -> Iterator[None]:
    """Log Python warnings, without their file and line, during the ``with`` block."""
    show = warnings.showwarning

    def log(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        logging.getLogger("py.warnings").warning("%s", f"{category.__name__}: {message}")

    warnings.showwarning = log
    try:
        yield
    finally:
        warnings.showwarning = show
