"""A Delta table's commits, newest first: their versions and what they say of themselves.

Rules of the room: reading only. The log of a table on this machine is read as files
(the Delta protocol: one `<20 digits>.json` per version, with one `commitInfo`), which
costs no Spark job; any other through `DESCRIBE HISTORY`. Old versions may have been
removed from the log, and commits of others carry anything or nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from target_spark.ledger import Marker
from target_spark.names import quote
from target_spark.places import local_folder, spark_address
from target_spark.tables import Table

__all__ = ["NO_TABLE", "commits", "delta_ref", "newest_marker"]

NO_TABLE = {
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_TABLE_ONLY_OPERATION",
    "PATH_NOT_FOUND",
}
"""The names of Spark's errors for an address without a table."""

_FIRST_LOOKS = (10, 1000)


def delta_ref(table: Table) -> str:
    """Return what SQL calls a table: its name in a catalog, or its address."""
    if table.identifier:
        return quote(*table.identifier)
    return f"delta.{quote(spark_address(table.path))}"


def commits(spark: SparkSession, table: Table) -> Iterator[tuple[int, Marker | None]]:
    """Yield version and marker of the commits in the log, newest first."""
    folder = None if table.identifier else local_folder(table.path)
    if folder is None:
        yield from _by_history(spark, table)
        return
    for version in sorted(_versions(folder / "_delta_log"), reverse=True):
        yield version, _in_file(folder, version)


def newest_marker(spark: SparkSession, table: Table) -> Marker | None:
    """Return the marker of the newest commit that has one."""
    return next((marker for _, marker in commits(spark, table) if marker is not None), None)


def _versions(log: Path) -> Iterator[int]:
    for file in log.glob("*.json"):
        if len(file.stem) == 20 and file.stem.isdigit():  # noqa: PLR2004  (the protocol's)
            yield int(file.stem)


def _in_file(folder: Path, version: int) -> Marker | None:
    path = folder / "_delta_log" / f"{version:020}.json"
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if '"commitInfo"' in line[:20]:
                    return Marker.from_json(json.loads(line)["commitInfo"].get("userMetadata"))
    except FileNotFoundError:  # removed by Delta's own cleaning since it was listed
        pass
    return None


def _by_history(spark: SparkSession, table: Table) -> Iterator[tuple[int, Marker | None]]:
    seen = 0
    for limit in (*_FIRST_LOOKS, None):
        words = f"DESCRIBE HISTORY {delta_ref(table)}" + (f" LIMIT {limit}" if limit else "")
        try:
            rows = spark.sql(words).select("version", "userMetadata").collect()
        except AnalysisException as error:
            if error.getCondition() not in NO_TABLE:
                raise
            return
        for version, metadata in rows[seen:]:
            yield version, Marker.from_json(metadata)
        if limit is None or len(rows) < limit:
            return
        seen = len(rows)
