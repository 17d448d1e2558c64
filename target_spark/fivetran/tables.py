"""Operations on the tables of a destination: describe, create, alter and truncate.

A `TableService` is created for one call, with the session of its thread; the caller ensures that
only one call at a time changes a table. A change is retried after transient errors, from the
table's current state, so that an attempt whose response was lost is detected.
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
from target_spark.storage.retry import retry_transient
from target_spark.tables.identifiers import RESERVED
from target_spark.writers import get_writer

__all__ = ["ExistingTable", "TableService"]

_T = TypeVar("_T")


class TableService:
    """Operations on a destination's tables for one gRPC call."""

    def __init__(self, spark: SparkSession, options: LoadOptions) -> None:
        check_format(options)
        self.spark = spark
        self.options = options
        self.format = options.format

    def described(self, schema: str, name: str) -> ExistingTable | None:
        """Return an existing table, or None if there is no table.

        Raises:
            TableError: there are files, but no table of the format.
        """
        return self.lookup(StreamId(name, schema or None)).load()

    def lookup(self, stream: StreamId) -> TableLookup:
        """Return a lookup of a table, which keeps the table's identity during one operation."""
        return TableLookup(self.spark, self.options, stream)

    def create(self, schema: str, name: str, shape: FivetranSchema) -> None:
        """Create an empty table, and its schema if necessary.

        Raises:
            TableError: the table exists, or the request has no columns.
            UnsupportedError: the table cannot have the configured layout.
        """
        stream = StreamId(name, schema or None)
        _check_columns(stream, shape)
        layout, design = build_layout(self.options, stream, shape)
        design = replace(design, properties=((TABLE_PROPERTY, dump_metadata(shape)),))
        failures: list[BaseException] = []

        def make() -> None:
            there = self.described(schema, name)
            if there is None:
                table = self.options.table(stream)
                get_writer(self.format).create(self.spark, table, layout, design)
            elif not failures or dump_metadata(there.shape) != dump_metadata(shape):
                raise TableError(
                    f"Table {stream} exists already. Nothing was changed. Drop it in the"
                    " destination to create it again."
                )

        self._run_with_retries(stream, make, failures)

    def alter(self, schema: str, name: str, shape: FivetranSchema, *, drops: bool) -> list[str]:
        """Change a table as requested; return descriptions of the changes, if any.

        Columns that are not requested are kept as columns that are not keys; with ``drops`` they
        are dropped.

        Raises:
            TableError: there is no such table; or a value would be lost, or the new key would not
            be
                unique, and nothing is changed.
        """
        stream = StreamId(name, schema or None)
        _check_columns(stream, shape)
        lookup = self.lookup(stream)
        return self._run_with_retries(
            stream, lambda: self._altered(stream, lookup, shape, drops=drops)
        )

    def truncate(
        self, schema: str, name: str, synced: str, before: datetime | None, soft: str | None
    ) -> int:
        """Remove the rows synced before a time; return their number.

        ``synced`` names the column with the sync time; without ``before``, all rows are removed.
        With ``soft``, the rows are kept and the column of that name is set to true; it is added if
        the table does not have it. A table that does not exist has no rows.

        Raises:
            TableError: one of the columns has the wrong type or is missing.
        """
        stream = StreamId(name, schema or None)
        lookup = self.lookup(stream)
        return self._run_with_retries(
            stream, lambda: self._truncated(stream, lookup, synced, before, soft)
        )

    def _altered(
        self, stream: StreamId, lookup: TableLookup, asked: FivetranSchema, *, drops: bool
    ) -> list[str]:
        at = lookup.load()
        if at is None:
            raise TableError(
                f"Table {stream} does not exist, so it cannot be altered. Fivetran creates it in a"
                " re-sync of the table."
            )
        reserved = {*self.spark.table(at.ref).columns, *RESERVED.get(self.format, ())}
        widens = get_writer(self.format).can_widen
        plan = plan_changes(
            at.shape, at.types, asked, self.format, widens, drops=drops, reserved=reserved
        )
        done = plan.describe()
        if done:
            apply_plan(self.spark, self.options, stream, at, plan)
        return done

    def _truncated(
        self,
        stream: StreamId,
        lookup: TableLookup,
        synced: str,
        before: datetime | None,
        soft: str | None,
    ) -> int:
        at = lookup.load()
        if at is None:
            return 0
        condition = matching_rows(at, stream, synced, before)
        mark = None if soft is None else at.shape.by_name.get(soft)
        if soft is not None and mark is None:
            marked = (*at.shape.columns, DestinationColumn(soft, DataType.BOOLEAN))
            self._altered(stream, lookup, FivetranSchema(marked), drops=False)
            return self._truncated(stream, lookup, synced, before, soft)
        if mark is not None and mark.type is not DataType.BOOLEAN:
            raise TableError(
                f"Column {soft} of table {stream} is {mark.type.name}: rows cannot be"
                " marked as deleted in it. Nothing was changed. Re-sync the table."
            )
        return delete_rows(self.spark, at, condition, mark)

    def _run_with_retries(
        self,
        stream: StreamId,
        step: Callable[[], _T],
        failures: list[BaseException] | None = None,
    ) -> _T:
        before_again = [] if failures is None else failures
        return retry_transient(step, f"Table {stream}", before_again.append)


def _check_columns(stream: StreamId, shape: FivetranSchema) -> None:
    if not shape.columns:
        raise TableError(
            f"The request for table {stream} has no columns. Select at least one column of it in"
            " Fivetran."
        )
