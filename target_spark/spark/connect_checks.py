"""Check at the start of a run that a Spark Connect server can write the table format.

A client cannot add jars or extensions to a server. If one is missing, the run fails, and the error
message lists the options that the server must be started with. The check runs SQL statements rather
than reading settings, because servers may enable a format in different ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from target_spark.errors import SparkUnavailableError
from target_spark.spark.format_settings import FORMAT_SETTINGS
from target_spark.spark.jar_versions import ARTIFACTS
from target_spark.spark.jars import get_minor_version
from target_spark.storage.commit_retry import first_error_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_server"]

_MIN_VERSION: Final = (4, 0)
"""Oldest minor version of Spark whose server can load tables."""

_MISSING_FOLDER: Final = "file:///target-spark-looks-whether-this-is-known"
"""URL of a folder that does not exist. If the server knows the table format, a statement about a
table there fails with an error of the format's library."""

_CATALOG: Final = "target_spark_probe"
"""Name of the Iceberg catalog that the check configures in its session."""

_EXTENSIONS: Final = "spark.sql.extensions"


def check_server(spark: SparkSession, table_format: str) -> None:
    """Check that a Spark Connect server can write tables of a format.

    ``spark`` is a session on the server.

    Raises:
        SparkUnavailableError: The server cannot write such tables. The message lists the options
            that the server must be started with.
    """
    version = spark.version
    if tuple(map(int, version.split(".")[:2])) < _MIN_VERSION:
        raise SparkUnavailableError(
            f"The Spark Connect server has Spark {version}; tables are loaded through"
            f" {'.'.join(map(str, _MIN_VERSION))} or newer."
        )
    fault = _CHECKS[table_format](spark)
    if fault is None:
        return
    artifacts = ARTIFACTS.get((table_format, get_minor_version(version)))
    packages = ",".join(artifacts or ("(none for this Spark)",))
    options = (f"--conf {key}={value}" for key, value in FORMAT_SETTINGS[table_format].items())
    raise SparkUnavailableError(
        f"The Spark Connect server (Spark {version}) cannot write {table_format} tables: {fault}."
        " A client cannot add it; start the server with --packages"
        f" {packages} {' '.join(options)}; or set format to one it supports"
        " (parquet needs nothing)."
    )


def _check_delta(spark: SparkSession) -> str | None:
    """Return the reason why the session's server cannot write Delta tables, or None if it can."""
    from pyspark.errors import PySparkException

    try:
        spark.sql(f"DESCRIBE HISTORY delta.`{_MISSING_FOLDER}`").collect()
    except PySparkException as error:
        if not (error.getCondition() or "").startswith("DELTA_"):
            return first_error_line(error)
    return _check_extension(spark, "delta")


def _check_iceberg(spark: SparkSession) -> str | None:
    """Return the reason why the session's server cannot write Iceberg tables, or None if it can."""
    from pyspark.errors import PySparkException

    key = f"spark.sql.catalog.{_CATALOG}"
    spark.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{key}.type", "hadoop")
    spark.conf.set(f"{key}.warehouse", _MISSING_FOLDER)
    try:
        spark.sql(f"SHOW NAMESPACES IN {_CATALOG}").collect()
    except PySparkException as error:
        if "org.apache.iceberg.exceptions." not in str(error):
            return first_error_line(error)
    return _check_extension(spark, "iceberg")


def _check_extension(spark: SparkSession, table_format: str) -> str | None:
    """Return an error text if the server lacks a table format's SQL extension, else None."""
    extension = FORMAT_SETTINGS[table_format].get(_EXTENSIONS, "")
    if extension in (spark.conf.get(_EXTENSIONS, None) or ""):
        return None
    return f"its {_EXTENSIONS} have no {extension}"


_CHECKS: Final[Mapping[str, Callable[[SparkSession], str | None]]] = {
    "delta": _check_delta,
    "iceberg": _check_iceberg,
    "parquet": lambda _spark: None,
}
"""Check of each table format: a function that returns the reason why a server cannot write it."""
