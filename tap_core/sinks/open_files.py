"""Files that sinks have not closed: their buffered rows are written at the end of the process.

Authors may rely on Python to close a file when its owner is deleted. But Python deletes the target,
which owns the sinks and handles signals, too late for that. And if objects refer to each other, it
may close a file on disk before it flushes the text file that writes to it.
"""

from __future__ import annotations

import atexit
import gc
import io
import logging
from contextlib import suppress
from functools import cache
from typing import Any, Final

from tap_core.io.termination_handlers import ignore_handled_termination

__all__ = ["write_open_files_at_exit"]

_logger = logging.getLogger("tap_core.sinks")

_STANDARD_ERROR: Final = 2
"""File descriptor of standard error, the last of the standard streams."""


@cache
def write_open_files_at_exit() -> None:
    """Write and close the files that are still open when this process ends.

    A file that cannot be written is then logged as an error.
    """
    atexit.register(_write_open_files)


def _write_open_files() -> None:
    """Flush the files that are open for writing, then delete the target, which closes them."""
    created = gc.get_objects()  # since the command was called, which has frozen all others
    files = [each for each in created if issubclass(type(each), io.IOBase) and _is_written(each)]
    del created
    if not files:
        return
    while files:
        _flush(files.pop())
    ignore_handled_termination()  # the handler belongs to the target
    gc.unfreeze()
    gc.collect()


def _is_written(file: Any) -> bool:
    """Return True if a file is open for writing, and is not a standard stream."""
    try:
        if file.closed or not file.writable():
            return False
    except (OSError, ValueError, AttributeError):
        return False
    descriptor = _STANDARD_ERROR + 1
    with suppress(OSError, ValueError, AttributeError):  # an upload, for example, has no descriptor
        descriptor = file.fileno()
    return descriptor > _STANDARD_ERROR


def _flush(file: Any) -> None:
    try:
        file.flush()
    except (BrokenPipeError, io.UnsupportedOperation):
        pass  # some uploads can only be closed
    except Exception as error:  # noqa: BLE001 - libraries for uploads raise their own errors
        name = getattr(file, "name", "without a name")
        _logger.error("File %s cannot be written: %s", name, error)  # noqa: TRY400 - expected
