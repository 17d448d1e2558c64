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
from types import TracebackType

from target_spark.errors import OutletError

__all__ = ["StateOutlet"]

_OUTPUT = 1
_ERRORS = 2


class StateOutlet:
    """A context in which only `emit` reaches the standard output."""

    def __init__(self) -> None:
        self._descriptor = -1

    def __enter__(self) -> StateOutlet:
        """Keep the standard output, and let its number mean standard error.

        Raises:
            OutletError: there is no standard output.
        """
        with contextlib.suppress(OSError, ValueError):  # closed: nothing waits in it
            sys.stdout.flush()
        try:
            self._descriptor = os.dup(_OUTPUT)
        except OSError as error:
            raise OutletError(
                "The standard output is closed, so no state could leave. Give it a reader,"
                " or a file: target-spark ... >> state.json"
            ) from error
        _redirect(_OUTPUT)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put the standard output back."""
        os.dup2(self._descriptor, _OUTPUT)
        os.close(self._descriptor)

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
            raise OutletError(
                f"The states' reader is gone ({error.strerror}). What was committed until"
                " now is in the tables; its state could not be handed on."
            ) from error

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:  # somebody made the pipe non-blocking, and it is full
            poll = select.poll()
            poll.register(self._descriptor, select.POLLOUT)
            poll.poll()
            return 0


def _redirect(descriptor: int) -> None:
    """Let a descriptor mean standard error, or nothing where that is closed."""
    try:
        os.dup2(_ERRORS, descriptor)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
