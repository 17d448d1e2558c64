"""Type aliases for records, contexts, JSON Schemas, paths and states."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypedDict

__all__ = [
    "Context",
    "JsonSchema",
    "KeyProperties",
    "Record",
    "RecordBodyEncoder",
    "StrPath",
    "TapState",
]

Record: TypeAlias = dict[str, Any]
"""Record that a tap yields: a dict of Python values by property name."""

Context: TypeAlias = Mapping[str, Any]
"""Values that identify one partition of a stream; read-only during a sync."""

JsonSchema: TypeAlias = dict[str, Any]
"""JSON Schema document."""

KeyProperties: TypeAlias = list[str] | tuple[str, ...]
"""Names of the properties in the primary key of a stream."""

StrPath: TypeAlias = str | os.PathLike[str]
"""Path of a file, as text or as an object such as `pathlib.Path`."""

RecordBodyEncoder: TypeAlias = Callable[[Record], bytes]
"""Function that encodes a record, after conversion to the schema, as the body of a message."""


class TapState(TypedDict, total=False):
    """State of a tap: bookmarks by ``tap_stream_id``, in the format of singer_sdk."""

    bookmarks: dict[str, dict[str, Any]]
