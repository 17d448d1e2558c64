"""Which failures are tried again, and after which wait.

Rules of the room: a failure is tried again when the same request may succeed later; a
certificate that is refused will be refused again. A server that says when to come back
(``Retry-After``, RFC 9110 section 10.2.3) is asked just then; otherwise the stream's wait
generator and jitter decide. The loop itself is the library backoff's. It is for what has failed
once: nearly all requests never do, and the library brings asyncio.
"""

from __future__ import annotations

import functools
import itertools
import logging
import time
from collections.abc import Callable, Generator
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import requests

from tap_core.exceptions import RetriableAPIError
from tap_core.http.fail_fast import limit_tries, limit_wait
from tap_core.http.response_limits import IN_FORCE

if TYPE_CHECKING:
    from backoff.types import Details

__all__ = [
    "RETRYABLE_ERRORS",
    "RETRY_AFTER_LIMIT",
    "RetryState",
    "WaitGenerator",
    "exponential_backoff",
    "is_permanent_failure",
    "random_jitter",
    "retry_after",
    "runtime_backoff",
    "with_retries",
]

RETRY_AFTER_LIMIT = 3600.0
"""Seconds: the longest wait that a server's ``Retry-After`` is obeyed for. Whoever asks for
more is asked again after this long."""

RETRYABLE_ERRORS: tuple[type[Exception], ...] = (
    ConnectionResetError,
    RetriableAPIError,
    requests.exceptions.Timeout,
    requests.exceptions.ConnectionError,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
)
"""Failures that may pass."""

_Waits: TypeAlias = Generator[float, Any, None]

WaitGenerator: TypeAlias = Callable[..., _Waits]
"""Makes a generator of waits in seconds; each failure is sent into it."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Number = TypeVar("_Number", int, float)


class _AsTold(float):
    """A wait that the server asked for: no jitter is added."""

    __slots__ = ()


def with_retries(
    *,
    wait_generator: WaitGenerator,
    max_tries: Callable[[], int],
    jitter: Callable[[float], float],
    handler: Callable[[Details], None],
    logger: logging.Logger,
    ask_server: bool = True,
    is_over: Callable[[], bool] = bool,
) -> Callable[[_Function], _Function]:
    """Return a decorator that tries a function again while its failures may pass.

    With ``ask_server`` a ``Retry-After`` goes before the wait generator and the jitter.
    Nothing is tried again when ``is_over`` says that nobody waits for it.
    """

    def jittered(wait: float) -> float:
        return limit_wait(wait if isinstance(wait, _AsTold) else jitter(wait))

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def tried(*args: Any, **kwargs: Any) -> Any:
            usual, begun = wait_generator(), time.monotonic()
            usual.send(None)  # it may measure the time from here
            try:
                return function(*args, **kwargs)
            except RETRYABLE_ERRORS as error:
                failure = error
            passed = time.monotonic() - begun

            def waiting(details: Details) -> None:
                details["elapsed"] += passed
                handler(details)

            import backoff

            return backoff.on_exception(
                lambda: _waits(usual, ask_server=ask_server),
                RETRYABLE_ERRORS,
                max_tries=lambda: limit_tries(max_tries()),
                giveup=lambda error: is_permanent_failure(error) or is_over(),
                on_backoff=waiting,
                jitter=jittered,
                logger=logger,
                backoff_log_level=logging.DEBUG,  # the handler tells it, and of which stream
            )(_failed_once(function, failure))(*args, **kwargs)

        return cast("_Function", tried)

    return decorate


def _failed_once(function: _Function, failure: Exception) -> _Function:
    """Return a function as the loop is to see it: its first try is the one that failed.

    The answers to all tries share the time that one may take.
    """
    failures = [failure]

    @functools.wraps(function)
    def tried(*args: Any, **kwargs: Any) -> Any:
        if failures:
            raise failures.pop()
        IN_FORCE.failed = IN_FORCE.last
        try:
            return function(*args, **kwargs)
        finally:
            IN_FORCE.failed = None

    return cast("_Function", tried)


def is_permanent_failure(error: Exception) -> bool:
    """Tell whether another try would meet the very same failure."""
    return isinstance(error, requests.exceptions.SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(
        error
    )


def _waits(usual: _Waits, *, ask_server: bool) -> _Waits:
    """Yield the wait after each failure: as the server says, else as ``usual`` does."""
    error = yield 0.0
    at_once = False
    while True:
        told = retry_after(error) if ask_server else None
        if told == 0 and at_once:
            told = None  # that did not help: ask less often
        at_once = told == 0
        try:
            wait = usual.send(error) if told is None else _AsTold(told)
        except StopIteration:  # the author's generator has had enough
            return
        error = yield wait


def retry_after(error: object) -> float | None:
    """Return the seconds that the response of a failure asks to wait, None if it does not.

    A date is measured from the response's own ``Date`` where it has one, so that clocks
    need not agree. A date in the past says nothing about when to come back: it is None.
    """
    response = getattr(error, "response", None)
    headers = getattr(response, "headers", None) or {}
    text = str(headers.get("Retry-After") or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), RETRY_AFTER_LIMIT)
    wait = _seconds_until(text, headers)
    return min(wait, RETRY_AFTER_LIMIT) if wait > 0 else None


def _seconds_until(date: str, headers: Any) -> float:
    at = _instant(date)
    if at is None:
        return 0.0
    now = _instant(str(headers.get("Date") or "")) or datetime.now(timezone.utc)
    return (at - now).total_seconds()


def _instant(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


# What the hooks of a stream give unless they are overridden


def exponential_backoff() -> _Waits:
    """Yield waits of 2, 4, 8 … seconds."""
    yield 0.0
    for tries in itertools.count(1):
        yield 2.0**tries


def random_jitter(value: float) -> float:
    """Return a wait with up to one second more."""
    import backoff

    return backoff.random_jitter(value)


def runtime_backoff(value: Callable[[Any], _Number]) -> Generator[_Number, Any, None]:
    """Yield the wait that a function says for each failure sent in."""
    wait: Any = 0
    while True:
        failure = yield wait
        wait = value(failure)


class RetryState:
    """A function that counts how often it was tried since the count was set to zero."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.count = 0
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Count, and try."""
        self.count += 1
        return self._function(*args, **kwargs)
