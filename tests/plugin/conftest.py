"""What every test of a plugin needs: its own folder, and signal handlers put back."""

from __future__ import annotations

import os
import signal

import pytest


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """A plugin takes over signals and reads the environment; neither outlives a test."""
    monkeypatch.chdir(tmp_path)
    environment = dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for name in set(os.environ) - set(environment):
        del os.environ[name]
