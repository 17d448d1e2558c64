"""Compatibility module for plugins that import ``singer_sdk.helpers.capabilities``.

It only re-exports names of `tap_core.capabilities`.
"""

# ruff: noqa: I001  one list is easier to read than one statement per name

from __future__ import annotations

from tap_core.capabilities import (
    ACTIVATE_VERSION_CONFIG as ACTIVATE_VERSION_CONFIG,
    ADD_RECORD_METADATA_CONFIG as ADD_RECORD_METADATA_CONFIG,
    BATCH_CONFIG as BATCH_CONFIG,
    EMIT_ACTIVATE_VERSION_CONFIG as EMIT_ACTIVATE_VERSION_CONFIG,
    FLATTENING_CONFIG as FLATTENING_CONFIG,
    SQL_TAP_USE_SINGER_DECIMAL as SQL_TAP_USE_SINGER_DECIMAL,
    STREAM_MAPS_CONFIG as STREAM_MAPS_CONFIG,
    TARGET_BATCH_SIZE_ROWS_CONFIG as TARGET_BATCH_SIZE_ROWS_CONFIG,
    TARGET_HARD_DELETE_CONFIG as TARGET_HARD_DELETE_CONFIG,
    TARGET_LOAD_METHOD_CONFIG as TARGET_LOAD_METHOD_CONFIG,
    TARGET_SCHEMA_CONFIG as TARGET_SCHEMA_CONFIG,
    TARGET_VALIDATE_RECORDS_CONFIG as TARGET_VALIDATE_RECORDS_CONFIG,
    CapabilitiesEnum as CapabilitiesEnum,
    DeprecatedEnum as DeprecatedEnum,
    DeprecatedEnumMeta as DeprecatedEnumMeta,
    PluginCapabilities as PluginCapabilities,
    TapCapabilities as TapCapabilities,
    TargetCapabilities as TargetCapabilities,
    TargetLoadMethods as TargetLoadMethods,
)
