"""Compatibility module for plugins that import ``singer_sdk.contrib.filesystem.tap``.

It only re-exports names of `tap_core.filesystem.config` and `tap_core.filesystem.tap`.
"""

# ruff: noqa: I001  one list is easier to read than one statement per name

from __future__ import annotations

from tap_core.filesystem.config import (
    BASE_CONFIG_SCHEMA as BASE_CONFIG_SCHEMA,
    DEFAULT_MERGE_STREAM_NAME as DEFAULT_MERGE_STREAM_NAME,
    ReadMode as ReadMode,
)
from tap_core.filesystem.tap import (
    FolderTap as FolderTap,
    file_path_to_stream_name as file_path_to_stream_name,
)
