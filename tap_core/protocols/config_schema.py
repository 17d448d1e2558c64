"""What clients must know of settings before they show them to people.

Rules of the room: pure, and made from the schema of the settings alone.
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
    """Name the settings that are the SDK's: an author's of such a name says something else."""
    given = schema.get("properties") or {}
    return {
        name
        for config in _COMES_WITH_THE_SDK
        for name, setting in config["properties"].items()
        if given.get(name) == setting
    }
