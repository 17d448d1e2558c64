"""Lookup of an existing table of a Fivetran destination: its id, its columns and their types.

If the table's columns differ from its stored Fivetran metadata, the columns take precedence. Within
a call, lookups and commits (`ensure_not_replaced`) check the table's id, to detect that the table
has been dropped or replaced by another table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from tap_core.events import StreamId
from target_spark.config.options import LoadOptions
from target_spark.errors import TableError
from target_spark.fivetran.table_metadata import TABLE_PROPERTY, load_metadata, reconcile
from target_spark.fivetran.table_schema import FivetranSchema
from target_spark.tables.table import Table
from target_spark.writers import get_writer
from target_spark.writers.commit_checks import check_same_table
from target_spark.writers.delta.catalog import get_table_id
from target_spark.writers.delta.log_reader import delta_ref
from target_spark.writers.iceberg.catalog import resolve_table
from target_spark.writers.iceberg.snapshot_reader import get_table_uuid
from target_spark.writers.table_properties import get_table_properties

__all__ = ["ExistingTable", "TableLookup", "ensure_not_replaced"]


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """Existing table of a Fivetran destination, with the columns that a lookup has found.

    Attributes:
        table: The location and name of the table.
        format: The table format.
        id: The unique id that the table format gave the table.
        ref: The quoted name of the table for SQL statements.
        fivetran_schema: The columns with their Fivetran types, in table order.
        types: The DDL type of each column, by its name in the table.
        partition_columns: The partition columns in which the table stores certain texts, the
            `PARTITION_NULLS`, as null.
    """

    table: Table
    format: str
    id: str
    ref: str
    fivetran_schema: FivetranSchema
    types: Mapping[str, str]
    partition_columns: Collection[str] = ()

    def match_columns(self, requested: FivetranSchema) -> FivetranSchema:
        """Return the columns of a Fivetran request, each with its column name in this table.

        Raises:
            TableError: A requested column is not in the table.
        """
        by_name = self.fivetran_schema.by_name
        lacking = [column.name for column in requested.columns if column.name not in by_name]
        if lacking:
            raise TableError(
                f"Table {self.table.name} has no column {', '.join(lacking)}. An AlterTable must"
                " add it before rows with it can be written."
            )
        columns = (replace(c, column=by_name[c.name].column) for c in requested.columns)
        return FivetranSchema(tuple(columns))


class TableLookup:
    """Lookup of one table, which a gRPC call repeats before each attempt to change the table.

    The first lookup stores the id of the table. If another table has replaced the table since then,
    a later lookup raises an error.
    """

    def __init__(self, spark: SparkSession, options: LoadOptions, stream: StreamId) -> None:
        self._spark = spark
        self._format = options.format
        self._table = options.table(stream)
        self._id: str | None = None

    def load(self) -> ExistingTable | None:
        """Return the table with its current columns, or None if it does not exist.

        Raises:
            TableError: The location or the catalog entry has no table of the format, the stored
                metadata cannot be parsed, or the table has been replaced since an earlier lookup.
        """
        spark, table, writer = self._spark, self._table, get_writer(self._format)
        self._id = _check_id(spark, table, self._format, self._id)
        types = writer.get_column_types(spark, table)
        if types is None:
            return None
        if self._id is None:  # get_column_types has registered the table in the catalog
            self._id = _check_id(spark, table, self._format, None)
        ref = resolve_table(spark, table).ref if self._format == "iceberg" else delta_ref(table)
        properties = get_table_properties(spark, ref)
        try:
            metadata = load_metadata(properties.get(TABLE_PROPERTY))
        except ValueError as error:
            raise TableError(
                f"The stored metadata of table {table.name} is damaged: {error}. Remove the"
                " property (ALTER TABLE … UNSET TBLPROPERTIES), and Fivetran describes the table"
                " again."
            ) from error
        schema = reconcile(types, metadata, self._format)
        partition_columns = writer.get_partition_columns(spark, table)
        return ExistingTable(
            table, self._format, self._id or "", ref, schema, types, partition_columns
        )


@contextmanager
def ensure_not_replaced(spark: SparkSession, existing: ExistingTable) -> Iterator[None]:
    """Context manager that checks before and after a commit that the table is still the same.

    Raises:
        TableError: The table was removed or replaced after it was looked up.
    """
    _check_id(spark, existing.table, existing.format, existing.id)
    try:
        yield
    finally:
        _check_id(spark, existing.table, existing.format, existing.id)


def _check_id(
    spark: SparkSession, table: Table, table_format: str, known: str | None
) -> str | None:
    """Return the id of a table, or None if the table does not exist.

    ``known`` is the id that an earlier lookup returned; None to accept any id.

    Raises:
        TableError: The current id differs from ``known``.
    """
    current = (
        get_table_uuid(spark, table) if table_format == "iceberg" else get_table_id(spark, table)
    )
    try:
        return check_same_table(table, known, current)
    except TableError as error:
        raise TableError(f"{error} In Fivetran, re-sync the table.") from None
