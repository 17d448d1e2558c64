"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.batch.batchers`.
"""

from __future__ import annotations

from tap_core.batch.batchers import ParquetBatcher as ParquetBatcher
