"""Row counts from Spark observations, and a second count if these may be missing or wrong.

A Spark Connect server waits only a tenth of a second for the metrics of a write, and then responds
without them. If an executor is lost, its rows are observed twice. Therefore rows are counted again
if the metrics are missing or if executors can be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from target_spark.storage.hadoop_fs import is_remote_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

__all__ = ["Count", "counted", "get_observation", "get_row_count"]

Count: TypeAlias = Callable[[int], int]
"""Function that takes the expected number of rows and returns the actual number. If Spark reported
another number than expected, the function counts the rows again."""


def get_observation(
    spark: SparkSession,
    observation: Observation,
    recompute: Callable[[], DataFrame],
    expected: int | None = None,
) -> Mapping[str, Any]:
    """Return the metrics of a Spark observation; compute them again if they may be wrong.

    The metrics can be missing with Spark Connect, and too high if an executor is lost. Call this
    function after the action that computes the observation.

    Args:
        spark: The session.
        observation: The observation.
        recompute: Function that returns a DataFrame whose only row has the same metrics. It is
            called if the observed metrics may be wrong.
        expected: The expected value of the metric ``rows``, or None if unknown. If the metric has
            another value, the metrics are computed again.
    """
    metrics: Mapping[str, Any] = observation.get
    is_reliable = _has_no_executors(spark) if expected is None else metrics.get("rows") == expected
    return metrics if metrics and is_reliable else recompute().collect()[0].asDict()


def get_row_count(
    spark: SparkSession, observation: Observation, written: Callable[[], DataFrame]
) -> int:
    """Return the metric ``rows`` of a Spark observation, and count again if it may be wrong.

    Args:
        spark: The session.
        observation: The observation.
        written: Function that returns a DataFrame with the same rows, to count them again.
    """
    rows: int = get_observation(
        spark, observation, lambda: written().selectExpr("count(1) AS rows")
    )["rows"]
    return rows


def counted(df: DataFrame, rows: int | None) -> tuple[DataFrame, Count]:
    """Return ``df`` with an observation of its row count, and a function that returns the count.

    Call the function after an action on the DataFrame, with the expected number of rows. It counts
    the rows again if Spark counted another number during the action.

    Args:
        df: The DataFrame.
        rows: The number of rows if it is known, so that Spark need not count them; else None.
    """
    if rows is not None:
        return df, lambda _: rows
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    observation = Observation()

    def count(expected: int) -> int:
        recount = partial(df.selectExpr, "count(1) AS rows")
        return int(get_observation(df.sparkSession, observation, recount, expected)["rows"])

    return df.observe(observation, F.count(F.lit(1)).alias("rows")), count


def _has_no_executors(spark: SparkSession) -> bool:
    """Return True if tasks run only in the driver, so that no executor can be lost."""
    return not is_remote_session(spark) and str(spark.sparkContext.master).startswith("local")
