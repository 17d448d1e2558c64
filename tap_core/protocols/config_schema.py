"""Detection of the settings that the SDK adds to a tap's settings schema.

Configuration forms do not show these settings, such as ``batch_config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tap_core.capabilities import (
    BATCH_CONFIG,
    FLATTENING_CONFIG,
    PARALLEL_PARTITIONS_CONFIG,
    PARALLEL_STREAMS_CONFIG,
    STATE_PARTITION_LIMIT_CONFIG,
    STREAM_MAPS_CONFIG,
)

__all__ = ["find_sdk_settings"]

_SDK_CONFIGS: Final = (
    BATCH_CONFIG,
    FLATTENING_CONFIG,
    PARALLEL_PARTITIONS_CONFIG,
    PARALLEL_STREAMS_CONFIG,
    STATE_PARTITION_LIMIT_CONFIG,
    STREAM_MAPS_CONFIG,
)


def find_sdk_settings(schema: Mapping[str, Any]) -> set[str]:
    """Return the names of the settings that the SDK added to a settings schema.

    An example is ``batch_config``. A setting is left out if the tap's developer has defined it
    differently.
    """
    declared = schema.get("properties") or {}
    return {
        name
        for config in _SDK_CONFIGS
        for name, setting in config["properties"].items()
        if declared.get(name) == setting
    }
