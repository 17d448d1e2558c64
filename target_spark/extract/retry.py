"""A part that fails is read again, and given up for good in words.

Rules of the room: what is the same however often it is tried is tried once. What is told has no
secret: whoever calls says how an error is told.
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
"""Seconds before it is tried again; twice as many before each further time."""

_FINAL: Final = (ConfigurationError, InvalidStreamSortException)


class RetriesExhaustedError(Exception):
    """It failed as often as it may; the text says why."""


def with_retries(
    step: Callable[[], _T],
    tries: int,
    where: str,
    told: Callable[[BaseException], str],
    final: tuple[type[BaseException], ...] = (),
) -> _T:
    """Return what a step returns, as often as it may be tried; errors of ``final`` are final.

    Raises:
        FailedError: it failed for good; the error itself is not shown.
    """
    pause = _PAUSE
    for left in reversed(range(tries)):
        try:
            return step()
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001, PERF203  it is told
            why = told(error)
            if not left or isinstance(error, (*_FINAL, *final)):
                raise RetriesExhaustedError(why) from None
            logger.warning("%s: %s; once more.", where, why)
            time.sleep(pause)
            pause *= 2
    raise AssertionError  # tries are at least one
