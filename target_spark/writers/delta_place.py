"""Delta tables as a catalog knows them: found, made with their database, and dropped.

Rules of the room: a table has a name in a catalog. Where an address is given as well, its
files lie there and the catalog refers to them; a Delta table that lies there already is
made known to a catalog that does not have it. What a catalog says of a table's files wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from target_spark.columns import Layout
from target_spark.errors import TableError, UnsupportedError
from target_spark.folders import remove_folder
from target_spark.names import literal, quote
from target_spark.places import local_folder, spark_address
from target_spark.tables import Design, Table
from target_spark.writers.base import column_ddl
from target_spark.writers.delta_design import (
    arrangement,
    clusters_of,
    columns_for,
    own_columns,
    parts_of,
)
from target_spark.writers.delta_log import NO_TABLE, delta_ref
from target_spark.writers.delta_transaction import Snapshot, create_table, read_snapshot
from target_spark.writers.notes import properties_in, properties_of
from target_spark.writers.statements import columns_of, listed_properties, refuse_other_files

__all__ = [
    "arranged_by",
    "arranged_otherwise",
    "drop",
    "has_files",
    "id_of",
    "make",
    "properties_of_table",
    "schema_of",
    "types_of",
]

_PROPERTIES: Final = {"delta.setTransactionRetentionDuration": "interval 14 days"}
"""Of every new table: else an entry for each run would stay in it for ever."""

_NO_CATALOG = {"REQUIRES_SINGLE_PART_NAMESPACE", "CATALOG_NOT_FOUND"}


def types_of(spark: SparkSession, table: Table) -> Mapping[str, str] | None:
    """Return each column's type as DDL, in order; None where there is no table.

    Raises:
        TableError: there are files or a name, but no Delta table.
        UnsupportedError: Spark does not know the catalog.
    """
    by_path = Table(table.path, table.name)
    if not table.identifier:
        return _types(spark, by_path) if _may_be_there(by_path) else None
    found = _types(spark, table)
    if found is not None:
        _check_format(spark, table)
        return found
    if not table.path or not _may_be_there(by_path) or _types(spark, by_path) is None:
        return None
    _create(spark, table, f"{delta_ref(table)} USING delta{_location(table)}")
    return _types(spark, table)


def make(
    spark: SparkSession, table: Table, layout: Layout, design: Design, *, through_spark: bool
) -> None:
    """Make an empty table, and its database in a catalog that does not have it.

    A plain table in a local folder is made without Spark, unless ``through_spark`` is set.
    """
    words, properties = arrangement(layout, design)
    properties |= _PROPERTIES | properties_of(layout)
    folder = None if table.identifier else local_folder(table.path)
    is_plain = not words and not design.properties
    if is_plain and folder is not None and not through_spark:
        schema = T.StructType.fromDDL(columns_of(layout))
        create_table(folder, schema.json(), properties)
        return
    properties |= dict(design.properties)
    listed = listed_properties(properties)
    columns = f"{columns_of(layout)}{columns_for(parts_of(layout, design))}"
    location = _location(table) if table.identifier else ""
    _create(
        spark,
        table,
        f"{delta_ref(table)} ({columns}) USING delta{words}{location} TBLPROPERTIES ({listed})",
    )


def schema_of(spark: SparkSession, table: Table) -> T.StructType:
    """Return the columns that a table has now.

    Raises:
        AnalysisException: there is none.
    """
    snapshot = _snapshot_of(table)
    if snapshot is None:
        return spark.table(delta_ref(table)).schema
    return T.StructType(list(snapshot.fields))


def properties_of_table(spark: SparkSession, table: Table) -> Mapping[str, str]:
    """Return the properties that a table has now."""
    snapshot = _snapshot_of(table)
    return properties_in(spark, delta_ref(table)) if snapshot is None else snapshot.properties


def id_of(spark: SparkSession, table: Table) -> str | None:
    """Return the id that Delta gave to a table when it was made; None where there is no table."""
    snapshot = _snapshot_of(table)
    if snapshot is not None:
        return snapshot.id
    folder = None if table.identifier else local_folder(table.path)
    if folder is not None and not (folder / "_delta_log").is_dir():
        return None
    try:
        return str(_detail(spark, table)["id"])
    except AnalysisException as error:
        if error.getCondition() not in NO_TABLE:
            raise
        return None


def has_files(spark: SparkSession, table: Table) -> bool:
    """Tell whether a table has any file of rows."""
    snapshot = _snapshot_of(table)
    return bool(_detail(spark, table)["numFiles"]) if snapshot is None else snapshot.has_files()


def _snapshot_of(table: Table) -> Snapshot | None:
    """Return the newest version of a table in a local folder, where deltalake can read it."""
    folder = None if table.identifier else local_folder(table.path)
    return None if folder is None else read_snapshot(folder)


def drop(spark: SparkSession, table: Table) -> None:
    """Remove the table and its files."""
    if not table.identifier:
        remove_folder(spark, table.path)
    elif _types(spark, table) is not None:
        folder = _detail(spark, table)["location"]
        spark.sql(f"DROP TABLE IF EXISTS {delta_ref(table)}")
        remove_folder(spark, folder)


def arranged_otherwise(
    spark: SparkSession, table: Table, layout: Layout, design: Design
) -> str | None:
    """Say how a table is laid out, if it is not as it would be made now."""
    if not design.partition_by and not design.cluster_by:
        return None
    parts, clusters = arranged_by(spark, table)
    wanted = tuple(part.name for part in parts_of(layout, design))
    if (parts, clusters) == (wanted, clusters_of(layout, design)):
        return None
    if not parts and not clusters:
        return "neither partitioned nor clustered"
    return "; ".join(
        f"{how} by {', '.join(names)}"
        for how, names in (("partitioned", parts), ("clustered", clusters))
        if names
    )


def arranged_by(spark: SparkSession, table: Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns by which a table is partitioned, and those by which it is clustered."""
    detail = _detail(spark, table)
    return tuple(detail["partitionColumns"]), _unquoted(detail["clusteringColumns"])


