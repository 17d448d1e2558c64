"""Replacement of all rows and columns of an Iceberg table, unless the table has changed meanwhile.

Spark's REPLACE TABLE … AS SELECT would lose rows that another writer commits while the statement
runs. Here Spark writes the files into a staged table, as that statement does. Then the metadata of
the staged table is committed on top of the table version that was read. If another commit has
followed that version, Iceberg reports a conflict, and the table is unchanged. The JVM of a local
Spark session is required.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from target_spark.errors import ConflictError
from target_spark.tables.table import Table
from target_spark.writers.iceberg.catalog import find_in_catalog, resolve_table

__all__ = ["TableReplacement"]


class TableReplacement:
    """Operation that replaces all rows and columns of an Iceberg table in one commit.

    The replacement fails if the table has changed since the instance was created.
    """

    def __init__(self, spark: SparkSession, table: Table) -> None:
        """Load the table's current version, so that `commit` can detect changes made since.

        Create the instance before reading the rows from which the new rows are computed. Otherwise
        a commit of another writer between the two steps is not detected, and its rows are lost.
        """
        self._spark: Any = spark
        self._name = table.name
        self._catalog, self._identifier = find_in_catalog(spark, resolve_table(spark, table))
        self._table = self._catalog.loadTable(self._identifier)
        self._operations = self._table.table().operations()
        self._base = self._operations.current()

    def commit(self, rows: DataFrame, properties: Mapping[str, str]) -> None:
        """Replace all rows and columns of the table with those of a DataFrame.

        Partitioning and other properties are kept; the sort order is lost. If another writer
        changes the table at the same moment, Iceberg may raise CommitFailedException instead of
        ConflictError.

        Args:
            rows: The new rows.
            properties: Table properties to set.

        Raises:
            ConflictError: The table has changed since this instance was created; nothing is
                written.
        """
        frame: Any = rows
        jvm, session = self._spark._jvm, self._spark._jsparkSession  # noqa: SLF001
        java_properties = jvm.java.util.HashMap()
        for name, value in properties.items():
            java_properties.put(name, value)
        staged = self._catalog.stageReplace(
            self._identifier,
            frame._jdf.schema().asNullable(),  # noqa: SLF001
            self._table.partitioning(),
            java_properties,
        )
        relation = jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation.create(
            staged, jvm.scala.Option.apply(self._catalog), jvm.scala.Option.apply(self._identifier)
        )
        append = jvm.org.apache.spark.sql.catalyst.plans.logical.AppendData
        no_options = getattr(append, "byName$default$3")()
        plan = append.byName(relation, frame._jdf.logicalPlan(), no_options)  # noqa: SLF001
        mode = getattr(session.sessionState(), "executePlan$default$2")()
        session.sessionState().executePlan(plan, mode).assertCommandExecuted()
        newest = self._catalog.loadTable(self._identifier).table().operations().current()
        if newest.metadataFileLocation() != self._base.metadataFileLocation() or (
            newest.uuid() != self._base.uuid()  # a Hadoop catalog uses the same names again
        ):
            raise ConflictError(f"Table {self._name} was changed while its rows were rewritten.")
        self._operations.commit(self._base, staged.table().operations().current())
