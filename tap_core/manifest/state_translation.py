"""Conversion of stream states between the formats of airbyte-cdk and this SDK.

A state is converted if its keys are recognized, and returned unchanged otherwise. In a list of
completed time windows with gaps, only the windows before the first gap are used. A state in an
unknown format causes a full read, never a lost record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "CURSOR_STATE",
    "GLOBAL_CURSOR",
    "LOOKBACK_WINDOW_KEY",
    "LegacyToPerPartitionStateMigration",
    "find_partition_field",
    "from_cdk_state",
    "iterate_parent_nodes",
    "make_context",
    "to_cdk_state",
    "to_cursor_state",
    "to_parent_state",
    "to_state_entry",
    "translate_custom_state",
]

CURSOR_STATE: Final = "cursor_state"
"""Key of a custom cursor's state, if the state contains more than one value."""

LOOKBACK_WINDOW_KEY: Final = "lookback_window"
"""Key for the duration in seconds of airbyte-cdk's sync that stored one cursor for all slices.

While other slices were read, a record may have changed. Its cursor value may be lower than the
stored cursor, by at most this duration. Next to the bookmark of a stream, the key shows that every
slice without a bookmark starts there. It is removed when all slices have been read.
"""

GLOBAL_CURSOR: Final = "global_cursor"
"""Key of the latest bookmark of all slices at the end of a sync, with the sync's duration.

With ``new_slices: global_cursor``, a later sync starts new slices at this bookmark minus the
duration.
"""

_OWN_KEYS: Final = frozenset(
    {
        "context",
        "partitions",
        "progress_markers",
        "replication_key",
        "replication_key_signpost",
        "replication_key_value",
        "starting_replication_value",
        CURSOR_STATE,
    }
)
_NO_CURSOR_KEYS: Final = ("__ab_no_cursor_state_message", "__ab_full_refresh_sync_complete")
"""Keys in airbyte-cdk's state of a stream without a cursor; such a state is ignored."""


