"""What is done for a Delta table after a run: few large files, and none that nobody needs.

Rules of the room: the settings of the session give every commit of this the table's newest
marker. Files are removed only when they have been out of the table for longer than asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

from target_spark.tables.model import MaintenanceOptions
from target_spark.writers.sql import format_properties, spark_conf

__all__ = ["optimize_and_vacuum"]

_SIZES: Final = (
    "spark.databricks.delta.optimize.minFileSize",
    "spark.databricks.delta.optimize.maxFileSize",
)
_LISTING: Final = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "16"}
"""VACUUM lists a table in ten times so many tasks, and Spark would have it 10,000."""

_RETENTION: Final = "delta.deletedFileRetentionDuration"


def optimize_and_vacuum(
    spark: SparkSession, ref: str, care: MaintenanceOptions, settings: Mapping[str, str]
) -> None:
    """Compact the table that SQL calls ``ref``, and remove what it no longer holds."""
    sizes = {} if care.file_bytes is None else dict.fromkeys(_SIZES, str(care.file_bytes))
    with spark_conf(spark, {**settings, **sizes, **_LISTING}):
        if care.compact:
            spark.sql(f"OPTIMIZE {ref}")
        if care.retain_days is not None:
            _keep(spark, ref, f"interval {care.retain_days * 24:.0f} hours")
            spark.sql(f"VACUUM {ref}")


def _keep(spark: SparkSession, ref: str, how_long: str) -> None:
    """Let the table say how long its old files are kept; VACUUM asks nobody else."""
    properties = spark.sql(f"SHOW TBLPROPERTIES {ref}").collect()
    if (_RETENTION, how_long) not in {(row.key, row.value) for row in properties}:
        kept = format_properties({_RETENTION: how_long})
        spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ({kept})")
