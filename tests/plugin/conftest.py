"""A fixture that isolates each test of a plugin."""

from __future__ import annotations

import os
import signal

import pytest


@pytest.fixture(autouse=True)
def isolated_process(tmp_path, monkeypatch):
    """Run the test in its own folder; restore signal handlers and environment variables."""
    monkeypatch.chdir(tmp_path)
    environment = dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for name in set(os.environ) - set(environment):
        del os.environ[name]