@dataclass(frozen=True)
class LegacyToPerPartitionStateMigration:
    """State migration from one state per parent key, in airbyte-cdk's legacy format.

    The component does nothing, because `from_cdk_state` converts
    ``{"<parent key>": {"<cursor field>": "<value>"}}`` for every stream with a single partition
    field.
    """

    def should_migrate(self, stream_state: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Return False, because `from_cdk_state` has already converted the state."""
        return False

    def migrate(self, stream_state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state unchanged, because `from_cdk_state` has already converted it."""
        return stream_state


def from_cdk_state(
    state: Mapping[str, Any],
    *,
    cursor_field: str | None,
    partition_field: str | None,
    by_slices: bool = False,
    keeps_global: bool = False,
) -> dict[str, Any]:
    """Convert the state of a stream from airbyte-cdk's format to the format of this SDK.

    Args:
        state: State, in either format.
        cursor_field: Cursor field of the stream; None without a cursor.
        partition_field: Name of the stream's only partition field; None for no or several fields.
        by_slices: True if the stream has partition routers.
        keeps_global: True to keep the global cursor of airbyte-cdk, at which new slices start.
    """
    if _is_own_format(state) or not state:
        return dict(state)
    if cursor_field is None or any(key in state for key in _NO_CURSOR_KEYS):
        return {}
    if _has_slices(state):
        translated = _translate_partitions(state, cursor_field, _read_bookmark)
        if "replication_key" in translated:
            translated[LOOKBACK_WINDOW_KEY] = _read_lookback(state)
        if keeps_global and "partitions" in translated:
            translated |= _translate_global_cursor(state, cursor_field)
        return translated
    if (value := _get_cursor_value(state, cursor_field)) is not None:
        bookmark = _make_bookmark(cursor_field, value)
        return {**bookmark, LOOKBACK_WINDOW_KEY: 0} if bookmark and by_slices else bookmark
    if partition_field is not None and _is_by_key(state, cursor_field):
        entries = [
            {"partition": {partition_field: key}, "cursor": value} for key, value in state.items()
        ]
        return _translate_partitions({"states": entries}, cursor_field, _read_bookmark)
    return dict(state)


def translate_custom_state(
    state: Mapping[str, Any], cursor_field: str, *, by_slices: bool
) -> dict[str, Any]:
    """Convert the state of a stream with a custom cursor to the format of this SDK.

    ``by_slices`` is True if the stream has partition routers, so that each slice has a separate
    cursor.
    """
    if _is_own_format(state) or not state:
        return dict(state)
    if any(key in state for key in _NO_CURSOR_KEYS):
        return {}
    if by_slices and _has_slices(state):
        return _translate_partitions(state, cursor_field, to_state_entry)
    return to_state_entry(state, cursor_field)


def to_state_entry(state: Mapping[str, Any], cursor_field: str) -> dict[str, Any]:
    """Convert the state of a custom cursor to a bookmark in the format of this SDK."""
    value = state.get(cursor_field)
    is_scalar = not isinstance(value, (Mapping, list))
    bookmark = _make_bookmark(cursor_field, value) if is_scalar else {}
    if is_scalar and not state.keys() - {cursor_field}:
        return bookmark
    return {**bookmark, CURSOR_STATE: dict(state)}


def to_cursor_state(entry: Mapping[str, Any], cursor_field: str) -> dict[str, Any]:
    """Convert a bookmark in the format of this SDK to the state of a custom cursor.

    Return {} if the bookmark belongs to another cursor field.
    """
    if isinstance(cursor_state := entry.get(CURSOR_STATE), Mapping):
        return dict(cursor_state)
    value = entry.get("replication_key_value")
    if value is None or entry.get("replication_key") != cursor_field:
        return {}
    return {cursor_field: value}


def to_parent_state(state: Mapping[str, Any] | None, cursor_field: str) -> dict[str, Any]:
    """Convert the state of a parent stream to airbyte-cdk's format, for a custom cursor.

    Return {} if ``state`` is None or empty.
    """
    if not state:
        return {}
    states = [
        {"partition": entry["context"], "cursor": to_cursor_state(entry, cursor_field)}
        for entry in state.get("partitions") or ()
    ]
    return {"states": states} if states else to_cursor_state(state, cursor_field)


def to_cdk_state(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert the state of a stream to airbyte-cdk's format.

    If the state has slices, the keys ``state`` (the latest cursor of all slices) and
    ``parent_state`` are added, by which migrations recognize the current format. A state that is
    not in the format of this SDK is returned unchanged.
    """
    if not _is_own_format(state):
        return state
    if "partitions" not in state:
        return to_cursor_state(state, str(state.get("replication_key")))
    states = [
        {"partition": entry["context"], "cursor": cursor}
        for entry in state["partitions"]
        if (cursor := to_cursor_state(entry, str(entry.get("replication_key"))))
    ]
    latest: Mapping[str, Any] = max(
        (entry["cursor"] for entry in states),
        key=lambda cursor: [*map(str, cursor.values())],
        default={},
    )
    return {
        "use_global_cursor": False,
        "states": states,
        "state": latest,
        "parent_state": {},
    }


def make_context(partition: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a partition or slice of airbyte-cdk to a context, a dict of partition values.

    An empty ``parent_slice`` is removed.
    """
    context = dict(partition)
    if isinstance(parent := context.get("parent_slice"), Mapping):
        context["parent_slice"] = make_context(parent)
    if not context.get("parent_slice"):
        context.pop("parent_slice", None)
    return context


def _is_own_format(state: Mapping[str, Any]) -> bool:
    """Return True if a state is in the format of this SDK, not of airbyte-cdk."""
    return bool(_OWN_KEYS.intersection(state))


def _has_slices(state: Mapping[str, Any]) -> bool:
    """Return True if an airbyte-cdk state has separate states for the slices of a stream.

    Also return True if it has ``use_global_cursor``, even without a list of slice states.
    """
    return isinstance(state.get("states"), Sequence) or bool(state.get("use_global_cursor"))


def _translate_partitions(
    state: Mapping[str, Any],
    cursor_field: str,
    to_bookmark: Callable[[Any, str], Mapping[str, Any]],
) -> dict[str, Any]:
    """Convert an airbyte-cdk state with one state per stream slice to the format of this SDK.

    If ``use_global_cursor`` is set, the state that all slices share is converted too.
    ``to_bookmark`` converts the cursor of one slice to a bookmark.
    """
    result: dict[str, Any] = {}
    if state.get("use_global_cursor") and isinstance(state.get("state"), Mapping):
        result |= to_bookmark(state["state"], cursor_field)
    partitions = [
        {
            "context": make_context(entry["partition"]),
            **to_bookmark(entry.get("cursor") or {}, cursor_field),
        }
        for entry in state.get("states") or ()
        if isinstance(entry, Mapping) and isinstance(entry.get("partition"), Mapping)
    ]
    if partitions:
        result["partitions"] = partitions
    if parents := state.get("parent_state"):
        result["parent_state"] = parents
    return result


def _translate_global_cursor(state: Mapping[str, Any], cursor_field: str) -> dict[str, Any]:
    """Return the global cursor of an airbyte-cdk state under the key `GLOBAL_CURSOR`.

    Return {} if the state has no global cursor. Also return {} if ``use_global_cursor`` is set,
    because `_translate_partitions` then converts the global cursor.
    """
    bookmark = _read_bookmark(state.get("state"), cursor_field)
    if not bookmark or state.get("use_global_cursor"):
        return {}
    return {GLOBAL_CURSOR: {**bookmark, LOOKBACK_WINDOW_KEY: _read_lookback(state)}}


def _read_lookback(state: Mapping[str, Any]) -> int:
    seconds = state.get(LOOKBACK_WINDOW_KEY)
    return max(seconds, 0) if isinstance(seconds, int) else 0


def _read_bookmark(cursor: Any, cursor_field: str) -> dict[str, Any]:
    return _make_bookmark(cursor_field, _get_cursor_value(cursor, cursor_field))


def _make_bookmark(cursor_field: str, value: Any) -> dict[str, Any]:
    if value is None or value == "":
        return {}
    return {"replication_key": cursor_field, "replication_key_value": value}


def _get_cursor_value(cursor: Any, cursor_field: str) -> Any:
    if not isinstance(cursor, Mapping):
        return None
    if isinstance(cursor.get("slices"), Sequence):
        return _get_contiguous_end(cursor["slices"])
    return cursor.get(cursor_field)


def _get_contiguous_end(slices: Iterable[Any]) -> Any:
    """Return the cursor value up to which all records were read, from an airbyte-cdk state.

    ``slices`` are the completed time intervals in the state. The result is the latest cursor value
    in the earliest interval, because records after the interval may be missing.
    """
    first = min(
        (interval for interval in slices if isinstance(interval, Mapping)),
        key=lambda interval: str(interval.get("start", "")),
        default=None,
    )
    return None if first is None else first.get("most_recent_cursor_value", first.get("start"))


def _is_by_key(state: Mapping[str, Any], cursor_field: str) -> bool:
    return all(
        isinstance(cursor, Mapping) and set(cursor) == {cursor_field} for cursor in state.values()
    )


# Nodes of a manifest


def iterate_parent_nodes(stream: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the manifest nodes of a stream's parent streams, of their parents, and so on."""
    cursor = stream.get("incremental_sync")
    routers = [inner for router in _get_routers(stream) for inner in _iterate_inner_routers(router)]
    for router in (*routers, cursor if isinstance(cursor, Mapping) else {}):
        for parent_config in router.get("parent_stream_configs") or ():
            parent = parent_config.get("stream") or {}
            yield parent
            yield from iterate_parent_nodes(parent)


def find_partition_field(stream: Mapping[str, Any]) -> str | None:
    """Return the name of a stream's only partition field; None for no or several fields."""
    names = [name for router in _get_routers(stream) for name in _get_partition_fields(router)]
    return names[0] if len(names) == 1 and "{{" not in names[0] else None


def _get_routers(stream: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    routers = (stream.get("retriever") or {}).get("partition_router")
    return [router for router in (routers if isinstance(routers, list) else [routers]) if router]


def _iterate_inner_routers(router: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the manifest nodes of a partition router and of all routers inside it."""
    yield router
    for inner in (
        router.get("underlying_partition_router"),
        *(router.get("partition_routers") or ()),
    ):
        if isinstance(inner, Mapping):
            yield from _iterate_inner_routers(inner)


def _get_partition_fields(router: Mapping[str, Any]) -> list[str]:
    parents = router.get("parent_stream_configs") or ()
    names = [
        router.get("cursor_field"),
        router.get("partition_field"),
        *(parent.get("partition_field") for parent in parents),
    ]
    return [name for name in names if isinstance(name, str)]
