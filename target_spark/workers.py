"""What Spark's Python workers make of a frame, as batches of Arrow's.

Rules of the room: the one door to it. What is called runs in a worker: it and all that it
holds are pickled into the task, and stand in no plan, in no log and in no part of Spark's UI.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["mapped"]


def mapped(
    frame: DataFrame,
    change: Callable[[Any], Iterator[Any]],
    schema: Any,
    name: str = "mapped",
) -> DataFrame:
    """Return what ``change`` makes of a frame's record batches, as a frame of ``schema``.

    Spark's own door to this asks for pandas, of which this needs nothing; a client of Spark
    Connect, which asks for pandas anyway, has only that one.
    """
    if not hasattr(frame, "_jdf"):
        change.__name__ = name
        return frame.mapInArrow(change, schema)
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    mapper = UserDefinedFunction(
        change, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF, name=name
    )
    column: Any = mapper(*(frame[each] for each in frame.columns))
    made = frame._jdf.mapInArrow(column._jc, False, None)  # noqa: FBT003, SLF001
    return type(frame)(made, frame.sparkSession)
