"""What a state says about the sync that wrote it.

Rules of the room: pure. The end of the input looks the same for a tap that is through
and for one that died; only what it said last tells them apart.
"""

from __future__ import annotations

import json
from typing import Any, Final

__all__ = ["is_empty", "is_final"]

_UNFINISHED: Final = ("progress_markers", "progress_tracking")
_LONGEST_EMPTY: Final = 16


def is_empty(state: bytes) -> bool:
    """Say whether a state is null or an empty object: kept, it would wipe a better one."""
    return len(state) < _LONGEST_EMPTY and b"".join(state.split()) in {b"{}", b"null"}


def is_final(state: bytes) -> bool:
    """Say whether a state, as the last message, speaks of a sync that went to its end.

    It does not while it names a stream that is ``currently_syncing``, or holds progress
    markers, which their tap promotes or removes at the end of the stream.
    """
    try:
        document = json.loads(state)
    except (ValueError, RecursionError):  # beyond what Python holds
        return False
    if isinstance(document, dict) and document.get("currently_syncing") is not None:
        return False
    return not _has_markers(document)


def _has_markers(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_markers, value))
    if not isinstance(value, dict):
        return False
    return any(value.get(key) for key in _UNFINISHED) or any(map(_has_markers, value.values()))
