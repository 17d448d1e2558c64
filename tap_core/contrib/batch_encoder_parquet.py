"""The import path of singer_sdk for batch files in Parquet."""

from __future__ import annotations

from tap_core.batch.batchers import ParquetBatcher as ParquetBatcher
