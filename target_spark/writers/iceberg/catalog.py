"""SQL names of Iceberg tables, and the Hadoop catalogs that target-spark configures.

A table is either in the user's catalog or in a folder. For a folder, target-spark configures a
Hadoop catalog in each Spark session at first use. The warehouse is two folders above the table, and
the folder between them is the database. (Directly below its warehouse, a catalog would treat a
table named ``files`` or ``history`` as a metadata table.) Catalog caching is off, because several
sessions write and each has a separate cache. A user's explicit setting for a catalog is kept.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession

from target_spark.errors import UnsupportedError
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.identifiers import quote
from target_spark.tables.table import Table

__all__ = [
    "DEFAULT_CATALOG",
    "IcebergTableRef",
    "catalog_table_exists",
    "find_in_catalog",
    "load",
    "resolve_table",
]

DEFAULT_CATALOG = "target_spark"
"""Prefix of the names of the catalogs that target-spark configures. Spark settings that begin with
``spark.sql.catalog.target_spark.`` are options of all these catalogs."""

_CATALOGS = "spark.sql.catalog."
_CATALOG_CLASS = "org.apache.iceberg.spark.SparkCatalog"


class IcebergTableRef(NamedTuple):
    """Full name of an Iceberg table: catalog, database (a tuple of namespaces) and table name."""

    catalog: str
    database: tuple[str, ...]
    name: str

    @property
    def ref(self) -> str:
        """The quoted SQL name of the table, with its catalog and database."""
        return quote(self.catalog, *self.database, self.name)

    @property
    def procedures(self) -> str:
        """The SQL namespace of the catalog's stored procedures, such as ```cat`.system``."""
        return f"{quote(self.catalog)}.system"


def resolve_table(spark: SparkSession, table: Table) -> IcebergTableRef:
    """Return the full name of an Iceberg table, and configure its catalog in the Spark session.

    For a table in a folder, the catalog is a Hadoop catalog of target-spark.

    Raises:
        UnsupportedError: Spark has no configuration for the user's catalog.
    """
    if not table.identifier:
        return _resolve_folder(spark, table.path)
    catalog, *database, name = table.identifier
    if spark.conf.get(f"{_CATALOGS}{catalog}", None) is None:
        raise UnsupportedError(
            f"Spark does not know the catalog {catalog!r} of table {table.name}. Configure it in"
            f" the setting spark: {_CATALOGS}{catalog} = {_CATALOG_CLASS}, and"
            f" {_CATALOGS}{catalog}.type = rest, jdbc, hive, hadoop or glue with the options that"
            " the type needs; or remove the setting catalog to write tables below path."
        )
    cache = f"{_CATALOGS}{catalog}.cache-enabled"
    if spark.conf.get(cache, None) is None:
        spark.conf.set(cache, "false")
    return IcebergTableRef(catalog, tuple(database), name)


def catalog_table_exists(spark: SparkSession, table: IcebergTableRef) -> bool:
    """Return True if the catalog contains the table."""
    try:
        return spark.catalog.tableExists(table.ref)
    except UnsupportedOperationException:
        # A JDBC catalog without views raises this if it finds no table either.
        return False


def load(spark: SparkSession, table: IcebergTableRef) -> Any:
    """Return Iceberg's Java ``Table`` object, loaded from the table's catalog."""
    catalog, identifier = find_in_catalog(spark, table)
    return catalog.loadTable(identifier).table()


def find_in_catalog(spark: SparkSession, table: IcebergTableRef) -> tuple[Any, Any]:
    """Return two Java objects: a table's Spark catalog, and the table's identifier in it."""
    session: Any = spark
    jvm = session._jvm  # noqa: SLF001
    catalogs = session._jsparkSession.sessionState().catalogManager()  # noqa: SLF001
    database = session.sparkContext._gateway.new_array(jvm.String, len(table.database))  # noqa: SLF001
    for number, name in enumerate(table.database):
        database[number] = name
    identifier = jvm.org.apache.spark.sql.connector.catalog.Identifier.of(database, table.name)
    return catalogs.catalog(table.catalog), identifier


def _resolve_folder(spark: SparkSession, path: str) -> IcebergTableRef:
    """Return the full name of the table in a folder, in a Hadoop catalog of target-spark.

    ``/data/sales/users`` is the table ``users`` of the database ``sales`` in the warehouse
    ``/data``. A table in the root of a file system or bucket has no database.
    """
    above, _, name = to_spark_uri(path).rstrip("/").rpartition("/")
    warehouse, _, database = above.rpartition("/")
    if not database or warehouse.endswith(":/"):  # the root of a file system, or a bucket
        warehouse, database = above, ""
    elif warehouse.endswith("//"):
        warehouse += "/"
    catalog = f"{DEFAULT_CATALOG}_{hashlib.sha256(warehouse.encode()).hexdigest()[:8]}"
    _configure_catalog(spark, catalog, warehouse)
    return IcebergTableRef(catalog, (database,) if database else (), name)


def _configure_catalog(spark: SparkSession, catalog: str, warehouse: str) -> None:
    """Configure an Iceberg catalog in the Spark session, unless the user has configured it.

    Options that the user sets for the catalog ``target_spark`` are used too, except for type,
    warehouse and caching. ``warehouse`` is the URI of the folder that has a subfolder per database.
    """
    key = f"{_CATALOGS}{catalog}"
    if spark.conf.get(key, None) is not None:
        return
    options = {"type": "hadoop", "warehouse": warehouse, "cache-enabled": "false"}
    prefix = f"{_CATALOGS}{DEFAULT_CATALOG}."
    for name, value in spark.conf.getAll.items():
        if name.startswith(prefix):
            options.setdefault(name.removeprefix(prefix), value)
    for name, value in options.items():
        spark.conf.set(f"{key}.{name}", value)
    spark.conf.set(key, _CATALOG_CLASS)
