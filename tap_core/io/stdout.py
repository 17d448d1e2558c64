"""Writer of protocol messages, the only output that reaches the real standard output.

- While a command runs, all other output (of authors' code or libraries) goes to standard error.
- Any thread may write; lines are never mixed. If a signal interrupts a write, the rest of the line
  is written first, unless the reader does not accept it within five seconds.
- After a failed write nothing more is written.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from tap_core.io.standard_streams import is_writable, open_null

__all__ = ["StdoutWriter", "end_last_line", "get_descriptor", "wait_until_writable"]

_STDERR: Final = 2
_RESUME_SECONDS: Final = 5.0
"""Maximum wait for the reader before the rest of an interrupted line is written."""

_Put: TypeAlias = Callable[[memoryview], int]
"""A function that writes bytes and returns the number written."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Complete lines to write, and the number of bytes that each write call has written."""

    lines: memoryview
    counts: list[int] = field(default_factory=list)

    @property
    def rest(self) -> memoryview:
        return self.lines[sum(self.counts) :]


class StdoutWriter:
    """Writer of protocol messages to standard output. Create it with `open`.

    Args:
        put: Function that writes bytes and returns the number of bytes written.
        wait: Function that waits until the output accepts data; its argument is the timeout in
            seconds, or None for no limit.
    """

    def __init__(self, put: _Put, wait: Callable[[float | None], None] | None = None) -> None:
        self._put = put
        self._wait = wait or (lambda _: None)
        self._lock = threading.RLock()
        self._queue: deque[_Block] = deque()
        self._is_writing = False
        self.failure: OSError | None = None
        """The error of the write that failed; no more lines are written after it."""

    @classmethod
    @contextlib.contextmanager
    def open(cls, number: int | None = None) -> Iterator[StdoutWriter]:
        """Yield a writer of messages to standard output; send all other output to standard error.

        While one thread uses the writer, other threads that call this method get the same writer.

        ``number`` is the file descriptor to write to, by default the one of ``sys.stdout``.
        """
        writer = _shared.acquire(number)
        try:
            yield writer
        finally:
            _shared.release()

    @property
    def is_broken(self) -> bool:
        """True after a write has failed, for example because the reader closed the pipe."""
        return self.failure is not None

    def describe_failure(self) -> str:
        """Return the sentence of an error message that says why a write has failed."""
        error = self.failure
        if error is None or error.errno == errno.EPIPE:
            return "The output was closed by its reader."
        if error.errno is None:  # raised by this module
            return str(error)
        return f"Standard output cannot be written: {error.strerror}."

    def write(self, lines: bytes) -> None:
        """Write complete lines to the output, after waiting for other threads that are writing.

        Raises:
            OSError: The reader closed the pipe, or the disk is full.
        """
        with self._lock:
            self._send(lines)

    def write_or_queue(self, lines: bytes) -> None:
        """Write complete lines to the output, without waiting for other threads.

        If another thread is writing, the lines are queued, and written before the next lines.

        Raises:
            OSError: The reader closed the pipe, or the disk is full.
        """
        if self._lock.acquire(blocking=False):
            try:
                self._send(lines)
            finally:
                self._lock.release()
        else:
            self._queue.append(_Block(memoryview(lines)))

    def _send(self, lines: bytes) -> None:
        if self.is_broken:
            raise BrokenPipeError("The output is closed: nothing more can be written.")
        self._queue.append(_Block(memoryview(lines)))
        if self._is_writing:  # called from a signal handler during a write; that write continues
            return
        self._is_writing = True
        try:
            self._write_all()
        except OSError as error:
            self.failure = error
            raise
        finally:
            self._is_writing = False

    def _write_all(self) -> None:
        """Write the queued lines to the output, oldest first."""
        while self._queue:
            block = self._queue[0]
            is_interrupted = bool(block.counts)  # a signal handler ended an earlier call
            self._write_rest(block, _RESUME_SECONDS if is_interrupted else None)
            self._queue.popleft()

    def _write_rest(self, block: _Block, timeout: float | None) -> None:
        """Write the rest of a block after interrupted or incomplete write calls.

        If ``timeout`` is not None, write at most ``PIPE_BUF`` bytes at a time, and wait at most
        ``timeout`` seconds before each write.
        """
        if not block.counts:
            block.counts.append(0)  # marks the block as begun
        while rest := block.rest:
            if timeout is not None:
                self._wait(timeout)
                rest = rest[: select.PIPE_BUF]
            try:
                # A signal handler may raise at any bytecode, but not between the write and the
                # storing of its count, since both run inside one C call.
                block.counts.extend(map(self._put, (rest,)))
            except BlockingIOError:  # another process made the pipe non-blocking, and it is full
                self._wait(None)


