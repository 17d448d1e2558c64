"""Property selection: removal of the properties that a catalog deselects, from schemas and records.

- The selection mask is compiled once per stream to a tree of the deselected names.
- Nested objects are pruned too, in records even if the schema does not declare them. Items of lists
  are never pruned.
- A property that the mask does not list is selected if its parent object (or the stream) is. The
  properties of a deselected object are deselected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from tap_core.singerlib.catalog import Breadcrumb, SelectionMask
from tap_core.types import JsonSchema, Record
from tap_core.typing.inspect import copy_schema, is_object_type

__all__ = [
    "DeselectedNames",
    "RecordPruner",
    "compile_pruner",
    "get_deselected_names",
    "get_selected_schema",
    "pop_deselected_record_properties",
    "prune_schema",
]

RecordPruner: TypeAlias = Callable[[Record], None]
"""Function that deletes the deselected properties from a record, in place."""

DeselectedNames: TypeAlias = dict[str, "DeselectedNames | None"]
"""Tree of property names: a deselected property has the value None, an object a tree.

Example: ``{"zip": None, "place": {"city": None}}`` deselects ``zip`` and ``place.city``.
"""


def prune_schema(schema: JsonSchema, mask: SelectionMask) -> JsonSchema:
    """Return a copy of ``schema`` without the properties that ``mask`` deselects.

    The names of these properties are also removed from ``required``, which may become empty.
    """
    result: JsonSchema = copy_schema(schema)
    _prune_in_place(result, mask, ())
    return result


def get_selected_schema(
    stream_name: str,  # noqa: ARG001 - singer_sdk's signature
    schema: JsonSchema,
    mask: SelectionMask,
) -> JsonSchema:
    """Return ``schema`` without the properties that ``mask`` deselects; ignore ``stream_name``."""
    return prune_schema(schema, mask)


def _prune_in_place(schema: JsonSchema, mask: SelectionMask, parent: Breadcrumb) -> None:
    properties = schema.get("properties") or {}
    dropped = set()
    for name, definition in properties.items():
        path = (*parent, "properties", name)
        if not mask[path]:
            dropped.add(name)
        elif (
            isinstance(definition, dict)
            and "properties" in definition
            and is_object_type(definition)
        ):
            _prune_in_place(definition, mask, path)
    for name in dropped:
        del properties[name]
    if isinstance(schema.get("required"), list):  # True in schemas of JSON Schema draft 3
        schema["required"] = [
            name for name in schema["required"] if not isinstance(name, str) or name not in dropped
        ]


def pop_deselected_record_properties(
    record: Record,
    schema: JsonSchema,  # noqa: ARG001 - singer_sdk's signature
    mask: SelectionMask,
    breadcrumb: Breadcrumb = (),
) -> None:
    """Delete deselected properties from one record, in place.

    Args:
        record: The record, or a nested object of it.
        schema: Not used; kept for compatibility with singer_sdk.
        mask: Selection of each property, from the catalog.
        breadcrumb: Path of ``record`` in the schema; empty for the record itself.

    `compile_pruner` is faster for many records of one stream.
    """
    for name, value in list(record.items()):
        path = (*breadcrumb, "properties", name)
        if not mask[path]:
            del record[name]
        elif isinstance(value, dict):
            pop_deselected_record_properties(value, {}, mask, path)


def compile_pruner(mask: SelectionMask) -> RecordPruner | None:
    """Compile a function that deletes the deselected properties of a record, in place.

    Return None if all properties are selected. ``mask`` has the selection of each property in the
    catalog; later changes of it have no effect.
    """
    tree = get_deselected_names(mask)
    if mask[()]:
        return _make_pruner(tree) if tree else None
    return _make_strict_pruner(frozenset(_iterate_selected_names(mask)), _make_pruner(tree))


def get_deselected_names(mask: SelectionMask) -> DeselectedNames:
    """Return the properties of a stream that ``mask`` deselects, as a tree of names.

    ``{"zip": None, "place": {"city": None}}`` contains the properties ``zip`` and ``place.city``.
    """
    tree: DeselectedNames = {}
    for path in _iterate_deselected(mask):
        _add_path(tree, path)
    return tree


def _iterate_deselected(mask: SelectionMask) -> Iterator[tuple[str, ...]]:
    """Yield the path of each property that ``mask`` deselects, such as ``("place", "city")``.

    For a property in a deselected object, the path of the object is yielded.
    """
    for breadcrumb, selected in mask.items():
        if not selected and (names := _get_names(breadcrumb)):
            lengths = range(1, len(names) + 1)
            yield names[: next(length for length in lengths if not mask[breadcrumb[: 2 * length]])]


def _get_names(breadcrumb: Breadcrumb) -> tuple[str, ...]:
    """Return the property names in a breadcrumb of the catalog.

    ``("properties", "a", "properties", "b")`` becomes ``("a", "b")``. A breadcrumb with any other
    keyword than ``properties`` becomes ``()``.
    """
    keywords, names = breadcrumb[::2], breadcrumb[1::2]
    is_property_path = len(keywords) == len(names) and set(keywords) <= {"properties"}
    return names if is_property_path else ()


def _add_path(tree: DeselectedNames, path: tuple[str, ...]) -> None:
    *parents, name = path
    for parent in parents:
        below = tree.setdefault(parent, {})
        if below is None:  # pragma: no cover - paths end at the first deselected name
            return
        tree = below
    tree[name] = None


def _iterate_selected_names(mask: SelectionMask) -> Iterator[str]:
    for breadcrumb, selected in mask.items():
        names = _get_names(breadcrumb)
        if selected and len(names) == 1:
            yield names[0]


def _make_pruner(tree: DeselectedNames) -> RecordPruner:
    dropped = tuple(name for name, below in tree.items() if below is None)
    nested = tuple((name, _make_pruner(below)) for name, below in tree.items() if below)

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


def _make_strict_pruner(selected: frozenset[str], prune: RecordPruner) -> RecordPruner:
    """Return a function that deletes all top-level properties of a record not in ``selected``.

    This function is for a deselected stream, whose properties are deselected by default. It calls
    ``prune`` afterwards, which deletes the deselected properties of nested objects.
    """

    def prune_strictly(record: dict[Any, Any]) -> None:
        for name in record.keys() - selected:
            del record[name]
        prune(record)

    return prune_strictly
