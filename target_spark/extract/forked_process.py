"""Work in a child process, so that the death of the process is an ordinary error.

A process that dies loses all its other work too. After such a death, the work is repeated in a
forked child, which inherits everything from its parent and is killed when the parent dies.
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
"""PR_SET_PDEATHSIG of prctl: the signal that a process gets when its parent dies."""


class ProcessDiedError(SingerSDKError):
    """Raised if the child process ended without a result."""


def run_in_fork(work: Callable[[], _T]) -> _T:
    """Return the result of ``work``, run in a forked child; results and errors are pickled.

    Raises:
        ProcessDiedError: the child was killed or exited.
        BaseException: the error that ``work`` raised, or a RuntimeError with its text if it cannot
        be
            pickled.
    """
    with tempfile.TemporaryFile() as answer:
        pid = os.fork()
        if not pid:
            _run_child(work, answer)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code:
            raise ProcessDiedError(
                f"the process that read the partition died ({_describe_exit_code(code)})"
            )
        answer.seek(0)
        is_done, found = pickle.load(answer)  # noqa: S301  (of our own child)
    if not is_done:
        raise found
    result: _T = found
    return result


def _run_child(work: Callable[[], object], answer: BinaryIO) -> None:
    """Run the work in the child and exit without the parent's cleanup."""
    code = 1
    try:
        with contextlib.suppress(OSError, AttributeError):  # prctl exists only on Linux
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


def _describe_exit_code(code: int) -> str:
    """Return a description of an exit code."""
    if code > 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
