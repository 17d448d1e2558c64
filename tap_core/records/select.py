"""Selection: removes from schemas and records the properties that a catalog deselects.

- All functions are pure. The mask becomes a tree of names once per stream, and a record is
  searched only where a property can be deselected.
- A schema is pruned where it declares an object; a record is pruned wherever a property holds
  a dict, declared or not. Lists are not changed, also in schemas.
- A property that the mask does not list follows its parent. A deselected parent deselects
  everything below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, TypeAlias

from tap_core.singerlib.catalog import Breadcrumb, SelectionMask
from tap_core.types import JsonSchema, Record
from tap_core.typing.inspect import is_object_type

__all__ = [
    "RecordPruner",
    "compile_pruner",
    "get_selected_schema",
    "pop_deselected_record_properties",
    "selected_schema",
]

RecordPruner: TypeAlias = Callable[[Record], None]
"""Function that deletes the deselected properties of a record, in place."""

_Tree: TypeAlias = dict[str, "_Tree | None"]
"""Mapping from a property name to the tree below it, or None for a deselected property."""


def selected_schema(schema: JsonSchema, mask: SelectionMask) -> JsonSchema:
    """Return a copy of ``schema`` without deselected properties.

    They are removed from ``required`` too, which remains as an empty list.
    """
    result = deepcopy(schema)
    _prune_schema(result, mask, ())
    return result


def get_selected_schema(
    stream_name: str,  # noqa: ARG001 - the signature that authors know
    schema: JsonSchema,
    mask: SelectionMask,
) -> JsonSchema:
    """Return a copy of ``schema`` without deselected properties."""
    return selected_schema(schema, mask)


def _prune_schema(schema: JsonSchema, mask: SelectionMask, parent: Breadcrumb) -> None:
    properties = schema.get("properties") or {}
    dropped = set()
    for name, definition in properties.items():
        path = (*parent, "properties", name)
        if not mask[path]:
            dropped.add(name)
        elif isinstance(definition, dict) and is_object_type(definition):
            _prune_schema(definition, mask, path)
    for name in dropped:
        del properties[name]
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name not in dropped]


def pop_deselected_record_properties(
    record: Record,
    schema: JsonSchema,  # noqa: ARG001 - the signature that authors know
    mask: SelectionMask,
    breadcrumb: Breadcrumb = (),
) -> None:
    """Delete deselected properties from one record, in place.

    ``breadcrumb`` is the position of the record in the schema. For many records of one stream use
    `compile_pruner`.
    """
    for name, value in list(record.items()):
        path = (*breadcrumb, "properties", name)
        if not mask[path]:
            del record[name]
        elif isinstance(value, dict):
            pop_deselected_record_properties(value, {}, mask, path)


def compile_pruner(
    schema: JsonSchema,  # noqa: ARG001 - a record may hold undeclared properties
    mask: SelectionMask,
) -> RecordPruner | None:
    """Return the function that deletes deselected properties, or None if nothing is deselected.

    The mask is read now: later changes of it have no effect on the function.
    """
    tree: _Tree = {}
    for path in _deselected(mask):
        _plant(tree, path)
    if mask[()]:
        return _pruner(tree) if tree else None
    return _strict_pruner(frozenset(_top_level_selected(mask)), _pruner(tree))


def _deselected(mask: SelectionMask) -> Iterator[tuple[str, ...]]:
    """Yield the path of names to each deselected property, up to its first deselected parent."""
    for breadcrumb, selected in mask.items():
        names = _names(breadcrumb)
        if selected or not names:
            continue
        depths = range(2, len(breadcrumb) + 1, 2)
        depth = next(depth for depth in depths if not mask[breadcrumb[:depth]])
        yield names[: depth // 2]


def _names(breadcrumb: Breadcrumb) -> tuple[str, ...]:
    """Return the property names of a path through objects, else an empty tuple."""
    keywords, names = breadcrumb[::2], breadcrumb[1::2]
    through_objects = len(keywords) == len(names) and set(keywords) <= {"properties"}
    return names if through_objects else ()


def _plant(tree: _Tree, path: tuple[str, ...]) -> None:
    *parents, name = path
    for parent in parents:
        below = tree.setdefault(parent, {})
        if below is None:  # pragma: no cover - paths end at the first deselected name
            return
        tree = below
    tree[name] = None


def _top_level_selected(mask: SelectionMask) -> Iterator[str]:
    for breadcrumb, selected in mask.items():
        names = _names(breadcrumb)
        if selected and len(names) == 1:
            yield names[0]


def _pruner(tree: _Tree) -> RecordPruner:
    dropped = tuple(name for name, below in tree.items() if below is None)
    nested = tuple((name, _pruner(below)) for name, below in tree.items() if below)

    def prune_flat(record: Record) -> None:
        pop = record.pop
        for name in dropped:
            pop(name, None)

    def prune_deep(record: Record) -> None:
        prune_flat(record)
        for name, prune in nested:
            value = record.get(name)
            if isinstance(value, dict):
                prune(value)

    return prune_deep if nested else prune_flat


def _strict_pruner(kept: frozenset[str], prune: RecordPruner) -> RecordPruner:
    """Return the pruner of a deselected stream, which keeps only listed properties."""

    def prune_strictly(record: dict[Any, Any]) -> None:
        for name in record.keys() - kept:
            del record[name]
        prune(record)

    return prune_strictly
