"""Delta Lake tables, by their path.

Rules of the room: a write and its marker are one commit, in its ``userMetadata``. The
transaction id is new for each run and table, its version is the batch number: a batch
repeated within the run is skipped by Delta. A skip is silent, so after each write the
commit is read back. Settings of the session carry id and marker into MERGE and ALTER,
which is why each writing thread has a session of its own.

Tables are made for the oldest readers that can have them; type widening is switched on
with the first column that widens. Names that would need column mapping never get here
(see `target_spark.names`), so readers without it can read every table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import Change, Layout
from target_spark.errors import CommitLostError, TableError
from target_spark.ledger import Marker, txn_app_id
from target_spark.names import quote
from target_spark.places import local_folder, spark_address
from target_spark.tables import Design, Table
from target_spark.writers.base import ONLY_DELETE, Keys, after, ddl_of, newest_by_key
from target_spark.writers.delta_log import NO_TABLE, commits, delta_ref, newest_marker
from target_spark.writers.widening import delta_widens

__all__ = ["DeltaWriter"]

_KEEP_TRANSACTIONS = "interval 14 days"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_VIEW = "target_spark_batch"


class DeltaWriter:
    """Writes Delta tables; remembers of each what it found and did in this run."""

    can_upsert = True

    def __init__(self) -> None:
        self._newest: dict[str, Marker | None] = {}
        self._acknowledged: dict[str, Marker] = {}
        self._fresh: set[str] = set()

    def can_widen(self, old: str, new: str) -> bool:
        """Tell whether a column's type, as DDL, can be changed in place."""
        return delta_widens(old, new)

    def table_types(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return each column's type as DDL, in order; None where there is no table.

        Raises:
            TableError: there are files, but no Delta table.
        """
        folder = local_folder(table.path)
        if folder is not None and not (folder / "_delta_log").is_dir():
            _refuse_other_files(folder)
            return None
        try:
            schema = spark.table(delta_ref(table)).schema
        except AnalysisException as error:
            if error.getCondition() not in NO_TABLE:
                raise
            return None
        return {field.name: ddl_of(field.dataType) for field in schema.fields}

    def create(
        self,
        spark: SparkSession,
        table: Table,
        layout: Layout,
        design: Design,  # noqa: ARG002
        *,
        rows_follow: bool = False,  # noqa: ARG002  (the properties of a table are set before its rows)
    ) -> None:
        """Make an empty table."""
        columns = ", ".join(
            f"{quote(column.name)} {column.type.ddl}{_comment(column.comment)}"
            for column in layout.columns
        )
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {delta_ref(table)} ({columns}) USING delta TBLPROPERTIES"
            f" ('delta.setTransactionRetentionDuration' = '{_KEEP_TRANSACTIONS}')"
        )
        self._fresh.add(table.key)

    def alter(self, spark: SparkSession, table: Table, changes: Sequence[Change]) -> None:
        """Add columns and fields, and widen types; the newest marker is repeated."""
        before = self._before(spark, table)
        metadata = {} if before is None else {_METADATA: before.to_json()}
        with _settings(spark, metadata):
            for words in _alterations(changes):
                spark.sql(f"ALTER TABLE {delta_ref(table)} {words}")

    def append(self, spark: SparkSession, table: Table, df: DataFrame, commit: Marker) -> None:
        """Add the rows of a batch."""
        self._save(spark, table, df, commit, "append")

    def replace(self, spark: SparkSession, table: Table, df: DataFrame, commit: Marker) -> None:
        """Put these rows in the place of all others; readers see the old until then."""
        self._save(spark, table, df, commit, "overwrite")

    def commit_empty(self, spark: SparkSession, table: Table, commit: Marker) -> None:
        """Commit a marker without rows."""
        nothing = spark.table(delta_ref(table)).where(F.lit(False))  # noqa: FBT003
        self._save(spark, table, nothing, commit, "append")

    def upsert(
        self, spark: SparkSession, table: Table, df: DataFrame, keys: Keys, commit: Marker
    ) -> None:
        """Replace the rows that have the batch's keys, and add those that are new."""
        newest = newest_by_key(df, keys)
        if table.key in self._fresh:  # nothing to meet: an append costs a quarter
            self.append(spark, table, _as_first_rows(newest, keys), commit)
            return
        columns = [name for name in newest.columns if name != ONLY_DELETE]
        with self._committing(spark, table, commit) as marker:
            newest.createOrReplaceTempView(_VIEW)
            settings = {
                _METADATA: marker.to_json(),
                _APP_ID: txn_app_id(commit.job, table.name, commit.run),
                _VERSION: str(commit.batch),
            }
            try:
                with _settings(spark, settings):
                    spark.sql(_merge(table, columns, keys))
            finally:
                spark.catalog.dropTempView(_VIEW)

    def last_marker(self, spark: SparkSession, table: Table) -> Marker | None:
        """Return the newest marker in the table; None where no table or no marker is."""
        return newest_marker(spark, table)

    def _save(
        self, spark: SparkSession, table: Table, df: DataFrame, commit: Marker, mode: str
    ) -> None:
        with self._committing(spark, table, commit) as marker:
            df.write.format("delta").mode(mode).options(
                userMetadata=marker.to_json(),
                txnAppId=txn_app_id(commit.job, table.name, commit.run),
                txnVersion=commit.batch,
            ).save(spark_address(table.path))

    @contextmanager
    def _committing(self, spark: SparkSession, table: Table, commit: Marker) -> Iterator[Marker]:
        """Give the marker to write, and hold the commit that follows against it."""
        acknowledged = table.key in self._acknowledged
        before = self._before(spark, table)
        marker = after(before, commit, table, acknowledged=acknowledged)
        yield marker
        self._verify(spark, table, commit)
        self._newest[table.key] = self._acknowledged[table.key] = marker
        self._fresh.discard(table.key)

    def _verify(self, spark: SparkSession, table: Table, commit: Marker) -> None:
        """Read the log: the newest commit of this run must be the batch just written."""
        of_run = (
            marker
            for _, marker in commits(spark, table)
            if marker is not None and (marker.job, marker.run) == (commit.job, commit.run)
        )
        if not commit.same_batch(next(of_run, None)):
            raise CommitLostError(
                f"Batch {commit.batch} of table {table.name} was written without an error,"
                " but no commit in the table says that it is this batch: Delta took it for"
                " one that it has seen, or another writer's word stands in its place. No"
                " state that covers its rows leaves."
            )

    def _before(self, spark: SparkSession, table: Table) -> Marker | None:
        if table.key not in self._newest:
            self._newest[table.key] = newest_marker(spark, table)
        return self._newest[table.key]


def _comment(text: str | None) -> str:
    if not text:
        return ""
    return " COMMENT '" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _refuse_other_files(folder: Path) -> None:
    if not folder.is_dir():
        return
    files = (file.name for file in folder.iterdir() if file.name[0] not in "._")
    strange = next(files, None)
    if strange is not None:
        raise TableError(
            f"{folder} has files ({strange}) but is no Delta table. Set path to another"
            " folder, or move them away."
        )


def _alterations(changes: Sequence[Change]) -> Iterator[str]:
    added = [change for change in changes if change.kind == "add"]
    widened = [change for change in changes if change.kind == "widen"]
    if added:
        columns = ", ".join(f"{quote(*change.path)} {change.ddl}" for change in added)
        yield f"ADD COLUMNS ({columns})"
    if widened:
        yield "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    for change in widened:
        yield f"ALTER COLUMN {quote(*change.path)} TYPE {change.ddl}"


def _as_first_rows(newest: DataFrame, keys: Keys) -> DataFrame:
    if keys.deleted is not None and keys.hard_delete:
        newest = newest.where(F.col(quote(keys.deleted)).isNull())
    return newest.drop(ONLY_DELETE)


def _merge(table: Table, columns: Sequence[str], keys: Keys) -> str:
    """Return the MERGE, with every column by name: the table may have others."""
    same_key = " AND ".join(f"t.{quote(key)} = s.{quote(key)}" for key in keys.columns)
    put = ", ".join(f"t.{quote(name)} = s.{quote(name)}" for name in columns)
    names = ", ".join(quote(name) for name in columns)
    values = ", ".join(f"s.{quote(name)}" for name in columns)
    on_delete, unless = _delete_clauses(keys)
    return (  # every name in it is quoted
        f"MERGE INTO {delta_ref(table)} AS t USING {_VIEW} AS s ON {same_key}"  # noqa: S608
        f"{on_delete} WHEN MATCHED THEN UPDATE SET {put}"
        f" WHEN NOT MATCHED{unless} THEN INSERT ({names}) VALUES ({values})"
    )


def _delete_clauses(keys: Keys) -> tuple[str, str]:
    if keys.deleted is None:
        return "", ""
    deleted = f"s.{quote(keys.deleted)}"
    if keys.hard_delete:
        return f" WHEN MATCHED AND {deleted} IS NOT NULL THEN DELETE", f" AND {deleted} IS NULL"
    put = f"t.{quote(keys.deleted)} = {deleted}"
    return f" WHEN MATCHED AND s.{ONLY_DELETE} THEN UPDATE SET {put}", ""


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)
