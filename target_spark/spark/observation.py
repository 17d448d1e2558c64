"""What an action has seen of the rows that passed it, as far as Spark tells it surely.

Rules of the room: a Spark Connect server waits a tenth of a second for the counts of a write,
and then answers without them, and without an error. And what a lost executor had shuffled is
made again by another, and then has been seen twice. So what is empty, and what is not known to
be right where executors can be lost, is counted anew.
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
"""Given how many rows were found, return how many there must be; it may look at them again."""


def get_observation(
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


def get_row_count(
    spark: SparkSession, observation: Observation, written: Callable[[], DataFrame]
) -> int:
    """Return the ``rows`` of an observation; what was ``written`` has as many."""
    rows: int = get_observation(
        spark, observation, lambda: written().selectExpr("count(1) AS rows")
    )["rows"]
    return rows


def counted(df: DataFrame, rows: int | None) -> tuple[DataFrame, Count]:
    """Return rows, and what says how many they are: as given, or as an action on them has seen."""
    if rows is not None:
        return df, lambda _: rows
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    observation = Observation()

    def count(found: int) -> int:
        again = partial(df.selectExpr, "count(1) AS rows")
        return int(get_observation(df.sparkSession, observation, again, found)["rows"])

    return df.observe(observation, F.count(F.lit(1)).alias("rows")), count


def _loses_nobody(spark: SparkSession) -> bool:
    """Tell whether the driver is the only executor."""
    return not is_remote_session(spark) and str(spark.sparkContext.master).startswith("local")
