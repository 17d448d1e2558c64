"""Reader of a Delta table's commits, newest first: versions, commit metadata and metrics.

For a table in a local folder, the log's files are read without Spark: one `<20 digits>.json` per
version, with one `commitInfo` (the Delta protocol). Other logs are read by `DESCRIBE HISTORY`. Old
versions may have been removed from the log, and commits of other writers may have any content.
Commits that a later RESTORE has undone are left out, because their rows are not in the table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tap_core.parsing.datetimes import parse_datetime
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.identifiers import quote
from target_spark.tables.table import CommitStats, Table

__all__ = [
    "NO_TABLE",
    "Commit",
    "commits",
    "delta_ref",
    "find_newest_metadata",
    "get_commit_time",
    "has_had_rows",
    "has_log",
    "list_versions",
    "log_file",
    "read_last_metadata",
]

NO_TABLE = {
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_TABLE_ONLY_OPERATION",
    "PATH_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
}
"""Names of the Spark errors for a path or name without a table."""

_HISTORY_LIMITS = (10, 1000)
"""Row limits of the first queries of DESCRIBE HISTORY, which usually suffice. The last query has no
limit."""

_HISTORY_COLUMNS = (
    "version",
    "userMetadata",
    "operationMetrics",
    "operation",
    "operationParameters",
    "unix_millis(timestamp) AS timestamp",
)


def delta_ref(table: Table) -> str:
    """Return the quoted SQL name of a Delta table, such as ```db`.`users```.

    For a table without a catalog, it is the quoted path after ``delta.``.
    """
    if table.identifier:
        return quote(*table.identifier)
    return f"delta.{quote(to_spark_uri(table.path))}"


class Commit(NamedTuple):
    """One commit of a Delta table, read from its log.

    Attributes:
        version: The table version that the commit created.
        marker: The commit metadata of target-spark; None if another program made the commit.
        metrics: Delta's operation metrics, such as ``{"numOutputRows": "10"}``. The library
            deltalake uses other names for a MERGE, UPDATE or DELETE, such as ``num_source_rows``.
        added_bytes: The size of the files that the commit adds; 0 if they were not checked.
        time: The time of the commit, in milliseconds since 1970. RESTORE TO TIMESTAMP refers to
            this time.
        restored: For a RESTORE, the table version or the commit time that was restored:
            ``("version", 3)`` or ``("time", milliseconds)``. None for any other commit.
    """

    version: int
    marker: CommitMetadata | None = None
    metrics: Mapping[str, str] = {}
    added_bytes: int = 0
    time: int = 0
    restored: tuple[str, int] | None = None

    @property
    def effect(self) -> CommitStats:
        """Statistics of the commit: the rows inserted, updated and deleted, and the files added."""
        return CommitStats(
            inserted=self._count(
                "numTargetRowsInserted", "num_target_rows_inserted", "numOutputRows"
            ),
            updated=self._count(
                "numTargetRowsUpdated",
                "num_target_rows_updated",
                "numUpdatedRows",
                "num_updated_rows",
            ),
            deleted=self._count(
                "numTargetRowsDeleted",
                "num_target_rows_deleted",
                "numDeletedRows",
                "num_deleted_rows",
            ),
            files=self._count(
                "numTargetFilesAdded",
                "num_target_files_added",
                "numAddedFiles",
                "num_added_files",
                "numFiles",
            ),
            nbytes=self._count("numTargetBytesAdded", "numAddedBytes", "numOutputBytes")
            or self.added_bytes,
        )

    @property
    def source_rows(self) -> int:
        """Number of batch rows that a MERGE read; 0 for any other commit."""
        return self._count("numSourceRows", "num_source_rows")

    def _count(self, *names: str) -> int:
        return next((int(self.metrics[name]) for name in names if name in self.metrics), 0)


def commits(spark: SparkSession, table: Table) -> Iterator[Commit]:
    """Yield the commits in a Delta table's log, newest first, except those that RESTORE has undone.

    Nothing is yielded if there is no table.
    """
    folder = table.local_folder
    yield from _skip_undone(_query_history(spark, table) if folder is None else _read_log(folder))


def find_newest_metadata(
    history: Iterable[Commit], known: CommitMetadata | None = None
) -> CommitMetadata | None:
    """Return the newest metadata of target-spark in the commits ``history``, or None.

    The commits are ordered newest first; commits of other programs are skipped. ``known`` is
    metadata that the caller has read before. It is returned if no commit has metadata because Delta
    has removed the oldest commits from the log. After a RESTORE, None is returned instead, because
    the RESTORE may have undone the commit of ``known``.
    """
    commit = Commit(0)  # if the history is empty
    for commit in history:
        if commit.marker is not None:
            return commit.marker
        if commit.restored is not None:
            known = None
    return known if commit.version > 0 else None  # the oldest is version 0: none was removed


def read_last_metadata(folder: Path) -> CommitMetadata | None:
    """Return the metadata of target-spark's newest commit to a local Delta table, or None.

    The log is read without Spark.
    """
    return find_newest_metadata(_skip_undone(_read_log(folder)))


def get_commit_time(spark: SparkSession, table: Table) -> int | None:
    """Return the time of a Delta table's last commit, in milliseconds since 1970.

    Commits of all programs count. Return None if the time is unknown. The table must exist.
    """
    folder = table.local_folder
    if folder is not None:
        newest = max(list_versions(folder), default=None)
        return None if newest is None else _read_commit_info(folder, newest).get("timestamp")
    history = spark.sql(f"DESCRIBE HISTORY {delta_ref(table)} LIMIT 1")
    row = history.selectExpr("unix_millis(timestamp) AS millis").first()
    return None if row is None else row["millis"]


def has_log(folder: Path) -> bool:
    """Return True if a local folder has the log of a Delta table.

    Return False for the empty log folder that exists while another writer creates the table.
    """
    try:
        with os.scandir(folder / "_delta_log") as files:
            return any(file.name.endswith((".json", ".parquet")) for file in files)
    except (FileNotFoundError, NotADirectoryError):
        return False


def has_had_rows(folder: Path) -> bool:
    """Return True if a local Delta table has, or may have had, rows in any of its versions.

    The result is True if a commit in the log added a data file. It is also True if the log has a
    checkpoint, because the commits before it may be missing.
    """
    if any((folder / "_delta_log").glob("*.checkpoint*.parquet")):
        return True
    for version in list_versions(folder):
        with log_file(folder, version).open(encoding="utf-8") as lines:
            if any(line.startswith('{"add"') for line in lines):
                return True
    return False


def log_file(folder: Path, version: int) -> Path:
    """Return the path of the file with the commit ``version`` in a local Delta table's log."""
    return folder / "_delta_log" / f"{version:020}.json"


