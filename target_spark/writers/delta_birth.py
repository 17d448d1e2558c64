"""A new Delta table on this machine: its rows and itself in one commit, and its next commits.

Rules of the room: Spark writes the rows as it writes any Parquet; the commit that makes them
a table, or a part of it, is written here, by the Delta protocol's first version: one file of
JSON that appears whole under its name or, where another writer was faster, not at all. That
spares Delta's planning, and its code, which Java would load and compile: half of what hundreds
of small streams cost, a third of a load of millions of rows. Only what the first version knows
is done here: no partitions, no clusters, no types that came later, no settings of the user for
Delta. And only as long as all commits of the table are of one run and were made here: what
changes columns or rows, another writer, and the tenth commit, with which Delta makes its first
checkpoint, are Delta's own, and so is every commit after them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote as percent

from pyspark.sql import DataFrame, SparkSession

from target_spark.columns import Layout
from target_spark.places import local_folder, spark_address
from target_spark.tables import Design, Table
from target_spark.writers.delta_bounds import stats_of
from target_spark.writers.delta_design import arrangement
from target_spark.writers.notes import properties_of
from target_spark.writers.statements import with_settings

__all__ = ["LAST", "Birth", "added", "birth_of", "settles_writes"]

_LATER_TYPES: Final = re.compile(r"\b(timestamp_ntz|variant|interval|void)\b")
_OF_DELTA: Final = "spark.databricks.delta."
_OURS: Final = {"spark.databricks.delta.snapshotPartitions"}
_LOG: Final = "_delta_log"
_STAGED: Final = "_first-"
_ENGINE: Final = "target-spark"
_WITH_BOUNDS: Final = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Of Spark's other way to write points in time Parquet knows no bounds."""

LAST: Final = 9
"""The version of the last commit that is made here."""


@dataclass(frozen=True, slots=True)
class Birth:
    """What the table has beside its rows: a folder, properties, and columns' comments."""

    folder: Path
    properties: Mapping[str, str]
    comments: Mapping[str, str]


def settles_writes(spark: SparkSession) -> bool:
    """Tell whether the user's settings of Spark say how Delta makes and writes tables."""
    return any(key.startswith(_OF_DELTA) and key not in _OURS for key in spark.conf.getAll)


def birth_of(
    table: Table, layout: Layout, design: Design, properties: Mapping[str, str]
) -> Birth | None:
    """Return how rows can make their table; None where Delta must make it before them."""
    folder = None if table.identifier else local_folder(table.path)
    words, more = arrangement(layout, design)
    if folder is None or words or any(map(_LATER_TYPES.search, layout.types.values())):
        return None
    if not _takes_two_names(folder):
        return None
    return Birth(
        folder,
        {**more, **properties, **properties_of(layout), **dict(design.properties)},
        {column.name: column.comment for column in layout.columns if column.comment},
    )


def added(
    df: DataFrame | None, birth: Birth, version: int, metadata: str, app_id: str, number: int
) -> bool:
    """Write rows, if there are any, and commit them as a version; False if that is there by now.

    Then nothing of them is left. Version 0 makes the table. ``metadata`` is the commit's own,
    ``app_id`` and ``number`` its transaction.
    """
    log = birth.folder / _LOG
    transaction = {"txn": {"appId": app_id, "version": number, "lastUpdated": _now()}}
    moved: list[Path] = []
    try:
        files = [] if df is None else _written(df, birth, moved)
        made = _made(df, birth) if df is not None and version == 0 else ()
        is_done = _commit(log, version, [_info(metadata, files), *made, *files, transaction])
    except Exception:  # an interrupt may come when the commit is made already
        _remove(moved)
        raise
    if not is_done:
        _remove(moved)
    return is_done


