"""Which streams go on from a state and which begin, when some of them are asked for anew.

Rules of the room: pure. ``bookmarks`` are the states of streams by the tap's own names for them.
A stream that begins has to see all records of its parents, so these begin too: else what is
below their older records would never be asked for. What such a parent has sent before need not
be sent once more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from typing import Any, TypeAlias

from tap_core.protocols.interfaces import ResumableStream

__all__ = ["RestartedStreams", "find_previously_sent", "retained_bookmarks"]

logger: logging.Logger = logging.getLogger(__name__)

RestartedStreams: TypeAlias = Callable[[ResumableStream, Any], bool]
"""Tells of a selected stream and its state, None for none, whether it begins."""


def retained_bookmarks(
    bookmarks: Mapping[str, Any],
    streams: Mapping[str, ResumableStream],
    begins: RestartedStreams,
    in_full: Collection[str] = (),
) -> dict[str, Any]:
    """Return the states with which streams go on; nothing in it is shared with ``bookmarks``.

    Those ``in_full`` begin in any case, also where they are not selected.
    """
    begun = _begun(bookmarks, streams, begins, in_full)
    fresh = begun | _parents(begun, streams).keys()
    return {name: deepcopy(state) for name, state in bookmarks.items() if name not in fresh}


def find_previously_sent(
    bookmarks: Mapping[str, Any],
    streams: Mapping[str, ResumableStream],
    begins: RestartedStreams,
    in_full: Collection[str] = (),
) -> dict[str, dict[str, Any]]:
    """Return the states of the parents that begin again only for the sake of their children."""
    begun = _begun(bookmarks, streams, begins, in_full)
    again = {
        name: child
        for name, child in _parents(begun, streams).items()
        if bookmarks.get(name) and name not in begun
    }
    for name, child in again.items():
        logger.info("Stream '%s' is read from its beginning, because '%s' is.", name, child)
    return {name: deepcopy(bookmarks[name]) for name in again}


def _begun(
    bookmarks: Mapping[str, Any],
    streams: Mapping[str, ResumableStream],
    begins: RestartedStreams,
    in_full: Collection[str],
) -> set[str]:
    """Name the streams that begin at their beginning, by themselves."""
    return {
        name
        for name, stream in streams.items()
        if name in in_full or (stream.selected and begins(stream, bookmarks.get(name)))
    }


def _parents(begun: Collection[str], streams: Mapping[str, ResumableStream]) -> dict[str, str]:
    """Name the streams above those that begin, each with one of them."""
    found = {
        name: next((one.name for one in stream.descendent_streams if one.name in begun), None)
        for name, stream in streams.items()
    }
    return {name: child for name, child in found.items() if child is not None}
