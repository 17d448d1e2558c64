"""Memory of processes, read from ``/proc``; on systems without it all figures are 0.

The peak in `resource.getrusage` begins with that of the process that started the measured one, so
a program that pytest starts seems to need as much as pytest itself.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

__all__ = ["read_memory", "read_peak_memory", "reset_peak_memory"]


def read_memory(pid: int | str = "self", field: str = "VmRSS") -> int:
    """Return a field of a process's ``/proc/PID/status`` in bytes; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:")), 0)


def read_peak_memory(pid: int | str = "self") -> int:
    """Return the peak of a process's resident memory in bytes; 0 if the process has ended."""
    return read_memory(pid, "VmHWM")


def reset_peak_memory() -> None:
    """Let the peak of this process begin with its present memory."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
