"""Resolution of ``$ref`` in JSON Schemas, and a normal form for comparing schemas.

- ``$ref`` is replaced by the keywords of the schema it refers to, its target. If a keyword is in
  both schemas, the target's value is used, but properties and required names that only one of
  them has are kept. ``definitions`` and ``$defs`` are kept unchanged.
- Only keywords that contain schemas are traversed, so a property may be named ``$ref`` or
  ``items``, and data in ``default``, ``const`` and ``enum`` is not changed.
- A recursive schema, or a schema with too many references, is an error. On request, the innermost
  references are replaced by ``{}`` instead, which accepts anything.

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
from typing import Any, Final, TypeAlias, cast

from tap_core.exceptions import SchemaNotValidError
from tap_core.types import JsonSchema

__all__ = [
    "has_reference",
    "map_subschemas",
    "normalize",
    "resolve_schema_references",
]

_SCHEMA_KEYWORDS: Final = frozenset(
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

_LIST_KEYWORDS: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
"""Keywords whose value is, or may be, a list of schemas."""

_MAPPING_KEYWORDS: Final = frozenset({"dependentSchemas", "patternProperties", "properties"})
"""Keywords whose value is an object of schemas by name."""

_SET_KEYWORDS: Final = frozenset({"enum", "required", "type"})
"""Keywords whose value is a set, written as a list."""

_Step: TypeAlias = Callable[[JsonSchema], Any]

_MAX_REFERENCES: Final = 5_000
"""Maximum number of references of one schema, counted after expansion."""

_DEPTHS: Final = (8, 4, 2, 1)
"""Maximum depths of expansion, tried in turn for a schema with more than `_MAX_REFERENCES`."""


class _TooManyReferencesError(Exception):
    """Error for a schema with more than 5,000 references, counted after expansion."""


def resolve_schema_references(
    schema: Mapping[str, Any],
    refs: Mapping[str, JsonSchema] | None = None,
    *,
    cut_circles: bool = False,
    retrieve: Callable[[str], Any] | None = None,
) -> JsonSchema:
    """Return a copy of a schema with every ``$ref`` replaced by the schema it refers to.

    Args:
        schema: The schema to resolve.
        refs: Other documents that references may point to, by the URI used in the references. The
            URI ``""`` means the document for ``#/...`` references, by default the schema itself.
        cut_circles: True to replace recursive references by ``{}``, and also the innermost
            references if there are too many. False to raise an error in both cases.
        retrieve: Function that returns a document, called with a URI that is not in ``refs``. An
            exception of any type means that the document does not exist.

    Raises:
        SchemaNotValidError: A reference cannot be resolved, or ``cut_circles`` is False and a
            reference is recursive or there are too many references.
    """
    if not has_reference(schema):
        return deepcopy(dict(schema))
    documents = {"": dict(schema), **(refs or {})}
    return _expand_references(
        dict(schema), _make_scope(documents, retrieve, cut_circles=cut_circles)
    )


def normalize(schema: Mapping[str, Any]) -> JsonSchema:
    """Return a schema in a normal form, so that schemas can be compared with ``==``.

    Keys and property names are sorted. ``type`` becomes a list. ``type``, ``required`` and ``enum``
    are sorted without duplicates, and an empty ``required`` is removed.
    """
    form = map_subschemas(_sort_keys(schema), normalize)
    if isinstance(kind := form.get("type"), str):
        form["type"] = [kind]
    for keyword, value in form.items():
        if keyword in _MAPPING_KEYWORDS and isinstance(value, dict):
            form[keyword] = _sort_keys(value)
        elif keyword in _SET_KEYWORDS and isinstance(value, list):
            form[keyword] = _sort_set(value)
    if form.get("required") == []:
        del form["required"]
    return form


def _sort_keys(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {key: mapping[key] for key in sorted(mapping)}


def _sort_set(values: list[Any]) -> list[Any]:
    """Return a list without duplicates, sorted by the JSON text of its values."""
    by_text = {json.dumps(value, sort_keys=True, default=repr): value for value in values}
    return [by_text[text] for text in sorted(by_text)]


def map_subschemas(schema: Mapping[str, Any], step: Callable[[JsonSchema], Any]) -> JsonSchema:
    """Return a copy of a schema with ``step`` applied to each direct subschema.

    Subschemas are the schemas in ``properties``, ``items``, ``anyOf`` and similar keywords.
    """
    return {key: _map_keyword(key, value, step) for key, value in schema.items()}


def _map_keyword(keyword: str, value: Any, step: _Step) -> Any:
    """Return a copy of a keyword's value with ``step`` applied to each schema in it."""
    if isinstance(value, Mapping) and keyword in _MAPPING_KEYWORDS:
        return {name: _apply(inner, step) for name, inner in value.items()}
    if isinstance(value, list) and keyword in _LIST_KEYWORDS:
        return [_apply(inner, step) for inner in value]
    return _apply(value, step) if keyword in _SCHEMA_KEYWORDS else deepcopy(value)


def _apply(value: Any, step: _Step) -> Any:
    """Return ``step(value)`` if the schema ``value`` is a dict; otherwise return it unchanged."""
    return step(dict(value)) if isinstance(value, Mapping) else value


# References


