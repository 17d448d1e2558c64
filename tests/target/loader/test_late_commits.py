"""Commits that a catalog makes after the client's timeout are neither lost nor made twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.spark.jar_cache import ivy_folder
from target_spark.storage.commit_retry import FailureKind, classify_failure
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.iceberg_metadata import IcebergSnapshot
from target_spark.tables.table import Table, TableLayout
from target_spark.writers.iceberg.writer import IcebergWriter
from tests.target.writers.iceberg_rows import content, line
from tests.target.writers.sample_rows import KEYS, LAYOUT, batch, marker, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

TABLE = Table("", "people", ("late", "db", "people"))
DRIVER = "org.xerial:sqlite-jdbc:3.50.3.0"


class SlowCatalog:
    """An SQLite catalog that can be unavailable, and make a commit late."""

    def __init__(self, folder: Path) -> None:
        self.file, self.metadata = (
            folder / "lake.db",
            folder / "lake" / "db" / "people" / "metadata",
        )
        self._known: set[Path] = set()

    def _newest(self) -> str:
        with closing(sqlite3.connect(self.file)) as database:
            ((location,),) = database.execute(
                "SELECT metadata_location FROM iceberg_tables"
            ).fetchall()
        return str(location)

    def fail_commit(self, commit: Callable[[], Any]) -> tuple[str, str]:
        """Fail a commit; return the metadata before it and the metadata that it requested."""
        before, known = self._newest(), set(self.metadata.glob("*.metadata.json"))
        with closing(sqlite3.connect(self.file)) as database:
            database.execute("BEGIN IMMEDIATE")
            with pytest.raises(Exception, match="SQLITE_BUSY") as failed:
                commit()
        assert classify_failure(failed.value) is FailureKind.TRANSIENT
        (requested,) = set(self.metadata.glob("*.metadata.json")) - known
        return before, str(requested)

    def make_late_commit(self, before: str, requested: str) -> bool:
        """Make a requested commit as the catalog does; return True if it succeeded."""
        with closing(sqlite3.connect(self.file)) as database, database:
            cursor = database.execute(
                "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?"
                " WHERE metadata_location = ?",
                (requested, before, before),
            )
            return cursor.rowcount == 1


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> SlowCatalog:
    load_sqlite_driver(spark)
    key = "spark.sql.catalog.late"
    options = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/lake.db?busy_timeout=200"}
    options["warehouse"] = str(tmp_path / "lake")
    spark.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
    for option, value in options.items():
        spark.conf.set(f"{key}.{option}", value)
    IcebergWriter().create(spark, TABLE, LAYOUT, TableLayout())
    return SlowCatalog(tmp_path)


def load_sqlite_driver(spark: SparkSession) -> None:
    """Add the SQLite driver to the running JVM, on Iceberg's class path."""
    spark.sql(f"ADD JAR ivy://{DRIVER}?transitive=false")
    folder = spark.sparkContext.getConf().get("spark.jars.ivy") or ivy_folder(None)
    (jar,) = Path(folder, "jars").glob(f"*{DRIVER.split(':')[1]}*.jar")
    jvm: Any = spark.sparkContext._jvm
    around = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    iceberg = jvm.java.lang.Class.forName("org.apache.iceberg.jdbc.JdbcCatalog", True, around)  # noqa: FBT003
    loader = iceberg.getClassLoader()
    loader.addURL(jvm.java.net.URL(jar.as_uri()))
    jvm.java.lang.Class.forName("org.sqlite.JDBC", True, loader)  # noqa: FBT003


@pytest.mark.parametrize("name", ["append", "upsert", "replace"])
@pytest.mark.parametrize("moment", ["before the read", "after the read"])
def test_late_commit_is_recognized_or_rejected(
    spark: SparkSession, catalog: SlowCatalog, name: str, moment: str
) -> None:
    late_commits: list[tuple[str, str]] = []
    results: list[bool] = []

    class LateCommitWriter(IcebergWriter):
        """Writer after whose first read of the table the catalog makes the late commit."""

        def _find_committed_batch(
            self,
            spark: SparkSession,
            table: Table,
            commit: CommitMetadata,
            newest_first: Sequence[IcebergSnapshot],
        ) -> tuple[CommitMetadata | None, bool]:
            batch = super()._find_committed_batch(spark, table, commit, newest_first)
            results.extend(catalog.make_late_commit(*late_commit) for late_commit in late_commits)
            return batch

    writer = LateCommitWriter()
    writer.append(TABLE, rows(spark, (1, "a", 1)), marker(1))
    second = batch(spark, (2, "b", 2)) if name == "upsert" else rows(spark, (2, "b", 2))
    keys = [KEYS] if name == "upsert" else []

    def commit() -> Any:
        return getattr(writer, name)(TABLE, second, *keys, marker(2))

    requested = catalog.fail_commit(commit)
    if moment == "before the read":
        assert catalog.make_late_commit(*requested)
    else:
        late_commits.append(requested)
    commit()
    assert results == ([] if moment == "before the read" else [False])
    assert content(spark, TABLE) == [(1, "a", 1), (2, "b", 2)][name == "replace" :]
    markers = [late_commit.marker for late_commit in line(spark, TABLE)]
    assert markers.count(marker(2)) == 1
    writer.append(TABLE, rows(spark, (3, "c", 3)), marker(3))
    assert (
        len(line(spark, TABLE)) == 4
    )  # three batches, and the snapshot that overtook the late commit
