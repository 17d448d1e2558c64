"""Retries of a part that fails, with a final error as text.

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
    """Raised after the last attempt; the text is the reason."""


def with_retries(
    step: Callable[[], _T],
    tries: int,
    where: str,
    told: Callable[[BaseException], str],
    final: tuple[type[BaseException], ...] = (),
) -> _T:
    """Return the result of ``step``, after up to ``tries`` attempts.

    Args:
        step: function to call.
        tries: maximum number of attempts, at least 1.
        where: description of the step, for the log.
        told: function that describes an error without secrets.
        final: exceptions that are not retried.

    Raises:
        RetriesExhaustedError: the last attempt failed; the original exception is not chained.
    """
    pause = _PAUSE
    for left in reversed(range(tries)):
        try:
            return step()
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001, PERF203  it is reported
            why = told(error)
            if not left or isinstance(error, (*_FINAL, *final)):
                raise RetriesExhaustedError(why) from None
            logger.warning("%s: %s; trying again.", where, why)
            time.sleep(pause)
            pause *= 2
    raise AssertionError  # tries are at least one
