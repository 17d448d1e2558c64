"""Fail-fast mode for connection tests: fewer tries, shorter waits and timeouts.

A connection test must report a failure within seconds. Code that retries or waits calls
`limit_tries`, `limit_wait` and `limit_timeout`. These functions return their argument unchanged
outside a `fail_fast` block.
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
    """Limit the tries, waits and timeouts of requests in this thread during the ``with`` block.

    Connection tests use it, because they must report a failure within seconds.
    """
    token = _hasty.set(True)
    try:
        yield
    finally:
        _hasty.reset(token)


def limit_tries(tries: int) -> int:
    """Return the maximum number of tries of a request, at most 2 during a connection test.

    The limit applies only within a `fail_fast` block.
    """
    return min(tries, _TRIES) if _hasty.get() else tries


def limit_wait(seconds: float) -> float:
    """Return the wait before a retry in seconds, at most 1 during a connection test.

    The limit applies only within a `fail_fast` block.
    """
    return min(seconds, _WAIT_SECONDS) if _hasty.get() else seconds


def limit_timeout(timeout: _Timeout) -> _Timeout:
    """Return the timeout of a request in seconds, at most 30 during a connection test.

    The limit applies only within a `fail_fast` block. A timeout that is not a number, such as a
    (connect, read) tuple, is returned unchanged.
    """
    if _hasty.get() and isinstance(timeout, (int, float)):
        return min(timeout, type(timeout)(_TIMEOUT_SECONDS))
    return timeout
