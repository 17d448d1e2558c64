"""Writing of several sinks in parallel threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["run_in_threads"]

_T = TypeVar("_T")


def run_in_threads(function: Callable[[_T], None], items: Sequence[_T], parallelism: int) -> None:
    """Call a function with each item, in at most ``parallelism`` threads at the same time.

    After a call has failed, no further call is started. The error is raised when all running calls
    have ended.
    """
    if parallelism == 1 or len(items) <= 1:
        for item in items:
            function(item)
        return
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

    with ThreadPoolExecutor(min(parallelism, len(items))) as pool:
        calls = [pool.submit(function, item) for item in items]
        finished = wait(calls, return_when=FIRST_EXCEPTION).done
        pool.shutdown(wait=True, cancel_futures=True)
    for call in finished:
        call.result()
