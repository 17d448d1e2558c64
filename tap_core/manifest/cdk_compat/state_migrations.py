"""Migrations of states to be subclassed: what older versions of a connector stored.

Rules of the room: pure. What a migration may know of its stream is what the manifest says of it,
option by option.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tap_core.manifest.cdk_compat.interpolation import InterpolatedString
from tap_core.manifest.cdk_compat.type_guards import is_dict, is_list, is_mapping

__all__ = ["CdkLegacyToPerPartitionStateMigration", "CdkState", "CdkStateMigration"]


class CdkState(Mapping[str, Any]):
    """What a manifest says in one place: its options as attributes, None for those left out."""

    def __init__(self, node: Mapping[str, Any]) -> None:
        self._node = node

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters that are in force there."""
        return getattr(self._node, "parameters", None) or {}

    def __getattr__(self, name: str) -> Any:
        """Return an option."""
        if name.startswith("__"):
            raise AttributeError(name)
        return _said(self._node.get(name))

    def __getitem__(self, name: str) -> Any:
        """Return an option that is there."""
        return _said(self._node[name])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the options."""
        return iter(self._node)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._node)


def _said(value: Any) -> Any:
    if is_list(value):
        return [_said(one) for one in value]
    return CdkState(value) if is_mapping(value) else value


class CdkStateMigration:
    """Brings a state of an older version to the present form."""

    def should_migrate(self, stream_state: Mapping[str, Any]) -> bool:
        """Return whether a state is of that version."""
        raise NotImplementedError

    def migrate(self, stream_state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state in its present form."""
        raise NotImplementedError


class CdkLegacyToPerPartitionStateMigration(CdkStateMigration):
    """Reads ``{"<key of a parent>": {"<cursor field>": "<value>"}}``."""

    def __init__(
        self,
        partition_router: Any,
        cursor: Any,
        config: Mapping[str, Any],
        parameters: Mapping[str, Any],
    ) -> None:
        self._partition_router = partition_router
        self._cursor = cursor
        self._config = config
        self._parameters = parameters
        self._partition_key_field = self._text(self._get_partition_field(partition_router))
        self._cursor_field = self._text(cursor.cursor_field)

    def _text(self, given: Any) -> Any:
        return InterpolatedString.create(given, parameters=self._parameters).eval(self._config)

    def _get_partition_field(self, partition_router: Any) -> Any:
        return partition_router.parent_stream_configs[0].partition_field

    def should_migrate(self, stream_state: Mapping[str, Any]) -> bool:
        """Return whether a state is by the key of the one parent."""
        if not stream_state or len(self._partition_router.parent_stream_configs) != 1:
            return False
        return all(
            is_dict(one) and one.keys() == {self._cursor_field} for one in stream_state.values()
        )

    def migrate(self, stream_state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state by slices."""
        states = [
            {"partition": {self._partition_key_field: key}, "cursor": one}
            for key, one in stream_state.items()
        ]
        return {"states": states}
