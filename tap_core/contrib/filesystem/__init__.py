"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.filesystem.stream` and `tap_core.filesystem.tap`.
"""

from __future__ import annotations

from tap_core.filesystem.stream import FileStream as FileStream
from tap_core.filesystem.tap import FolderTap as FolderTap
