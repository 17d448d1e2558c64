"""Retry behaviour of an HTTP stream.

All methods may be overridden and have the names of the Meltano Singer SDK. The waiting is
implemented in `tap_core.http.retry`.
"""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from tap_core.exceptions import RetriableAPIError
from tap_core.http.request import RequestFunc
from tap_core.http.retry import exponential_backoff, random_jitter, runtime_backoff, with_retries
from tap_core.streams.windows import WindowedStream

if TYPE_CHECKING:
    from backoff.types import Details

__all__ = ["RetryingStream"]

_TNum = TypeVar("_TNum", int, float)


class RetryingStream(WindowedStream, abc.ABC):
    """Retry hooks of an HTTP stream; authors may override every method."""

    path: str | None = None
    """Path of the endpoint, appended to ``url_base``, such as ``/users/{user_id}``. ``{key}`` is
    replaced by a value of the context or a setting."""

    honour_retry_after: bool = True
    """True if the wait that the server requests with ``Retry-After`` (up to an hour) is used. With
    False every wait comes from `backoff_wait_generator`."""

    def request_decorator(self, func: RequestFunc) -> RequestFunc:
        """Return a function that calls ``func`` and retries it according to the other hooks."""
        return with_retries(
            wait_generator=self.backoff_wait_generator,
            max_tries=self.backoff_max_tries,
            jitter=self.backoff_jitter,
            handler=self.backoff_handler,
            logger=self.logger,
            ask_server=self.honour_retry_after,
            is_over=lambda: bool(self._tap.run.is_broken),
        )(func)

    def backoff_wait_generator(self) -> Generator[float, Any, None]:
        """Return a generator of the seconds to wait before each retry.

        The default is exponential: 2, 4, 8 and so on. Override it for another sequence, or use
        `backoff_runtime` for waits that depend on the response.

        Example:
            def backoff_wait_generator(self):
                return backoff.constant(interval=10)
        """
        return exponential_backoff()

    def backoff_max_tries(self) -> int:
        """Return the maximum number of attempts per request, as an integer; 5 by default.

        Example:
            def backoff_max_tries(self):
                return 8
        """
        return 5

    def backoff_jitter(self, value: float) -> float:
        """Return a wait in seconds with a random part added.

        The default adds up to one second. Override it to return ``value`` for exact waits.

        Args:
            value: Wait in seconds from `backoff_wait_generator`.
        """
        return random_jitter(value)

    def backoff_runtime(self, *, value: Callable[[Any], _TNum]) -> Generator[_TNum, Any, None]:
        """Return a wait generator that calls ``value`` with each error to get the seconds to wait.

        Args:
            value: Function from the raised error to the seconds to wait.

        Example:
            def backoff_wait_generator(self):
                return self.backoff_runtime(value=lambda error: int(error.response.headers["Wait"]))
        """
        return runtime_backoff(value)

    def backoff_handler(self, details: Details) -> None:
        """Log a failed attempt before the wait; override it for other reactions.

        Args:
            details: Details of the attempt from the ``backoff`` package.
        """
        error = details.get("exception")
        response = error.response if isinstance(error, RetriableAPIError) else None
        failure = (type(error).__name__, error)
        if response is not None:
            failure = (f"status {response.status_code}", response.reason)
        self.log(
            "Stream '%s': Backing off %0.2f seconds after %d tries for URL %s, failing with %s: %s",
            *(self.name, details.get("wait"), details.get("tries"), self.path, *failure),
            level=logging.ERROR,
        )