def _skip_undone(history: Iterable[Commit]) -> Iterator[Commit]:
    """Yield commits, newest first, without those that a later RESTORE has undone."""
    restored: tuple[str, int] | None = None
    for commit in history:
        if restored is not None:
            attribute, limit = restored  # `version` or `time`, and its value
            if getattr(commit, attribute) > limit:
                continue
        yield commit
        restored = commit.restored


def _read_log(folder: Path) -> Iterator[Commit]:
    """Yield the commits in the log of a local Delta table, newest first."""
    for version in sorted(list_versions(folder), reverse=True):
        info = _read_commit_info(folder, version)
        yield _parse_commit(
            version, info, info.get("inCommitTimestamp") or _get_file_time(folder, version)
        )


def list_versions(folder: Path) -> Iterator[int]:
    """Yield the versions in the log of a local Delta table, in no particular order."""
    for file in (folder / "_delta_log").glob("*.json"):
        if len(file.stem) == 20 and file.stem.isdigit():  # noqa: PLR2004  (by the Delta protocol)
            yield int(file.stem)


def _read_commit_info(folder: Path, version: int) -> Mapping[str, Any]:
    """Return the ``commitInfo`` of a version of a local Delta table; empty if the log lacks it."""
    try:
        with log_file(folder, version).open(encoding="utf-8") as lines:
            for line in lines:
                if '"commitInfo"' in line[:20]:
                    info: dict[str, Any] = json.loads(line)["commitInfo"]
                    return info
    except FileNotFoundError:  # Delta's log cleanup removed the file after it was listed
        pass
    return {}


def _get_file_time(folder: Path, version: int) -> int:
    """Return the modification time of a version's log file, in milliseconds; 0 if it is missing."""
    try:
        return log_file(folder, version).stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0


def _query_history(spark: SparkSession, table: Table) -> Iterator[Commit]:
    """Yield the commits that DESCRIBE HISTORY returns, newest first.

    The first query asks for few commits. Queries with higher limits follow only if the caller reads
    further.
    """
    yielded = 0
    for limit in (*_HISTORY_LIMITS, None):
        statement = f"DESCRIBE HISTORY {delta_ref(table)}" + (f" LIMIT {limit}" if limit else "")
        try:
            rows = spark.sql(statement).selectExpr(*_HISTORY_COLUMNS).collect()
        except AnalysisException as error:
            if error.getCondition() not in NO_TABLE:
                raise
            return
        for row in rows[yielded:]:
            yield _parse_commit(row["version"], row.asDict(), row["timestamp"])
        if limit is None or len(rows) < limit:
            return
        yielded = len(rows)


def _parse_commit(version: int, info: Mapping[str, Any], time: int) -> Commit:
    return Commit(
        version,
        CommitMetadata.from_json(info.get("userMetadata")),
        info.get("operationMetrics") or {},
        time=time,
        restored=_find_restore_point(info) if info.get("operation") == "RESTORE" else None,
    )


def _find_restore_point(info: Mapping[str, Any]) -> tuple[str, int]:
    """Return the version or time to which a RESTORE restored a table; see `Commit.restored`.

    The parameter of a RESTORE is ``version``, ``timestamp`` (Spark) or ``datetime`` (deltalake). A
    time without an offset is taken as UTC. If no parameter can be read, return ``("version", -1)``,
    so that all earlier commits count as undone. ``info`` is the ``commitInfo`` of the RESTORE.
    """
    parameters = info.get("operationParameters") or {}
    try:
        if parameters.get("version") is not None:
            return "version", int(parameters["version"])
        if parameters.get("datetime") is not None:
            return "time", int(parameters["datetime"])
        return "time", int(parse_datetime(parameters["timestamp"]).timestamp() * 1000)
    except (KeyError, TypeError, ValueError):
        return "version", -1
