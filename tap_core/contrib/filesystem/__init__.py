"""The import path of singer_sdk for taps that read files."""

from __future__ import annotations

from tap_core.filesystem.stream import FileStream as FileStream
from tap_core.filesystem.tap import FolderTap as FolderTap
