"""Output of states to standard output, kept separate from the output of libraries.

While a target runs, file descriptor 1 refers to standard error, so that output of Spark, its
dependency resolver and other libraries cannot mix with states. Each state is written as one line to
a duplicate of the original standard output. If a caller in Python has replaced ``sys.stdout``, for
example by a ``StringIO``, the states are written there.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from tap_core.io.standard_streams import is_writable
from tap_core.io.stdout import StdoutWriter, end_last_line, get_descriptor
from target_spark.errors import StateOutputError

__all__ = ["StateMessageWriter"]

_OUTPUT = 1


class StateMessageWriter:
    """Writer of states to the original standard output, one per line. Create it with `open`."""

    def __init__(self, wire: StdoutWriter) -> None:
        self._wire = wire

    @classmethod
    @contextlib.contextmanager
    def open(cls) -> Iterator[StateMessageWriter]:
        """Context manager: reserve standard output for states, and yield the writer of the states.

        Other code that writes to standard output during the block writes to standard error.

        Raises:
            StateOutputError: Standard output is closed.
        """
        number = None if _is_replaced() else _OUTPUT
        if number is not None and not is_writable(number):
            raise StateOutputError(
                "The standard output is closed, so no state can be emitted. Redirect it to a"
                " process or a file: target-spark ... >> state.json"
            )
        end_last_line(number)
        with StdoutWriter.open(number) as wire:
            yield cls(wire)

    def emit(self, state: bytes) -> None:
        """Write one state as a line. Block while the pipe is full.

        Raises:
            StateOutputError: The process that reads standard output has closed it, or its disk is
                full.
        """
        try:
            self._wire.write(state + b"\n")
        except OSError as error:
            is_closed = isinstance(error, BrokenPipeError)
            cause = ": the process that reads the states may have ended" if is_closed else ""
            raise StateOutputError(
                f"A state could not be written to standard output ({error.strerror or error})"
                f"{cause}. The rows that were committed are in the tables; the next run continues"
                " from the last state that was written."
            ) from error


def _is_replaced() -> bool:
    """Return True if ``sys.stdout`` is an open object without a file descriptor."""
    is_open = sys.stdout is not None and not getattr(sys.stdout, "closed", False)
    return is_open and get_descriptor(sys.stdout) is None
