"""States that airbyte-cdk stored, as this SDK's: one dict of a stream to another.

Rules of the room: pure. What is known by its keys is translated, everything else is left as it
is. A run of windows that was not closed from its start is worth what its first part says. An
unknown form costs a read from the beginning, never a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "LegacyToPerPartitionStateMigration",
    "context_of",
    "parents_of",
    "partition_field",
    "translated",
]

_OURS: Final = frozenset(
    {
        *("replication_key", "replication_key_value", "partitions", "progress_markers"),
        *("starting_replication_value", "replication_key_signpost", "context"),
    }
)
_NOTHING: Final = ("__ab_no_cursor_state_message", "__ab_full_refresh_sync_complete")


@dataclass(frozen=True)
class LegacyToPerPartitionStateMigration:
    """Reads ``{"<key of a parent>": {"<cursor field>": "<value>"}}``.

    `translated` does so for every stream with one parent, whether it asks for it or not.
    """

    def should_migrate(self, stream_state: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Return False: nothing is left to do here."""
        return False

    def migrate(self, stream_state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state as it is."""
        return stream_state


def translated(
    state: Mapping[str, Any], *, cursor_field: str | None, partition_field: str | None
) -> dict[str, Any]:
    """Return a stream's state in the form of this SDK.

    ``partition_field`` is the one key of the stream's slices, where they have just one.
    """
    if _OURS.intersection(state) or not state:
        return dict(state)
    if cursor_field is None or any(key in state for key in _NOTHING):
        return {}
    if isinstance(state.get("states"), Sequence):
        return _of_partitions(state, cursor_field)
    if (value := _value_of(state, cursor_field)) is not None:
        return _position(cursor_field, value)
    if partition_field is not None and _is_by_key(state, cursor_field):
        entries = [
            {"partition": {partition_field: key}, "cursor": value} for key, value in state.items()
        ]
        return _of_partitions({"states": entries}, cursor_field)
    return dict(state)


def parents_of(stream: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the declared streams that are parents of a declared one, and theirs."""
    for router in _routers(stream):
        for one in router.get("parent_stream_configs") or ():
            parent = one.get("stream") or {}
            yield parent
            yield from parents_of(parent)


def partition_field(stream: Mapping[str, Any]) -> str | None:
    """Return the one key of a declared stream's slices, None where there are several or none."""
    names = [name for router in _routers(stream) for name in _fields_of(router)]
    return names[0] if len(names) == 1 and "{{" not in names[0] else None


def _routers(stream: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = (stream.get("retriever") or {}).get("partition_router")
    return [one for one in (found if isinstance(found, list) else [found]) if one]


def _fields_of(router: Mapping[str, Any]) -> list[str]:
    parents = router.get("parent_stream_configs") or ()
    given = [router.get("cursor_field"), *(one.get("partition_field") for one in parents)]
    return [name for name in given if isinstance(name, str)]


def context_of(partition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context of a partition: a parent without slices leaves nothing to say."""
    return {
        key: context_of(value) if key == "parent_slice" else value
        for key, value in partition.items()
        if key != "parent_slice" or value
    }


def _of_partitions(state: Mapping[str, Any], cursor_field: str) -> dict[str, Any]:
    """Translate the states of slices; one for all of them counts where it is said to."""
    result: dict[str, Any] = {}
    if state.get("use_global_cursor") and isinstance(state.get("state"), Mapping):
        result |= _position(cursor_field, _value_of(state["state"], cursor_field))
    partitions = [
        {
            "context": context_of(entry["partition"]),
            **_position(cursor_field, _value_of(entry.get("cursor"), cursor_field)),
        }
        for entry in state["states"]
        if isinstance(entry, Mapping) and isinstance(entry.get("partition"), Mapping)
    ]
    if partitions:
        result["partitions"] = partitions
    if parents := state.get("parent_state"):
        result["parent_state"] = parents
    return result


def _position(cursor_field: str, value: Any) -> dict[str, Any]:
    if value is None or value == "":
        return {}
    return {"replication_key": cursor_field, "replication_key_value": value}


def _value_of(cursor: Any, cursor_field: str) -> Any:
    if not isinstance(cursor, Mapping):
        return None
    if isinstance(cursor.get("slices"), Sequence):
        return _closed(cursor["slices"])
    return cursor.get(cursor_field)


def _closed(slices: Iterable[Any]) -> Any:
    """Return how far the first unbroken run of windows came: nothing before it is missing."""
    first = min(
        (one for one in slices if isinstance(one, Mapping)),
        key=lambda one: str(one.get("start", "")),
        default=None,
    )
    return None if first is None else first.get("most_recent_cursor_value", first.get("start"))


def _is_by_key(state: Mapping[str, Any], cursor_field: str) -> bool:
    return all(isinstance(one, Mapping) and set(one) == {cursor_field} for one in state.values())
