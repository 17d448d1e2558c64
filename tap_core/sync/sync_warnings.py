"""Warnings at the start of a sync: no stream selected, an unused state, an undeclared primary key.

singer_sdk ignores a state that no stream can use without a message. Here a warning says which
streams are read in full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tap_core.config.similar_names import list_names
from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE
from tap_core.state.document import PER_STREAM_KEYS
from tap_core.sync.plan import is_mapped

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream, SyncTap

__all__ = ["find_unused_state", "warn_of_likely_mistakes"]

_MAX_NAMES: Final = 5
"""Maximum number of names in a warning."""


def warn_of_likely_mistakes(tap: SyncTap, streams: Sequence[SyncStream]) -> None:
    """Log a warning if no stream is found or selected, or if a state or primary key has no effect.

    ``streams`` are the streams of the sync.
    """
    selected = [stream for stream in streams if stream.selected]
    if not tap.streams:
        tap.logger.warning(
            "The tap has no stream, so no record is read: its discovery returned none."
        )
    if streams and not selected:
        tap.logger.warning(
            "No stream is selected, so no record is read. Select streams in the catalog"
            " (--catalog)."
        )
    for warning in find_unused_state(tap):
        tap.logger.warning("%s", warning)
    for stream in selected:
        declared = stream.effective_schema.get("properties")
        missing = [key for key in stream.primary_keys or () if key not in (declared or {key})]
        if missing and not is_mapped(stream):
            tap.logger.warning(
                "Stream '%s': its schema does not declare the primary key %s, so records are sent"
                " without it, which targets may reject. Declare it, or change primary_keys.",
                stream.name,
                ", ".join(map(repr, missing)),
            )


def find_unused_state(tap: SyncTap) -> Iterator[str]:
    """Yield warnings about bookmarks in a tap's state from which no stream can resume.

    There is one warning if no stream of the tap has a bookmark. There is another for all bookmarks
    whose replication key differs from that of their stream. Values that are not bookmarks are
    ignored.
    """
    current = _read_bookmarks(tap.document.tap_state)
    unused = (
        None if tap.has_shared_state else _describe_unused(tap.document.input_state, tap.streams)
    )
    if unused is not None and current.keys().isdisjoint(tap.streams):
        yield f"{unused}: all streams are read in full. Check that it is the state of this tap."
    changed = [
        f"'{name}' ('{key}', now '{stream.replication_key}')"
        for name, stream in tap.streams.items()
        if stream.selected and (key := _find_other_key(stream, current.get(name)))
    ]
    if changed:
        yield (
            "The bookmarks in the state have other replication keys than the streams, which are"
            f" read in full: {list_names(changed, _MAX_NAMES)}."
        )


def _describe_unused(state: Mapping[str, Any], streams: Collection[str]) -> str | None:
    """Return the beginning of a warning about a state that has no bookmarks of ``streams``.

    Return None if the state has a bookmark of one of these streams, or is empty.
    """
    bookmarks = _read_bookmarks(state)
    names = [name for name, bookmark in bookmarks.items() if bookmark]
    if names:
        known = not bookmarks.keys().isdisjoint(streams)
        return None if known else f"The state has bookmarks of other streams only ({_quote(names)})"
    keys = state.keys() - PER_STREAM_KEYS
    return f"The state has no bookmarks, but {_quote(sorted(keys))}" if keys else None


def _read_bookmarks(state: Mapping[str, Any]) -> Mapping[str, Any]:
    bookmarks = state.get("bookmarks")
    return bookmarks if isinstance(bookmarks, Mapping) else {}


def _find_other_key(stream: SyncStream, state: Any) -> str | None:
    """Return the replication key in a stream's state if it differs from the stream's own one.

    Return None if at least one bookmark is of the stream's own replication key.
    """
    key = stream.replication_key
    if not isinstance(state, Mapping) or not key:
        return None
    if stream.replication_method == REPLICATION_FULL_TABLE:
        return None
    partitions = state.get("partitions")
    entries = [state, *(partitions if isinstance(partitions, list) else ())]
    keys = [entry.get("replication_key") for entry in entries if isinstance(entry, Mapping)]
    names = {other for other in keys if isinstance(other, str)}
    return None if key in names else min(names, default=None)


def _quote(names: Iterable[str]) -> str:
    return list_names([f"'{name}'" for name in names], _MAX_NAMES)
