"""Retries of work that uses Spark, after transient failures or the end of a shared process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from target_spark.spark.spark_provider import SparkProvider
from target_spark.storage.commit_retry import FailureKind, classify_failure, retry_transient

__all__ = ["retry_with_engine"]

_T = TypeVar("_T")

_DEATH_SECONDS: Final = 10.0
"""Seconds to wait for the JVM to end after the connection to it broke."""


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
        _raise_engine_failure(engine, error)
        before_retry(error)

    return retry_transient(attempt, operation, check_engine, stopping)


def _raise_engine_failure(engine: SparkProvider, error: BaseException) -> None:
    """Raise an error that explains why the Spark process ended. Return if it still runs.

    ``error`` is the failure of the work that used Spark. If it is a broken connection to the JVM,
    first wait up to 10 seconds for the process to end.
    """
    is_jvm_lost = classify_failure(error) is FailureKind.JVM_LOST
    end = time.monotonic() + (_DEATH_SECONDS if is_jvm_lost else 0)
    while engine.failure is None and time.monotonic() < end:
        time.sleep(_DEATH_SECONDS / 100)
    if engine.failure is not None:
        raise engine.failure from error
