"""Pipes whose reader does not read."""

from __future__ import annotations

import os
import select
import time
from typing import IO, Final

__all__ = ["wait_until_full"]

_PATIENCE: Final = 60
"""Seconds."""


def wait_until_full(pipe: IO[bytes]) -> None:
    """Wait until a process that writes to a pipe has to wait; ``pipe`` is the end that is read."""
    writer = os.open(f"/proc/self/fd/{pipe.fileno()}", os.O_WRONLY)
    end = time.monotonic() + _PATIENCE
    poll = select.poll()
    poll.register(writer, select.POLLOUT)
    try:
        while poll.poll(0):
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        os.close(writer)
