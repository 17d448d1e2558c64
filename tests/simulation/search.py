"""Run the schedules of many seeds in several processes."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from multiprocessing import get_context
from typing import Final

from tests.simulation.loads import failure_of

__all__ = ["failures"]

_SHARE: Final = 250
"""Schedules that a process runs before it returns its failures."""


def failures(first: int, count: int, processes: int | None = None) -> Iterator[str]:
    """Yield the violated invariants of the schedules of ``count`` seeds from ``first`` on.

    The number of processes is that of the machine's processors, unless given.
    """
    shares = [
        range(start, min(start + _SHARE, first + count))
        for start in range(first, first + count, _SHARE)
    ]
    processes = min(processes or os.cpu_count() or 1, len(shares))
    if processes <= 1:
        for share in shares:
            yield from _failures(share)
        return
    with get_context("spawn").Pool(processes) as pool:
        for failures_of_share in pool.imap(_failures, shares):
            yield from failures_of_share


def _failures(seeds: range) -> list[str]:
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return [str(failure) for seed in seeds if (failure := failure_of(seed)) is not None]
    finally:
        logging.disable(disabled)
