"""Delta tables by path or catalog name: find, create and drop them.

A table has a path, a name in a catalog, or both. If it has a path and a name, its files are at the
path and the catalog refers to them; a Delta table that already exists at the path is registered in
the catalog. If the catalog has another location for the name, the catalog's location is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from target_spark.columns import TableSchema
from target_spark.errors import TableError, UnsupportedError
from target_spark.storage.hadoop_fs import remove_folder
from target_spark.storage.uris import to_local_folder, to_spark_uri
from target_spark.tables.identifiers import quote, sql_literal
from target_spark.tables.table import Table, TableLayout
from target_spark.writers.delta.deltalake_commit import create_table
from target_spark.writers.delta.deltalake_snapshot import DeltaSnapshot, read_snapshot
from target_spark.writers.delta.layout import (
    build_generated_columns,
    build_layout_ddl,
    build_partition_specs,
    drop_generated_columns,
)
from target_spark.writers.delta.log_reader import NO_TABLE, delta_ref, has_log
from target_spark.writers.spark_types import build_field, column_ddl
from target_spark.writers.sql_statements import (
    build_column_list,
    check_folder_is_empty,
    format_properties,
)
from target_spark.writers.table_properties import build_properties, get_table_properties

__all__ = [
    "create_catalog_table",
    "describe_layout_mismatch",
    "drop_table",
    "get_layout",
    "get_partition_columns",
    "get_properties",
    "get_schema",
    "get_table_id",
    "get_types",
    "has_files",
    "read_table_snapshot",
]

_NEW_TABLE_PROPERTIES: Final = {"delta.setTransactionRetentionDuration": "interval 14 days"}
"""Table properties of every new table: Delta removes a run's transaction id from the log after 14
days."""

_UNKNOWN_CATALOG = {"REQUIRES_SINGLE_PART_NAMESPACE", "CATALOG_NOT_FOUND"}
"""Names of the Spark errors for a catalog that Spark has no configuration for."""


def get_types(spark: SparkSession, table: Table) -> Mapping[str, str] | None:
    """Return the type (DDL) of each column of a Delta table, in table order.

    If the table exists at its path but not in its catalog, it is registered in the catalog. Return
    None if there is no table.

    Raises:
        TableError: The location has files or the catalog has an entry, but there is no Delta table.
        UnsupportedError: Spark has no configuration for the catalog.
    """
    by_path = Table(table.path, table.name)
    if not table.identifier:
        return _read_types(spark, by_path) if _may_be_delta_table(by_path) else None
    types = _read_types(spark, table)
    if types is not None:
        _check_format(spark, table)
        return types
    if not table.path or not _may_be_delta_table(by_path) or _read_types(spark, by_path) is None:
        return None
    _run_create(spark, table, f"{delta_ref(table)} USING delta{_build_location_clause(table)}")
    return _read_types(spark, table)


def create_catalog_table(
    spark: SparkSession,
    table: Table,
    table_schema: TableSchema,
    layout: TableLayout,
    *,
    through_spark: bool,
) -> None:
    """Create an empty Delta table, and its database if the catalog does not have it.

    Args:
        spark: The Spark session of the calling thread.
        table: The table to create.
        table_schema: The columns.
        layout: Partitioning, clustering and properties.
        through_spark: True to always use Spark. False to use the library deltalake if possible,
            because it is faster. The library creates only local tables without partitions,
            clustering and configured properties.
    """
    clauses, properties = build_layout_ddl(table_schema, layout)
    properties |= _NEW_TABLE_PROPERTIES | build_properties(table_schema)
    folder = table.local_folder
    is_plain = not clauses and not layout.properties
    if is_plain and folder is not None and not through_spark:
        schema = T.StructType(
            [
                build_field(column.name, column.type, column.comment)
                for column in table_schema.columns
            ]
        )
        if create_table(folder, schema.json(), properties):
            return
    listed = format_properties(properties | dict(layout.properties))
    generated = build_generated_columns(build_partition_specs(table_schema, layout))
    columns = f"{build_column_list(table_schema)}{generated}"
    location = _build_location_clause(table) if table.identifier else ""
    _run_create(
        spark,
        table,
        f"{delta_ref(table)} ({columns}) USING delta{clauses}{location} TBLPROPERTIES ({listed})",
    )


def get_schema(spark: SparkSession, table: Table) -> T.StructType:
    """Return the current Spark schema of a Delta table.

    Raises:
        AnalysisException: There is no table.
    """
    snapshot = read_table_snapshot(table)
    if snapshot is None:
        return spark.table(delta_ref(table)).schema
    return T.StructType(list(snapshot.fields))


def get_properties(spark: SparkSession, table: Table) -> Mapping[str, str]:
    """Return the current properties (TBLPROPERTIES) of a Delta table."""
    snapshot = read_table_snapshot(table)
    if snapshot is None:
        return get_table_properties(spark, delta_ref(table))
    return snapshot.properties


def get_table_id(spark: SparkSession, table: Table) -> str | None:
    """Return the id that Delta gave a table, or None if there is no Delta table.

    None is also the result for a view and for an unknown catalog.
    """
    folder = table.local_folder
    if folder is not None and not has_log(folder):
        return None
    snapshot = read_table_snapshot(table)
    if snapshot is not None:
        return snapshot.id
    try:
        return str(_describe_detail(spark, table)["id"])
    except AnalysisException as error:
        condition = error.getCondition() or ""
        if condition not in NO_TABLE | _UNKNOWN_CATALOG and "VIEW" not in condition:
            raise
        return None


def has_files(spark: SparkSession, table: Table) -> bool:
    """Return True if the newest version of a Delta table has data files."""
    snapshot = read_table_snapshot(table)
    return (
        bool(_describe_detail(spark, table)["numFiles"])
        if snapshot is None
        else snapshot.has_files()
    )


def read_table_snapshot(table: Table) -> DeltaSnapshot | None:
    """Return the newest version of a Delta table in a local folder, read without Spark.

    Return None if the table is in a catalog or remote, or if the library deltalake cannot read it.
    """
    folder = table.local_folder
    return None if folder is None else read_snapshot(folder)


def drop_table(spark: SparkSession, table: Table) -> None:
    """Delete the files of a Delta table, and drop the table from its catalog if it has one."""
    if not table.identifier:
        remove_folder(spark, table.path)
    elif _read_types(spark, table) is not None:
        folder = _describe_detail(spark, table)["location"]
        spark.sql(f"DROP TABLE IF EXISTS {delta_ref(table)}")
        remove_folder(spark, folder)


def describe_layout_mismatch(
    spark: SparkSession, table: Table, table_schema: TableSchema, layout: TableLayout
) -> str | None:
    """Describe a Delta table's partitioning and clustering if they differ from the settings.

    Returns:
        A phrase such as "partitioned by day", or None if there is no difference.
    """
    if not layout.partition_by and not layout.cluster_by:
        return None
    parts, clusters = get_layout(spark, table)
    expected = tuple(part.name for part in build_partition_specs(table_schema, layout))
    if (parts, clusters) == (expected, table_schema.names_fed_by(layout.cluster_by)):
        return None
    if not parts and not clusters:
        return "neither partitioned nor clustered"
    return "; ".join(
        f"{kind} by {', '.join(names)}"
        for kind, names in (("partitioned", parts), ("clustered", clusters))
        if names
    )


def get_layout(spark: SparkSession, table: Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a Delta table's partition columns and of its clustering columns."""
    detail = _describe_detail(spark, table)
    clusters = detail["clusteringColumns"] or ()  # with backticks around unusual names
    return (
        tuple(detail["partitionColumns"]),
        tuple(name.strip("`").replace("``", "`") for name in clusters),
    )


