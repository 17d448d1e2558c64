"""Checks of a Singer state: if it is empty, and if it comes from a sync that finished.

The end of the input looks the same for a tap that finished and for a tap that crashed. Only the
last state shows the difference.
"""

from __future__ import annotations

import json
from typing import Final

__all__ = ["is_empty", "is_final"]

_UNFINISHED: Final = ("progress_markers", "progress_tracking", "snapshot_pending")
_LONGEST_EMPTY: Final = 16


def is_empty(state: bytes) -> bool:
    """Return True if a state is ``null`` or ``{}``, which must not replace a stored state."""
    return len(state) < _LONGEST_EMPTY and b"".join(state.split()) in {b"{}", b"null"}


def is_final(state: bytes) -> bool:
    """Return True if the last state of an input shows that the tap's sync finished.

    A tap removes ``currently_syncing`` and ``progress_markers`` from its state when a stream ends,
    and ``snapshot_pending`` when the snapshot of a LOG_BASED stream is complete.
    Return False if the state still has one of them, or is not valid JSON.
    """
    try:
        document = json.loads(state)
    except (ValueError, RecursionError):  # too long or too deep for Python
        return False
    if isinstance(document, dict) and document.get("currently_syncing") is not None:
        return False
    values = [document]
    for value in values:  # grows by the values inside
        if isinstance(value, list):
            values += value
        elif isinstance(value, dict):
            if any(value.get(key) for key in _UNFINISHED):
                return False
            values += value.values()
    return True
