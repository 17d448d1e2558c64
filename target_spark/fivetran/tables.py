"""Operations on the tables of a Fivetran destination: describe, create, alter and truncate.

After a transient error an operation is retried from the table's current state. Thus a retry detects
that the previous attempt was committed although its response was lost. The caller ensures that only
one call at a time changes a table.

Source: Fivetran's Partner SDK development guide, "DescribeTable" to "Truncate".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from pyspark.sql import SparkSession

from tap_core.events import StreamId
from tap_core.protocols.fivetran.enums import DataType
from target_spark.config.options import LoadOptions
from target_spark.errors import TableError
from target_spark.fivetran.alter_plan import plan_changes
from target_spark.fivetran.alter_table import apply_plan
from target_spark.fivetran.configuration_form import check_format
from target_spark.fivetran.existing_table import ExistingTable as ExistingTable
from target_spark.fivetran.existing_table import TableLookup
from target_spark.fivetran.table_layout import build_layout
from target_spark.fivetran.table_metadata import TABLE_PROPERTY, dump_metadata
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from target_spark.fivetran.truncate import delete_rows, matching_rows
from target_spark.storage.commit_retry import retry_transient
from target_spark.tables.identifiers import RESERVED
from target_spark.writers import get_writer

__all__ = ["ExistingTable", "TableService"]

_T = TypeVar("_T")


class TableService:
    """Operations on the tables of a Fivetran destination, for one gRPC call.

    The constructor raises `UnsupportedError` if the table format is neither Delta nor Iceberg.
    """

    def __init__(self, spark: SparkSession, options: LoadOptions) -> None:
        check_format(options)
        self.spark = spark
        self.options = options
        self.format = options.format

    def described(self, schema: str, name: str) -> ExistingTable | None:
        """Look up a table and return it with its columns, or None if it does not exist.

        Raises:
            TableError: There are files at the table's location, but no table of the format.
        """
        return self.lookup(StreamId(name, schema or None)).load()

    def lookup(self, stream: StreamId) -> TableLookup:
        """Return a `TableLookup`, with which the call can look up a table several times.

        A lookup raises an error if the table has been replaced since the first lookup.
        """
        return TableLookup(self.spark, self.options, stream)

    def create(self, schema: str, name: str, fivetran_schema: FivetranSchema) -> None:
        """Create an empty table, and its database if it does not exist.

        Raises:
            TableError: The table exists, or the request has no columns.
            UnsupportedError: The configured layout is not possible for these columns.
        """
        stream = StreamId(name, schema or None)
        _check_columns(stream, fivetran_schema)
        table_schema, layout = build_layout(self.options, stream, fivetran_schema)
        layout = replace(layout, properties=((TABLE_PROPERTY, dump_metadata(fivetran_schema)),))
        failures: list[BaseException] = []

        def make() -> None:
            existing = self.described(schema, name)
            if existing is None:
                table = self.options.table(stream)
                get_writer(self.format).create(self.spark, table, table_schema, layout)
            elif not failures or dump_metadata(existing.fivetran_schema) != dump_metadata(
                fivetran_schema
            ):
                raise TableError(
                    f"Table {stream} exists already. Nothing was changed. Drop it in the"
                    " destination to create it again."
                )

        self._run_with_retries(stream, make, failures)

    def alter(
        self, schema: str, name: str, fivetran_schema: FivetranSchema, *, drops: bool
    ) -> list[str]:
        """Change a table to the requested columns; return a log message for each change.

        Args:
            schema: The schema of the table; may be empty.
            name: The name of the table.
            fivetran_schema: The requested columns.
            drops: True to drop columns that are not requested, False to keep them as non-key
                columns.

        Raises:
            TableError: The table does not exist, a value would be lost, or the new key would not be
                unique. Nothing is changed.
        """
        stream = StreamId(name, schema or None)
        _check_columns(stream, fivetran_schema)
        lookup = self.lookup(stream)
        return self._run_with_retries(
            stream, lambda: self._altered(stream, lookup, fivetran_schema, drops=drops)
        )

    def truncate(
        self, schema: str, name: str, synced: str, before: datetime | None, soft: str | None
    ) -> int:
        """Delete the rows synced before a time, or mark them as deleted; return their number.

        If the table does not exist, return 0.

        Args:
            schema: The schema of the table; may be empty.
            name: The name of the table.
            synced: The name of the column with the time of the sync.
            before: The time, exclusive; None for all rows.
            soft: The name of the boolean column that marks deleted rows, which is added if missing;
                None to delete the rows.

        Raises:
            TableError: The column ``synced`` is missing, or one of the two columns has the wrong
                type.
        """
        stream = StreamId(name, schema or None)
        lookup = self.lookup(stream)
        return self._run_with_retries(
            stream, lambda: self._truncated(stream, lookup, synced, before, soft)
        )

    def _altered(
        self, stream: StreamId, lookup: TableLookup, requested: FivetranSchema, *, drops: bool
    ) -> list[str]:
        existing = lookup.load()
        if existing is None:
            raise TableError(
                f"Table {stream} does not exist, so it cannot be altered. Fivetran creates it in a"
                " re-sync of the table."
            )
        reserved = {*self.spark.table(existing.ref).columns, *RESERVED.get(self.format, ())}
        widens = get_writer(self.format).can_widen
        plan = plan_changes(
            existing.fivetran_schema,
            existing.types,
            requested,
            self.format,
            widens,
            drops=drops,
            reserved=reserved,
        )
        changes = plan.describe()
        if changes:
            apply_plan(self.spark, self.options, stream, existing, plan)
        return changes

    def _truncated(
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
        condition = matching_rows(existing, stream, synced, before)
        mark_column = None if soft is None else existing.fivetran_schema.by_name.get(soft)
        if soft is not None and mark_column is None:
            with_mark = (
                *existing.fivetran_schema.columns,
                DestinationColumn(soft, DataType.BOOLEAN),
            )
            self._altered(stream, lookup, FivetranSchema(with_mark), drops=False)
            return self._truncated(stream, lookup, synced, before, soft)
        if mark_column is not None and mark_column.type is not DataType.BOOLEAN:
            raise TableError(
                f"Column {soft} of table {stream} is {mark_column.type.name}: rows cannot be"
                " marked as deleted in it. Nothing was changed. Re-sync the table."
            )
        return delete_rows(self.spark, existing, condition, mark_column)

    def _run_with_retries(
        self,
        stream: StreamId,
        step: Callable[[], _T],
        failures: list[BaseException] | None = None,
    ) -> _T:
        before_again = [] if failures is None else failures
        return retry_transient(step, f"Table {stream}", before_again.append)


def _check_columns(stream: StreamId, fivetran_schema: FivetranSchema) -> None:
    if not fivetran_schema.columns:
        raise TableError(
            f"The request for table {stream} has no columns. Select at least one column of it in"
            " Fivetran."
        )
