"""Wait until a process that is no child of the test has ended."""

from __future__ import annotations

import time
from pathlib import Path

PATIENCE_SECONDS = 60


def wait_for_end(pid: int, seconds: float = PATIENCE_SECONDS) -> bool:
    """Wait until a process has ended; return False if it still runs after `seconds`.

    A process ends some time after it was killed and after its pipes were closed. A process without
    a parent that collects its exit code (a zombie) has ended.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state.split()[0] in "ZX":
            return True
        time.sleep(0.02)
    return False
