"""Reader of tables for the command line: rows, counts, and the time of the last commit.

A Delta or Parquet table in a local folder is read without Spark, if its table features allow it.
Spark reads every other table. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.spark.spark_provider import make_lazy_session
from target_spark.storage.uris import to_local_folder
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.identifiers import quote
from target_spark.tables.parquet_manifest import open_dataset as open_parquet_dataset
from target_spark.tables.quarantine_table import LONGEST_RECORD, SHORT_RECORD
from target_spark.tables.table import Table
from target_spark.writers import parquet
from target_spark.writers.delta import deltalake_snapshot, log_reader
from target_spark.writers.delta.writer import DeltaWriter
from target_spark.writers.iceberg import snapshot_reader
from target_spark.writers.registry import get_writer

__all__ = ["TableReader"]


class TableReader:
    """Reader of the tables of one format. Spark starts only when a table cannot be read without it.

    Args:
        table_format: The name of the format, such as ``delta``.
        get_spark: Function that returns the Spark session, and starts Spark if needed.
    """

    def __init__(self, table_format: str, get_spark: Callable[[], SparkSession]) -> None:
        self._format = table_format
        self._spark = make_lazy_session(get_spark)
        is_delta = table_format == "delta"
        self._writer = DeltaWriter(avoids_spark=True) if is_delta else get_writer(table_format)

    def get_column_types(self, table: Table) -> Mapping[str, str] | None:
        """Return the type (DDL) of each column, in table order, or None if there is no table."""
        return self._writer.get_column_types(self._spark, table)

    def get_last_metadata(self, table: Table) -> CommitMetadata | None:
        """Return the metadata that target-spark stored in its newest commit to a table, or None."""
        return self._writer.get_last_metadata(self._spark, table)

    def get_commit_time(self, table: Table) -> datetime | None:
        """Return the time (UTC) of a table's last commit, by any program, or None if unknown.

        The table must exist. For a Parquet table, it is the modification time of the manifest.
        """
        if self._format == "parquet":
            millis: int | None = parquet.get_commit_time(table)
        elif self._format == "delta":
            millis = log_reader.get_commit_time(self._spark, table)
        else:
            millis = snapshot_reader.get_commit_time(self._spark, table)
        return None if millis is None else datetime.fromtimestamp(millis / 1000, timezone.utc)

    def read_rows(self, table: Table) -> list[dict[str, Any]]:
        """Return all rows of a small table, each as a dictionary of values by column name."""
        dataset = self._open_dataset(table)
        arrow_table = (
            self._writer.rows(self._spark, table).toArrow()
            if dataset is None
            else dataset.to_table()
        )
        rows: list[dict[str, Any]] = arrow_table.to_pylist()
        return rows

    def count_rows(self, table: Table) -> int:
        """Return the number of rows of a table."""
        dataset = self._open_dataset(table)
        if dataset is not None:
            return int(dataset.count_rows())
        return self._writer.rows(self._spark, table).count()

    def measure_size(self, table: Table) -> int:
        """Return the total size in bytes of the data files of a table's newest version."""
        dataset = self._open_dataset(table)
        if dataset is not None:
            return sum(int(info.size) for info in dataset.filesystem.get_file_info(dataset.files))
        if self._format == "delta":
            detail = self._spark.sql(f"DESCRIBE DETAIL {log_reader.delta_ref(table)}").first()
            return int(detail["sizeInBytes"]) if detail else 0
        if self._format == "iceberg":
            newest = next(snapshot_reader.snapshots(self._spark, table), None)
            return int(newest.summary.get("total-files-size", 0)) if newest else 0
        return 0  # a Parquet table without files

    def find_newest(self, table: Table, column: str) -> datetime | None:
        """Return the latest value (UTC) of a timestamp column, or None if all values are null."""
        dataset = self._open_dataset(table)
        if dataset is not None:
            values = dataset.to_table(columns={"time": ds.field(column)})["time"]
        else:
            newest = self._writer.rows(self._spark, table).agg(F.max(quote(column)).alias("time"))
            values = newest.toArrow()["time"]
        time: datetime | None = pc.max(values).as_py()
        return None if time is None else time.astimezone(timezone.utc)

    def count_items(self, table: Table, column: str, limit: int) -> list[tuple[str, int]]:
        """Return the most frequent items of an array column with their counts, highest first.

        Args:
            table: The table.
            column: The name of a column whose type is an array of strings.
            limit: The maximum number of items to return.
        """
        dataset = self._open_dataset(table)
        if dataset is not None:
            items = pc.list_flatten(dataset.to_table(columns={"items": ds.field(column)})["items"])
        else:
            rows = self._writer.rows(self._spark, table)
            items = rows.select(F.explode(quote(column)).alias("items")).toArrow()["items"]
        counted = [(pair["values"], pair["counts"]) for pair in pc.value_counts(items).to_pylist()]
        return sorted(counted, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def read_quarantine(self, table: Table, limit: int) -> list[dict[str, Any]]:
        """Return the newest rows of a quarantine table, newest first, as values by column.

        The columns are ``raw`` (the record), ``reasons``, ``quarantined_at`` and ``run``. ``raw``
        is null if the record is over 1 MiB.

        Args:
            table: The quarantine table.
            limit: The maximum number of rows to return.
        """
        columns = ["raw", "reasons", "quarantined_at", "run"]
        dataset = self._open_dataset(table)
        if dataset is None:
            rows = self._writer.rows(self._spark, table)
            rows = rows.orderBy(F.desc("quarantined_at")).limit(limit)
            spark_rows: list[dict[str, Any]] = (
                rows.selectExpr(SHORT_RECORD, *columns[1:]).toArrow().to_pylist()
            )
            return spark_rows
        raw = ds.field("raw")
        is_short = pc.less_equal(pc.binary_length(raw), LONGEST_RECORD)
        expressions = {name: ds.field(name) for name in columns}
        expressions["raw"] = pc.if_else(is_short, raw, pa.scalar(None, pa.string()))
        newest: pa.Table | None = None
        for batch in dataset.to_batches(columns=expressions):
            chunk = pa.Table.from_batches([batch])
            newest = chunk if newest is None else pa.concat_tables([newest, chunk])
            newest_first = [("quarantined_at", "descending")]
            newest = newest.take(pc.select_k_unstable(newest, limit, newest_first))
        arrow_rows: list[dict[str, Any]] = [] if newest is None else newest.to_pylist()
        return arrow_rows

    def _open_dataset(self, table: Table) -> ds.Dataset | None:
        """Return a table as an Arrow dataset, or None if it can only be read with Spark."""
        folder = to_local_folder(table.path) if table.path else None
        if folder is None:
            return None
        if self._format == "parquet":
            return open_parquet_dataset(folder)
        is_local_delta = self._format == "delta" and not table.identifier
        return deltalake_snapshot.open_dataset(folder) if is_local_delta else None
