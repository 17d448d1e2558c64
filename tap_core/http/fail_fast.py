"""Fail-fast mode for connection tests: fewer tries, shorter waits and timeouts.

A connection test must report a failure within seconds. Code that retries or waits calls
`limit_tries`, `limit_wait` and `limit_timeout`; outside a `fail_fast` block these functions return
their argument unchanged.
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
    """Limit tries, waits and timeouts of this thread's requests during the ``with`` block."""
    token = _hasty.set(True)
    try:
        yield
    finally:
        _hasty.reset(token)


def limit_tries(tries: int) -> int:
    """Return ``tries``, reduced to 2 in fail-fast mode, which connection tests use."""
    return min(tries, _TRIES) if _hasty.get() else tries


def limit_wait(seconds: float) -> float:
    """Return a wait between tries in seconds, reduced to 1 second in fail-fast mode.

    Connection tests use this mode.
    """
    return min(seconds, _WAIT_SECONDS) if _hasty.get() else seconds


def limit_timeout(timeout: _Timeout) -> _Timeout:
    """Return a request timeout in seconds, reduced to 30 seconds in fail-fast mode.

    Connection tests use this mode. A timeout that is not a number, such as a (connect, read) tuple,
    is returned unchanged.
    """
    if _hasty.get() and isinstance(timeout, (int, float)):
        return min(timeout, type(timeout)(_TIMEOUT_SECONDS))
    return timeout
