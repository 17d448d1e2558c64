"""Compatibility module for plugins that import ``singer_sdk.helpers._batch``.

It only re-exports names of `tap_core.batch.encodings`, `tap_core.batch.storage` and
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
