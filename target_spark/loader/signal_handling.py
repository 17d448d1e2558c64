"""Handling of the signals SIGINT (Ctrl-C), SIGTERM and SIGHUP during a load.

The first signal ends the reading of the input; commits in progress finish, and their states are
emitted. SIGINT also commits the rows received so far, if `LoadSignals.commits_on_interrupt` is set.
The second signal ends the process at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

from tap_core.io.stdin import WakeupPipe
from target_spark.spark.spark_provider import SparkProvider

__all__ = ["LoadSignals"]


class LoadSignals:
    """Receiver of the signals SIGINT, SIGTERM and SIGHUP during a load.

    Attributes:
        commits_on_interrupt: True to commit the rows received so far after SIGINT.
        stopping: Event that is set by a signal after which no further commit may start.
        input_ended: Event that is set by a signal after which the rows received so far are
            committed.
        engine: The Spark process of the run, while there is one.
        wake_up: A pipe that becomes readable on a signal, to end a wait for input; None outside the
            block of `deferred`.
        clear_progress: A function that removes the live progress line from the terminal.
    """

    def __init__(self) -> None:
        self.commits_on_interrupt = False
        self.stopping = threading.Event()
        self.input_ended = threading.Event()
        self.engine: SparkProvider | None = None
        self.wake_up: WakeupPipe | None = None
        self.clear_progress: Callable[[], None] = lambda: None
        self._received: list[int] = []
        self._leave: Callable[[], None] | None = None
        self._ends_actions: threading.Event | None = None

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Context manager: during the block, `handle` ends the load at a signal, not the process.

        Outside the block, `handle` does nothing and returns False.
        """
        with contextlib.closing(WakeupPipe()) as wake_up:
            self.wake_up = wake_up
            try:
                yield
            finally:
                self.wake_up = None

    @contextlib.contextmanager
    def only_end_actions(self) -> Iterator[threading.Event]:
        """Context manager for the actions after a load: let the first signal only set an event.

        The event is yielded; once it is set, the caller must end the actions. The signal does not
        affect the load itself, because all rows are committed and all states emitted before.
        """
        self._ends_actions = threading.Event()
        yield self._ends_actions
        self._ends_actions = None

    def call_on_interrupt(self, leave: Callable[[], None] | None) -> None:
        """Set an additional function that `handle` calls at the first signal.

        If the signal has already arrived, such as during the start of Spark, the function is called
        at once.

        Args:
            leave: A function that makes the main thread stop its work; None to remove it.
        """
        self._leave = leave
        if leave is not None and self._received:
            leave()

    def handle(self, signum: int) -> bool:
        """End the load because of a signal, and return True.

        The first signal ends the reading of the input, or the actions after the load; a second one
        ends the process. Outside a block of `deferred`, do nothing and return False: the caller
        must then handle the signal.
        """
        if self.wake_up is None:
            return False
        if self._ends_actions is not None and not self._ends_actions.is_set():
            self._received.append(signum)
            self._ends_actions.set()
            return True
        if self._received:
            self._end_process(signum)
        self._received.append(signum)
        ends_input = signum == signal.SIGINT and self.commits_on_interrupt
        (self.input_ended if ends_input else self.stopping).set()
        if self.engine is not None:
            self.engine.stop_waiting()
        self.wake_up.ring()
        if self._leave is not None:
            self._leave()
        return True

    def _end_process(self, signum: int) -> None:
        self.clear_progress()
        if self.engine is not None:
            self.engine.kill()
        os._exit(128 + signum)
