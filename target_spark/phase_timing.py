"""Timing of the phases of a load, such as "starting Spark" and "reading", for progress messages.

Phases may overlap: rows are read while Spark starts and while earlier batches are committed.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["FETCH", "START", "Phases"]

START: Final = "starting Spark"
"""Name of the phase in which Spark starts."""
FETCH: Final = "fetching jars"
"""Name of the phase, a part of `START`, in which jars are checked, and downloaded if missing."""


class Phases:
    """Stopwatch for the phases of a load, such as "starting Spark". It is thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[object, tuple[str, float]] = {}
        self._seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def run(self, name: str) -> Iterator[None]:
        """Context manager: time the block as a phase named ``name``, such as "starting Spark"."""
        key, started = object(), time.monotonic()
        with self._lock:
            self._running[key] = name, started
        try:
            yield
        finally:
            with self._lock:
                del self._running[key]
                self._seconds[name] += time.monotonic() - started

    def seconds(self, name: str) -> float:
        """Return the total duration in seconds of the finished phases named ``name``, or 0.0."""
        with self._lock:
            return self._seconds.get(name, 0.0)

    def describe(self) -> str:
        """Return the phases in progress with their seconds, the most recently started first.

        An example is "starting Spark (12 s), reading (14 s)". Return "" if no phase is in progress.
        """
        now = time.monotonic()
        with self._lock:
            running = list(self._running.values())
        return ", ".join(f"{name} ({now - started:.0f} s)" for name, started in reversed(running))
