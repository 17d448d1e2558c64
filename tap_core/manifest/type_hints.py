"""Annotations of components, as what may stand in the YAML.

Rules of the room: pure. A field's type hint is the only description of an option; here it is
read once per class.
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
"""Fields that the builder fills; no options."""

_KINDS: Final = frozenset({"text", "value", "condition", "node", "draft"})
_SCALARS: Final = frozenset({str, int, float, bool})


@dataclass(frozen=True)
class FieldType:
    """What may stand in one place."""

    components: tuple[type, ...] = ()
    """Classes and Protocols, of which a component may be."""
    item: FieldType | None = None
    """What a list holds, None where there may be no list."""
    value: FieldType | None = None
    """What a mapping holds that is no component."""
    kind: str = ""
    """``text``, ``value`` or ``condition``: it may vary per request; ``node``: what stands
    there in the document, for whoever makes it when it is needed; ``draft``: the same, of what
    is not whole yet."""
    types: tuple[type, ...] = ()
    """What a literal of the kind ``value`` may be, nothing for anything."""
    scalars: frozenset[type] = frozenset()
    literals: tuple[Any, ...] = ()
    is_any: bool = False
    """Whether it is taken as it stands."""
    is_optional: bool = False
    is_callable: bool = False
    """Whether a function of the configuration will do."""


@dataclass(frozen=True)
class ComponentPlan:
    """How a component class is made."""

    shapes: Mapping[str, FieldType]
    """Option to what may stand there."""
    required: frozenset[str]
    given: frozenset[str]
    """Fields that the builder fills."""
    ignored: frozenset[str] = field(default_factory=frozenset)
    """Options that are accepted, and mean nothing here."""


@cache
def get_component_plan(cls: type) -> ComponentPlan:
    """Read the fields of a component class."""
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
        given=frozenset(one.name for one in fields) & INJECTED_FIELDS,
        ignored=frozenset(getattr(cls, "IGNORED", ())),
    )


def parse_annotation(annotation: Any) -> FieldType:
    """Read a type hint."""
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