def _takes_two_names(folder: Path) -> bool:
    """Tell whether a file can have two: by that a commit knows whether it is the first."""
    place = next(each for each in (folder, *folder.parents) if each.is_dir())
    probe = place / f".{uuid.uuid4().hex}.tmp"
    other = probe.with_suffix(".too")
    try:
        probe.touch()
        os.link(probe, other)
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
            other.unlink(missing_ok=True)
    return True


def _written(df: DataFrame, birth: Birth, moved: list[Path]) -> list[dict[str, Any]]:
    """Put rows into the folder as files; return how a commit adds them. ``moved`` tells of each."""
    birth.folder.mkdir(parents=True, exist_ok=True)
    for left in birth.folder.glob(f"{_STAGED}*"):  # by a run that died; no VACUUM looks there
        shutil.rmtree(left, ignore_errors=True)
    staged = birth.folder / f"{_STAGED}{uuid.uuid4().hex}"
    try:
        rows = df.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        with with_settings(df.sparkSession, _WITH_BOUNDS):
            rows.parquet(spark_address(str(staged)))
        (birth.folder / _LOG).mkdir(exist_ok=True)  # from here on a folder of ours
        moved += (file.rename(birth.folder / file.name) for file in staged.glob("*.parquet"))
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return list(map(_add, moved))


def _add(file: Path) -> dict[str, Any]:
    found = file.stat()
    what = {
        "path": percent(file.name),
        "partitionValues": {},
        "size": found.st_size,
        "modificationTime": int(found.st_mtime * 1000),
        "dataChange": True,
        "stats": stats_of(file),
    }
    return {"add": what}


def _info(metadata: str, files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    metrics = {
        "numFiles": len(files),
        "numOutputRows": sum(json.loads(file["add"]["stats"])["numRecords"] for file in files),
        "numOutputBytes": sum(file["add"]["size"] for file in files),
    }
    return {
        "commitInfo": {
            "timestamp": _now(),
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", "partitionBy": "[]"},
            "isolationLevel": "Serializable",
            "isBlindAppend": True,
            "operationMetrics": {name: str(count) for name, count in metrics.items()},
            "userMetadata": metadata,
            "engineInfo": _ENGINE,
            "txnId": str(uuid.uuid4()),
        }
    }


def _made(df: DataFrame, birth: Birth) -> Iterator[dict[str, Any]]:
    """Yield what makes a table."""
    yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    yield {
        "metaData": {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": _schema(df, birth.comments),
            "partitionColumns": [],
            "configuration": dict(birth.properties),
            "createdTime": _now(),
        }
    }


def _commit(log: Path, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
    """Let a commit appear, on the disk for good; False where there is another one.

    A server that lost its answer says of a commit that it made that one is there already; so
    what is there is looked at, whatever was said.
    """
    lines = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in actions)
    fresh, there = log / f".{uuid.uuid4().hex}.tmp", log / f"{version:020}.json"
    try:
        with fresh.open("x", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, there)
        except OSError as error:
            if not (there.exists() and there.samefile(fresh)):
                if isinstance(error, FileExistsError):
                    return False
                raise
    finally:
        with contextlib.suppress(OSError):  # the commit is made, or an error is on its way
            fresh.unlink(missing_ok=True)
    return True


def _schema(df: DataFrame, comments: Mapping[str, str]) -> str:
    """Return the columns as Delta writes them: all of them take nulls, as in every table."""
    schema = _nullable(df.schema.jsonValue())
    for field in schema["fields"]:
        comment = comments.get(field["name"])
        field["metadata"] = {"comment": comment} if comment else {}
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _nullable(type_: Any) -> Any:
    if not isinstance(type_, dict):
        return type_
    found = {key: _nullable(value) for key, value in type_.items()}
    if "fields" in found:
        found["fields"] = [_nullable(field) for field in found["fields"]]
    for key in ("nullable", "containsNull", "valueContainsNull"):
        if key in found:
            found[key] = True
    return found


def _remove(files: Sequence[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _now() -> int:
    return time.time_ns() // 1_000_000
