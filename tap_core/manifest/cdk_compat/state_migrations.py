"""Base classes for custom state migrations, which convert states of older connector versions.

A migration has no side effects. It receives its stream's declaration in the manifest as a
`CdkDeclaration`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tap_core.manifest.cdk_compat.interpolation import InterpolatedString
from tap_core.manifest.cdk_compat.type_guards import is_dict, is_list, is_mapping

__all__ = ["CdkDeclaration", "CdkLegacyToPerPartitionStateMigration", "CdkStateMigration"]


class CdkDeclaration(Mapping[str, Any]):
    """Declaration of a stream in the manifest, with its options as attributes and as items.

    For example, ``declaration.name`` and ``declaration['name']`` are the same. The attribute of a
    missing option is None.
    """

    def __init__(self, node: Mapping[str, Any]) -> None:
        self._node = node

    @property
    def parameters(self) -> Mapping[str, Any]:
        """``$parameters`` of the manifest that apply to the declaration; {} if there are none."""
        return getattr(self._node, "parameters", None) or {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _wrap_node(self._node.get(name))

    def __getitem__(self, name: str) -> Any:
        return _wrap_node(self._node[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._node)

    def __len__(self) -> int:
        return len(self._node)


def _wrap_node(value: Any) -> Any:
    if is_list(value):
        return [_wrap_node(item) for item in value]
    return CdkDeclaration(value) if is_mapping(value) else value


class CdkStateMigration:
    """Base class of state migrations, which convert the state of an older connector version."""

    def should_migrate(self, stream_state: Mapping[str, Any]) -> bool:
        """Return True if the state is in an older format, which `migrate` then converts."""
        raise NotImplementedError

    def migrate(self, stream_state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert a state and return it in the connector's current format."""
        raise NotImplementedError


class CdkLegacyToPerPartitionStateMigration(CdkStateMigration):
    """State migration from one state per parent key to Airbyte's per-partition format.

    It converts ``{"<parent key>": {"<cursor field>": "<value>"}, …}`` to
    ``{"states": [{"partition": …, "cursor": …}, …]}``.
    """

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
        self._partition_key_field = self._render(self._get_partition_field(partition_router))
        self._cursor_field = self._render(cursor.cursor_field)

    def _render(self, text: Any) -> Any:
        return InterpolatedString.create(text, parameters=self._parameters).eval(self._config)

    def _get_partition_field(self, partition_router: Any) -> Any:
        return partition_router.parent_stream_configs[0].partition_field

    def should_migrate(self, stream_state: Mapping[str, Any]) -> bool:
        """Return True if the state is ``{"<parent key>": {"<cursor field>": "<value>"}, …}``.

        Return False for any other state, and if there are several parent streams.
        """
        if not stream_state or len(self._partition_router.parent_stream_configs) != 1:
            return False
        return all(
            is_dict(each) and each.keys() == {self._cursor_field} for each in stream_state.values()
        )

    def migrate(self, stream_state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return ``{"states": [{"partition": …, "cursor": …}, …]}``, one item per parent key."""
        states = [
            {"partition": {self._partition_key_field: key}, "cursor": cursor}
            for key, cursor in stream_state.items()
        ]
        return {"states": states}
