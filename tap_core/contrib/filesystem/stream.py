"""Compatibility module for plugins that import ``singer_sdk.contrib.filesystem.stream``.

It only re-exports names of `tap_core.filesystem.stream`.
"""

from __future__ import annotations

from tap_core.filesystem.stream import SDC_META_FILEPATH as SDC_META_FILEPATH
from tap_core.filesystem.stream import SDC_META_MODIFIED_AT as SDC_META_MODIFIED_AT
from tap_core.filesystem.stream import FileStream as FileStream
