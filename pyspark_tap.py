"""Python data source "tap" for Spark, which reads a tap's streams: ``spark.read.format("tap")``.

Spark imports each module whose name begins with ``pyspark_`` as soon as it looks up any Python data
source, and registers its ``DefaultSource``. So this import must not fail.
"""

from __future__ import annotations

from target_spark.extract.data_source import TapDataSource as DefaultSource
from target_spark.extract.data_source import register_source

__all__ = ["DefaultSource", "register_source"]
