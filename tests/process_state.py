"""Restoration of what a command changes in the process of the tests."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator

import pytest

__all__ = ["restore_process_state"]


@pytest.fixture(autouse=True)
def restore_process_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore signal handlers, the log and excepthook, which a command changes."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: signal.getsignal(number) for number in numbers}
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    root.setLevel(before[0])
    root.handlers[:] = before[1]
