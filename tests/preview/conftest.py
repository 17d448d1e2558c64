"""A server for each test, and the state of the process that a command changes, restored."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator

import pytest

from tests.http.server import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


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
