"""A few first rows of a new Delta table on this machine, and the table itself, in one commit.

Rules of the room: Spark writes the rows as it writes any Parquet; the commit that makes them
a table is written here, by the Delta protocol's first version: one file of JSON that appears
whole under its name or, where another writer was faster, not at all. That costs half of what
Delta takes for it, and a fifth of a table that is made before its rows come; hundreds of
small streams are nothing but first commits, and one state after them. Only what the first
version knows is done here: no partitions, no clusters, no types that came later, no settings
of the user for new tables. Everything else, and every later commit, is Delta's own.
"""

from __future__ import annotations

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

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import Layout
from target_spark.observed import read_back, rows_seen
from target_spark.places import local_folder, spark_address
from target_spark.tables import Design, Table
from target_spark.writers.delta_design import arrangement
from target_spark.writers.notes import properties_of

__all__ = ["Birth", "bear", "birth_of", "follow", "settles_new_tables"]

_LATER_TYPES: Final = re.compile(r"\b(timestamp_ntz|variant|interval|void)\b")
_OF_USER: Final = "spark.databricks.delta.properties.defaults."
_LOG: Final = "_delta_log"
_STAGED: Final = "_first-"
_ENGINE: Final = "target-spark"


@dataclass(frozen=True, slots=True)
class Birth:
    """What the table has beside its rows: a folder, properties, and columns' comments."""

    folder: Path
    properties: Mapping[str, str]
    comments: Mapping[str, str]


def settles_new_tables(spark: SparkSession) -> bool:
    """Tell whether the user's settings of Spark say anything of new tables."""
    return any(key.startswith(_OF_USER) for key in spark.conf.getAll)


def birth_of(
    table: Table, layout: Layout, design: Design, properties: Mapping[str, str]
) -> Birth | None:
    """Return how rows can make their table; None where Delta must make it before them."""
    folder = None if table.identifier else local_folder(table.path)
    words, more = arrangement(layout, design)
    if folder is None or words or any(map(_LATER_TYPES.search, layout.types.values())):
        return None
    return Birth(
        folder,
        {**more, **properties, **properties_of(layout), **dict(design.properties)},
        {column.name: column.comment for column in layout.columns if column.comment},
    )


def bear(df: DataFrame, birth: Birth, metadata: str, app_id: str, number: int) -> bool:
    """Write the rows and make them a table; False, and nothing written, if there is one now.

    ``metadata`` is the commit's own, ``app_id`` and ``number`` its transaction.
    """
    birth.folder.mkdir(parents=True, exist_ok=True)
    for left in birth.folder.glob(f"{_STAGED}*"):  # by a run that died; no VACUUM looks there
        shutil.rmtree(left, ignore_errors=True)
    staged = birth.folder / f"{_STAGED}{uuid.uuid4().hex}"
    log = birth.folder / _LOG
    observed = Observation()
    rows = df.observe(observed, F.count(F.lit(1)).alias("rows"))
    moved: list[Path] = []
    try:
        rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(
            spark_address(str(staged))
        )
        log.mkdir(exist_ok=True)  # from here on a folder of ours, whatever happens
        moved += (file.rename(birth.folder / file.name) for file in staged.glob("*.parquet"))
        files = [_added(file) for file in moved]
        places = (spark_address(str(file)) for file in moved)
        count = rows_seen(df.sparkSession, observed, lambda: read_back(df, places))
        if len(files) == 1:  # else nobody knows how many are in which
            files[0]["stats"] = json.dumps({"numRecords": count})
        schema = _schema(df, birth.comments)
        actions = _actions(birth, files, schema, count, metadata)
        _commit(log, 0, [*actions, _transaction(app_id, number)])
    except FileExistsError:
        _remove(moved)
        return False
    except BaseException:
        _remove(moved)
        raise
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return True


def follow(birth: Birth, metadata: str, app_id: str, number: int) -> bool:
    """Commit metadata without rows right after the first rows; False if another commit did."""
    try:
        _commit(birth.folder / _LOG, 1, [_info(metadata, [], 0), _transaction(app_id, number)])
    except FileExistsError:
        return False
    return True


def _info(metadata: str, files: Sequence[Mapping[str, Any]], rows: int) -> dict[str, Any]:
    metrics = {
        "numFiles": len(files),
        "numOutputRows": rows,
        "numOutputBytes": sum(file["size"] for file in files),
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


def _actions(
    birth: Birth, files: Sequence[dict[str, Any]], schema: str, rows: int, metadata: str
) -> Iterator[dict[str, Any]]:
    yield _info(metadata, files, rows)
    yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    yield {
        "metaData": {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": [],
            "configuration": dict(birth.properties),
            "createdTime": _now(),
        }
    }
    yield from ({"add": file} for file in files)


def _transaction(app_id: str, number: int) -> dict[str, Any]:
    return {"txn": {"appId": app_id, "version": number, "lastUpdated": _now()}}


def _added(file: Path) -> dict[str, Any]:
    found = file.stat()
    return {
        "path": percent(file.name),
        "partitionValues": {},
        "size": found.st_size,
        "modificationTime": int(found.st_mtime * 1000),
        "dataChange": True,
    }


def _commit(log: Path, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
    """Let a commit appear, on the disk for good; raises `FileExistsError` where one is there."""
    lines = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in actions)
    fresh = log / f".{uuid.uuid4().hex}.tmp"
    try:
        with fresh.open("x", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))
            file.flush()
            os.fsync(file.fileno())
        os.link(fresh, log / f"{version:020}.json")
    finally:
        fresh.unlink(missing_ok=True)


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