def _unquoted(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns of which Delta quotes those that have odd names."""
    return tuple(name.strip("`").replace("``", "`") for name in names or ())


def _may_be_there(table: Table) -> bool:
    """Tell whether there may be a table in a folder, which on this machine costs no job."""
    folder = local_folder(table.path)
    if folder is None or (folder / "_delta_log").is_dir():
        return True
    refuse_other_files(folder, "Delta")
    return False


def _types(spark: SparkSession, table: Table) -> Mapping[str, str] | None:
    try:
        schema = schema_of(spark, table)
    except AnalysisException as error:
        if table.identifier and error.getCondition() in _NO_CATALOG:
            catalog = table.identifier[0]
            raise UnsupportedError(
                f"Spark does not know the catalog {catalog!r} of table {table.name}. Put"
                f" spark.sql.catalog.{catalog} and what belongs to it into the setting spark."
            ) from error
        if error.getCondition() not in NO_TABLE:
            raise
        return None
    return own_columns({field.name: column_ddl(field) for field in schema.fields})


def _check_format(spark: SparkSession, table: Table) -> None:
    try:
        found = _detail(spark, table)["format"]
    except AnalysisException as error:
        if "VIEW" not in (error.getCondition() or ""):
            raise
        found = "a view"
    if found != "delta":
        raise TableError(
            f"{table.key} is no Delta table but {found}. Set table, table_prefix or database"
            " to another name, or move it away."
        )


def _detail(spark: SparkSession, table: Table) -> Mapping[str, Any]:
    (found,) = spark.sql(f"DESCRIBE DETAIL {delta_ref(table)}").collect()
    return found.asDict()


def _location(table: Table) -> str:
    return f" LOCATION {literal(spark_address(table.path))}" if table.path else ""


def _create(spark: SparkSession, table: Table, words: str) -> None:
    statement = f"CREATE TABLE IF NOT EXISTS {words}"
    try:
        spark.sql(statement)
    except AnalysisException as error:
        if not table.identifier or error.getCondition() != "SCHEMA_NOT_FOUND":
            raise
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote(*table.identifier[:-1])}")
        spark.sql(statement)