@dataclass(frozen=True, slots=True)
class _Scope:
    """Position in a JSON Schema, for the resolution of the references there.

    Attributes:
        resolver: Resolver of the library ``referencing`` for the document at this position.
        cut_circles: True to replace recursive references by ``{}``, False to raise an error.
        visited: Ids of the referenced schemas that contain this position.
        deepest: Nesting depth, as a number of visited schemas, at which references become ``{}``.
        count: Counter of all references followed so far.
    """

    resolver: Any
    cut_circles: bool
    visited: tuple[int, ...] = ()
    deepest: int = sys.maxsize
    count: Iterator[int] = field(default_factory=itertools.count)

    def follow(self, reference: str) -> tuple[JsonSchema, _Scope]:
        """Return the schema that a reference refers to, and the position of that schema.

        The schema is ``{}`` for a reference that is nested too deeply, and for a recursive one if
        ``cut_circles`` is True.

        Raises:
            SchemaNotValidError: The reference is not text, there is no such schema, or it contains
                the reference.
            _TooManyReferencesError: The number of references exceeds the limit.
        """
        from referencing.exceptions import Unresolvable

        if not isinstance(cast(object, reference), str):
            msg = f"A '$ref' must be text, and this one is {reference!r:.100}"
            raise SchemaNotValidError(msg)
        if len(self.visited) >= self.deepest:
            return {}, self
        if next(self.count) >= _MAX_REFERENCES:
            raise _TooManyReferencesError
        try:
            resolved = self.resolver.lookup(_complete_pointer(reference))
        except (Unresolvable, TypeError, ValueError) as ex:
            msg = f"The schema has nothing at '{reference}'{_describe_cause(ex)}"
            raise SchemaNotValidError(msg) from ex
        key = id(resolved.contents)
        if key not in self.visited:
            inside = replace(self, resolver=resolved.resolver, visited=(*self.visited, key))
            return _as_object(resolved.contents, reference), inside
        if self.cut_circles:
            return {}, self
        msg = f"The schema at '{reference}' contains itself, so it cannot be written out"
        raise SchemaNotValidError(msg)


def _complete_pointer(reference: str) -> str:
    """Return a reference with a slash at the start of its JSON Pointer, as in ``#/definitions/a``.

    Taps of older releases of singer_sdk omit this slash: ``#definitions/a``. A reference without
    any slash, such as an anchor, is returned unchanged.
    """
    document, mark, fragment = reference.partition("#")
    if "/" in fragment and not fragment.startswith("/"):
        return f"{document}{mark}/{fragment}"
    return reference


def _make_scope(
    documents: Mapping[str, JsonSchema],
    retrieve: Callable[[str], Any] | None,
    *,
    cut_circles: bool,
) -> _Scope:
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    resources = [
        (name, DRAFT202012.create_resource(document)) for name, document in documents.items()
    ]
    make: Any = Registry  # its constructor is not typed
    registry = make()
    if retrieve:
        registry = make(retrieve=lambda name: DRAFT202012.create_resource(retrieve(name)))
    return _Scope(registry.with_resources(resources).resolver(), cut_circles)


def _describe_cause(error: BaseException) -> str:
    """Return in parentheses why a referenced document was not found, or "" if this is unknown.

    ``error`` is an exception of the library ``referencing``. It wraps the original error twice.
    """
    reason = error.__cause__ and error.__cause__.__cause__
    return f" ({type(reason).__name__}: {reason})" if reason else ""


def _as_object(schema: Any, reference: str) -> JsonSchema:
    """Return a schema as an object: True becomes ``{}`` and False becomes ``{"not": {}}``.

    Raises:
        SchemaNotValidError: The value that ``reference`` refers to is not a schema.
    """
    if isinstance(schema, Mapping):
        return dict(schema)
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    msg = f"What is at '{reference}' is not a schema: it is of the type {type(schema).__name__}"
    raise SchemaNotValidError(msg)


def has_reference(value: Any) -> bool:
    """Return True if a value contains the key ``$ref`` at any depth, also in data like examples."""
    if isinstance(value, Mapping):
        return "$ref" in value or any(map(has_reference, value.values()))
    return isinstance(value, list) and any(map(has_reference, value))


def _expand_references(schema: JsonSchema, scope: _Scope) -> JsonSchema:
    """Return a schema in which references are replaced by the schemas they refer to.

    If there are too many references to expand, and ``scope.cut_circles`` is True, those below a
    certain depth become ``{}``. Otherwise `SchemaNotValidError` is raised.
    """
    for deepest in (sys.maxsize, *_DEPTHS) if scope.cut_circles else (sys.maxsize,):
        with contextlib.suppress(_TooManyReferencesError):
            return _replace_references(
                schema, replace(scope, deepest=deepest, count=itertools.count())
            )
    msg = f"The schema has more than {_MAX_REFERENCES} references, one within the other"
    raise SchemaNotValidError(msg)


def _replace_references(schema: JsonSchema, scope: _Scope) -> JsonSchema:
    """Return a schema with every reference replaced, also inside the schemas referred to.

    A keyword in the schema referred to overrides the same keyword next to the reference. But
    properties and required names are combined, because a record may have all of them.
    """
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    result = map_subschemas(rest, lambda inner: _replace_references(inner, scope))
    if "$ref" in schema:
        target, inside = scope.follow(schema["$ref"])
        for keyword, value in _replace_references(target, inside).items():
            own_value: Any = result.get(keyword)
            if keyword in _MAPPING_KEYWORDS and isinstance(own_value, Mapping):
                result[keyword] = (
                    {**own_value, **value} if isinstance(value, Mapping) else own_value
                )
            elif keyword == "required" and isinstance(own_value, list) and isinstance(value, list):
                result[keyword] = own_value + [name for name in value if name not in own_value]
            else:
                result[keyword] = value
    return result
