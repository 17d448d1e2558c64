"""What an action has seen of the rows that passed it, also where Spark does not tell.

Rules of the room: a Spark Connect server waits a tenth of a second for the counts of a write,
and then answers without them, and without an error. So what is empty is counted anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

__all__ = ["rows_seen", "seen"]


def seen(observation: Observation, counts: DataFrame) -> dict[str, Any]:
    """Return what an observation has, after its action; ``counts`` asks for the same again."""
    found = observation.get
    return found or counts.collect()[0].asDict()


def rows_seen(observation: Observation, df: DataFrame) -> int:
    """Return the ``rows`` of an observation; of ``df`` there are as many."""
    found = observation.get
    rows: int = found["rows"] if found else df.count()
    return rows
