"""Base classes of custom state migrations, for states of older connector versions.

Migrations have no side effects. They know their stream only by its declaration in the manifest
(`CdkState`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tap_core.manifest.cdk_compat.interpolation import InterpolatedString
from tap_core.manifest.cdk_compat.type_guards import is_dict, is_list, is_mapping

__all__ = ["CdkLegacyToPerPartitionStateMigration", "CdkState", "CdkStateMigration"]


class CdkState(Mapping[str, Any]):
    """Node of the manifest: its options as attributes, None for missing ones."""

    def __init__(self, node: Mapping[str, Any]) -> None:
        self._node = node

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Parameters that apply to the node."""
        return getattr(self._node, "parameters", None) or {}

    def __getattr__(self, name: str) -> Any:
        """Return an option, or None if it is missing."""
        if name.startswith("__"):
            raise AttributeError(name)
        return _wrap_state(self._node.get(name))

    def __getitem__(self, name: str) -> Any:
        """Return an option.

        Raises:
            KeyError: the option is missing.
        """
        return _wrap_state(self._node[name])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the option names."""
        return iter(self._node)

    def __len__(self) -> int:
        """Return the number of options."""
        return len(self._node)


def _wrap_state(value: Any) -> Any:
    if is_list(value):
        return [_wrap_state(one) for one in value]
    return CdkState(value) if is_mapping(value) else value


class CdkStateMigration:
    """Base class of state migrations."""

    def should_migrate(self, stream_state: Mapping[str, Any]) -> bool:
        """Return True if the state has the older format."""
        raise NotImplementedError

    def migrate(self, stream_state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state in the current format."""
        raise NotImplementedError


class CdkLegacyToPerPartitionStateMigration(CdkStateMigration):
    """Migration of ``{"<parent key>": {"<cursor field>": "<value>"}}`` to per-partition state."""

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
        """Return True if there is one parent stream and the state is keyed by its parent key."""
        if not stream_state or len(self._partition_router.parent_stream_configs) != 1:
            return False
        return all(
            is_dict(one) and one.keys() == {self._cursor_field} for one in stream_state.values()
        )

    def migrate(self, stream_state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state as a list of partitions with their cursors."""
        states = [
            {"partition": {self._partition_key_field: key}, "cursor": one}
            for key, one in stream_state.items()
        ]
        return {"states": states}
