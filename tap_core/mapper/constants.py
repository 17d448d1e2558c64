"""Reserved keys in the config setting ``stream_maps``, the same as in singer_sdk."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = [
    "MAPPER_ALIAS_OPTION",
    "MAPPER_ELSE_OPTION",
    "MAPPER_FILTER_OPTION",
    "MAPPER_KEY_PROPERTIES_OPTION",
    "MAPPER_SOURCE_OPTION",
    "NULL_STRING",
    "StreamMapsDict",
]

MAPPER_ELSE_OPTION = "__else__"
MAPPER_FILTER_OPTION = "__filter__"
MAPPER_SOURCE_OPTION = "__source__"
MAPPER_ALIAS_OPTION = "__alias__"
MAPPER_KEY_PROPERTIES_OPTION = "__key_properties__"
NULL_STRING = "__NULL__"

StreamMapsDict: TypeAlias = dict[str, str | dict[str, Any] | None]
"""Type of the setting ``stream_maps``: definitions by stream name or name pattern."""
