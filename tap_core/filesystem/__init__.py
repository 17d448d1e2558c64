"""Taps that read files of a folder, wherever fsspec finds it."""

from __future__ import annotations

from tap_core.filesystem.stream import FileStream
from tap_core.filesystem.tap import FolderTap

__all__ = ["FileStream", "FolderTap"]
