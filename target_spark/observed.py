"""What an action has seen of the rows that passed it, as far as Spark tells it surely.

Rules of the room: a Spark Connect server waits a tenth of a second for the counts of a write,
and then answers without them, and without an error. And what a lost executor had shuffled is
made again by another, and then has been seen twice. So what is empty, and what is not known to
be right where executors can be lost, is counted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from target_spark.folders import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

__all__ = ["read_back", "rows_seen", "seen"]


def seen(
    spark: SparkSession,
    observation: Observation,
    again: Callable[[], DataFrame],
    expected: int | None = None,
) -> Mapping[str, Any]:
    """Return what an observation has, after its action; ``again`` asks for the same anew.

    ``expected`` is how many ``rows`` there should be, where that is known.
    """
    found: Mapping[str, Any] = observation.get
    sure = _loses_nobody(spark) if expected is None else found.get("rows") == expected
    return found if found and sure else again().collect()[0].asDict()


def rows_seen(
    spark: SparkSession, observation: Observation, written: Callable[[], DataFrame]
) -> int:
    """Return the ``rows`` of an observation; what was ``written`` has as many."""
    rows: int = seen(spark, observation, lambda: written().selectExpr("count(1) AS rows"))["rows"]
    return rows


def read_back(df: DataFrame, addresses: Iterable[str]) -> DataFrame:
    """Return what stands in the Parquet files that a frame was written to."""
    return df.sparkSession.read.schema(df.schema).parquet(*addresses)


def _loses_nobody(spark: SparkSession) -> bool:
    """Tell whether the driver is the only executor."""
    return not is_remote(spark) and str(spark.sparkContext.master).startswith("local")
