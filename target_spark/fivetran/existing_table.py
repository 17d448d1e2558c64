"""An existing table: its columns in the format, and their Fivetran types.

This module only reads, and starts no Spark job. The table's columns take precedence over its stored
metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from tap_core.events import StreamId
from target_spark.config.options import LoadOptions
from target_spark.errors import TableError
from target_spark.fivetran.table_metadata import TABLE_PROPERTY, load_metadata, reconcile
from target_spark.fivetran.table_schema import FivetranSchema
from target_spark.tables.model import Table
from target_spark.writers import get_writer
from target_spark.writers.delta.log_reader import delta_ref
from target_spark.writers.iceberg.catalog import resolve_table

__all__ = ["ExistingTable", "load_table"]


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """An existing table.

    ``ref`` is its SQL name, ``shape`` its columns for Fivetran, in table order, and ``types`` the
    DDL of
    each column by its name in the table.
    """

    table: Table
    ref: str
    shape: FivetranSchema
    types: Mapping[str, str]

    def meeting(self, asked: FivetranSchema) -> FivetranSchema:
        """Return the requested columns with the names that they have in this table.

        Raises:
            TableError: the table does not have one of them.
        """
        known = self.shape.by_name
        lacking = [column.name for column in asked.columns if column.name not in known]
        if lacking:
            raise TableError(
                f"Table {self.table.name} has no column {', '.join(lacking)}. An AlterTable must"
                " add it before rows with it can be written."
            )
        columns = (replace(each, column=known[each.name].column) for each in asked.columns)
        return FivetranSchema(tuple(columns))


def load_table(spark: SparkSession, options: LoadOptions, stream: StreamId) -> ExistingTable | None:
    """Return the table of a schema and name, or None if there is no table.

    Raises:
        TableError: there are files or a catalog entry, but no table of the format; or its stored
            metadata cannot be read.
    """
    table = options.table(stream)
    types = get_writer(options.format).table_types(spark, table)
    if types is None:
        return None
    ref = resolve_table(spark, table).ref if options.format == "iceberg" else delta_ref(table)
    properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {ref}").collect()}
    try:
        said = load_metadata(properties.get(TABLE_PROPERTY))
    except ValueError as error:
        raise TableError(
            f"The stored metadata of table {table.name} is damaged: {error}. Remove the property"
            " (ALTER TABLE … UNSET TBLPROPERTIES), and Fivetran describes the table again."
        ) from error
    return ExistingTable(table, ref, reconcile(types, said, options.format), types)
