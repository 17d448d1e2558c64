"""Type aliases shared by all modules: records, contexts, paths and the state document.

This module imports no other module of the package.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypedDict

__all__ = [
    "Context",
    "JsonSchema",
    "Record",
    "RecordBodyEncoder",
    "Records",
    "StrPath",
    "TapState",
]

Record: TypeAlias = dict[str, Any]
"""One row as the author yields it: a dict from property name to Python value."""

Records: TypeAlias = Iterable[Record]

Context: TypeAlias = Mapping[str, Any]
"""Values that identify one partition of a stream; read-only while it is in use."""

JsonSchema: TypeAlias = dict[str, Any]
"""JSON Schema document."""

StrPath: TypeAlias = str | os.PathLike[str]

RecordBodyEncoder: TypeAlias = Callable[[Record], bytes]
"""Function of a protocol writer from a conformed record to the bytes of its body."""


class TapState(TypedDict, total=False):
    """State document: bookmarks by ``tap_stream_id``, in the format of the Meltano Singer SDK."""

    bookmarks: dict[str, dict[str, Any]]
