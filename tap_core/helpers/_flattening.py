"""Compatibility module for plugins that import ``singer_sdk.helpers._flattening``.

It only re-exports names of `tap_core.records.flatten`.
"""

# ruff: noqa: I001  one list is easier to read than one statement per name

from __future__ import annotations

from tap_core.records.flatten import (
    DEFAULT_FLATTENING_SEPARATOR as DEFAULT_FLATTENING_SEPARATOR,
    DEFAULT_MAX_KEY_LENGTH as DEFAULT_MAX_KEY_LENGTH,
    FlatteningOptions as FlatteningOptions,
    PluginFlatteningConfig as PluginFlatteningConfig,
    flatten_key as flatten_key,
    flatten_record as flatten_record,
    flatten_schema as flatten_schema,
    get_flattening_options as get_flattening_options,
)
