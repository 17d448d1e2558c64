"""Decision which streams resume from their state and which restart from the beginning.

``bookmarks`` are the states of streams by the tap's stream names. A child stream that restarts
needs every record of its parent streams, so these restart too; otherwise the children of older
parent records would be missed. Records that such a parent sent before need not be sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from typing import Any, TypeAlias

from tap_core.sync.interfaces import SyncStream

__all__ = ["RestartedStreams", "find_previously_sent", "retained_bookmarks"]

logger: logging.Logger = logging.getLogger(__name__)

RestartedStreams: TypeAlias = Callable[[SyncStream, Any], bool]
"""Function of a selected stream and its state (or None) that returns True if it restarts."""


def retained_bookmarks(
    bookmarks: Mapping[str, Any],
    streams: Mapping[str, SyncStream],
    begins: RestartedStreams,
    in_full: Collection[str] = (),
) -> dict[str, Any]:
    """Return deep copies of the states of the streams that resume. All other streams restart.

    Args:
        bookmarks: States by stream name.
        streams: Streams of the tap by name.
        begins: Called with a selected stream and its state (or None). Returns True to restart it.
        in_full: Names of streams that restart in any case, even if they are not selected.
    """
    begun = _find_restarted(bookmarks, streams, begins, in_full)
    fresh = begun | _parents(begun, streams).keys()
    return {name: deepcopy(state) for name, state in bookmarks.items() if name not in fresh}


def find_previously_sent(
    bookmarks: Mapping[str, Any],
    streams: Mapping[str, SyncStream],
    begins: RestartedStreams,
    in_full: Collection[str] = (),
) -> dict[str, dict[str, Any]]:
    """Return the states of the parent streams that restart only because a child stream restarts.

    See `retained_bookmarks` for the arguments. Each such parent stream is logged.
    """
    begun = _find_restarted(bookmarks, streams, begins, in_full)
    again = {
        name: child
        for name, child in _parents(begun, streams).items()
        if bookmarks.get(name) and name not in begun
    }
    for name, child in again.items():
        logger.info("Stream '%s' is read from its beginning, because '%s' is.", name, child)
    return {name: deepcopy(bookmarks[name]) for name in again}


def _find_restarted(
    bookmarks: Mapping[str, Any],
    streams: Mapping[str, SyncStream],
    begins: RestartedStreams,
    in_full: Collection[str],
) -> set[str]:
    """Return the names of the streams that restart even if no child stream restarts."""
    return {
        name
        for name, stream in streams.items()
        if name in in_full or (stream.selected and begins(stream, bookmarks.get(name)))
    }


def _parents(begun: Collection[str], streams: Mapping[str, SyncStream]) -> dict[str, str]:
    """Return each ancestor of a restarting stream, with the name of one such stream below it."""
    found = {
        name: next((one.name for one in stream.descendent_streams if one.name in begun), None)
        for name, stream in streams.items()
    }
    return {name: child for name, child in found.items() if child is not None}
