"""What Spark's Python workers make of a frame, as batches of Arrow's.

Rules of the room: the one door to it. What is called runs in a worker: it and all that it
holds are pickled into the task, and stand in no plan, in no log and in no part of Spark's UI.
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


def reuse_worker(found: Iterator[_T]) -> Iterator[_T]:
    """Yield what a task makes; leave its worker such that the next task begins soon.

    Spark lets a worker forget before each task where modules were found, upon which Python 3.10
    and 3.11 read the list of every archive anew that an import has looked into. PySpark's own
    archive has so many files that this takes 0.15 s, more than a small task. What is forgotten
    here is looked up again when something is imported, without reading.
    """
    try:
        yield from found
    finally:
        for path, finder in list(sys.path_importer_cache.items()):
            if isinstance(finder, zipimporter):
                del sys.path_importer_cache[path]


def _called(change: Callable[[Any], Iterator[_T]], batches: Any) -> Iterator[_T]:
    return reuse_worker(change(batches))


def map_in_arrow(
    frame: DataFrame,
    change: Callable[[Any], Iterator[Any]],
    schema: Any,
    name: str = "mapped",
) -> DataFrame:
    """Return what ``change`` makes of a frame's record batches, as a frame of ``schema``.

    Spark's own door to this asks for pandas, of which this needs nothing; a client of Spark
    Connect, which asks for pandas anyway, has only that one.
    """
    called: Any = partial(_called, change)
    if not hasattr(frame, "_jdf"):
        called.__name__ = name
        return frame.mapInArrow(called, schema)
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    mapper = UserDefinedFunction(
        called, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF, name=name
    )
    column: Any = mapper(*(frame[each] for each in frame.columns))
    made = frame._jdf.mapInArrow(column._jc, False, None)  # noqa: FBT003, SLF001
    return type(frame)(made, frame.sparkSession)
