"""Selection of the streams that resume from their state. All others restart from the beginning.

A child stream that restarts needs every record of its parent streams, so these restart too.
Otherwise the children of older parent records would be missed. The parent records themselves were
sent before and need not be sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from typing import Any, TypeAlias

from tap_core.sync.interfaces import SyncStream

__all__ = ["RestartCheck", "find_previously_sent", "retained_bookmarks"]

logger: logging.Logger = logging.getLogger(__name__)

RestartCheck: TypeAlias = Callable[[SyncStream, Any], bool]
"""Function that takes a stream and its state (or None), and returns True to restart the stream."""


def retained_bookmarks(
    bookmarks: Mapping[str, Any],
    streams: Mapping[str, SyncStream],
    must_restart: RestartCheck,
    full_refresh: Collection[str] = (),
) -> dict[str, Any]:
    """Return the states, as deep copies by stream name, from which streams can resume in a sync.

    The states of streams that are read from the beginning are left out. These are the ones that
    must restart, and their parent streams.

    Args:
        bookmarks: States by stream name.
        streams: Streams of the tap by name.
        must_restart: Called with a selected stream and its state (or None). Returns True to restart
            the stream.
        full_refresh: Names of streams that restart in any case, even if they are not selected.
    """
    restarted = _find_restarted(bookmarks, streams, must_restart, full_refresh)
    dropped = restarted | _find_ancestors(restarted, streams).keys()
    return {name: deepcopy(state) for name, state in bookmarks.items() if name not in dropped}


def find_previously_sent(
    bookmarks: Mapping[str, Any],
    streams: Mapping[str, SyncStream],
    must_restart: RestartCheck,
    full_refresh: Collection[str] = (),
) -> dict[str, dict[str, Any]]:
    """Return, by name, the states of parent streams that restart only due to a child stream.

    The state of such a parent shows which of its records were sent in earlier syncs. The restart is
    logged.

    Args:
        bookmarks: States by stream name.
        streams: Streams of the tap by name.
        must_restart: Called with a selected stream and its state (or None). Returns True to restart
            the stream.
        full_refresh: Names of streams that restart in any case.
    """
    restarted = _find_restarted(bookmarks, streams, must_restart, full_refresh)
    parents = {
        name: child
        for name, child in _find_ancestors(restarted, streams).items()
        if bookmarks.get(name) and name not in restarted
    }
    for name, child in parents.items():
        logger.info("Stream '%s' restarts, because its child stream '%s' restarts.", name, child)
    return {name: deepcopy(bookmarks[name]) for name in parents}


def _find_restarted(
    bookmarks: Mapping[str, Any],
    streams: Mapping[str, SyncStream],
    must_restart: RestartCheck,
    full_refresh: Collection[str],
) -> set[str]:
    """Return the names of the streams that restart regardless of their child streams.

    These are the streams in ``full_refresh``, and the selected streams for which ``must_restart``
    returns True.
    """
    return {
        name
        for name, stream in streams.items()
        if name in full_refresh or (stream.selected and must_restart(stream, bookmarks.get(name)))
    }


def _find_ancestors(
    restarted: Collection[str], streams: Mapping[str, SyncStream]
) -> dict[str, str]:
    """Return the ancestors of restarted streams: child streams need all records of their parents.

    The name of each ancestor is mapped to the name of one of its restarted descendants.
    """
    found = {
        name: next((one.name for one in stream.descendent_streams if one.name in restarted), None)
        for name, stream in streams.items()
    }
    return {name: child for name, child in found.items() if child is not None}
