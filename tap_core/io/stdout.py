"""The real standard output, for the protocol's lines and for nothing else.

Rules of the room: while a command runs, whatever prints (an author's code, a library) prints
to standard error. A line leaves whole, whichever thread it comes from; what is left of one that
a signal interrupts goes out before anything else, and a reader who does not take it soon is given
up. Once a write has failed nothing more is written.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

__all__ = ["StdoutWriter"]

_ERRORS: Final = 2
_PATIENCE_SECONDS: Final = 5.0

_Put: TypeAlias = Callable[[memoryview], int]
"""Takes bytes; returns how many it took."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Whole lines, and of how many bytes each write of them was."""

    lines: memoryview
    counts: list[int] = field(default_factory=list)

    @property
    def rest(self) -> memoryview:
        return self.lines[sum(self.counts) :]


class StdoutWriter:
    """Where lines go; made by `open`.

    ``wait`` waits until there is room for a little, so many seconds or for as long as it takes.
    """

    def __init__(self, put: _Put, wait: Callable[[float | None], None] | None = None) -> None:
        self._put = put
        self._wait = wait or (lambda _: None)
        self._lock = threading.RLock()
        self._later: deque[_Block] = deque()
        self._is_writing = self._is_broken = False

    @classmethod
    @contextlib.contextmanager
    def open(cls, number: int | None = None) -> Iterator[StdoutWriter]:
        """Keep the standard output, and let whatever prints meanwhile use standard error.

        ``number`` is that of its descriptor; without one it is that of ``sys.stdout``.
        """
        output = sys.stdout
        _flush(output)
        number = _number(output) if number is None else number
        if number is None:  # a runner of tests has put something else in its place
            with contextlib.redirect_stdout(sys.stderr):
                yield cls(partial(_put_text, output))
            return
        descriptor = _kept(number)
        _redirect(number)
        wire = cls(partial(os.write, descriptor), partial(_await, descriptor))
        try:
            yield wire
        finally:
            with contextlib.suppress(OSError):
                wire.say(b"")  # and with it what still waits
            _flush(output)
            os.dup2(descriptor, number)
            os.close(descriptor)

    @property
    def is_broken(self) -> bool:
        """Whether nobody reads any more."""
        return self._is_broken

    def write(self, lines: bytes) -> None:
        """Write whole lines, behind those that are being written.

        Raises:
            OSError: the reader is gone, or the disk is full.
        """
        with self._lock:
            self._send(lines)

    def say(self, lines: bytes) -> None:
        """Write whole lines of the log, without waiting for another thread that writes.

        That thread takes them with it. Raises as `write` does.
        """
        if self._lock.acquire(blocking=False):
            try:
                self._send(lines)
            finally:
                self._lock.release()
        else:
            self._later.append(_Block(memoryview(lines)))

    def _send(self, lines: bytes) -> None:
        if self._is_broken:
            raise BrokenPipeError("The output is closed: nothing more can be written.")
        self._later.append(_Block(memoryview(lines)))
        if self._is_writing:  # a signal has come within a line: that one goes first
            return
        self._is_writing = True
        try:
            self._write_all()
        except OSError:
            self._is_broken = True
            raise
        finally:
            self._is_writing = False

    def _write_all(self) -> None:
        """Write what waits, oldest first."""
        while self._later:
            block = self._later[0]
            self._write_rest(block, _PATIENCE_SECONDS if block.counts else None)
            self._later.popleft()

    def _write_rest(self, block: _Block, patience: float | None) -> None:
        """Write what is left of a block; with patience, little by little."""
        if not block.counts:
            block.counts.append(0)  # from now on it counts as begun
        while rest := block.rest:
            if patience is not None:
                self._wait(patience)
                rest = rest[: select.PIPE_BUF]
            try:
                # A signal's handler may raise anywhere, but not before the count is kept:
                # none of Python's code runs between the write and that.
                block.counts.extend(map(self._put, (rest,)))
            except BlockingIOError:  # somebody made the pipe non-blocking, and it is full
                self._wait(None)


def _flush(stream: Any) -> None:
    with contextlib.suppress(AttributeError, OSError, ValueError):  # closed: nothing waits in it
        stream.flush()


def _number(stream: Any) -> int | None:
    try:
        number: int = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None
    return number


def _kept(number: int) -> int:
    """Return another number for a descriptor, none of those that programs take for granted."""
    descriptor = os.dup(number)
    if descriptor > _ERRORS:
        return descriptor
    try:
        return _kept(number)
    finally:
        os.close(descriptor)


def _put_text(stream: Any, data: memoryview) -> int:
    if stream is None:
        raise BrokenPipeError("The standard output is closed.")
    stream.write(bytes(data).decode())
    stream.flush()
    return len(data)


def _await(descriptor: int, patience: float | None) -> None:
    """Wait until there is room for a little, in seconds, or for as long as it takes."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    if not poll.poll(None if patience is None else patience * 1_000):
        raise BrokenPipeError("Nobody reads what is written.")


def _redirect(descriptor: int) -> None:
    """Let a descriptor mean standard error, or nothing where that is closed."""
    try:
        os.dup2(_ERRORS, descriptor)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
