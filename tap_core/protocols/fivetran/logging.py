"""What a server tells on its standard output: JSON lines, as Fivetran reads them.

Rules of the room: a line has a level (INFO, WARNING, SEVERE), a message and where it comes from,
and nothing else stands on standard output: whatever prints goes to standard error. No line shows
a secret of a call under way or of the latest ones, and what the connector scrubs; none is longer
than Fivetran takes. A fault that is tried again is said once in a call, as a warning, and nothing
is said with every row; no line has a trace.
The log never stops a call: where nobody reads it, it is not written. Source: Fivetran's Partner
SDK development guide, "Logging".
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
from tap_core.redaction.log_records import format_error

__all__ = ["JsonLogHandler", "Level", "format_count", "truncate_text"]

Level: TypeAlias = Literal["INFO", "WARNING", "SEVERE"]

_OURS: Final = "fivetran"
"""The logger whose INFO is told; of all others it is WARNING and what is worse."""

_LIMIT: Final = 7_800
"""Bytes of a text within the header of an answer, where 8 kB is the most."""

_CUT: Final = "..."
_READ: Final = 100_000
"""Letters of a longer text that are looked at."""

_REMEMBERED: Final = 32
"""Ended calls whose secrets are still hidden: a thread of theirs may speak late."""

_ALIKE: Final = 10
"""Warnings of one wording that a call may say; what comes with every row is not."""

_WORDINGS: Final = 200
"""Wordings of warnings that a call may say."""

_RETRIED: Final = "Backing off"
"""What is said before another try."""

_GIVEN_UP: Final = "_log_giveup"
"""What that library says of the last try; the error itself is told by the call."""

_Said: TypeAlias = dict[tuple[str, str], set[tuple[str, ...]]]
"""Logger and wording to what was said in it."""


@dataclass(slots=True, eq=False)
class _Turn:
    """One call under way: what it hides, and what has been said in it."""

    hides: list[Callable[[str], str]] = field(default_factory=list)
    said: _Said = field(default_factory=dict)


_turn: ContextVar[_Turn | None] = ContextVar("turn", default=None)


class JsonLogHandler:
    """The log of one server.

    ``origin`` is ``sdk_connector`` or ``sdk_destination``; ``scrub`` takes out of every text
    what no log may show.
    """

    def __init__(self, origin: str, scrub: Callable[[str], str] = str) -> None:
        self._origin = origin
        self._scrub = scrub
        self._wire: StdoutWriter | None = None
        self._lock = threading.Lock()
        self._turns: list[_Turn] = []
        self._ended: deque[Callable[[str], str]] = deque(maxlen=_REMEMBERED)
        self._said: _Said = {}

    def say(self, level: Level, text: str) -> None:
        """Write one line."""
        message = escape_control_characters(self.clean(text))
        told = {"level": level, "message": message, "message-origin": self._origin}
        line = json.dumps(told, ensure_ascii=False)
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if self._wire is not None:
                self._wire.write(f"{line}\n".encode())
            else:
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()

    def clean(self, text: str) -> str:
        """Return a text as it may be told: without secrets, scrubbed, and short enough."""
        with self._lock:
            hides = [*self._ended, *(hide for turn in self._turns for hide in turn.hides)]
        try:
            whole = _whole(text[:_READ])
            for hide in hides:
                whole = hide(whole)
            return truncate_text(self._scrub(redact(whole)))
        except Exception as error:  # noqa: BLE001  whatever it is: nothing unclean is told
            return f"A text could not be cleaned for the log ({type(error).__name__})."

    def hide_also(self, hide: Callable[[str], str]) -> None:
        """Let no line show what this takes out of a text; for the call that the thread is in."""
        turn = _turn.get()
        with self._lock:
            (self._ended if turn is None else turn.hides).append(hide)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Be within a call: its secrets, and what has been said in it, are its own."""
        turn = _Turn()
        with self._lock:
            self._turns.append(turn)
        _turn.set(turn)
        try:
            yield
        finally:
            if _turn.get() is turn:  # a stream that is left may end in another thread
                _turn.set(None)
            with self._lock:
                self._turns.remove(turn)
                self._ended.extend(turn.hides)
                self._said.clear()

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Own standard output for a while, and tell what the loggers and warnings of Python say.

        Within another of the same journal it changes nothing.
        """
        if self._wire is not None:
            yield
            return
        with ExitStack() as stack:
            self._wire = stack.enter_context(StdoutWriter.open())
            stack.callback(setattr, self, "_wire", None)
            stack.enter_context(_listening(_Ear(self._hear)))
            stack.enter_context(_warnings_logged())
            yield

    def _hear(self, record: logging.LogRecord) -> None:
        """Tell what a logger says, if it concerns people."""
        is_retried = _RETRIED in str(record.msg)
        if record.funcName == _GIVEN_UP:
            return
        if record.levelno >= logging.WARNING and self._is_said(record, 1 if is_retried else _ALIKE):
            return
        self.say("WARNING" if is_retried else _level(record.levelno), _message(record))
        if record.exc_info and record.exc_info[1] and plugin_log_level(_OURS) == "DEBUG":
            write_to_stderr(self.clean(format_error(record.exc_info, redact)) + "\n")

    def _is_said(self, record: logging.LogRecord, most: int) -> bool:
        """Tell whether the same has been said in this call, but for numbers, or enough alike."""
        values = record.args if isinstance(record.args, tuple) else (record.args,)
        key = tuple(str(value) for value in values if not isinstance(value, (int, float)))
        turn = _turn.get()
        with self._lock:
            said = self._said if turn is None else turn.said
            if len(said) >= _WORDINGS:
                return True
            alike = said.setdefault((record.name, str(record.msg)), set())
            if key in alike or len(alike) >= most:
                return True
            alike.add(key)
            return False


def format_count(number: int, thing: str) -> str:
    """Return so many things in words: ``1 row``, ``2,000 rows``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def truncate_text(text: str) -> str:
    """Return a text, cut so that the header of an answer can hold it.

    There it is JSON without letters beyond ASCII, and gRPC writes a percent sign as three.
    """
    length = 0
    for place, letter in enumerate(text):
        length += _cost(letter)
        if length > _LIMIT:
            return f"{text[:place]}..."
    return text


