"""Delta Lake tables, by their path or by their name in a catalog.

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

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import IS_CURRENT, Change, Layout
from target_spark.errors import CommitLostError
from target_spark.ledger import Marker, txn_app_id
from target_spark.names import quote
from target_spark.places import local_folder
from target_spark.tables import Care, Design, Effect, Table
from target_spark.writers.base import (
    ONLY_DELETE,
    Keys,
    Retirement,
    after,
    newest_by_key,
    removed_meanwhile,
)
from target_spark.writers.delta_birth import LAST, Birth, added, birth_of, settles_writes
from target_spark.writers.delta_care import tidy
from target_spark.writers.delta_log import Commit, commits, delta_ref, newest_marker
from target_spark.writers.delta_place import (
    PROPERTIES,
    arranged_otherwise,
    drop,
    make,
    types_of,
)
from target_spark.writers.history import adoption, changes, first_versions, history_merge
from target_spark.writers.notes import nullable_columns, sources_in, to_annotate
from target_spark.writers.statements import (
    BATCH,
    alterations,
    as_first_rows,
    merge,
    retire,
    to_retire,
    with_settings,
)
from target_spark.writers.widening import delta_widens

__all__ = ["KEPT", "DeltaWriter"]

_WIDENING = "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
KEPT = {"spark.databricks.delta.merge.materializeSource": "all"}
"""A MERGE reads its batch twice, and keeps it on disk in between."""

_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"


class DeltaWriter:
    """Writes Delta tables; remembers of each what it found and did in this run."""

    keeps_batch = True

    def __init__(self) -> None:
        self._newest: dict[str, Marker | None] = {}
        self._acknowledged: dict[str, Marker] = {}
        self._versions: dict[str, int] = {}
        self._verified: dict[str, int] = {}
        self._effects: dict[str, Effect] = {}
        self._fresh: set[str] = set()
        self._births: dict[str, Birth] = {}
        self._settled: bool | None = None
        self._filled: set[str] = set()
        self._adopted: set[str] = set()

    def can_widen(self, old: str, new: str) -> bool:
        """Tell whether a column's type, as DDL, can be changed in place."""
        return delta_widens(old, new)

    def table_types(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return each column's type as DDL, in order; None where there is no table.

        Raises:
            TableError: there are files, but no Delta table.
        """
        types = types_of(spark, table)
        if types is not None:
            self._births.pop(table.key, None)
        return types

    def create(
        self,
        spark: SparkSession,
        table: Table,
        layout: Layout,
        design: Design,
        *,
        has_rows: bool = False,
    ) -> None:
        """Make an empty table, or leave it to the rows that come: two commits cost twice one."""
        birth = None
        if self._settled is None:  # asked once: it is hundreds of answers
            self._settled = settles_writes(spark)
        if has_rows and not self._settled:
            birth = birth_of(table, layout, design, PROPERTIES)
        if birth is not None:
            self._births[table.key] = birth
        else:
            make(spark, table, layout, design)
        self._fresh.add(table.key)

    def alter(self, spark: SparkSession, table: Table, changes: Sequence[Change]) -> None:
        """Add columns and fields, and widen types; the newest marker is repeated."""
        self._alter(spark, table, alterations(changes, to_widen=_WIDENING))

    def sources(self, spark: SparkSession, table: Table) -> Mapping[str, str] | None:
        """Return what the table remembers of `Layout.sources`; None if it is none of ours."""
        return sources_in(spark, delta_ref(table))

    def annotate(self, spark: SparkSession, table: Table, layout: Layout) -> None:
        """Let the table remember the layout's sources, and have its comments."""
        self._alter(spark, table, to_annotate(spark, delta_ref(table), layout))

    def allow_nulls(self, spark: SparkSession, table: Table, keep: Collection[str]) -> None:
        """Let all columns of the table take nulls but those to ``keep``."""
        schema = spark.table(delta_ref(table)).schema
        self._alter(spark, table, nullable_columns(schema, keep))

    def _alter(self, spark: SparkSession, table: Table, alterations: Iterable[str]) -> None:
        """Make alterations, each a commit; the newest marker is repeated in it."""
        self._births.pop(table.key, None)
        for words in alterations:
            before = self._before(spark, table)
            with with_settings(spark, {} if before is None else {_METADATA: before.to_json()}):
                spark.sql(f"ALTER TABLE {delta_ref(table)} {words}")

    def append(self, spark: SparkSession, table: Table, df: DataFrame, commit: Marker) -> Effect:
        """Add the rows of a batch."""
        return self._save(spark, table, df, commit, "append")

    def replace(self, spark: SparkSession, table: Table, df: DataFrame, commit: Marker) -> Effect:
        """Put these rows in the place of all others; readers see the old until then."""
        return self._save(spark, table, df, commit, "overwrite")

    def commit_empty(self, spark: SparkSession, table: Table, commit: Marker) -> None:
        """Commit a marker without rows."""
        with self._committing(spark, table, commit) as marker:
            if marker is not None and not self._added(table, None, marker):
                nothing = spark.table(delta_ref(table)).where(F.lit(False))  # noqa: FBT003
                _write(table, nothing, marker, commit, "append")

    def upsert(
        self, spark: SparkSession, table: Table, df: DataFrame, keys: Keys, commit: Marker
    ) -> Effect:
        """Replace the rows that have the batch's keys, and add those that are new."""
        newest = newest_by_key(df, keys)
        if self.is_empty(spark, table):  # nothing to meet: an append costs a quarter
            return self.append(spark, table, as_first_rows(newest, keys), commit)
        columns = [name for name in newest.columns if name != ONLY_DELETE]
        words = merge(delta_ref(table), columns, keys)
        with with_settings(spark, KEPT):
            return self._execute(spark, table, words, commit, newest)

    def history(
        self, spark: SparkSession, table: Table, df: DataFrame, keys: Keys, commit: Marker
    ) -> Effect:
        """Keep the versions of each row: what differs ends the current one and begins another."""
        if self.is_empty(spark, table):
            return self.append(spark, table, first_versions(df, keys), commit)
        self._adopt(spark, table, keys.deleted, commit)
        columns = [name for name in df.columns if name != keys.order]
        words = history_merge(delta_ref(table), columns, keys)
        found = changes(df, self.rows(spark, table), keys, commit.run_started * 1000)
        return self._execute(spark, table, words, commit, found)

    def retire(
        self, spark: SparkSession, table: Table, retirement: Retirement, commit: Marker
    ) -> Effect:
        """End the rows of other versions, in one commit."""
        if retirement.history:
            self._adopt(spark, table, retirement.deleted, commit)
        if self.rows(spark, table).where(to_retire(retirement)).isEmpty():
            self.commit_empty(spark, table, commit)  # Delta makes none of an empty DELETE
            return Effect()
        return self._execute(spark, table, retire(delta_ref(table), retirement), commit)

    def last_marker(self, spark: SparkSession, table: Table) -> Marker | None:
        """Return the newest marker in the table; None where no table or no marker is."""
        return newest_marker(spark, table)

    def rows(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return the rows that the table has now."""
        return spark.table(delta_ref(table))

    def drop(self, spark: SparkSession, table: Table) -> None:
        """Remove the table and its files."""
        drop(spark, table)

    def arranged_otherwise(
        self, spark: SparkSession, table: Table, layout: Layout, design: Design
    ) -> str | None:
        """Say how a table is laid out, if it is not as it would be made now."""
        return arranged_otherwise(spark, table, layout, design)

    def care(self, spark: SparkSession, table: Table, care: Care) -> None:
        """Tidy the table; the newest marker is repeated in every commit that this makes."""
        self._births.pop(table.key, None)
        before = self._before(spark, table)
        metadata = {} if before is None else {_METADATA: before.to_json()}
        tidy(spark, delta_ref(table), care, metadata)

    def is_empty(self, spark: SparkSession, table: Table) -> bool:
        """Tell whether a table has no file of rows; asked of Delta once in a run."""
        if table.key in self._fresh:
            return True
        if table.key in self._filled or self._just_filled(spark, table):
            self._filled.add(table.key)
            return False
        (found,) = spark.sql(f"DESCRIBE DETAIL {delta_ref(table)}").select("numFiles").collect()
        (self._filled if found.numFiles else self._fresh).add(table.key)
        return not found.numFiles

    def _just_filled(self, spark: SparkSession, table: Table) -> bool:
        """Tell whether the newest commit added files, where to know that costs no job."""
        if table.identifier or local_folder(table.path) is None:
            return False
        newest = next(commits(spark, table), None)
        return newest is not None and newest.effect.files > 0

    def _adopt(
        self, spark: SparkSession, table: Table, deleted: str | None, commit: Marker
    ) -> None:
        """Make versions of rows that were written before the table had any, from this run on."""
        if table.key in self._adopted:
            return
        strange = F.col(quote(IS_CURRENT)).isNull()
        if not self.rows(spark, table).where(strange).isEmpty():
            before = self._before(spark, table)
            with with_settings(spark, {} if before is None else {_METADATA: before.to_json()}):
                spark.sql(adoption(delta_ref(table), commit.run_started * 1000, deleted))
        self._adopted.add(table.key)

    def _execute(
        self,
        spark: SparkSession,
        table: Table,
        words: str,
        commit: Marker,
        batch: DataFrame | None = None,
    ) -> Effect:
        """Let a statement make the commit; it finds the batch under the name `BATCH`."""
        self._births.pop(table.key, None)
        with self._committing(spark, table, commit) as marker:
            if batch is not None:
                batch.createOrReplaceTempView(BATCH)
            try:
                if marker is not None:
                    with with_settings(spark, _settings_of(marker, table)):
                        spark.sql(words)
            finally:
                spark.catalog.dropTempView(BATCH)
        return self._effects[table.key]

    def _save(
        self, spark: SparkSession, table: Table, df: DataFrame, commit: Marker, mode: str
    ) -> Effect:
        with self._committing(spark, table, commit) as marker:
            if marker is not None and not self._added(table, df, marker, mode):
                _write(table, df, marker, commit, mode)
        return self._effects[table.key]

    def _added(
        self, table: Table, df: DataFrame | None, marker: Marker, mode: str = "append"
    ) -> bool:
        """Make the commit without Delta, rows or none; False where that is Delta's to do."""
        known = self._versions.get(table.key)
        version = 0 if known is None else known + 1
        birth = self._births.get(table.key)
        can = df is not None if known is None else mode == "append" and version <= LAST
        name = txn_app_id(marker.job, table.name, marker.run), marker.batch
        if birth and can and added(df, birth, version, marker.to_json(), *name):
            return True
        self._births.pop(table.key, None)
        return False

    @contextmanager
    def _committing(
        self, spark: SparkSession, table: Table, commit: Marker
    ) -> Iterator[Marker | None]:
        """Give the marker to write, and hold the commit that follows against it.

        None says that the table has the batch already: its answer was lost.
        """
        self._check_there(table)
        acknowledged = commit.same_batch(self._acknowledged.get(table.key))
        try:
            before = self._before(spark, table)
            marker = after(before, commit, table, acknowledged=acknowledged)
            yield None if commit.same_batch(before) else marker
            self._verify(spark, table, commit)
        except BaseException:  # it may be in the table all the same
            self._newest.pop(table.key, None)
            raise
        self._newest[table.key] = self._acknowledged[table.key] = marker
        self._fresh.discard(table.key)
        self._filled.add(table.key)

    def _check_there(self, table: Table) -> None:
        """Refuse to make a table anew that had rows of this run."""
        folder = None if table.identifier else local_folder(table.path)
        had_rows = table.key in self._versions
        if had_rows and folder is not None and not (folder / "_delta_log").is_dir():
            raise removed_meanwhile(table)

    def _verify(self, spark: SparkSession, table: Table, commit: Marker) -> None:
        """Read the log: the newest commit of this run must be the batch just written."""
        of_run = (
            found
            for found in commits(spark, table)
            if found.marker is not None
            and (found.marker.job, found.marker.run) == (commit.job, commit.run)
        )
        newest = next(of_run, Commit(0))
        if not commit.same_batch(newest.marker):
            raise CommitLostError(
                f"Batch {commit.batch} of table {table.name} was written without an error,"
                " but no commit in the table says that it is this batch: Delta took it for"
                " one that it has seen, or another writer's word stands in its place. No"
                " state that covers its rows leaves."
            )
        known, last = self._versions.get(table.key), self._verified.get(table.key)
        if known is not None and commit.batch != last:  # the one before must be there as well
            before = next((found for found in of_run if found.version <= known), None)
            if before is None or before.version != known:
                raise removed_meanwhile(table)
        self._versions[table.key], self._effects[table.key] = newest.version, newest.effect
        self._verified[table.key] = commit.batch

    def _before(self, spark: SparkSession, table: Table) -> Marker | None:
        if table.key not in self._newest:
            self._newest[table.key] = newest_marker(spark, table)
        return self._newest[table.key]


def _settings_of(marker: Marker, table: Table) -> dict[str, str]:
    return {
        _METADATA: marker.to_json(),
        _APP_ID: txn_app_id(marker.job, table.name, marker.run),
        _VERSION: str(marker.batch),
    }


def _write(table: Table, df: DataFrame, marker: Marker, commit: Marker, mode: str) -> None:
    rows = df.writeTo(delta_ref(table)).options(
        userMetadata=marker.to_json(),
        txnAppId=txn_app_id(commit.job, table.name, commit.run),
        txnVersion=commit.batch,
    )
    rows.overwrite(F.lit(True)) if mode == "overwrite" else rows.append()  # noqa: FBT003
