"""The tables of a destination: described, made, altered and truncated.

Rules of the room: a `Tables` is made for one call, with the session of its thread; who calls
sees to it that a table is changed by one call at a time. Each change is tried again where its
failure passes, from what the table then is: a try whose answer was lost is found done.
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
from target_spark.fivetran.existing_table import load_table
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
    """The tables of one call."""

    def __init__(self, spark: SparkSession, options: LoadOptions) -> None:
        check_format(options)
        self.spark = spark
        self.options = options
        self.format = options.format

    def described(self, schema: str, name: str) -> ExistingTable | None:
        """Return a table as it is now; None where there is none.

        Raises:
            TableError: there are files, but no table of the format.
        """
        return load_table(self.spark, self.options, StreamId(name, schema or None))

    def create(self, schema: str, name: str, shape: FivetranSchema) -> None:
        """Make an empty table, with its schema where that is not there.

        Raises:
            TableError: it exists, or has no columns.
            UnsupportedError: it cannot be laid out as the settings ask.
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
                    " destination if it shall be made anew."
                )

        self._patiently(stream, make, failures)

    def alter(self, schema: str, name: str, shape: FivetranSchema, *, drops: bool) -> list[str]:
        """Make a table as asked; return what that took, in words, and nothing for nothing.

        Columns that are not asked for stay, as columns that are no keys; with ``drops`` they
        are removed.

        Raises:
            TableError: there is no such table; or a value would be lost, or the new key would
                not tell the rows apart, and nothing is changed.
        """
        stream = StreamId(name, schema or None)
        _check_columns(stream, shape)
        return self._patiently(stream, lambda: self._altered(stream, shape, drops=drops))

    def truncate(
        self, schema: str, name: str, synced: str, before: datetime | None, soft: str | None
    ) -> int:
        """Remove the rows that were synced before an instant; return how many there were.

        ``synced`` names the column that says when; without an instant all rows go. With
        ``soft`` they stay, and the column of that name is set to true in them, which is added
        where the table does not have it. A table that is not there has no such rows.

        Raises:
            TableError: one of the columns is not what is needed.
        """
        stream = StreamId(name, schema or None)
        return self._patiently(stream, lambda: self._truncated(stream, synced, before, soft))

    def _altered(self, stream: StreamId, asked: FivetranSchema, *, drops: bool) -> list[str]:
        at = load_table(self.spark, self.options, stream)
        if at is None:
            raise TableError(
                f"Table {stream} does not exist, so that it cannot be altered. Fivetran"
                " creates it when the table is synced anew."
            )
        reserved = {*self.spark.table(at.ref).columns, *RESERVED.get(self.format, ())}
        widens = get_writer(self.format).can_widen
        plan = plan_changes(
            at.shape, at.types, asked, self.format, widens, drops=drops, reserved=reserved
        )
        done = plan.told()
        if done:
            apply_plan(self.spark, self.options, stream, at, plan)
        return done

    def _truncated(
        self, stream: StreamId, synced: str, before: datetime | None, soft: str | None
    ) -> int:
        at = load_table(self.spark, self.options, stream)
        if at is None:
            return 0
        condition = matching_rows(at, stream, synced, before)
        mark = None if soft is None else at.shape.by_name.get(soft)
        if soft is not None and mark is None:
            marked = (*at.shape.columns, DestinationColumn(soft, DataType.BOOLEAN))
            self._altered(stream, FivetranSchema(marked), drops=False)
            return self._truncated(stream, synced, before, soft)
        if mark is not None and mark.type is not DataType.BOOLEAN:
            raise TableError(
                f"Column {soft} of table {stream} is {mark.type.name}: rows cannot be"
                " marked as deleted in it. Nothing was changed. Sync the table anew."
            )
        return delete_rows(self.spark, at, condition, mark)

    def _patiently(
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
            f"Table {stream} is asked for without a column. Select at least one column"
            " of it in Fivetran."
        )