def _cost(letter: str) -> int:
    if letter in '"\\':
        return 2
    if letter.isascii() and letter.isprintable():
        return 3 if letter == "%" else 1
    return 6 if letter <= "\uffff" else 12


def _whole(text: str) -> str:
    """Return a text with a sign for each half of a letter: no UTF-8 has those."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _level(number: int) -> Level:
    if number >= logging.ERROR:
        return "SEVERE"
    return "WARNING" if number >= logging.WARNING else "INFO"


def _message(record: logging.LogRecord) -> str:
    """Return what a record says; of an error that comes with it, its kind."""
    try:
        text = record.getMessage()
    except (TypeError, ValueError):  # arguments that do not fit the text
        text = str(record.msg)
    if record.exc_info and record.exc_info[0]:
        return f"{text} ({record.exc_info[0].__name__})"
    return text


class _Ear(logging.Handler):
    """Hands on what people should know."""

    def __init__(self, hear: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        is_ours = f"{record.name}.".startswith(f"{_OURS}.")
        if record.levelno < (logging.INFO if is_ours else logging.WARNING):
            return
        try:
            self._hear(record)
        except Exception:  # noqa: BLE001  whatever it is, logging says how to go on
            self.handleError(record)


@contextmanager
def _listening(ear: logging.Handler) -> Iterator[None]:
    """Let everything that is logged be heard there and nowhere else."""
    root, ours = logging.getLogger(), logging.getLogger(_OURS)
    handlers, levels = list(root.handlers), (root.level, ours.level)
    root.handlers[:] = [ear]
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(levels[0])
        ours.setLevel(levels[1])


@contextmanager
def _warnings_logged() -> Iterator[None]:
    """Log warnings of Python by their kind and text, without the file and line they are in."""
    show = warnings.showwarning

    def log(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        logging.getLogger("py.warnings").warning("%s", f"{category.__name__}: {message}")

    warnings.showwarning = log
    try:
        yield
    finally:
        warnings.showwarning = show
