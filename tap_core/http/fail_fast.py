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

_is_failing_fast: ContextVar[bool] = ContextVar("is_failing_fast", default=False)


@contextmanager
def fail_fast() -> Iterator[None]:
    """Limit the tries, waits and timeouts of requests in this thread during the ``with`` block.

    Connection tests use it, because they must report a failure within seconds.
    """
    token = _is_failing_fast.set(True)
    try:
        yield
    finally:
        _is_failing_fast.reset(token)


def limit_tries(tries: int) -> int:
    """Return ``tries``, the maximum number of tries, but at most 2 in a `fail_fast` block."""
    return min(tries, _TRIES) if _is_failing_fast.get() else tries


def limit_wait(seconds: float) -> float:
    """Return ``seconds``, the wait before a retry, but at most 1 in a `fail_fast` block."""
    return min(seconds, _WAIT_SECONDS) if _is_failing_fast.get() else seconds


def limit_timeout(timeout: _Timeout) -> _Timeout:
    """Return ``timeout``, a number of seconds, but at most 30 in a `fail_fast` block.

    A timeout that is not a number, such as a (connect, read) tuple, is returned unchanged.
    """
    if _is_failing_fast.get() and isinstance(timeout, (int, float)):
        return min(timeout, type(timeout)(_TIMEOUT_SECONDS))
    return timeout
