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

__all__ = ["RestartCheck", "split_bookmarks"]

logger: logging.Logger = logging.getLogger(__name__)

RestartCheck: TypeAlias = Callable[[SyncStream, Any], bool]
"""Function that takes a stream and its state (or None), and returns True to restart the stream."""


def split_bookmarks(
    bookmarks: Mapping[str, Any],
    streams: Mapping[str, SyncStream],
    must_restart: RestartCheck,
    full_refresh: Collection[str] = (),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the states from which streams resume, and the unused states of other parent streams.

    The first dict lacks the streams that are read from the beginning: those that must restart, and
    their parent streams. The second dict has the states of parent streams that restart only because
    a child stream restarts; they show which records were sent in earlier syncs. Both dicts contain
    deep copies by stream name. Each restart of a parent stream is logged.

    Args:
        bookmarks: States by stream name.
        streams: Streams of the tap by name.
        must_restart: Called with a selected stream and its state (or None). Returns True to restart
            the stream.
        full_refresh: Names of streams that restart in any case, even if they are not selected.
    """
    restarted = {
        name
        for name, stream in streams.items()
        if name in full_refresh or (stream.selected and must_restart(stream, bookmarks.get(name)))
    }
    ancestors = _find_ancestors(restarted, streams)
    kept, previous = dict[str, Any](), dict[str, Any]()
    for name, state in deepcopy(dict(bookmarks)).items():
        if name in restarted:
            continue
        if name not in ancestors:
            kept[name] = state
        elif state:
            previous[name] = state
            logger.info(
                "Stream '%s' restarts, because its child stream '%s' restarts.",
                name,
                ancestors[name],
            )
    return kept, previous


def _find_ancestors(
    restarted: Collection[str], streams: Mapping[str, SyncStream]
) -> dict[str, str]:
    """Return the ancestors of the streams ``restarted``, which must restart too.

    The result maps the name of each ancestor to the name of one of its restarted descendants.
    """
    children = {
        name: [child.name for child in stream.descendent_streams if child.name in restarted]
        for name, stream in streams.items()
    }
    return {name: names[0] for name, names in children.items() if names}
