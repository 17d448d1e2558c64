"""What a JSON Schema allows, as a list of plain schemas of one type each.

Rules of the room: `allOf` is one schema (each member narrows it), `anyOf`, `oneOf` and a
list of types are several. The type null is left out: every column takes null. A schema
that says nothing of its type allows any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["ANY", "union_of_objects", "variants_of"]

ANY = "any"
"""The kind of a schema that does not say its type."""

_Schema: TypeAlias = Mapping[str, Any]

_NUMBERS = {"integer", "number"}


def variants_of(schema: Any) -> Iterator[tuple[str, _Schema]]:
    """Yield each type that the schema allows but null, with what it says of that type."""
    if not isinstance(schema, Mapping):
        if schema is not False:
            yield ANY, {}
        return
    rest, members = _split(schema, "allOf")
    for member in members:
        rest = _both(rest, member)
    for word in ("anyOf", "oneOf"):
        rest, members = _split(rest, word)
        if members:
            for member in members:
                yield from variants_of(_both(rest, member))
            return
    for kind in _kinds(rest):
        yield kind, rest


def _split(schema: _Schema, word: str) -> tuple[_Schema, Sequence[_Schema]]:
    members = schema.get(word)
    if not isinstance(members, Sequence) or isinstance(members, str):
        return schema, ()
    rest = {key: value for key, value in schema.items() if key != word}
    return rest, [member for member in members if isinstance(member, Mapping)]


def _both(one: _Schema, other: _Schema) -> _Schema:
    """Return the schema of what is valid under both, as far as types and names go."""
    merged = {**one, **other}
    if "type" in one and "type" in other:
        merged["type"] = _shared_types(_types(one), _types(other))
    if "properties" in one and "properties" in other:
        merged["properties"] = _merged_properties((one, other), "allOf")
    for word in ("allOf", "anyOf", "oneOf"):
        if word in one and word in other:  # both count; neither may hide the other
            merged[word] = [{word: one[word]}] if word != "allOf" else list(one[word])
            merged["allOf"] = [*merged.get("allOf", ()), {word: other[word]}]
    return merged


def _types(schema: _Schema) -> list[str]:
    types = schema.get("type")
    if isinstance(types, str):
        return [types]
    return [kind for kind in types if isinstance(kind, str)] if isinstance(types, list) else []


def _shared_types(one: Sequence[str], other: Sequence[str]) -> list[str]:
    shared = [kind for kind in one if kind in other]
    if (
        not _NUMBERS.isdisjoint(one)
        and not _NUMBERS.isdisjoint(other)
        and (_NUMBERS.isdisjoint(shared))
    ):
        shared.append("integer")  # a whole number is a number
    return shared


def _kinds(schema: _Schema) -> list[str]:
    """Return the types but null; where none is said, what the other keywords are about."""
    if "type" in schema:
        return [kind for kind in _types(schema) if kind != "null"]
    if schema.get("properties"):
        return ["object"]
    return ["array"] if schema.get("items") else [ANY]


def union_of_objects(variants: Sequence[_Schema]) -> _Schema:
    """Return one schema for objects that match any of the variants."""
    if len(variants) == 1:
        return variants[0]
    open_ended = any(not variant.get("properties") for variant in variants)
    merged: dict[str, Any] = {
        word: True
        for word in ("additionalProperties", "patternProperties")
        if any(variant.get(word) for variant in variants)
    }
    merged["properties"] = {} if open_ended else _merged_properties(variants, "anyOf")
    return merged


def _merged_properties(variants: Iterable[_Schema], how: str) -> dict[str, Any]:
    collected: dict[str, list[Any]] = {}
    for variant in variants:
        for name, schema in (variant.get("properties") or {}).items():
            if schema not in collected.setdefault(name, []):
                collected[name].append(schema)
    return {
        name: schemas[0] if len(schemas) == 1 else {how: schemas}
        for name, schemas in collected.items()
    }
