"""`StreamTemplate`: generates a stream from a template and the values of a components resolver.

References are resolved and ``$parameters`` propagated in the template, and again in each generated
stream, so components keep their ``$parameters`` in between. The linter generates streams too, as
far as possible; a value that the linter cannot determine is `UNKNOWN` (airbyte-cdk's component
schema, ComponentMappingDefinition).
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tap_core.manifest.dpath import find_all, make_locator, set_at
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import TemplateScope, find_variable_names, resolve
from tap_core.manifest.loader import parse_value
from tap_core.manifest.nodes import UNKNOWN, ListNode, MappingNode, to_nodes, to_plain
from tap_core.manifest.parameters import expand_component, expand_parameters
from tap_core.manifest.resolved_values import insert_value, mark_own_text

if TYPE_CHECKING:
    from tap_core.manifest.components.resolvers import (
        ComponentMappingDefinition,
        ConfigComponentsResolver,
        HttpComponentsResolver,
        ParametrizedComponentsResolver,
    )

__all__ = ["StreamTemplate", "get_lines"]

_PARAMETERS: Final = "$parameters"
_TYPE: Final = "type"


@dataclass(frozen=True)
class StreamTemplate:
    """Stream template of an Airbyte manifest, and the resolver that generates streams from it.

    For each stream, the resolver's component mappings set values at paths in the template.
    """

    node: MappingNode
    """Node of the template in the manifest."""
    resolver: HttpComponentsResolver | ConfigComponentsResolver | ParametrizedComponentsResolver
    lines: Sequence[int]
    """Line number of each component mapping."""
    parents_win: bool
    """True if an inherited parameter overrides a component's own parameter."""
    known_names: Collection[str] | None = None
    """Variables that templates can read while linting; None in a sync, where all have a value."""

    def fill(self, scope: TemplateScope) -> MappingNode:
        """Apply all component mappings to the stream template; return the generated stream's node.

        ``scope`` contains the template variables of the stream.

        Raises:
            ManifestError: A template of a mapping fails, or the mapping's path leads through a
                scalar value; ``line`` of the error is the line of the mapping.
        """
        document: MappingNode = expand_parameters(self.node)
        variables = {**scope, "stream_template_config": mark_own_text(to_plain(document))}
        if not self.resolver.BRINGS_DATA:
            variables["components_values"] = mark_own_text(variables["components_values"])
        line = 0
        try:
            for mapping, line in zip(self.resolver.components_mapping, self.lines, strict=True):
                self._apply_mapping(mapping, line, document, variables)
        except ManifestError as error:
            error.line = error.line or line
            raise
        stream = to_nodes(document, self.node.line)
        return expand_component(
            stream, self.node.path, "DeclarativeStream", {}, parents_win=self.parents_win
        )

    def find_unused_mappings(self) -> list[int]:
        """Return the indices of component mappings whose path the stream template does not contain.

        The linter warns of them, because they change nothing.
        """
        document, unused = expand_parameters(self.node), []
        mappings = self.resolver.components_mapping
        for index, (mapping, line) in enumerate(zip(mappings, self.lines, strict=True)):
            steps = self._evaluate_path(mapping, {})
            is_unknown = UNKNOWN in steps or _is_unknown_at(document, steps)
            creates = mapping.create_or_update and self.resolver.CREATES
            if not is_unknown and not creates and not make_locator(steps)(document):
                unused.append(index)
            self._set_value(document, mapping, UNKNOWN, steps, line)
        return unused

    # One mapping

    def _apply_mapping(
        self,
        mapping: ComponentMappingDefinition,
        line: int,
        document: MappingNode,
        scope: TemplateScope,
    ) -> None:
        condition = True if mapping.condition is None else self._evaluate(mapping.condition, scope)
        if not condition:
            return
        value = UNKNOWN if condition is UNKNOWN else self._evaluate_value(mapping, scope)
        self._set_value(document, mapping, value, self._evaluate_path(mapping, scope), line)

    def _evaluate_value(self, mapping: ComponentMappingDefinition, scope: TemplateScope) -> Any:
        """Return the value that a component mapping sets.

        A value from a response or the config is marked as data, so that it is never read as a
        template. While linting, return `UNKNOWN` if the value is known only at run time.
        """
        reads_yaml = not self.resolver.keeps_text(mapping)
        brings_data = self.resolver.BRINGS_DATA or "config" in find_variable_names(mapping.value)
        if self.known_names is None and brings_data:
            return insert_value(mapping.value, scope, reads_yaml=reads_yaml)
        value = self._evaluate(mapping.value, scope)
        return parse_value(value) if isinstance(value, str) and reads_yaml else value

    def _evaluate(self, value: Any, scope: TemplateScope) -> Any:
        if self.known_names is not None and not find_variable_names(value) <= set(self.known_names):
            return UNKNOWN
        return resolve(value, scope)

    def _evaluate_path(
        self, mapping: ComponentMappingDefinition, scope: TemplateScope
    ) -> list[Any]:
        steps = [self._evaluate(step, scope) for step in mapping.field_path]
        if any(step is None or step == "" for step in steps):
            raise ManifestError(f"a step of field_path {_format_steps(steps)} is empty.")
        return [step if step is UNKNOWN else str(step) for step in steps]

    def _set_value(
        self,
        document: MappingNode,
        mapping: ComponentMappingDefinition,
        value: Any,
        steps: list[Any],
        line: int,
    ) -> None:
        """Set the value of a component mapping at all places in a stream that match its path.

        If nothing matches and the mapping has ``create_or_update``, the path is created.
        ``document`` is the node of the stream, and ``steps`` are the parts of the path.
        """
        creates = mapping.create_or_update and self.resolver.CREATES and bool(value)
        if UNKNOWN in steps:
            _mark_unknown(document, steps, creates=creates)
            return
        locations = make_locator(steps)(document)
        for holder, name in locations:
            holder[name] = copy.deepcopy(value)
            _set_line(holder, name, line)
        if creates and not locations and not _is_unknown_at(document, steps):
            _create(document, steps, value, line)


