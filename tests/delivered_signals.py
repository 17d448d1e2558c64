"""Signals to another process that has certainly handled them."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Final

__all__ = ["deliver"]

_PATIENCE: Final = 60
"""Seconds."""


def deliver(process: subprocess.Popen[Any], number: signal.Signals) -> None:
    """Send a signal to a waiting process, and wait until it has handled the signal and waits again.

    Two signals of one number count as one if the second is sent before the first is handled.
    """
    process.send_signal(number)
    end = time.monotonic() + _PATIENCE
    while not _is_waiting(process.pid, number):
        assert time.monotonic() < end
        time.sleep(0.01)


def _is_waiting(pid: int, number: signal.Signals) -> bool:
    """Return True if the main thread of a process sleeps and has no such signal to handle."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    masks = (int(fields[name], 16) for name in ("SigPnd", "ShdPnd"))
    is_pending = any(mask >> (number - 1) & 1 for mask in masks)
    return not is_pending and fields["State"].split()[0] == "S"
