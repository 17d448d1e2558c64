"""Retries of a unit of work, with a final error as text.

Errors that every attempt would repeat are not retried. Messages contain no secrets: the caller
passes the function that describes an error.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from tap_core.exceptions import ConfigurationError, InvalidStreamSortException

__all__ = ["RetriesExhaustedError", "with_retries"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_PAUSE: Final = 1.0
"""Seconds before the second attempt; doubled before each further attempt."""

_FINAL: Final = (ConfigurationError, InvalidStreamSortException)


class RetriesExhaustedError(Exception):
    """Raised if all attempts failed, or if an error cannot be retried.

    The message describes the last error.
    """


def with_retries(
    step: Callable[[], _T],
    tries: int,
    where: str,
    describe: Callable[[BaseException], str],
    final: tuple[type[BaseException], ...] = (),
) -> _T:
    """Call a function until it succeeds, at most ``tries`` times, and return its result.

    Args:
        step: The function to call.
        tries: The maximum number of attempts, at least 1.
        where: A description of the work, for the log.
        describe: A function that returns the text of an error, without secrets.
        final: Exceptions that are not retried, in addition to configuration errors.

    Raises:
        RetriesExhaustedError: The last attempt failed, or an error cannot be retried. The original
            exception is not chained, because its text may contain secrets.
    """
    pause = _PAUSE
    for left in reversed(range(tries)):
        try:
            return step()
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001, PERF203  it is reported
            reason = describe(error)
            if not left or isinstance(error, (*_FINAL, *final)):
                raise RetriesExhaustedError(reason) from None
            logger.warning("%s: %s; trying again.", where, reason)
            time.sleep(pause)
            pause *= 2
    raise AssertionError  # tries are at least one
