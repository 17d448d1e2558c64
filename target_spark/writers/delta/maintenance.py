"""Maintenance of a Delta table after a run: OPTIMIZE and VACUUM.

Spark settings make each maintenance commit repeat the table's newest commit metadata.
VACUUM deletes only files that were removed from the table before the configured retention period.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

from target_spark.tables.table import MaintenanceOptions
from target_spark.writers.sql_statements import format_properties, spark_conf
from target_spark.writers.table_properties import get_table_properties

__all__ = ["optimize_and_vacuum"]

_FILE_SIZE_SETTINGS: Final = (
    "spark.databricks.delta.optimize.minFileSize",
    "spark.databricks.delta.optimize.maxFileSize",
)
_VACUUM_CONF: Final = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "16"}
"""Spark setting for the number of tasks in which VACUUM lists a table's files. VACUUM runs ten
times as many tasks as the value says. Spark's default value is 10,000."""

_RETENTION: Final = "delta.deletedFileRetentionDuration"


def optimize_and_vacuum(
    spark: SparkSession, ref: str, options: MaintenanceOptions, settings: Mapping[str, str]
) -> None:
    """Run OPTIMIZE and VACUUM on a Delta table, if the options configure them.

    Args:
        spark: The Spark session of the calling thread.
        ref: The quoted SQL name of the table.
        options: The maintenance to run.
        settings: Spark settings that make Delta store the commit metadata in the commits.
    """
    sizes = (
        {}
        if options.file_bytes is None
        else dict.fromkeys(_FILE_SIZE_SETTINGS, str(options.file_bytes))
    )
    with spark_conf(spark, {**settings, **sizes, **_VACUUM_CONF}):
        if options.compact:
            spark.sql(f"OPTIMIZE {ref}")
        if options.retain_days is not None:
            _set_retention(spark, ref, f"interval {options.retain_days * 24:.0f} hours")
            spark.sql(f"VACUUM {ref}")


def _set_retention(spark: SparkSession, ref: str, interval: str) -> None:
    """Set how long VACUUM keeps a table's deleted files (``delta.deletedFileRetentionDuration``).

    ``interval`` is an SQL interval such as ``interval 168 hours``. Nothing is done if the property
    already has this value.
    """
    if get_table_properties(spark, ref).get(_RETENTION) != interval:
        assignment = format_properties({_RETENTION: interval})
        spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ({assignment})")
