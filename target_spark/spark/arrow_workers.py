"""Execution of Python functions on Arrow record batches in Spark's Python workers.

A function and its data are pickled into the task, so they do not appear in query plans, logs or the
Spark UI.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from zipimport import zipimporter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["map_in_arrow", "reuse_worker"]

_T = TypeVar("_T")


def reuse_worker(results: Iterator[_T]) -> Iterator[_T]:
    """Yield the results of a Spark task, and make the Python worker's next task start faster.

    After the results, zip archives are removed from the import cache. Otherwise Python 3.10 and
    3.11 would read the index of each cached archive again before the next task. For PySpark's large
    archive this takes 0.15 s, longer than a small task.
    """
    try:
        yield from results
    finally:
        for path, finder in list(sys.path_importer_cache.items()):
            if isinstance(finder, zipimporter):
                del sys.path_importer_cache[path]


def _run_change(change: Callable[[Any], Iterator[_T]], batches: Any) -> Iterator[_T]:
    return reuse_worker(change(batches))


def map_in_arrow(
    frame: DataFrame,
    change: Callable[[Any], Iterator[Any]],
    schema: Any,
    name: str,
) -> DataFrame:
    """Apply a function to a DataFrame's record batches and return the resulting DataFrame.

    Unlike `DataFrame.mapInArrow`, this requires pandas only with Spark Connect.

    Args:
        frame: The input.
        change: Function that takes an iterator of record batches and returns another one.
        schema: The Spark schema of the result.
        name: The name of the function in query plans.
    """
    function: Any = partial(_run_change, change)
    if not hasattr(frame, "_jdf"):  # with Spark Connect
        function.__name__ = name
        return frame.mapInArrow(function, schema)
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    mapper = UserDefinedFunction(
        function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF, name=name
    )
    column: Any = mapper(*(frame[column] for column in frame.columns))
    java_frame = frame._jdf.mapInArrow(column._jc, False, None)  # noqa: FBT003, SLF001
    return type(frame)(java_frame, frame.sparkSession)
