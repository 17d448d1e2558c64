"""Taps that read the files of a folder, on any file system that fsspec supports."""

from __future__ import annotations

from tap_core.filesystem.stream import FileStream
from tap_core.filesystem.tap import FolderTap

__all__ = ["FileStream", "FolderTap"]
