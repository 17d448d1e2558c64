"""A table that is there: its columns as the format has them, and as Fivetran knows them.

Rules of the room: reading only, and of Spark only what costs no job. What the table's own
columns say wins over what is remembered of them.
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
    """A table as it is now.

    ``ref`` is what SQL calls it, ``shape`` what it is to Fivetran, in the table's order, and
    ``types`` has the DDL of each column by the name that it has in the table.
    """

    table: Table
    ref: str
    shape: FivetranSchema
    types: Mapping[str, str]

    def meeting(self, asked: FivetranSchema) -> FivetranSchema:
        """Return the columns of a request under the names that they have in this table.

        Raises:
            TableError: the table does not have one of them.
        """
        known = self.shape.by_name
        lacking = [column.name for column in asked.columns if column.name not in known]
        if lacking:
            raise TableError(
                f"Table {self.table.name} has no column {', '.join(lacking)}. An AlterTable must"
                " add it before rows with it can come."
            )
        columns = (replace(each, column=known[each.name].column) for each in asked.columns)
        return FivetranSchema(tuple(columns))


def load_table(spark: SparkSession, options: LoadOptions, stream: StreamId) -> ExistingTable | None:
    """Return the table of a schema and a name; None where there is none.

    Raises:
        TableError: there are files or a name, but no table of the format; or what is
            remembered of it cannot be read.
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
            f"What is remembered of table {table.name} is damaged: {error}. Remove the property"
            " (ALTER TABLE … UNSET TBLPROPERTIES), and Fivetran describes the table anew."
        ) from error
    return ExistingTable(table, ref, reconcile(types, said, options.format), types)
