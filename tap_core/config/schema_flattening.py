"""Flattening of a settings schema: ``allOf`` is merged, unions and conditional rules are found.

Input schemas are never changed. The members of ``allOf`` are merged into the schema that contains
them; for a conflict, the schema's own keywords take precedence. A union of one schema and null is
treated as that schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tap_core.types import JsonSchema

__all__ = ["FlattenedSchema", "Schema", "flatten_schema", "get_branches", "merge_subschemas"]

Schema: TypeAlias = Mapping[str, Any]
"""JSON Schema without references."""

_ALTERNATIVES: Final = ("oneOf", "anyOf")
_DEPENDENT: Final = ("dependentRequired", "dependencies")
_MERGED_KEYWORDS: Final = ("properties", *_DEPENDENT)
"""Keywords whose values are merged if several members of ``allOf`` contain them."""


@dataclass(frozen=True)
class FlattenedSchema:
    """Parts of an object's JSON Schema after its ``allOf`` has been merged.

    Attributes:
        properties: Schemas of the properties by name.
        required: Names of the properties that are always required.
        branches: Alternatives of a union (``oneOf`` or ``anyOf``).
        rules: Schemas with the keyword ``if``.
        dependents: For each property that requires others, the names of those it requires.
    """

    properties: Mapping[str, Schema]
    required: frozenset[str]
    branches: tuple[Schema, ...]
    rules: tuple[Schema, ...]
    dependents: Mapping[str, tuple[str, ...]]


def merge_subschemas(schema: Schema) -> JsonSchema:
    """Return a schema with its ``allOf`` members merged into it.

    If a union has only one alternative besides null, this alternative is merged too. Members with
    the keyword ``if`` stay in ``allOf``.
    """
    merged = _merge_members(schema)
    for word in _ALTERNATIVES:
        real = _drop_null(merged.get(word))
        if len(real) == 1:
            rest = {key: value for key, value in merged.items() if key != word}
            return merge_subschemas({**rest, "allOf": [*rest.get("allOf", ()), real[0]]})
    return merged


def get_branches(schema: Schema) -> tuple[Schema, ...]:
    """Return the alternatives of a union of objects (``oneOf`` or ``anyOf``), without null.

    Return an empty tuple if there is only one alternative, or if one has no properties.
    """
    for word in _ALTERNATIVES:
        real = _drop_null(schema.get(word))
        if len(real) > 1 and all(isinstance(each.get("properties"), Mapping) for each in real):
            return tuple(merge_subschemas(each) for each in real)
    return ()


def flatten_schema(schema: Schema) -> FlattenedSchema:
    """Merge the ``allOf`` members of an object's JSON Schema, and return the merged parts."""
    merged = merge_subschemas(schema)
    properties = merged.get("properties") or {}
    dependents = {
        name: tuple(map(str, names))
        for word in _DEPENDENT
        for name, names in (merged.get(word) or {}).items()
        if isinstance(names, list)
    }
    return FlattenedSchema(
        {name: inner for name, inner in properties.items() if isinstance(inner, Mapping)},
        frozenset(merged.get("required") or ()),
        get_branches(merged),
        tuple(part for part in (merged, *merged.get("allOf", ())) if "if" in part),
        dependents,
    )


def _drop_null(alternatives: Any) -> list[Schema]:
    """Return the schemas in the value of ``oneOf`` or ``anyOf``, except a schema of type null."""
    schemas = alternatives if isinstance(alternatives, list) else []
    return [each for each in schemas if isinstance(each, Mapping) and each.get("type") != "null"]


def _merge_members(schema: Schema) -> JsonSchema:
    """Return a schema with its ``allOf`` members merged into it, except members with ``if``."""
    members = list(_iterate_members(schema))
    if not members:
        return dict(schema)
    rules = [member for member in members if "if" in member]
    parts = [member for member in members if "if" not in member]
    parts.append({key: value for key, value in schema.items() if key != "allOf"})
    merged: JsonSchema = {key: value for part in parts for key, value in part.items()}
    for word in _MERGED_KEYWORDS:
        mappings = [part[word] for part in parts if isinstance(part.get(word), Mapping)]
        if mappings:
            merged[word] = {key: value for each in mappings for key, value in each.items()}
    required = [name for part in parts for name in part.get("required") or ()]
    return {**merged, "required": required, **({"allOf": rules} if rules else {})}


def _iterate_members(schema: Schema) -> Iterator[Schema]:
    """Yield the members of ``allOf``, with their own ``allOf`` merged into them.

    Members with the keyword ``if``, at any depth, cannot be merged, and are yielded as they are.
    """
    for member in schema.get("allOf") or ():
        if not isinstance(member, Mapping):
            continue
        if "if" in member:
            yield member
            continue
        merged = _merge_members(member)
        rules = merged.pop("allOf", ())
        yield merged
        yield from rules
