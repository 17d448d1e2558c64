"""Detection of a state from which no stream, or not a selected stream, can resume.

singer_sdk ignores such a state without a message; here a warning says that streams are read in
full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE
from tap_core.state.document import PER_STREAM_KEYS

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream, SyncTap

__all__ = ["find_unused_state"]

_NAMED: Final = 5
"""Maximum number of names in a warning."""


def find_unused_state(tap: SyncTap) -> Iterator[str]:
    """Yield a warning if the state of a tap has no effect, and one for other replication keys."""
    current = tap.document.tap_state.get("bookmarks") or {}
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
            f" read in full: {_join(changed)}."
        )


def _describe_unused(state: Mapping[str, Any], streams: Collection[str]) -> str | None:
    """Return what a state has in place of bookmarks of the streams.

    Return None if it has such a bookmark, or is empty.
    """
    bookmarks = state.get("bookmarks") or {}
    found = [name for name, bookmark in bookmarks.items() if bookmark]
    if found:
        known = not bookmarks.keys().isdisjoint(streams)
        return None if known else f"The state has bookmarks of other streams only ({_quote(found)})"
    keys = state.keys() - PER_STREAM_KEYS
    return f"The state has no bookmarks, but {_quote(sorted(keys))}" if keys else None


def _find_other_key(stream: SyncStream, state: Mapping[str, Any] | None) -> str | None:
    """Return the replication key of a stream's bookmarks if it is not the stream's key."""
    key = stream.replication_key
    if not state or not key or stream.replication_method == REPLICATION_FULL_TABLE:
        return None
    entries = [state, *(state.get("partitions") or ())]
    found = {entry.get("replication_key") for entry in entries} - {None}
    return None if key in found else next(iter(sorted(found)), None)


def _quote(names: Iterable[str]) -> str:
    return _join([f"'{name}'" for name in names])


def _join(parts: Sequence[str]) -> str:
    """Join the first parts with commas, followed by the number of the others."""
    more = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    return ", ".join(parts[:_NAMED]) + more
