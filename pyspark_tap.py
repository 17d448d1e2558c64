"""Spark data source that reads the streams of a tap: ``spark.read.format("tap")``.

Spark looks for data sources written in Python by importing every top-level module whose name begins
with ``pyspark_``, and registers its ``DefaultSource``. An import error here would therefore break
every use of ``spark.read.format``, so this module only imports.
"""

from __future__ import annotations

from target_spark.extract.data_source import TapDataSource as DefaultSource
from target_spark.extract.data_source import register_source

__all__ = ["DefaultSource", "register_source"]
