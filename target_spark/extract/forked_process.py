"""Execution of a function in a forked child process, so that a crash becomes an exception.

It is used to repeat a Spark task whose worker process has crashed. The child process is killed if
its parent dies.
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
"""Number of the Linux prctl option PR_SET_PDEATHSIG. It sets the signal that a process gets when
its parent dies."""


class ProcessDiedError(SingerSDKError):
    """Error for a forked child process that crashed or exited before it returned a result."""


def run_in_fork(work: Callable[[], _T]) -> _T:
    """Call a function in a forked child process and return its result, which must be picklable.

    Raises:
        ProcessDiedError: The child was killed or exited before it sent a result.
        BaseException: The exception that ``work`` raised. An exception that cannot be pickled is
            replaced by a RuntimeError with its class name and text.
    """
    with tempfile.TemporaryFile() as output:
        pid = os.fork()
        if not pid:
            _run_child(work, output)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code:
            raise ProcessDiedError(
                f"the process that read the partition died ({_describe_exit_code(code)})"
            )
        output.seek(0)
        is_done, outcome = pickle.load(output)  # noqa: S301  (of our own child)
    if not is_done:
        raise outcome
    result: _T = outcome
    return result


def _run_child(work: Callable[[], object], output: BinaryIO) -> None:
    """Call ``work`` in the child process, write its pickled result or exception, and exit.

    The process exits with `os._exit`, without Python's cleanup handlers.
    """
    code = 1
    try:
        with contextlib.suppress(OSError, AttributeError):  # prctl exists only on Linux
            ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
        output.write(_answer(work))
        output.flush()
        code = 0
    finally:
        os._exit(code)


def _answer(work: Callable[[], object]) -> bytes:
    try:
        return pickle.dumps((True, work()))
    except BaseException as error:  # noqa: BLE001  (the parent raises it)
        replacement = RuntimeError(f"{type(error).__name__}: {error}")
        with contextlib.suppress(Exception):
            data = pickle.dumps((False, error))
            pickle.loads(data)  # noqa: S301  (made on the line above)
            return data
        return pickle.dumps((False, replacement))


def _describe_exit_code(code: int) -> str:
    """Return a text for the exit code of a process, such as "exit code 1" or "SIGSEGV".

    A negative exit code means that a signal killed the process.
    """
    if code > 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
