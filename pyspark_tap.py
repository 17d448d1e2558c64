"""The streams of taps as frames: ``spark.read.format("tap")``.

Rules of the room: Spark imports every module whose name begins with ``pyspark_`` as soon as any
source in Python is wanted, and takes its ``DefaultSource``. So this one must never fail.
"""

from __future__ import annotations

from target_spark.extract.data_source import TapDataSource as DefaultSource
from target_spark.extract.data_source import register_source

__all__ = ["DefaultSource", "register_source"]
