"""Fail-fast mode for connection tests: fewer tries, shorter waits and timeouts.

A connection test must report a failure within seconds. Code that retries or waits calls these
functions for its limits; outside a `fail_fast` block they return their argument unchanged.
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
    """Enable fail-fast mode in this thread for the block: few tries, short waits and timeouts."""
    token = _hasty.set(True)
    try:
        yield
    finally:
        _hasty.reset(token)


def limit_tries(tries: int) -> int:
    """Return ``tries``, the maximum number of tries; at most 2 in fail-fast mode."""
    return min(tries, _TRIES) if _hasty.get() else tries


def limit_wait(seconds: float) -> float:
    """Return ``seconds``, the wait before the next try; at most 1 in fail-fast mode."""
    return min(seconds, _WAIT_SECONDS) if _hasty.get() else seconds


def limit_timeout(timeout: _Timeout) -> _Timeout:
    """Return the timeout of a request: at most 30 seconds in fail-fast mode.

    Timeouts other than a plain number, such as a (connect, read) tuple, are returned unchanged.
    """
    if _hasty.get() and isinstance(timeout, (int, float)):
        return min(timeout, type(timeout)(_TIMEOUT_SECONDS))
    return timeout
