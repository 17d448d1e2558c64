"""Compatibility module for plugins that import ``singer_sdk.helpers._catalog``.

It only re-exports names of `tap_core.records.prune` and `tap_core.singerlib.catalog`.
"""

from __future__ import annotations

from tap_core.records.prune import get_selected_schema as get_selected_schema
from tap_core.records.prune import (
    pop_deselected_record_properties as pop_deselected_record_properties,
)
from tap_core.singerlib.catalog import deselect_all_streams as deselect_all_streams
from tap_core.singerlib.catalog import set_catalog_stream_selected as set_catalog_stream_selected