class _SharedStdout:
    """Standard output, which is redirected while at least one thread uses the writer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._redirection = contextlib.ExitStack()
        self._writer: StdoutWriter | None = None
        self._user_count = 0

    def acquire(self, number: int | None) -> StdoutWriter:
        """Return the writer, after redirecting standard output if no thread has the writer yet."""
        with self._lock:
            if self._writer is None:
                self._writer = self._redirection.enter_context(_redirect_stdout(number))
            self._user_count += 1
            return self._writer

    def release(self) -> None:
        """Restore standard output if no other thread has the writer."""
        with self._lock:
            self._user_count -= 1
            if self._user_count == 0:
                self._writer = None
                self._redirection.close()


_shared = _SharedStdout()


@contextlib.contextmanager
def _redirect_stdout(number: int | None) -> Iterator[StdoutWriter]:
    """Yield a writer to standard output, which is redirected for the whole process."""
    output: Any = sys.stdout
    _flush(output)
    number = get_descriptor(output) if number is None else number
    if number is not None and not is_writable(number):
        output = number = None  # the caller of the program has closed it
    if number is None:  # closed, or a test runner has replaced sys.stdout
        with contextlib.redirect_stdout(sys.stderr):
            yield StdoutWriter(partial(_write_text, output))
        return
    descriptor = _duplicate_descriptor(number)
    _redirect(number)
    writer = StdoutWriter(partial(os.write, descriptor), partial(wait_until_writable, descriptor))
    try:
        yield writer
    finally:
        with contextlib.suppress(OSError):
            writer.write_or_queue(b"")  # also writes the waiting blocks
        _flush(output)
        os.dup2(descriptor, number)
        os.close(descriptor)


def _flush(stream: Any) -> None:
    with contextlib.suppress(AttributeError, OSError, ValueError):  # the stream is closed
        stream.flush()


def get_descriptor(stream: Any) -> int | None:
    """Return the file descriptor of an output; None if it must be written to as text.

    An object of another class that replaces ``sys.stdout`` gets text even if it has a file
    descriptor. In a Jupyter kernel, the descriptor is the terminal where the kernel was started,
    and not the output of the notebook's cell.
    """
    if not isinstance(stream, io.TextIOWrapper):
        return None
    try:
        return stream.fileno()
    except (OSError, ValueError):  # text in memory, or a closed file
        return None


def _duplicate_descriptor(number: int) -> int:
    """Duplicate a file descriptor; return the new one, which is greater than 2 (standard error)."""
    descriptor = os.dup(number)
    if descriptor > _STDERR:
        return descriptor
    try:
        return _duplicate_descriptor(number)
    finally:
        os.close(descriptor)


def _write_text(stream: Any, data: memoryview) -> int:
    if stream is None:
        raise BrokenPipeError("The standard output is closed.")
    stream.write(bytes(data).decode())
    stream.flush()
    return len(data)


def end_last_line(number: int | None = None) -> None:
    """Write a line end if standard output is appended to a file whose last line has none.

    An earlier run may have written only a part of this line, for example because the disk was full.
    Without a line end, the next line would be joined with it. A file that cannot be read is left as
    it is. ``number`` is as in `StdoutWriter.open`.
    """
    descriptor = get_descriptor(sys.stdout) if number is None else number
    if descriptor is None:
        return
    with contextlib.suppress(OSError):
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        if not is_file or not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
            return
        with Path(f"/dev/fd/{descriptor}").open("rb") as file:
            file.seek(-1, os.SEEK_END)  # an error if the file is empty
            is_ended = file.read(1) == b"\n"
        if not is_ended:
            os.write(descriptor, b"\n")


def wait_until_writable(descriptor: int, timeout: float | None = None) -> None:
    """Wait until an output descriptor accepts data, for at most ``timeout`` seconds.

    After that time, raise BrokenPipeError. A ``timeout`` of None means no time limit.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    if not poll.poll(None if timeout is None else timeout * 1_000):
        raise BrokenPipeError("The reader of the standard output does not accept data.")


def _redirect(descriptor: int) -> None:
    """Redirect a file descriptor to standard error or, if that is closed, to ``/dev/null``."""
    try:
        os.dup2(_STDERR, descriptor)
    except OSError:
        open_null(descriptor, os.O_WRONLY)
