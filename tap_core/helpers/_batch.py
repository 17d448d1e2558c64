"""The import path of singer_sdk for what batch files hold and where they are."""

# ruff: noqa: I001  one list reads better than one statement per name

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
