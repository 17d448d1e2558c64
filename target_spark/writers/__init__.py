"""Writers of the table formats Delta, Iceberg and Parquet, with one common interface (`Writer`)."""

from __future__ import annotations

from target_spark.writers.base import MergeKeys as MergeKeys
from target_spark.writers.base import Writer as Writer
from target_spark.writers.deduplication import latest_by_key as latest_by_key
from target_spark.writers.registry import FORMATS as FORMATS
from target_spark.writers.registry import get_writer as get_writer
