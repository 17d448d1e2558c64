"""Selection of the streams that resume from their state. All others restart from the beginning.

- A child stream that restarts needs every record of its parent streams, so these restart too.
  Otherwise the children of older parent records would be missed. The parent records themselves were
  sent before and need not be sent again.
- While a child stream is not selected, the bookmarks of its parents advance without it. The key
  ``skipped_children`` in the state of a parent names such children. The parent restarts in the
  first sync that selects one of them again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from typing import Any, Final, TypeAlias

from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE
from tap_core.sync.interfaces import SyncStream

__all__ = ["RestartCheck", "split_bookmarks"]

logger: logging.Logger = logging.getLogger(__name__)

_SKIPPED_CHILDREN: Final = "skipped_children"
"""Key in the state of a parent stream, with the names of children that it was read without."""

RestartCheck: TypeAlias = Callable[[SyncStream, Any], bool]
"""Function that takes a stream and its state (or None), and returns True to restart the stream."""


def split_bookmarks(
    bookmarks: Mapping[str, Any],
    streams: Mapping[str, SyncStream],
    must_restart: RestartCheck,
    full_refresh: Collection[str] = (),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the states from which streams resume, and the unused states of other parent streams.

    The first dict lacks the bookmarks of streams that are read from the beginning: those that must
    restart, and parent streams whose children need all of their records. The second dict has the
    states of such parent streams; they show which records were sent in earlier syncs. Both dicts
    contain deep copies by stream name. Each restart of a parent stream is logged.

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
    ancestors = _find_ancestors(restarted, streams, bookmarks)
    kept, previous = dict[str, Any](), dict[str, Any]()
    for name, state in deepcopy(dict(bookmarks)).items():
        if name in restarted:
            continue
        if name not in ancestors:
            kept[name] = state
        elif state:
            previous[name] = state
            logger.info(
                "Stream '%s' restarts, because its child stream '%s' needs all of its records.",
                name,
                ancestors[name],
            )
    _set_skipped_children(kept, bookmarks, streams)
    return kept, previous


def _find_ancestors(
    restarted: Collection[str], streams: Mapping[str, SyncStream], bookmarks: Mapping[str, Any]
) -> dict[str, str]:
    """Return the streams that must restart because a descendant needs all of their records.

    These descendants are in ``restarted``, or were not selected in the last sync of the ancestor.
    The result maps the name of each ancestor to the name of one such descendant.
    """
    children = {
        name: [
            child.name
            for child in stream.descendent_streams
            if child.name in restarted
            or (child.selected and child.name in _get_skipped_children(bookmarks.get(name)))
        ]
        for name, stream in streams.items()
    }
    return {name: names[0] for name, names in children.items() if names}


def _get_skipped_children(state: Any) -> Collection[Any]:
    names = state.get(_SKIPPED_CHILDREN) if isinstance(state, Mapping) else None
    return names if isinstance(names, list) else ()


def _set_skipped_children(
    kept: dict[str, Any], bookmarks: Mapping[str, Any], streams: Mapping[str, SyncStream]
) -> None:
    """Store in the state of each selected parent stream which children the sync reads it without.

    A child that has no state, and gets none because no stream below it is selected, is left out:
    its parents restart in any case when it is selected. Parents that each sync reads in full get no
    such entry.

    Args:
        kept: States from which streams resume. They are changed.
        bookmarks: States of the earlier sync.
        streams: Streams of the tap by name.
    """
    for name, stream in streams.items():
        state = kept.get(name)
        if not stream.selected or not isinstance(state, dict | None):
            continue
        children = [
            child.name
            for child in stream.descendent_streams
            if not child.selected
            and (bookmarks.get(child.name) is not None or child.has_selected_descendents)
        ]
        if children and stream.replication_method != REPLICATION_FULL_TABLE:
            kept[name] = {**(state or {}), _SKIPPED_CHILDREN: sorted(children)}
        elif state:
            state.pop(_SKIPPED_CHILDREN, None)
