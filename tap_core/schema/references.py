"""References within and between JSON Schemas, and the form in which two are compared.

Rules of the room:

- ``$ref`` is replaced by a copy of what it points to; where both have a keyword, that
  of the target counts. ``definitions`` and ``$defs`` stay as they came.
- Only what holds schemas is walked, so that a property may be called ``$ref`` or
  ``items``, and ``default``, ``const`` and ``enum`` hold data and are left alone.
- A schema that contains itself cannot be written out: it is refused, or, where asked
  for, cut: the inner one may then be anything. So are schemas that contain each other
  in so many ways that nobody could use what comes out.

Source: JSON Schema 2020-12, Core, sections 8.2 (references) and 10 (applicators).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from tap_core.exceptions import SchemaNotValidError
from tap_core.types import JsonSchema

__all__ = [
    "has_reference",
    "map_subschemas",
    "normalize",
    "resolve_schema_references",
]

_ONE: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    },
)
"""Keywords whose value is a schema."""

_LISTED: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
"""Keywords whose value is, or may be, a list of schemas."""

_NAMED: Final = frozenset({"dependentSchemas", "patternProperties", "properties"})
"""Keywords whose value is an object of schemas by name."""

_UNORDERED: Final = frozenset({"enum", "required", "type"})
"""Keywords whose value is a set, written as a list."""

_Step: TypeAlias = Callable[[JsonSchema], Any]

_MOST_REFERENCES: Final = 5_000
"""References that one schema may have when they are all written out."""

_DEPTHS: Final = (8, 4, 2, 1)
"""How many references deep a schema is followed that has more; tried in turn."""


class _TooManyError(Exception):
    """There are more references than may be followed."""


def resolve_schema_references(
    schema: Mapping[str, Any],
    refs: Mapping[str, JsonSchema] | None = None,
    *,
    cut_circles: bool = False,
    retrieve: Callable[[str], Any] | None = None,
) -> JsonSchema:
    """Return the schema with every ``$ref`` replaced by what it points to.

    ``refs`` are further documents by the name that references give them; the name ``""``
    is the document that ``#/...`` is read in, the schema itself unless it is given.
    ``retrieve`` returns a document that is not among them, the same one for the same
    name; whatever it raises means that there is none. The argument is not changed.
    Raises SchemaNotValidError for a reference that leads nowhere, and, unless
    ``cut_circles``, for one that leads to a schema which contains it, or for more of
    them than anybody can use; with it, the innermost are cut until it is small enough.
    """
    if not has_reference(schema):
        return deepcopy(dict(schema))
    documents = {"": dict(schema), **(refs or {})}
    return _written_out(dict(schema), _make_scope(documents, retrieve, cut_circles=cut_circles))


def normalize(schema: Mapping[str, Any]) -> JsonSchema:
    """Return the schema such that equal meaning gives equal dictionaries.

    Keys and property names are sorted, ``type`` is a list, ``type``, ``required`` and
    ``enum`` are sorted and without repeats, and an empty ``required`` is absent.
    """
    form = map_subschemas(_sorted(schema), normalize)
    if isinstance(kind := form.get("type"), str):
        form["type"] = [kind]
    for keyword, value in form.items():
        if keyword in _NAMED and isinstance(value, dict):
            form[keyword] = _sorted(value)
        elif keyword in _UNORDERED and isinstance(value, list):
            form[keyword] = _as_sorted_set(value)
    if form.get("required") == []:
        del form["required"]
    return form


def _sorted(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {key: mapping[key] for key in sorted(mapping)}


def _as_sorted_set(values: list[Any]) -> list[Any]:
    by_text = {json.dumps(value, sort_keys=True, default=repr): value for value in values}
    return [by_text[text] for text in sorted(by_text)]


def map_subschemas(schema: Mapping[str, Any], step: Callable[[JsonSchema], Any]) -> JsonSchema:
    """Return a copy of the schema with ``step`` applied to the schemas right inside it."""
    return {key: _mapped_value(key, value, step) for key, value in schema.items()}


def _mapped_value(keyword: str, value: Any, step: _Step) -> Any:
    if isinstance(value, Mapping) and keyword in _NAMED:
        return {name: _applied(inner, step) for name, inner in value.items()}
    if isinstance(value, list) and keyword in _LISTED:
        return [_applied(inner, step) for inner in value]
    return _applied(value, step) if keyword in _ONE else deepcopy(value)


def _applied(value: Any, step: _Step) -> Any:
    return step(dict(value)) if isinstance(value, Mapping) else value


# References


@dataclass(frozen=True, slots=True)
class _Scope:
    """Where a schema stands: how its references are read, and which ones led here."""

    resolver: Any
    cut_circles: bool
    visited: tuple[int, ...] = ()
    deepest: int = sys.maxsize
    count: Iterator[int] = field(default_factory=itertools.count)

    def follow(self, reference: str) -> tuple[JsonSchema, _Scope]:
        """Return what is pointed to, and the scope that it stands in."""
        from referencing.exceptions import Unresolvable

        if len(self.visited) >= self.deepest:
            return {}, self
        if next(self.count) >= _MOST_REFERENCES:
            raise _TooManyError
        try:
            found = self.resolver.lookup(reference)
        except Unresolvable as ex:
            msg = f"The schema has nothing at '{reference}'"
            raise SchemaNotValidError(msg) from ex
        key = id(found.contents)
        if key not in self.visited:
            inside = replace(self, resolver=found.resolver, visited=(*self.visited, key))
            return _as_object(found.contents), inside
        if self.cut_circles:
            return {}, self
        msg = f"The schema at '{reference}' contains itself, so it cannot be written out"
        raise SchemaNotValidError(msg)


def _make_scope(
    documents: Mapping[str, JsonSchema],
    retrieve: Callable[[str], Any] | None,
    *,
    cut_circles: bool,
) -> _Scope:
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    resources = [(name, DRAFT202012.create_resource(one)) for name, one in documents.items()]
    make: Any = Registry  # its constructor is not typed
    registry = make()
    if retrieve:
        registry = make(retrieve=lambda name: DRAFT202012.create_resource(retrieve(name)))
    return _Scope(registry.with_resources(resources).resolver(), cut_circles)


def _as_object(schema: Any) -> JsonSchema:
    """Write the schemas ``true`` and ``false`` as objects."""
    if isinstance(schema, Mapping):
        return dict(schema)
    return {} if schema else {"not": {}}


def has_reference(value: Any) -> bool:
    """Tell whether ``$ref`` is a key anywhere, be it in data: no is never wrong."""
    if isinstance(value, Mapping):
        return "$ref" in value or any(map(has_reference, value.values()))
    return isinstance(value, list) and any(map(has_reference, value))


def _written_out(schema: JsonSchema, scope: _Scope) -> JsonSchema:
    """Follow all references, or only so deep that a schema comes out that can be used.

    Types that name each other have as many ways through them as there are orders.
    """
    for deepest in (sys.maxsize, *_DEPTHS) if scope.cut_circles else (sys.maxsize,):
        with contextlib.suppress(_TooManyError):
            return _replaced(schema, replace(scope, deepest=deepest, count=itertools.count()))
    msg = f"The schema has more than {_MOST_REFERENCES} references, one within the other"
    raise SchemaNotValidError(msg)


def _replaced(schema: JsonSchema, scope: _Scope) -> JsonSchema:
    """Follow the reference of a schema, and those inside it and its target."""
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    result = map_subschemas(rest, lambda inner: _replaced(inner, scope))
    if "$ref" in schema:
        target, inside = scope.follow(schema["$ref"])
        result.update(_replaced(target, inside))
    return result
