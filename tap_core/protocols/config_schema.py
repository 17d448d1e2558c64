"""Recognition of the settings that the SDK adds to a tap's own settings.

Clients that show a configuration form need to tell the two apart. Everything is derived from
the JSON Schema of the settings.
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

__all__ = ["author_settings"]

_COMES_WITH_THE_SDK: Final = (
    BATCH_CONFIG,
    FLATTENING_CONFIG,
    PARALLEL_PARTITIONS_CONFIG,
    PARALLEL_STREAMS_CONFIG,
    STATE_PARTITION_LIMIT_CONFIG,
    STREAM_MAPS_CONFIG,
)


def author_settings(schema: Mapping[str, Any]) -> set[str]:
    """Return the names of the settings that the SDK has added to a tap's settings schema.

    A setting that the tap's developer has defined differently is not included.
    """
    given = schema.get("properties") or {}
    return {
        name
        for config in _COMES_WITH_THE_SDK
        for name, setting in config["properties"].items()
        if given.get(name) == setting
    }
