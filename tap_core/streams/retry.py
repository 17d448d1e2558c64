"""How an HTTP stream tries again.

Rules of the room: every method is an author's to override, and its name is the Singer SDK's;
the waiting itself is in `http.retry`.
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
    """How an HTTP stream tries again; every method is an author's to override."""

    path: str | None = None
    """Path of the endpoint, put behind ``url_base``; ``{key}`` is replaced from settings
    and context."""

    honour_retry_after: bool = True
    """Whether a server that says when to come back (``Retry-After``, up to an hour) is asked
    just then; False leaves every wait to `backoff_wait_generator`."""

    def request_decorator(self, func: RequestFunc) -> RequestFunc:
        """Return a function that tries again as the other hooks say."""
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
        """Return a generator of waits in seconds: 2, 4, 8 … unless overridden."""
        return exponential_backoff()

    def backoff_max_tries(self) -> int:
        """Return how often a request is sent before its failure counts."""
        return 5

    def backoff_jitter(self, value: float) -> float:
        """Return a wait with something random added, up to a second."""
        return random_jitter(value)

    def backoff_runtime(self, *, value: Callable[[Any], _TNum]) -> Generator[_TNum, Any, None]:
        """Return a wait generator that asks ``value`` with each failure for the seconds."""
        return runtime_backoff(value)

    def backoff_handler(self, details: Details) -> None:
        """Log a failure before the wait that follows it."""
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
