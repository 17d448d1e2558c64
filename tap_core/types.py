"""Words that every room uses: records, contexts, paths and the shape of a state.

Rules of the room: names only. Nothing here imports another module of the package.
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
"""One row as an author yields it: property name to Python value."""

Records: TypeAlias = Iterable[Record]

Context: TypeAlias = Mapping[str, Any]
"""What tells one partition of a stream from another; read-only while it is in use."""

JsonSchema: TypeAlias = dict[str, Any]
"""A JSON Schema document."""

StrPath: TypeAlias = str | os.PathLike[str]

RecordBodyEncoder: TypeAlias = Callable[[Record], bytes]
"""A door's function from a shaped record to the bytes of its body on the wire."""


class TapState(TypedDict, total=False):
    """A state document: bookmarks by ``tap_stream_id``, in the format of the Singer SDK."""

    bookmarks: dict[str, dict[str, Any]]
