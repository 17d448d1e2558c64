"""Retries of failed requests: the retryable errors and the waits between tries.

- A failure is retried if the same request may succeed later. A rejected certificate, for example,
  is not retried.
- The wait is the server's ``Retry-After`` (RFC 9110 section 10.2.3) if it sent one. Otherwise the
  stream's wait generator and jitter define it.
- The retry loop is that of the backoff library. It is imported after the first failure only,
  because it imports asyncio and most requests never fail.
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
from tap_core.http.proxies import ProxyRefusalError
from tap_core.http.response_limits import IN_FORCE
from tap_core.protocols.error_classification import find_tls_fault
from tap_core.telemetry import count_retry

if TYPE_CHECKING:
    from backoff.types import Details

__all__ = [
    "RETRYABLE_ERRORS",
    "RETRY_AFTER_LIMIT",
    "TryCounter",
    "WaitGenerator",
    "exponential_backoff",
    "is_permanent_failure",
    "random_jitter",
    "retry_after",
    "retry_logger",
    "runtime_backoff",
    "with_retries",
]

RETRY_AFTER_LIMIT = 3600.0
"""Maximum number of seconds of a ``Retry-After`` header; longer ones are cut to it."""

RETRYABLE_ERRORS: tuple[type[Exception], ...] = (
    ConnectionResetError,
    RetriableAPIError,
    requests.exceptions.Timeout,
    requests.exceptions.ConnectionError,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
)
"""Errors after which a request is sent again, because they may be temporary."""

retry_logger = logging.getLogger(__name__)
"""Logger that writes one INFO line per retry, under every protocol."""

_Waits: TypeAlias = Generator[float, Any, None]

WaitGenerator: TypeAlias = Callable[..., _Waits]
"""A function that returns a generator of waits in seconds; each error is sent into it."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Number = TypeVar("_Number", int, float)


class _ServerWait(float):
    """Seconds to wait as requested by a ``Retry-After`` header. No jitter is added."""

    __slots__ = ()


def with_retries(
    *,
    wait_generator: WaitGenerator,
    max_tries: Callable[[], int],
    jitter: Callable[[float], float],
    handler: Callable[[Details], None],
    logger: logging.Logger,
    respect_retry_after: bool = True,
    is_over: Callable[[], bool] = bool,
) -> Callable[[_Function], _Function]:
    """Return a decorator that makes a function retry after retryable errors.

    Args:
        wait_generator: Function that returns a generator of the seconds to wait before each retry.
            A negative number counts as 0.
        max_tries: Function that returns the maximum number of tries.
        jitter: Function that adds a random number of seconds to a wait.
        handler: Function that is called before each wait with the details of the failure.
        logger: Logger for retries.
        respect_retry_after: True to wait for the time in a ``Retry-After`` header, without jitter;
            False to ignore the header.
        is_over: Function that is called before each retry; if it returns True, the error is raised
            instead. The default, ``bool``, returns False.
    """

    def add_jitter(wait: float) -> float:
        return max(0.0, limit_wait(wait if isinstance(wait, _ServerWait) else jitter(wait)))

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call_with_retries(*args: Any, **kwargs: Any) -> Any:
            started = time.monotonic()
            waits = wait_generator()
            waits.send(None)  # the generator may start measuring time here
            try:
                return function(*args, **kwargs)
            except RETRYABLE_ERRORS as error:
                failure = error
            passed = time.monotonic() - started

            def handle_failure(details: Details) -> None:
                details["elapsed"] += passed
                count_retry("http")
                handler(details)

            import backoff

            return backoff.on_exception(
                lambda: _choose_waits(waits, respect_retry_after=respect_retry_after),
                RETRYABLE_ERRORS,
                max_tries=lambda: limit_tries(max_tries()),
                giveup=lambda error: is_permanent_failure(error) or is_over(),
                on_backoff=handle_failure,
                jitter=add_jitter,
                logger=logger,
                backoff_log_level=logging.DEBUG,  # the handler logs it, with the stream
                giveup_log_level=logging.DEBUG,  # the caller reports the error
            )(_failed_once(function, failure))(*args, **kwargs)

        return cast("_Function", call_with_retries)

    return decorate


def _failed_once(function: _Function, failure: Exception) -> _Function:
    """Return a function that raises ``failure`` on its first call, and then calls ``function``.

    The retry loop calls it after a first try without the loop has failed, so that this try counts
    too. Most requests do not fail and need no loop. All tries share one deadline.
    """
    failures = [failure]

    @functools.wraps(function)
    def raise_or_call(*args: Any, **kwargs: Any) -> Any:
        if failures:
            raise failures.pop()
        IN_FORCE.retried = IN_FORCE.last  # the deadline of the failed try
        try:
            return function(*args, **kwargs)
        finally:
            IN_FORCE.retried = None

    return cast("_Function", raise_or_call)


def is_permanent_failure(error: Exception) -> bool:
    """Return True if a retry would fail in the same way, as after an invalid TLS certificate."""
    return isinstance(error, ProxyRefusalError) or find_tls_fault(error) is not None


def _choose_waits(waits: _Waits, *, respect_retry_after: bool) -> _Waits:
    """Yield the seconds to wait after each error, which the retry loop sends into the generator.

    If ``respect_retry_after`` is True and the response has a Retry-After header, the header
    determines the wait. Otherwise it comes from the stream's wait generator, ``waits``.
    """
    error = yield 0.0
    was_immediate = False
    while True:
        delay = retry_after(getattr(error, "response", None)) if respect_retry_after else None
        if delay == 0 and was_immediate:
            delay = None  # an immediate retry has failed: use the generator's wait
        was_immediate = delay == 0
        try:
            wait = waits.send(error) if delay is None else _ServerWait(delay)
        except StopIteration:  # the author's generator ends the retries
            return
        error = yield wait


def retry_after(response: object) -> float | None:
    """Return the seconds to wait according to the ``Retry-After`` header of a response.

    Return None without such a header, or if it has a date in the past. A date is compared with the
    response's own ``Date`` header, if present, because the server's clock may be wrong.
    """
    headers = getattr(response, "headers", None) or {}
    text = str(headers.get("Retry-After") or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), RETRY_AFTER_LIMIT)
    wait = _seconds_until(text, headers)
    return min(wait, RETRY_AFTER_LIMIT) if wait > 0 else None


def _seconds_until(date: str, headers: Any) -> float:
    until = _parse_date(date)
    if until is None:
        return 0.0
    now = _parse_date(str(headers.get("Date") or "")) or datetime.now(timezone.utc)
    return (until - now).total_seconds()


def _parse_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=timezone.utc)


# Defaults of a stream's hooks


def exponential_backoff() -> _Waits:
    """Yield waits of 2, 4, 8 … seconds, after a first 0, which the retry loop ignores."""
    yield 0.0
    for tries in itertools.count(1):
        yield 2.0**tries


def random_jitter(value: float) -> float:
    """Return ``value``, a wait in seconds, plus a random number of seconds from 0 to 1."""
    import backoff

    return backoff.random_jitter(value)


def runtime_backoff(value: Callable[[Any], _Number]) -> Generator[_Number, Any, None]:
    """Yield waits in seconds that depend on the errors, for `backoff_wait_generator`.

    The retry loop sends each error into the generator. ``value`` is a function that returns the
    wait for an error.
    """
    wait: Any = 0
    while True:
        failure = yield wait
        wait = value(failure)


class TryCounter:
    """Wrapper of a function that sends a request. It counts the calls (tries) in ``count``."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.count = 0
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped function, and count the call in the attribute ``count``."""
        self.count += 1
        return self._function(*args, **kwargs)
