"""Decomposition of a JSON Schema into variants: schemas of one type without ``anyOf`` and the like.

``anyOf``, ``oneOf`` and a list of types have several variants. The members of ``allOf`` are merged
into each variant. The type null is omitted, because every column allows null. A schema without
``type`` has the type object if it has ``properties``, array if it has ``items``, or the types of
the values in ``const`` or ``enum``. Otherwise any type is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from tap_core.exceptions import SchemaNotValidError

__all__ = [
    "ANY_SCHEMA",
    "allows_undeclared_properties",
    "get_allowed_types",
    "get_types",
    "intersect_types",
    "merge_object_variants",
    "object_schema",
    "split_variants",
]

ANY_SCHEMA = "any"
"""Type name of a variant that allows values of any type."""

_Schema: TypeAlias = Mapping[str, Any]
_Alternatives: TypeAlias = Sequence[_Schema]

_COMBINING = ("allOf", "anyOf", "oneOf")

_KEYWORD_TYPES: Mapping[str, type] = MappingProxyType({"format": str, "properties": Mapping})
"""Required value types of some keywords; a keyword with another value is ignored."""

_NUMBERS = {"integer", "number"}

_TYPE_OF_VALUE: Mapping[type, str] = MappingProxyType(
    {bool: "boolean", int: "integer", float: "number", Decimal: "number", str: "string"}
)

_MAX_VARIANTS: Final = 1_000
"""Maximum number of variants of one schema; their number multiplies with each ``anyOf``."""

_ALL_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})

_MORE_PROPERTIES = ("additionalProperties", "patternProperties", "unevaluatedProperties")


def get_types(schema: Mapping[str, Any]) -> list[str]:
    """Return the ``type`` of a schema as a list of names, or ``[]`` if it is not valid."""
    types = schema.get("type")
    if isinstance(types, str):
        return [types]
    names = types if isinstance(types, (list, tuple)) else ()
    return [kind for kind in names if isinstance(kind, str)]


def get_allowed_types(schema: Any) -> frozenset[str]:
    """Return the names of the JSON types, such as ``string``, that a schema allows.

    They are those in ``type`` or, without it, in ``anyOf`` and ``oneOf``. A schema without any of
    these allows all JSON types; types are not inferred from other keywords.
    """
    if not isinstance(schema, Mapping):
        return _ALL_TYPES
    if types := get_types(schema):
        return frozenset(types)
    options = [option for word in ("anyOf", "oneOf") for option in schema.get(word) or ()]
    return frozenset().union(*map(get_allowed_types, options)) if options else _ALL_TYPES


def split_variants(schema: Any) -> Iterator[tuple[str, _Schema]]:
    """Yield a (type name, schema) pair for each variant that a schema allows, except null.

    A variant is one type combined with one option of each ``anyOf`` and ``oneOf``.

    Raises:
        SchemaNotValidError: The schema has too many variants.
    """
    if not isinstance(schema, Mapping):
        if schema is not False:
            yield ANY_SCHEMA, {}
        return
    base, option_lists = _split_combinators(schema)
    for number, variant in enumerate(_expand_options(base, option_lists)):
        if number == _MAX_VARIANTS:
            raise SchemaNotValidError(
                f"its anyOf, oneOf and allOf together allow more than {_MAX_VARIANTS:,}"
                " combinations"
            )
        yield variant


def _expand_options(
    base: _Schema, option_lists: Sequence[_Alternatives]
) -> Iterator[tuple[str, _Schema]]:
    """Yield a (type name, schema) pair for each combination of one option per list.

    Args:
        base: Schema without ``allOf``, ``anyOf`` and ``oneOf``, which each option is merged into.
        option_lists: Lists of options. A value must match at least one schema of each list.
    """
    while option_lists and len(option_lists[0]) == 1:  # allOf may have thousands of members
        narrowed, inner = _split_combinators(option_lists[0][0])
        base, option_lists = _intersect(base, narrowed), [*inner, *option_lists[1:]]
    if not option_lists:
        for kind in _get_type_names(base):
            yield kind, base
        return
    for alternative in option_lists[0]:
        narrowed, inner = _split_combinators(alternative)
        yield from _expand_options(_intersect(base, narrowed), [*inner, *option_lists[1:]])


def _split_combinators(schema: _Schema) -> tuple[_Schema, list[_Alternatives]]:
    """Return a schema without ``allOf``, ``anyOf`` and ``oneOf``, and lists of their options.

    There is one list for each ``anyOf`` and ``oneOf``, and one with a single schema for each member
    of ``allOf``. A value must match at least one schema of each list.
    """
    base = {keyword: value for keyword, value in schema.items() if _is_usable(keyword, value)}
    option_lists: list[_Alternatives] = []
    for keyword in _COMBINING:
        listed = schema.get(keyword)
        members = listed if isinstance(listed, list) else []
        alternatives = [member for member in members if isinstance(member, Mapping)]
        if keyword == "allOf":
            option_lists += ([member] for member in alternatives)
        elif alternatives:
            option_lists.append(alternatives)
    return base, option_lists


def _is_usable(keyword: str, value: Any) -> bool:
    """Return True for a keyword other than ``allOf``, ``anyOf`` and ``oneOf`` with a valid value.

    Only the values of ``format`` (text) and ``properties`` (an object) are checked.
    """
    kind = _KEYWORD_TYPES.get(keyword)
    return keyword not in _COMBINING and (kind is None or isinstance(value, kind))


def _intersect(first: _Schema, second: _Schema) -> _Schema:
    """Merge two schemas into one for values that match both.

    Only ``type`` and ``properties`` are intersected. For any other keyword that both schemas have,
    the value of the second one is used.
    """
    merged = {**first, **second}
    if "type" in first and "type" in second:
        merged["type"] = intersect_types(get_types(first), get_types(second))
    if "properties" in first and "properties" in second:
        merged["properties"] = _intersect_properties(first["properties"], second["properties"])
    return merged


def _intersect_properties(first: _Schema, second: _Schema) -> dict[str, Any]:
    """Return the properties of two schemas in one dict.

    A property in both schemas becomes ``{"allOf": [first, second]}``.
    """
    names = [name for name in second if name in first and first[name] != second[name]]
    return {**first, **second, **{name: {"allOf": [first[name], second[name]]} for name in names}}


def intersect_types(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Return the type names that two lists share; ``integer`` and ``number`` share ``integer``."""
    shared = [kind for kind in first if kind in second]
    if (
        not _NUMBERS.isdisjoint(first)
        and not _NUMBERS.isdisjoint(second)
        and _NUMBERS.isdisjoint(shared)
    ):
        shared.append("integer")  # an integer is a number
    return shared