def get_lines(resolver: Mapping[str, Any]) -> list[int]:
    """Return the line numbers of the component mappings in the node of a components resolver."""
    return [getattr(mapping, "line", 0) for mapping in resolver.get("components_mapping") or ()]


def _create(document: MappingNode, steps: list[str], value: Any, line: int) -> None:
    try:
        set_at(document, steps, value)
    except (TypeError, ValueError) as error:
        raise ManifestError(f"field_path {_format_steps(steps)} leads nowhere: {error}.") from None
    holder: Any = document
    for step in steps:
        if isinstance(holder, MappingNode) and step not in holder.lines:
            _set_line(holder, step, line)
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]
        if not isinstance(holder, (dict, list)):
            return


def _set_line(holder: Any, name: Any, line: int) -> None:
    """Set the manifest line that error messages give for the value ``holder[name]``.

    The value belongs to a stream that was generated from a template, so it is not in the manifest.
    ``line`` is the line of the entry in ``components_mapping`` that set it.
    """
    if isinstance(holder, MappingNode):
        holder.lines[name] = line
    elif isinstance(holder, ListNode) and int(name) < len(holder.lines):
        holder.lines[int(name)] = line


def _mark_unknown(document: MappingNode, steps: list[Any], *, creates: bool) -> None:
    """Set the marker `UNKNOWN`, for the linter, as each value that a component mapping may set.

    Some keys in the mapping's path ``steps`` are known only at run time. If ``creates`` is True,
    the mapping may also create options. The ``type`` of a component is kept.
    """
    locate = make_locator(["*" if step is UNKNOWN else step for step in steps])
    for holder, name in locate(document):
        if name != _TYPE:
            holder[name] = UNKNOWN
    if not creates:
        return
    known_steps = steps[: steps.index(UNKNOWN)]
    for parent in find_all(known_steps)(document) if known_steps else [document]:
        if isinstance(parent, MappingNode):
            parent[_PARAMETERS] = UNKNOWN  # unknown parameters may fill any option


def _is_unknown_at(document: Any, steps: list[Any]) -> bool:
    """Return True if a value on the path ``steps`` is not known to the linter (`UNKNOWN`)."""
    return any(
        value is UNKNOWN
        for length in range(1, len(steps))
        for value in find_all(steps[:length])(document)
    )


def _format_steps(steps: Sequence[Any]) -> str:
    return f"[{', '.join(map(str, steps))}]"
