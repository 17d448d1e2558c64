"""The import path of singer_sdk for the rows of files."""

from __future__ import annotations

from tap_core.filesystem.stream import SDC_META_FILEPATH as SDC_META_FILEPATH
from tap_core.filesystem.stream import SDC_META_MODIFIED_AT as SDC_META_MODIFIED_AT
from tap_core.filesystem.stream import FileStream as FileStream
