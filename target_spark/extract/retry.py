"""Retries of a function that reads a partition of a tap, with exponential backoff.

Errors that would recur in every attempt, such as an invalid configuration, are not retried.
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

_FIRST_PAUSE_SECONDS: Final = 1.0
"""Seconds before the second attempt; doubled before each further attempt."""

_NOT_RETRIED: Final = (ConfigurationError, InvalidStreamSortException)


class RetriesExhaustedError(Exception):
    """Error for a function that failed in all attempts, or with an error that is not retried.

    The message is the text of the last error, with secrets redacted.
    """


def with_retries(
    step: Callable[[], _T],
    tries: int,
    where: str,
    describe: Callable[[BaseException], str],
    not_retried: tuple[type[BaseException], ...] = (),
) -> _T:
    """Call a function until it succeeds, at most ``tries`` times, and return its result.

    The pause before a retry is 1 second, and doubles with each further retry.

    Args:
        step: The function to call.
        tries: The maximum number of attempts, at least 1.
        where: A description of the operation, for the beginning of log messages.
        describe: A function that returns the text of an error, with secrets redacted.
        not_retried: Types of exceptions that are not retried, in addition to configuration errors.

    Raises:
        RetriesExhaustedError: The last attempt failed, or an error is not retried. The original
            exception is not chained, because its text may contain secrets.
    """
    pause = _FIRST_PAUSE_SECONDS
    for tries_left in reversed(range(tries)):
        try:
            return step()
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001, PERF203  it is reported
            reason = describe(error)
            if not tries_left or isinstance(error, (*_NOT_RETRIED, *not_retried)):
                raise RetriesExhaustedError(reason) from None
            logger.warning("%s: %s; trying again.", where, reason)
            time.sleep(pause)
            pause *= 2
    raise AssertionError  # tries are at least one
