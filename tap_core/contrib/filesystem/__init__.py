"""Compatibility module for plugins that import ``singer_sdk.contrib.filesystem``.

It only re-exports names of `tap_core.filesystem.stream` and `tap_core.filesystem.tap`.
"""

from __future__ import annotations

from tap_core.filesystem.stream import FileStream as FileStream
from tap_core.filesystem.tap import FolderTap as FolderTap
