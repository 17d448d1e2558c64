"""Reading of standard input in blocks, with timeouts while no data arrive.

While no data arrive, `read_blocks` yields None every ``beat_seconds``, so that the caller can do
other work. A signal handler only records the signal, and ends the wait through a pipe.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import select
import stat
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

__all__ = ["WakeupPipe", "open_binary", "read_blocks"]

_BLOCK_SIZE: Final = 1 << 20


class WakeupPipe:
    """Pipe that a signal handler or another thread uses to interrupt a wait for input."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def ring(self) -> None:
        """Interrupt the current wait for input, or the next one if there is no wait now."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full, so the wait ends anyway
            os.write(self._writer, b"!")

    def close(self) -> None:
        """Close both ends of the pipe."""
        os.close(self.reader)
        os.close(self._writer)


def open_binary(source: Any) -> BinaryIO:
    """Return the binary file object of an input.

    ``source`` is a text file, a binary file, or None for standard input.
    """
    stream: Any = sys.stdin if source is None else source
    below: BinaryIO | None = getattr(stream, "buffer", None)
    if below is not None:
        return below
    if isinstance(stream.read(0), bytes):
        binary: BinaryIO = stream
        return binary
    return io.BytesIO(stream.read().encode())


def read_blocks(
    source: BinaryIO, wake_up: WakeupPipe, beat_seconds: float
) -> Iterator[bytes | None]:
    """Yield the data of an input in blocks of at most 1 MiB, until it ends.

    For a pipe or a terminal, also yield None: after each ``beat_seconds`` without data, and when
    ``wake_up`` ends the wait.
    """
    descriptor = _get_waitable_descriptor(source)
    if descriptor is None:
        yield from iter(lambda: source.read(_BLOCK_SIZE), b"")
        return
    _enlarge_pipe(descriptor)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.register(wake_up.reader, select.POLLIN)
    while True:
        ready = dict(poll.poll(beat_seconds * 1000))
        if descriptor not in ready:
            yield None
            continue
        block = os.read(descriptor, _BLOCK_SIZE)
        if not block:
            return
        yield block


def _get_waitable_descriptor(source: BinaryIO) -> int | None:
    """Return the file descriptor of an input from which data may arrive late, such as a pipe.

    Return None for a regular file or an in-memory buffer, from which a read never waits.
    """
    try:
        descriptor = source.fileno()
    except (OSError, AttributeError):  # an in-memory buffer
        return None
    return None if stat.S_ISREG(os.fstat(descriptor).st_mode) else descriptor


def _enlarge_pipe(descriptor: int) -> None:
    """Enlarge a pipe's buffer to the size of one block, so that fewer reads are needed."""
    with contextlib.suppress(AttributeError, OSError):  # not a pipe, or not Linux
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _BLOCK_SIZE)
