"""Resolution of a manifest's references, such as ``#/definitions/requester``.

A reference is any text that begins with ``#/``. A mapping with ``$ref`` becomes the referenced
mapping, updated with the other keys of the mapping. If several references have the same target, the
target is resolved once and shared (Airbyte's YAML reference, "References").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tap_core.manifest.nodes import ListNode, MappingNode

__all__ = ["References"]

_PREFIX: Final = "#/"
_CONFIG_VALUES: Final = "config_overrides"
"""Key that holds config values, in which a text is never a reference."""


class References:
    """Resolver of the references in a manifest, such as ``#/definitions/requester``.

    Each target is resolved once and shared. ``report_problem`` is called with the line, path and
    message of each invalid reference, which then becomes None.
    """

    def __init__(self, root: MappingNode, report_problem: Callable[[int, str, str], None]) -> None:
        self._root = root
        self._report_problem = report_problem
        self._resolved: dict[str, Any] = {}
        """Resolved targets, by reference."""
        self._pending: list[str] = []
        """References that are being resolved, outer ones first."""

    def resolve(self, node: Any, line: int) -> Any:
        """Return a node of the manifest with its references replaced by their targets.

        ``line`` is the line for error messages.

        Raises:
            ManifestError: A reference has no target, or is circular.
        """
        if isinstance(node, MappingNode):
            return self._resolve_mapping(node)
        if isinstance(node, ListNode):
            pairs = zip(node, node.lines, strict=True)
            items = [self.resolve(item, item_line) for item, item_line in pairs]
            return ListNode(items, lines=node.lines)
        if isinstance(node, str) and node.startswith(_PREFIX):
            return self._resolve_reference(node, line)
        return node

    def _resolve_mapping(self, node: MappingNode) -> Any:
        lines = node.lines
        own_options = {
            key: value if key == _CONFIG_VALUES else self.resolve(value, lines.get(key, 0))
            for key, value in node.items()
            if key != "$ref"
        }
        if "$ref" not in node:
            return MappingNode(own_options, line=node.line, lines=lines)
        target = self.resolve(node["$ref"], lines["$ref"])
        if not isinstance(target, MappingNode) or not own_options:
            return target
        return MappingNode(
            {**target, **own_options}, line=node.line, lines={**target.lines, **lines}
        )

    def _resolve_reference(self, reference: str, line: int) -> Any:
        if reference in self._resolved:
            return self._resolved[reference]
        if reference in self._pending:
            chain = " -> ".join([*self._pending, reference])
            self._report_problem(
                line, "", f"the reference '{reference}' leads back to itself ({chain})."
            )
            return None
        self._pending.append(reference)
        try:
            resolved = self.resolve(self._find_target(reference, line), line)
        finally:
            self._pending.pop()
        self._resolved[reference] = resolved
        return resolved

    def _find_target(self, reference: str, line: int) -> Any:
        """Return the target of a reference such as ``#/definitions/requester``.

        A key may contain slashes; if several keys match, the longest one is used.
        """
        node: Any = self._root
        rest = reference.removeprefix(_PREFIX)
        while rest:
            if isinstance(node, dict) and rest in node:
                return node[rest]
            head, _, rest = rest.partition("/")
            try:
                node = node[int(head) if isinstance(node, list) else head]
            except (KeyError, IndexError, ValueError, TypeError):
                above = reference[: len(reference) - len(f"{head}/{rest}".rstrip("/"))]
                missing = f"there is no '{head}' in '{above}'"
                self._report_problem(
                    line, "", f"the reference '{reference}' leads nowhere: {missing}."
                )
                return None
        return node
