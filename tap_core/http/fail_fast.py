"""Whether somebody waits for a short answer, so that little time goes into trying again.

Rules of the room: a test of a connection is to say within seconds what is wrong. Whoever
retries or waits asks here; outside a test nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

__all__ = ["fail_fast", "limit_timeout", "limit_tries", "limit_wait"]

_TRIES: Final = 2
_WAIT_SECONDS: Final = 1.0
_TIMEOUT_SECONDS: Final = 30.0

_Timeout = TypeVar("_Timeout")

_hasty: ContextVar[bool] = ContextVar("hasty", default=False)


@contextmanager
def fail_fast() -> Iterator[None]:
    """Try seldom and wait briefly inside; in this thread."""
    token = _hasty.set(True)
    try:
        yield
    finally:
        _hasty.reset(token)


def limit_tries(tries: int) -> int:
    """Return how often something may be tried: two times at most in haste."""
    return min(tries, _TRIES) if _hasty.get() else tries


def limit_wait(seconds: float) -> float:
    """Return how long to wait before the next try."""
    return min(seconds, _WAIT_SECONDS) if _hasty.get() else seconds


def limit_timeout(timeout: _Timeout) -> _Timeout:
    """Return how long an answer may take; what is no bare number of seconds is left alone."""
    if _hasty.get() and isinstance(timeout, (int, float)):
        return min(timeout, type(timeout)(_TIMEOUT_SECONDS))
    return timeout
