"""Handlers of the signals that ask a process to end: SIGINT, SIGTERM and SIGHUP.

SIGHUP arrives when the terminal is closed. A process that was started with it ignored, as by
``nohup``, continues.
"""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Final, TypeAlias

__all__ = ["handle_termination", "ignore_handled_termination", "is_repetition"]

_Handler: TypeAlias = Callable[[int, FrameType | None], None]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_REPEAT_SECONDS: Final = 0.1
"""Seconds after which a signal that arrived during a finalizer is sent again."""


def handle_termination(handle: _Handler) -> None:
    """Make ``handle`` the handler of SIGINT, SIGTERM and SIGHUP; must run in the main thread.

    A signal that arrives while Python runs a finalizer is sent again later. If the process ignores
    SIGHUP already, it continues to ignore it.
    """
    for number in _SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, partial(_call_outside_finalizers, handle))


def is_repetition(number: int, received: Sequence[int]) -> bool:
    """Return True if a signal only repeats a request to stop that earlier signals have made.

    Ctrl-C sends SIGINT to all processes of a terminal. An orchestrator among them then sends
    SIGTERM to its plugins. When a terminal is closed, the kernel and the shell send SIGHUP each.

    Args:
        number: Number of the signal.
        received: Numbers of the signals that were received before it.
    """
    if number == signal.SIGHUP:
        return bool(received)
    return number == signal.SIGTERM and tuple(received) == (signal.SIGINT,)


def ignore_handled_termination() -> None:
    """Ignore from now on the signals that `handle_termination` handles, and release the handler.

    Call it at the end of the process. Python releases signal handlers, and the objects that they
    refer to, too late to close files.
    """
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if isinstance(handler, partial) and handler.func is _call_outside_finalizers:
            signal.signal(number, signal.SIG_IGN)


def _call_outside_finalizers(handle: _Handler, signum: int, frame: FrameType | None) -> None:
    """Call a signal handler; if Python runs a finalizer, send the signal again later instead.

    The handler ends the run with an exception, which Python would ignore in a finalizer.
    """
    if not _is_in_finalizer(frame):
        handle(signum, frame)
        return
    main = threading.main_thread().ident
    timer = threading.Timer(_REPEAT_SECONDS, signal.pthread_kill, (main, signum))
    timer.daemon = True
    timer.start()


def _is_in_finalizer(frame: FrameType | None) -> bool:
    """Return True if a frame belongs to a finalizer, whose exceptions Python ignores.

    These are ``__del__`` methods and the callbacks of the weakref module.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename == weakref.__file__:
            return True
        frame = frame.f_back
    return False
