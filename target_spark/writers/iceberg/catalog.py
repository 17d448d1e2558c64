"""What Spark calls an Iceberg table, and the catalogs that the target makes by itself.

Rules of the room: a table is in a catalog of the user's, by its whole name, or a folder.
The folder is a table of a Hadoop catalog of ours, which every session is told of when it
first needs it: its warehouse is two folders up, so the folder above the table is the
database. (A catalog takes a table that lies right below its warehouse and is called
``files`` or ``history`` for its own.) A catalog caches nothing, since each session has
its own, and several of them write; one of the user's neither, unless the user says so.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession

from target_spark.errors import UnsupportedError
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.identifiers import quote
from target_spark.tables.model import Table

__all__ = ["DEFAULT_CATALOG", "IcebergTableRef", "catalog_table_exists", "load", "resolve_table"]

DEFAULT_CATALOG = "target_spark"
"""What the names of our catalogs begin with. Settings of Spark that begin with
``spark.sql.catalog.target_spark.`` are options of all of them."""

_CATALOGS = "spark.sql.catalog."
_CLASS = "org.apache.iceberg.spark.SparkCatalog"


class IcebergTableRef(NamedTuple):
    """Where a table is: a catalog, the names of its database, and its own."""

    catalog: str
    database: tuple[str, ...]
    name: str

    @property
    def ref(self) -> str:
        """The table, as SQL calls it."""
        return quote(self.catalog, *self.database, self.name)

    @property
    def procedures(self) -> str:
        """Where the catalog has its procedures."""
        return f"{quote(self.catalog)}.system"


def resolve_table(spark: SparkSession, table: Table) -> IcebergTableRef:
    """Return where a table is, in a catalog that this session knows from now on.

    Raises:
        UnsupportedError: the catalog is the user's, and no setting says what it is.
    """
    if not table.identifier:
        return _of_folder(spark, table.path)
    catalog, *database, name = table.identifier
    if spark.conf.get(f"{_CATALOGS}{catalog}", None) is None:
        raise UnsupportedError(
            f"Spark does not know the catalog {catalog!r} of table {table.name}. Say in the"
            f" setting spark what it is: {_CATALOGS}{catalog} = {_CLASS}, and"
            f" {_CATALOGS}{catalog}.type = rest, jdbc, hive, hadoop or glue with what each"
            " of these needs; or take the setting catalog away, and tables lie below path."
        )
    cache = f"{_CATALOGS}{catalog}.cache-enabled"
    if spark.conf.get(cache, None) is None:
        spark.conf.set(cache, "false")
    return IcebergTableRef(catalog, tuple(database), name)


def catalog_table_exists(spark: SparkSession, place: IcebergTableRef) -> bool:
    """Tell whether a catalog has a table."""
    try:
        return spark.catalog.tableExists(place.ref)
    except UnsupportedOperationException:
        # What a JDBC catalog that has no views answers, where it finds no table either.
        return False


def load(spark: SparkSession, place: IcebergTableRef) -> Any:
    """Return Iceberg's own object of a table, in the JVM, as its catalog has it now."""
    known: Any = spark
    jvm = known._jvm  # noqa: SLF001
    catalogs = known._jsparkSession.sessionState().catalogManager()  # noqa: SLF001
    database = known.sparkContext._gateway.new_array(jvm.String, len(place.database))  # noqa: SLF001
    for number, name in enumerate(place.database):
        database[number] = name
    named = jvm.org.apache.spark.sql.connector.catalog.Identifier.of(database, place.name)
    return catalogs.catalog(place.catalog).loadTable(named).table()


def _of_folder(spark: SparkSession, path: str) -> IcebergTableRef:
    above, _, name = to_spark_uri(path).rstrip("/").rpartition("/")
    warehouse, _, database = above.rpartition("/")
    if not database or warehouse.endswith(":/"):  # the root of a file system, or a bucket
        warehouse, database = above, ""
    elif warehouse.endswith("//"):
        warehouse += "/"
    catalog = f"{DEFAULT_CATALOG}_{hashlib.sha256(warehouse.encode()).hexdigest()[:8]}"
    _make_known(spark, catalog, warehouse)
    return IcebergTableRef(catalog, (database,) if database else (), name)


def _make_known(spark: SparkSession, catalog: str, warehouse: str) -> None:
    """Tell the session of a catalog; what the user sets for all of ours wins."""
    key = f"{_CATALOGS}{catalog}"
    if spark.conf.get(key, None) is not None:
        return
    options = {"type": "hadoop", "warehouse": warehouse, "cache-enabled": "false"}
    ours = f"{_CATALOGS}{DEFAULT_CATALOG}."
    for name, value in spark.conf.getAll.items():
        if name.startswith(ours):
            options.setdefault(name.removeprefix(ours), value)
    for name, value in options.items():
        spark.conf.set(f"{key}.{name}", value)
    spark.conf.set(key, _CLASS)
