"""Retries of work that uses Spark, after transient failures or the end of a shared process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from target_spark.spark.spark_provider import SparkProvider, find_failure
from target_spark.storage.commit_retry import retry_transient

__all__ = ["retry_with_engine"]

_T = TypeVar("_T")


def retry_with_engine(
    engine: SparkProvider,
    step: Callable[[], _T],
    operation: str,
    before_retry: Callable[[BaseException], None] = lambda _error: None,
    stopping: threading.Event | None = None,
) -> _T:
    """Call a function that uses Spark, and repeat the call after transient failures.

    If the run used a Spark process that several runs share, and this process has ended, the run
    starts its own process and calls the function again.

    Args:
        engine: The Spark process of the run.
        step: The function to call.
        operation: A description of the operation, for the beginning of messages.
        before_retry: A function that is called with the exception after each failure.
        stopping: An event that is set to stop the run. Failures after that are not retried.

    Raises:
        TargetSparkError: The Spark process ended; the message has the reason.
        StorageError: All retries failed, or the storage or the JVM failed permanently.
    """

    def attempt() -> _T:
        try:
            return step()
        except Exception as error:
            engine.raise_if_engine_lost(error)
            raise

    def check_engine(error: BaseException) -> None:
        failure = find_failure(engine, error)
        if failure is not None:
            raise failure from error
        before_retry(error)

    return retry_transient(attempt, operation, check_engine, stopping)
