"""Append of a run's statistics to the table of runs, after the last commit of the run.

The table has one row for each stream of each run. Runs of several jobs append to it, even at the
same time. Its commits therefore have the reserved job name `RUNS` and no state, so that no job
takes them for its own commits. A Delta table in a local folder is written without Spark, which may
have ended by then.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.version import __version__ as spark_version

from target_spark.columns import ORDINAL, TableSchema, diff_with_table
from target_spark.config.options import LoadOptions, RunInfo, WriteMode
from target_spark.frames.arrow_conversion import arrow_type
from target_spark.frames.local_frame import create_local_frame
from target_spark.loader.engine_retry import retry_with_engine
from target_spark.spark.jars import required_jars
from target_spark.spark.spark_provider import SparkProvider
from target_spark.storage.hadoop_fs import is_remote_session
from target_spark.storage.uris import to_local_folder
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.runs_table import SCHEMA
from target_spark.tables.table import RUNS, Table, TableLayout
from target_spark.writers import Writer, get_writer
from target_spark.writers.base import MergeKeys
from target_spark.writers.delta.deltalake_commit import checkpoint_log
from target_spark.writers.delta.small_batches import SmallBatch
from target_spark.writers.delta.writer import DeltaWriter
from target_spark.writers.sql_statements import ONE_FILE_CONF, find_small_commit_conf, spark_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["append_run", "find_versions"]

_COMMITS_PER_CHECKPOINT: Final = 10
"""Number of commits to the table of runs between two Delta checkpoints. Opening a Delta table gets
slower with each commit since its last checkpoint."""

_KEYS: Final = MergeKeys((), ORDINAL)
"""Rules for a batch that is appended: no key columns, and the column with the row number."""


def find_versions(table_format: str) -> dict[str, str]:
    """Return the versions of this program and its libraries, to store them with a run's statistics.

    The keys are columns of the table ``_target_spark_runs``: ``target_spark_version`` and
    ``library_versions``. The latter lists PySpark and the libraries of the table format, such as
    ``pyspark 4.0.1, …``.
    """
    libraries = [f"pyspark {spark_version}"]
    for coordinates in required_jars(table_format, spark_version)[:1]:  # the format's own jar
        _, artifact, number = coordinates.split(":")
        libraries.append(f"{artifact} {number}")
    if table_format == "delta":
        libraries.append(f"deltalake {version('deltalake')}")
    return {
        "target_spark_version": version("tap-core-sdk"),
        "library_versions": ", ".join(libraries),
    }


def append_run(
    engine: SparkProvider,
    options: LoadOptions,
    run: RunInfo,
    rows: Sequence[Mapping[str, Any]],
    stopping: threading.Event | None = None,
) -> None:
    """Append a run's statistics to the table ``_target_spark_runs``. Create the table if needed.

    All rows, one per stream, are added in one commit. Transient failures and conflicts with other
    runs are retried, and a retry never adds rows twice.

    Args:
        engine: The Spark process of the run.
        options: The options of the load, which determine table and format.
        run: The run.
        rows: The rows as values by column, as `build_rows` returns them.
        stopping: Event that prevents retries while it is set; None to always allow retries.

    Raises:
        TargetSparkError: The rows cannot be written.
    """
    writer = (
        DeltaWriter(avoids_spark=True, is_exclusive=False)
        if options.format == "delta"
        else get_writer(options.format)
    )
    table = options.runs_table
    commit = CommitMetadata(RUNS, run.id, run.started, batch=1, ordinal=0)
    retry_with_engine(
        engine,
        lambda: _append(writer, engine, table, rows, commit),
        f"Table {table.name}",
        stopping=stopping,
    )


def _append(
    writer: Writer,
    engine: SparkProvider,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    commit: CommitMetadata,
) -> None:
    """Append rows to the table ``_target_spark_runs`` in one commit.

    A Delta table in a local folder is written without Spark, if it has all columns. Otherwise the
    table or its missing columns are created first.
    """
    if _append_without_spark(writer, engine, table, _to_arrow(rows, SCHEMA), SCHEMA, commit):
        return
    columns = _prepare_columns(writer, engine.lazy_spark(), table)
    arrow_rows = _to_arrow(rows, columns)
    if _append_without_spark(writer, engine, table, arrow_rows, columns, commit):
        return
    spark, arrow_rows = engine.spark(), arrow_rows.drop_columns([ORDINAL])
    if is_remote_session(spark):
        writer.append(table, spark.createDataFrame(arrow_rows), commit, len(rows))
        return
    with spark_conf(spark, find_small_commit_conf(spark) | ONE_FILE_CONF):
        writer.append(table, create_local_frame(spark, arrow_rows), commit, len(rows))


def _append_without_spark(
    writer: Writer,
    engine: SparkProvider,
    table: Table,
    rows: pa.Table,
    columns: TableSchema,
    commit: CommitMetadata,
) -> bool:
    """Append rows to a Delta table in a local folder without Spark, and return True.

    If only Spark can append the rows, write nothing and return False. This is the case for other
    table formats, for tables elsewhere, and for a table without all of ``columns``. ``commit`` is
    the metadata to store in the commit.
    """
    if not isinstance(writer, DeltaWriter):
        return False
    spark, batch = engine.lazy_spark(), SmallBatch.of(rows, columns)
    if not writer.takes_small_batch(spark, table, batch, WriteMode.APPEND):
        return False
    writer.write_small_batch(spark, table, batch, WriteMode.APPEND, _KEYS, commit)
    folder = to_local_folder(table.path)
    if folder is not None:
        checkpoint_log(folder, _COMMITS_PER_CHECKPOINT)
    return True


def _prepare_columns(writer: Writer, spark: SparkSession, table: Table) -> TableSchema:
    """Create the table ``_target_spark_runs``, or add the columns that are new in this release.

    Return the resulting columns of the table.
    """
    types = writer.get_column_types(spark, table)
    if types is None:
        writer.create(spark, table, SCHEMA, TableLayout(), has_rows=True)
        return SCHEMA
    sources = writer.sources(spark, table)
    columns, changes = diff_with_table(SCHEMA, types, writer.can_widen, sources)
    if changes:
        writer.alter(spark, table, changes)
        writer.annotate(spark, table, columns)
    return columns


def _to_arrow(rows: Sequence[Mapping[str, Any]], columns: TableSchema) -> pa.Table:
    """Return rows for the table ``_target_spark_runs`` as an Arrow table.

    Columns of the table that this release does not fill are left out. A last column with the row
    number is added.
    """
    filled = [column for column in columns.columns if column.is_fed]
    arrays = {
        column.name: pa.array([row[column.source] for row in rows], arrow_type(column.type))
        for column in filled
    }
    return pa.table({**arrays, ORDINAL: pa.array(range(len(rows)), pa.int64())})