def get_partition_columns(spark: SparkSession, table: Table) -> tuple[str, ...]:
    """Return the names of a Delta table's partition columns, without Spark if it is local."""
    snapshot = read_table_snapshot(table)
    if snapshot is not None:
        return snapshot.partition_columns
    return get_layout(spark, table)[0]


def _may_be_delta_table(table: Table) -> bool:
    """Return False if a table's path is a local folder without a Delta table, else True.

    Remote paths are not checked: the result is True.

    Raises:
        TableError: The local folder has other files.
    """
    folder = to_local_folder(table.path)
    if folder is None or has_log(folder):
        return True
    if not (folder / "_delta_log").is_dir():  # else a run died before its first commit
        check_folder_is_empty(folder, "Delta")
    return False


def _read_types(spark: SparkSession, table: Table) -> Mapping[str, str] | None:
    """Return the type (DDL) of each column; None if there is no table.

    Generated partition columns are left out, because loads do not write them.

    Raises:
        UnsupportedError: Spark has no configuration for the catalog.
    """
    try:
        schema = get_schema(spark, table)
    except AnalysisException as error:
        if table.identifier and error.getCondition() in _UNKNOWN_CATALOG:
            catalog = table.identifier[0]
            raise UnsupportedError(
                f"Spark does not know the catalog {catalog!r} of table {table.name}. Put"
                f" spark.sql.catalog.{catalog} and its options into the setting spark."
            ) from error
        if error.getCondition() not in NO_TABLE:
            raise
        return None
    return drop_generated_columns({field.name: column_ddl(field) for field in schema.fields})


def _check_format(spark: SparkSession, table: Table) -> None:
    """Check that a table of a catalog is a Delta table.

    Raises:
        TableError: The table has another format, or is a view.
    """
    try:
        format_name = _describe_detail(spark, table)["format"]
    except AnalysisException as error:
        if "VIEW" not in (error.getCondition() or ""):
            raise
        format_name = "a view"
    if format_name != "delta":
        raise TableError(
            f"{table.key} is not a Delta table but {format_name}. Set table, table_prefix or"
            " database to another name, or move it away."
        )


def _describe_detail(spark: SparkSession, table: Table) -> Mapping[str, Any]:
    (row,) = spark.sql(f"DESCRIBE DETAIL {delta_ref(table)}").collect()
    return row.asDict()


def _build_location_clause(table: Table) -> str:
    return f" LOCATION {sql_literal(to_spark_uri(table.path))}" if table.path else ""


def _run_create(spark: SparkSession, table: Table, definition: str) -> None:
    """Run CREATE TABLE with the text ``definition``, and create the table's database if needed."""
    statement = f"CREATE TABLE IF NOT EXISTS {definition}"
    try:
        spark.sql(statement)
    except AnalysisException as error:
        if not table.identifier or error.getCondition() != "SCHEMA_NOT_FOUND":
            raise
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote(*table.identifier[:-1])}")
        spark.sql(statement)