def _get_type_names(schema: _Schema) -> list[str]:
    """Return the type names of a schema, except null.

    Without ``type``, they are inferred from ``properties``, ``items``, ``const`` or ``enum``.
    """
    if "type" in schema:
        return [kind for kind in get_types(schema) if kind != "null"]
    if schema.get("properties"):
        return ["object"]
    return ["array"] if schema.get("items") else _get_types_of_values(schema) or [ANY_SCHEMA]


def _get_types_of_values(schema: _Schema) -> list[str]:
    """Return the type names of the values in ``const`` or ``enum``, sorted, without null.

    The list is empty if the schema has neither keyword, or if a value is a list or an object.
    """
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list):
        return []
    kinds = {_TYPE_OF_VALUE.get(type(value), ANY_SCHEMA) for value in values if value is not None}
    return [] if ANY_SCHEMA in kinds else sorted(kinds)


def allows_undeclared_properties(schema: _Schema) -> bool:
    """Return True if an object schema explicitly allows properties that it does not declare.

    The keywords for this are ``additionalProperties`` and similar ones.
    """
    values = (schema.get(keyword) for keyword in _MORE_PROPERTIES)
    return any(value is not None and value is not False for value in values)


def object_schema(schema: Any) -> _Schema:
    """Return one schema for all objects that a schema allows, or ``{}`` if it allows no objects."""
    variants = [variant for kind, variant in split_variants(schema) if kind == "object"]
    return merge_object_variants(variants) if variants else {}


def merge_object_variants(variants: Sequence[_Schema]) -> _Schema:
    """Merge alternative object schemas into one that allows the objects of all of them.

    If one of the schemas declares no properties, the result has empty ``properties`` too.
    """
    if len(variants) == 1:
        return variants[0]
    open_ended = any(not variant.get("properties") for variant in variants)
    merged: dict[str, Any] = {}
    if any(map(allows_undeclared_properties, variants)):
        merged["additionalProperties"] = True
    merged["properties"] = {} if open_ended else _merge_properties(variants)
    return merged


def _merge_properties(variants: Iterable[_Schema]) -> dict[str, Any]:
    """Return the properties of several object schemas in one dict, by name.

    If the schemas declare a property differently, it becomes ``{"anyOf": [...]}`` with all its
    declarations.
    """
    collected: dict[str, list[Any]] = {}
    for variant in variants:
        for name, schema in (variant.get("properties") or {}).items():
            if schema not in collected.setdefault(name, []):
                collected[name].append(schema)
    return {
        name: schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        for name, schemas in collected.items()
    }
