"""Operations on the tables of a Fivetran destination: describe, create, alter and truncate.

After a transient error an operation is retried from the table's current state. Thus a retry detects
that the previous attempt was committed although its response was lost. The caller ensures that only
one call at a time changes a table.

Source: Fivetran's Partner SDK development guide, "DescribeTable" to "Truncate".
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from pyspark.sql import SparkSession

from tap_core.events import StreamId
from tap_core.protocols.fivetran.enums import DataType
from target_spark.config.options import LoadOptions
from target_spark.errors import TableError
from target_spark.fivetran.alter_plan import plan_changes
from target_spark.fivetran.alter_table import apply_plan
from target_spark.fivetran.existing_table import ExistingTable, TableLookup
from target_spark.fivetran.table_layout import build_layout
from target_spark.fivetran.table_metadata import TABLE_PROPERTY, dump_metadata
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from target_spark.fivetran.truncate import build_condition, delete_rows
from target_spark.storage.commit_retry import retry_transient
from target_spark.tables.identifiers import RESERVED
from target_spark.writers import get_writer

__all__ = ["TableService"]


class TableService:
    """Operations on the tables of a Fivetran destination, for one gRPC call."""

    def __init__(self, spark: SparkSession, options: LoadOptions) -> None:
        self.spark = spark
        self.options = options
        self.format = options.format

    def describe(self, stream: StreamId) -> ExistingTable | None:
        """Return the table of a stream with its columns, or None if it does not exist.

        Raises:
            TableError: There are files at the table's location, but no table of the format.
        """
        return self.lookup(stream).load()

    def lookup(self, stream: StreamId) -> TableLookup:
        """Return a `TableLookup`, so that a gRPC call can look up the table of a stream repeatedly.

        A lookup raises an error if the table has been replaced since the first lookup.
        """
        return TableLookup(self.spark, self.options, stream)

    def create(self, stream: StreamId, fivetran_schema: FivetranSchema) -> None:
        """Create the table of a stream without rows, and its database if it does not exist.

        Raises:
            TableError: The table exists, or the request has no columns.
            UnsupportedError: The configured layout is not possible for these columns.
        """
        _check_columns(stream, fivetran_schema)
        table_schema, layout = build_layout(self.options, stream, fivetran_schema)
        metadata = dump_metadata(fivetran_schema)
        layout = replace(layout, properties=((TABLE_PROPERTY, metadata),))
        failures: list[BaseException] = []

        def create_if_missing() -> None:
            existing = self.describe(stream)
            if existing is None:
                table = self.options.table(stream)
                get_writer(self.format).create(self.spark, table, table_schema, layout)
            # A failed attempt may have created the table nevertheless.
            elif not failures or dump_metadata(existing.fivetran_schema) != metadata:
                raise TableError(
                    f"Table {stream} exists already. Nothing was changed. Drop it in the"
                    " destination to create it again."
                )

        retry_transient(create_if_missing, f"Table {stream}", failures.append)

    def alter(self, stream: StreamId, requested: FivetranSchema, *, drops: bool) -> list[str]:
        """Change a table to the requested columns; return a log message for each change.

        Args:
            stream: The stream of the table.
            requested: The requested columns.
            drops: True to drop columns that are not requested, False to keep them as non-key
                columns.

        Raises:
            TableError: The table does not exist, a value would be lost, or the new key would not be
                unique. Nothing is changed.
        """
        _check_columns(stream, requested)
        lookup = self.lookup(stream)
        return retry_transient(
            lambda: self._alter(stream, lookup, requested, drops=drops), f"Table {stream}"
        )

    def truncate(
        self, stream: StreamId, synced: str, before: datetime | None, soft: str | None
    ) -> int:
        """Delete the rows synced before a time, or mark them as deleted; return their number.

        If the table does not exist, return 0.

        Args:
            stream: The stream of the table.
            synced: The name of the column with the time of the sync.
            before: The time, exclusive; None for all rows.
            soft: The name of the boolean column that marks deleted rows, which is added if missing;
                None to delete the rows.

        Raises:
            TableError: The column ``synced`` is missing, or one of the two columns has the wrong
                type.
        """
        lookup = self.lookup(stream)
        return retry_transient(
            lambda: self._truncate(stream, lookup, synced, before, soft), f"Table {stream}"
        )

    def _alter(
        self, stream: StreamId, lookup: TableLookup, requested: FivetranSchema, *, drops: bool
    ) -> list[str]:
        existing = lookup.load()
        if existing is None:
            raise TableError(
                f"Table {stream} does not exist, so it cannot be altered. Fivetran creates it in a"
                " re-sync of the table."
            )
        reserved = {*self.spark.table(existing.ref).columns, *RESERVED.get(self.format, ())}
        plan = plan_changes(
            existing.fivetran_schema,
            existing.types,
            requested,
            self.format,
            get_writer(self.format).can_widen,
            drops=drops,
            reserved=reserved,
        )
        changes = plan.describe()
        if changes:
            apply_plan(self.spark, self.options, stream, existing, plan)
        return changes

    def _truncate(
        self,
        stream: StreamId,
        lookup: TableLookup,
        synced: str,
        before: datetime | None,
        soft: str | None,
    ) -> int:
        existing = lookup.load()
        if existing is None:
            return 0
        condition = build_condition(existing, stream, synced, before)
        if soft is None:
            return delete_rows(self.spark, existing, condition, None)
        mark = existing.fivetran_schema.by_name.get(soft)
        if mark is None:
            columns = existing.fivetran_schema.columns
            with_mark = FivetranSchema((*columns, DestinationColumn(soft, DataType.BOOLEAN)))
            self._alter(stream, lookup, with_mark, drops=False)
            return self._truncate(stream, lookup, synced, before, soft)
        if mark.type is not DataType.BOOLEAN:
            raise TableError(
                f"Column {soft} of table {stream} is {mark.type.name}: rows cannot be marked as"
                " deleted in it. Nothing was changed. Re-sync the table."
            )
        return delete_rows(self.spark, existing, condition, mark)


def _check_columns(stream: StreamId, fivetran_schema: FivetranSchema) -> None:
    if not fivetran_schema.columns:
        raise TableError(
            f"The request for table {stream} has no columns. Select at least one column of it in"
            " Fivetran."
        )
