"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.batch.encodings`, `tap_core.batch.storage` and
`tap_core.singerlib.messages`.
"""

# ruff: noqa: I001  one list is easier to read than one statement per name

from __future__ import annotations

from tap_core.batch.encodings import (
    DEFAULT_BATCH_SIZE as DEFAULT_BATCH_SIZE,
    BaseBatchFileEncoding as BaseBatchFileEncoding,
    BatchConfig as BatchConfig,
    BatchFileFormat as BatchFileFormat,
    JSONLinesEncoding as JSONLinesEncoding,
    ParquetEncoding as ParquetEncoding,
)
from tap_core.batch.storage import StorageTarget as StorageTarget
from tap_core.singerlib.messages import SDKBatchMessage as SDKBatchMessage
