"""Parser of the type hints of component classes; it finds the YAML values that options accept.

The builder of components uses the result to check the options of a manifest. Each class is parsed
once.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

__all__ = [
    "UNSET_IF_EMPTY",
    "ComponentPlan",
    "FieldType",
    "PlainText",
    "get_component_plan",
    "parse_annotation",
]

_INJECTED_FIELDS: Final = frozenset({"parameters", "config", "folder", "place"})
"""Fields of component classes that the builder sets; a manifest cannot set them."""

UNSET_IF_EMPTY: Final = "unset if empty"
"""Annotation of an option that counts as not set if its template renders as an empty text.

An example is ``{{ config['retries'] }}`` for an optional setting.
"""

_PLAIN: Final = "plain"

PlainText: TypeAlias = Annotated[str, _PLAIN]
"""Text option that is used as it is, as in airbyte-cdk, even if it looks like a template."""

_KINDS: Final = frozenset({"text", "value", "condition", "node", "draft"})
_SCALARS: Final = frozenset({str, int, float, bool})


@dataclass(frozen=True)
class FieldType:
    """Types of values that an option of a component accepts, from the type hint of its field."""

    components: tuple[type, ...] = ()
    """Component classes and Protocols that are accepted."""
    item: FieldType | None = None
    """Type of list items; None if lists are not accepted."""
    value: FieldType | None = None
    """Type of the values of a plain mapping; None if plain mappings are not accepted."""
    kind: str = ""
    """Kind of an option that is evaluated later; "" for other options.

    ``text``, ``value`` and ``condition`` are templates, which are rendered for each request. A
    ``node`` is the declaration of a component, which the code that uses the option builds. A
    ``draft`` is an incomplete node, such as a stream template.
    """
    constant: FieldType | None = None
    """Values of the kind ``value`` that are accepted if they are not a template."""
    types: tuple[type, ...] = ()
    """Types that a literal of the kind ``value`` may have; () allows all types."""
    is_document: bool = False
    """True if a template that returns an object or list is rendered for each request."""
    scalars: frozenset[type] = frozenset()
    literals: tuple[Any, ...] = ()
    is_any: bool = False
    """True if any value is accepted unchanged."""
    is_optional: bool = False
    is_unset_if_empty: bool = False
    """True if the option is annotated with `UNSET_IF_EMPTY`."""
    is_plain: bool = False
    """True if the option is a `PlainText`."""
    is_callable: bool = False
    """True if a function is accepted that receives the config and returns the value."""


@dataclass(frozen=True)
class ComponentPlan:
    """Options that a manifest can set for a component class, with the types of their values.

    They are derived from the type hints of the dataclass fields.
    """

    field_types: Mapping[str, FieldType]
    """Type of each option, by name."""
    required: frozenset[str]
    injected: frozenset[str]
    """Fields that the builder sets, such as ``config``; a manifest cannot set them."""
    ignored: frozenset[str] = field(default_factory=frozenset)
    """Options that are accepted but have no effect in this SDK."""


@cache
def get_component_plan(cls: type) -> ComponentPlan:
    """Return the options of a component class with their types, from its dataclass fields.

    Results are cached per class.
    """
    hints = get_type_hints(cls, include_extras=True)
    fields = [field for field in dataclasses.fields(cls) if field.init]
    options = [field for field in fields if field.name not in _INJECTED_FIELDS]
    return ComponentPlan(
        field_types={field.name: parse_annotation(hints[field.name]) for field in options},
        required=frozenset(
            field.name
            for field in options
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        ),
        injected=frozenset(field.name for field in fields) & _INJECTED_FIELDS,
        ignored=frozenset(getattr(cls, "IGNORED", ())),
    )


def parse_annotation(annotation: Any) -> FieldType:
    """Parse a type hint, such as ``str | None``, to the YAML values that an option accepts."""
    values: dict[str, Any] = {}
    for member in _split_union(annotation):
        _add_member(values, member)
    if "scalars" in values:
        values["scalars"] = frozenset(values["scalars"])
    return FieldType(**values)


def _split_union(annotation: Any) -> Sequence[Any]:
    if get_origin(annotation) in {Union, types.UnionType}:
        return [inner for part in get_args(annotation) for inner in _split_union(part)]
    return [annotation]


def _add_member(values: dict[str, Any], member: Any) -> None:
    """Add one type of a union, such as ``str``, to ``values``, the arguments for a FieldType."""
    origin = get_origin(member)
    if origin is Annotated:
        _add_kind(values, member)
    elif origin is Literal:
        values["literals"] = (*values.get("literals", ()), *get_args(member))
    elif origin is Callable:
        values["is_callable"] = True
    elif origin is not None or member in {list, dict}:
        _add_collection(values, origin or member, get_args(member))
    else:
        _add_single(values, member)


def _add_single(values: dict[str, Any], member: Any) -> None:
    if member is type(None):
        values["is_optional"] = True
    elif member is Any:
        values["is_any"] = True
    elif member in _SCALARS:
        values.setdefault("scalars", set()).add(member)
    elif _is_component(member):
        values["components"] = (*values.get("components", ()), member)


def _add_collection(values: dict[str, Any], origin: Any, arguments: tuple[Any, ...]) -> None:
    if issubclass(origin, Mapping):
        values["value"] = parse_annotation((arguments or (str, Any))[1])
    elif issubclass(origin, Sequence):
        values["item"] = parse_annotation((arguments or (Any,))[0])


def _add_kind(values: dict[str, Any], member: Any) -> None:
    inner, kind, *options = get_args(member)  # options: types of a literal, "document"
    if kind in _KINDS:
        values["kind"] = kind
        values["types"] = options[0] if options else ()
        values["is_document"] = "document" in options
        if kind == "value":
            values["constant"] = parse_annotation(inner)
        return
    if kind == UNSET_IF_EMPTY:
        values["is_unset_if_empty"] = True
    if kind == _PLAIN:
        values["is_plain"] = True
    for part in _split_union(inner):
        _add_member(values, part)


def _is_component(member: Any) -> bool:
    return isinstance(member, type) and (
        dataclasses.is_dataclass(member) or bool(getattr(member, "_is_protocol", False))
    )
