"""Preparation of the standard streams of a program, and report of output errors.

If a standard stream is closed, its descriptor is reused for the next file that is opened. Messages
for standard output would then be written into that file.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import io
import os
import sys
from collections.abc import Iterator
from typing import Final

from tap_core.redaction import write_to_stderr

__all__ = [
    "discard_output",
    "is_writable",
    "open_closed_streams",
    "open_null",
    "report_output_errors",
    "write_every_character",
]

_STDOUT: Final = 1
_DISK_FULL_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def open_closed_streams() -> None:
    """Open standard input, output and error if the caller has closed them.

    Input is then empty, each write to standard output fails, and standard error is discarded.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        if not _is_open(number):
            open_null(number, mode)
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stdout is None:
        sys.stdout = os.fdopen(_STDOUT, "w", closefd=False)


def write_every_character() -> None:
    """Let standard output accept each character, whatever the encoding of the locale.

    Pipes and files get UTF-8, as messages do, so that a catalog can be read again. A terminal keeps
    its encoding, and shows the other characters as escapes.
    """
    output = sys.stdout
    if isinstance(output, io.TextIOWrapper) and codecs.lookup(output.encoding).name != "utf-8":
        encoding = output.encoding if output.isatty() else "utf-8"
        output.reconfigure(encoding=encoding, errors="backslashreplace")


def is_writable(number: int) -> bool:
    """Return True if a file descriptor is open for writing."""
    try:
        return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        return False


@contextlib.contextmanager
def report_output_errors() -> Iterator[None]:
    """Flush standard output after the ``with`` block, and report output errors as one line.

    Raises:
        SystemExit: Standard output is closed, or a disk is full. The exit code is 1.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EBADF and not is_writable(_STDOUT):
            reason = "The standard output is closed."
        elif error.errno in _DISK_FULL_ERRORS:
            name = error.filename or "Standard output or a file"
            reason = f"{name} cannot be written: {error.strerror}."
        else:
            raise
        discard_output()
        write_to_stderr(f"{reason}\n")
        raise SystemExit(1) from None


def discard_output() -> None:
    """Redirect standard output to the null device after a write has failed.

    Otherwise Python would raise an error at exit, when it flushes the output.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        open_null(sys.stdout.fileno(), os.O_WRONLY)


def open_null(number: int, mode: int) -> None:
    """Open the null device as the file descriptor ``number``; if that is open, replace its file.

    Child processes inherit the descriptor. ``mode`` is a flag of `os.open`, such as
    ``os.O_RDONLY``.
    """
    opened = os.open(os.devnull, mode)
    if opened == number:
        os.set_inheritable(number, True)  # noqa: FBT003
    else:
        os.dup2(opened, number)
        os.close(opened)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
