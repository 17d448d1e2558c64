"""The way out for states, and for nothing else.

Rules of the room: while a target listens, file descriptor 1 is standard error, for
whatever prints there (Spark, its resolver, a library). The real standard output is a
descriptor of our own, and a state goes through it as it came in, one line, whole.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tap_core.io.stdout import StdoutWriter
from target_spark.errors import StateOutputError

__all__ = ["StateMessageWriter"]

_OUTPUT = 1


class StateMessageWriter:
    """Where states leave: the real standard output, whoever holds it; made by `open`."""

    def __init__(self, wire: StdoutWriter) -> None:
        self._wire = wire

    @classmethod
    @contextlib.contextmanager
    def open(cls) -> Iterator[StateMessageWriter]:
        """Keep the standard output, and let its number mean standard error meanwhile.

        Raises:
            OutletError: there is no standard output.
        """
        try:
            os.fstat(_OUTPUT)
        except OSError as error:
            raise StateOutputError(
                "The standard output is closed, so no state could leave. Give it a reader,"
                " or a file: target-spark ... >> state.json"
            ) from error
        with StdoutWriter.open(_OUTPUT) as wire:
            yield cls(wire)

    def emit(self, state: bytes) -> None:
        """Write one state, waiting as long as its reader needs.

        Raises:
            OutletError: nobody reads any more.
        """
        try:
            self._wire.write(state + b"\n")
        except OSError as error:
            raise StateOutputError(
                f"The states' reader is gone ({error.strerror or error}). What was committed until"
                " now is in the tables; its state could not be handed on."
            ) from error
