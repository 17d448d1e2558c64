"""Work in a process of its own, so that its death is an error like others.

Rules of the room: a process that dies takes with it whatever else it does. Whoever has seen that
lets the work be done by a child, which has all that its parent has and dies with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import tempfile
from collections.abc import Callable
from typing import BinaryIO, Final, TypeVar

from tap_core.exceptions import SingerSDKError

__all__ = ["ProcessDiedError", "run_in_fork"]

_T = TypeVar("_T")

_PARENT_DEATH: Final = 1
"""Of prctl: which signal a process gets when its parent is gone."""


class ProcessDiedError(SingerSDKError):
    """The process that did the work is gone without a word."""


def run_in_fork(work: Callable[[], _T]) -> _T:
    """Return what ``work`` returns, done by a child; both must be things that can be pickled.

    Raises:
        DiedError: the child was killed, or killed itself.
        BaseException: whatever ``work`` raises, or its words where it cannot be pickled.
    """
    with tempfile.TemporaryFile() as answer:
        pid = os.fork()
        if not pid:
            _be_the_child(work, answer)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code:
            raise ProcessDiedError(f"the process that read it is gone ({_named(code)})")
        answer.seek(0)
        is_done, found = pickle.load(answer)  # noqa: S301  (of our own child)
    if not is_done:
        raise found
    result: _T = found
    return result


def _be_the_child(work: Callable[[], object], answer: BinaryIO) -> None:
    """Do the work and end: nothing of the parent's may go on here."""
    code = 1
    try:
        with contextlib.suppress(OSError, AttributeError):  # where the system knows it
            ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
        answer.write(_answer(work))
        answer.flush()
        code = 0
    finally:
        os._exit(code)


def _answer(work: Callable[[], object]) -> bytes:
    try:
        return pickle.dumps((True, work()))
    except BaseException as error:  # noqa: BLE001  (the parent raises it)
        words = RuntimeError(f"{type(error).__name__}: {error}")
        with contextlib.suppress(Exception):
            data = pickle.dumps((False, error))
            pickle.loads(data)  # noqa: S301  (made on the line above)
            return data
        return pickle.dumps((False, words))


def _named(code: int) -> str:
    """Return what an exit code says, for people."""
    if code > 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
