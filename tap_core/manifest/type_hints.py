"""Parser of the type hints of component classes, which gives the YAML values that options accept.

The builder of components uses the result to check the options of a manifest. Each class is parsed
once.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin
from typing import get_type_hints as hints_of

__all__ = [
    "INJECTED_FIELDS",
    "ComponentPlan",
    "FieldType",
    "get_component_plan",
    "parse_annotation",
]

INJECTED_FIELDS: Final = frozenset({"parameters", "config", "folder", "place"})
"""Fields of components that the builder fills; they are not options."""

_KINDS: Final = frozenset({"text", "value", "condition", "node", "draft"})
_SCALARS: Final = frozenset({str, int, float, bool})


@dataclass(frozen=True)
class FieldType:
    """Types of values that an option of a component accepts, parsed from its field's type hint."""

    components: tuple[type, ...] = ()
    """Component classes and Protocols that are accepted."""
    item: FieldType | None = None
    """Type of list items; None if lists are not accepted."""
    value: FieldType | None = None
    """Type of the values of a plain mapping; None if plain mappings are not accepted."""
    kind: str = ""
    """Kind of an option that is not built at once; "" for other options.

    ``text``, ``value`` and ``condition`` are interpolated and may vary per request. ``node`` stays
    unbuilt until its user builds it; ``draft`` is the same for an incomplete node such as a stream
    template.
    """
    types: tuple[type, ...] = ()
    """Types that a literal of the kind ``value`` may have; () allows all types."""
    scalars: frozenset[type] = frozenset()
    literals: tuple[Any, ...] = ()
    is_any: bool = False
    """True if any value is accepted unchanged."""
    is_optional: bool = False
    is_callable: bool = False
    """True if a function from the config to the value is accepted."""


@dataclass(frozen=True)
class ComponentPlan:
    """Options that a manifest can set for a component class, with the types of their values.

    They are parsed from the type hints of the class's dataclass fields.
    """

    shapes: Mapping[str, FieldType]
    """Type of each option, by name."""
    required: frozenset[str]
    injected: frozenset[str]
    """Fields that the builder fills, such as ``config``; they are not options."""
    ignored: frozenset[str] = field(default_factory=frozenset)
    """Options that are accepted but have no effect in this SDK."""


@cache
def get_component_plan(cls: type) -> ComponentPlan:
    """Return the options of a component class with their types, from its dataclass fields.

    Results are cached.
    """
    hints = hints_of(cls, include_extras=True)
    fields = [one for one in dataclasses.fields(cls) if one.init]
    return ComponentPlan(
        shapes={
            one.name: parse_annotation(hints[one.name])
            for one in fields
            if one.name not in INJECTED_FIELDS
        },
        required=frozenset(
            one.name
            for one in fields
            if one.name not in INJECTED_FIELDS
            and one.default is dataclasses.MISSING
            and one.default_factory is dataclasses.MISSING
        ),
        injected=frozenset(one.name for one in fields) & INJECTED_FIELDS,
        ignored=frozenset(getattr(cls, "IGNORED", ())),
    )


def parse_annotation(annotation: Any) -> FieldType:
    """Parse a type hint, such as ``str | None``, to the YAML values that an option accepts."""
    made: dict[str, Any] = {}
    for member in _members(annotation):
        _add(made, member)
    if "scalars" in made:
        made["scalars"] = frozenset(made["scalars"])
    return FieldType(**made)


def _members(annotation: Any) -> Sequence[Any]:
    if get_origin(annotation) in {Union, types.UnionType}:
        return [inner for one in get_args(annotation) for inner in _members(one)]
    return [annotation]


def _add(made: dict[str, Any], member: Any) -> None:
    origin = get_origin(member)
    if origin is Annotated:
        _add_kind(made, member)
    elif origin is Literal:
        made["literals"] = (*made.get("literals", ()), *get_args(member))
    elif origin is Callable:
        made["is_callable"] = True
    elif origin is not None or member in {list, dict}:
        _add_collection(made, origin or member, get_args(member))
    else:
        _add_single(made, member)


def _add_single(made: dict[str, Any], member: Any) -> None:
    if member is type(None):
        made["is_optional"] = True
    elif member is Any:
        made["is_any"] = True
    elif member in _SCALARS:
        made.setdefault("scalars", set()).add(member)
    elif _is_component(member):
        made["components"] = (*made.get("components", ()), member)


def _add_collection(made: dict[str, Any], origin: Any, arguments: tuple[Any, ...]) -> None:
    if issubclass(origin, Mapping):
        made["value"] = parse_annotation((arguments or (str, Any))[1])
    elif issubclass(origin, Sequence):
        made["item"] = parse_annotation((arguments or (Any,))[0])


def _add_kind(made: dict[str, Any], member: Any) -> None:
    inner, kind, *types_of_literals = get_args(member)
    if kind in _KINDS:
        made["kind"] = kind
        made["types"] = types_of_literals[0] if types_of_literals else ()
        return
    for one in _members(inner):
        _add(made, one)


def _is_component(member: Any) -> bool:
    return isinstance(member, type) and (
        dataclasses.is_dataclass(member) or bool(getattr(member, "_is_protocol", False))
    )
