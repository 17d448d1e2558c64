"""Compatibility module for plugins that import ``singer_sdk.contrib.batch_encoder_parquet``.

It only re-exports names of `tap_core.batch.batchers`.
"""

from __future__ import annotations

from tap_core.batch.batchers import ParquetBatcher as ParquetBatcher
