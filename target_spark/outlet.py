"""The way out for states, and for nothing else.

Rules of the room: while a target listens, file descriptor 1 is standard error, for
whatever prints there (Spark, its resolver, a library). The real standard output is a
descriptor of our own, and a state goes through it as it came in, one line, whole.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterator

from target_spark.errors import OutletError

__all__ = ["StateOutlet", "reader_gone"]

_OUTPUT = 1
_ERRORS = 2


class StateOutlet:
    """The real standard output, for states; made by `open`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    @contextlib.contextmanager
    def open(cls) -> Iterator[StateOutlet]:
        """Keep the standard output, and let its number mean standard error meanwhile.

        Raises:
            OutletError: there is no standard output.
        """
        with contextlib.suppress(OSError, ValueError):  # closed: nothing waits in it
            sys.stdout.flush()
        try:
            descriptor = os.dup(_OUTPUT)
        except OSError as error:
            raise OutletError(
                "The standard output is closed, so no state could leave. Give it a reader,"
                " or a file: target-spark ... >> state.json"
            ) from error
        _redirect(_OUTPUT)
        try:
            yield cls(descriptor)
        finally:
            os.dup2(descriptor, _OUTPUT)
            os.close(descriptor)

    def emit(self, state: bytes) -> None:
        """Write one state, waiting as long as its reader needs.

        Raises:
            OutletError: nobody reads any more.
        """
        rest = memoryview(state + b"\n")
        try:
            while rest:
                rest = rest[self._write(rest) :]
        except OSError as error:
            raise reader_gone(error) from error

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:  # somebody made the pipe non-blocking, and it is full
            poll = select.poll()
            poll.register(self._descriptor, select.POLLOUT)
            poll.poll()
            return 0


def reader_gone(error: OSError) -> OutletError:
    """Return the error for a write that nobody reads."""
    return OutletError(
        f"The states' reader is gone ({error.strerror}). What was committed until now is in the"
        " tables; its state could not be handed on."
    )


def _redirect(descriptor: int) -> None:
    """Let a descriptor mean standard error, or nothing where that is closed."""
    try:
        os.dup2(_ERRORS, descriptor)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
