"""From an author's record to the bytes of its body: the one function run per record.

Rules of the room: what can be known from schema and selection is worked out once per
layout (the order of keys that a source sends), so that a record of a known layout with
plain values goes straight to the encoder. Everything else takes the careful way
(`conform`), and the bytes are the same either way. Deselected properties are deleted
from the author's record itself, because taps read it again afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tap_core.records.conform import Unmapped, compile_conformer, jsonable
from tap_core.records.select import compile_pruner
from tap_core.typing.inspect import (
    TypeConformanceLevel,
    is_exclusive_boolean_type,
    is_object_type,
    is_uniform_list,
)

if TYPE_CHECKING:
    from tap_core.catalog import SelectionMask
    from tap_core.types import BodyEncoder, JsonSchema, Record

__all__ = ["compile_shape"]

_PLAIN = frozenset((str, int, float, bool, NoneType))
_are_plain = _PLAIN.issuperset
_BOOLEAN = frozenset((bool, NoneType))
_LAYOUTS = 64

_Check: TypeAlias = Callable[[Any], bool]
"""True when a value needs no conforming."""


class _Layout(NamedTuple):
    """What was decided for one order of keys."""

    drops: tuple[str, ...]
    """Deselected properties, deleted from the record."""
    scalars: Callable[[Record], Sequence[Any]] | None
    """The values that must be plain; None when there are none."""
    checks: tuple[tuple[str, _Check], ...]
    """Properties that need more than that: booleans, objects, lists, free-form ones."""


def compile_shape(  # noqa: PLR0913 - all that is known before the first record
    *,
    schema: JsonSchema,
    effective_schema: JsonSchema,
    mask: SelectionMask,
    level: TypeConformanceLevel,
    encode: BodyEncoder,
    unmapped: Unmapped,
) -> BodyEncoder:
    """Return ``shape(record) -> body``: prune, conform and encode one record.

    ``schema`` and ``mask`` rule what is deselected, ``effective_schema`` (the
    catalog's, where one was given) what values are conformed to.
    """
    prune = compile_pruner(schema, mask)
    conform = compile_conformer(effective_schema, level, unmapped)
    learn = _layout_learner(effective_schema, mask, level)

    def careful(record: Record) -> bytes:
        if prune is not None:
            prune(record)
        return encode(jsonable(conform(record)))

    layouts: dict[tuple[str, ...], _Layout | None] = {}
    known: list[str] = []
    layout: _Layout | None = None

    def shape(record: Record) -> bytes:
        nonlocal known, layout
        keys = list(record)
        if keys != known:
            layout = _lookup(layouts, tuple(keys), learn)
            known = keys
        if layout is None:
            return careful(record)
        drops, scalars, checks = layout
        for name in drops:
            del record[name]
        if scalars is not None and not _are_plain(map(type, scalars(record))):
            return careful(record)
        for name, check in checks:
            if not check(record[name]):
                return careful(record)
        try:
            return encode(record)
        except (UnicodeEncodeError, TypeError, ValueError, OverflowError):
            return careful(record)

    return shape


def _lookup(
    layouts: dict[tuple[str, ...], _Layout | None],
    keys: tuple[str, ...],
    learn: Callable[[tuple[str, ...]], _Layout | None],
) -> _Layout | None:
    """Find or learn a layout; a source that never repeats itself is not remembered."""
    if keys not in layouts:
        if len(layouts) >= _LAYOUTS:
            layouts.clear()
        layouts[keys] = learn(keys)
    return layouts[keys]


def _layout_learner(
    schema: JsonSchema, mask: SelectionMask, level: TypeConformanceLevel
) -> Callable[[tuple[str, ...]], _Layout | None]:
    """Return the function that decides a layout; None sends its records the careful way."""
    properties: dict[str, JsonSchema] = schema.get("properties") or {}
    partial = {
        crumb[1]
        for crumb, selected in mask.items()
        if len(crumb) > 2 and not selected  # noqa: PLR2004 - deeper than a property
    }
    unknown_ok = bool(schema.get("additionalProperties")) or level == TypeConformanceLevel.NONE

    def learn(keys: tuple[str, ...]) -> _Layout | None:
        if not all(type(name) is str for name in keys):
            return None
        drops = tuple(name for name in keys if not mask["properties", name])
        kept = [name for name in keys if name not in drops]
        if any(name in partial or (name not in properties and not unknown_ok) for name in kept):
            return None
        checks = tuple(
            (name, check)
            for name in kept
            if (check := _check_of(properties.get(name), level)) is not None
        )
        return _Layout(drops, _scalars(kept, {name for name, _ in checks}), checks)

    return learn


def _scalars(
    kept: list[str], checked: set[str]
) -> Callable[[Record], Sequence[Any]] | None:
    """Return how to take the values that need no check of their own, in one call."""
    names = [name for name in kept if name not in checked]
    if len(names) == len(kept):
        return dict.values  # type: ignore[return-value]
    if not names:
        return None
    if len(names) == 1:
        names = names * 2  # itemgetter of one name would not give a tuple
    return itemgetter(*names)


def _check_of(schema: JsonSchema | None, level: TypeConformanceLevel) -> _Check | None:
    """Return the check that a property needs beyond being plain, None if none."""
    if schema is None:
        return _is_json
    if level != TypeConformanceLevel.NONE and is_exclusive_boolean_type(schema):
        return _is_boolean
    if level == TypeConformanceLevel.RECURSIVE and (nested := _nested_check(schema)):
        return nested
    return _is_json if _may_nest(schema) else None


def _nested_check(schema: JsonSchema) -> _Check | None:
    """Return the check of a declared object or uniform list, None for anything else."""
    as_object = (
        _object_check(schema) if is_object_type(schema) and "properties" in schema else None
    )
    as_list = _list_check(schema["items"]) if is_uniform_list(schema) else None
    if as_object is None and as_list is None:
        return None

    def check(value: Any) -> bool:
        kind = type(value)
        if kind is dict:
            return as_object(value) if as_object else _is_json(value)
        if kind is list:
            return as_list(value) if as_list else _is_json(value)
        return kind in _PLAIN

    return check


def _object_check(schema: JsonSchema) -> _Check:
    """Return the check of an object with declared properties."""
    keep_unknown = bool(schema.get("additionalProperties"))
    properties = schema.get("properties") or {}
    known = properties.keys()
    checks = [
        (name, check)
        for name, definition in properties.items()
        if (check := _check_of(definition, TypeConformanceLevel.RECURSIVE)) is not None
    ]
    careful = {name for name, _ in checks}

    rest_are = _all_json if keep_unknown else _all_plain

    def check_object(value: Record) -> bool:
        if not keep_unknown and not value.keys() <= known:
            return False
        if careful.isdisjoint(value):
            return rest_are(value.values())
        return all(check(value[name]) for name, check in checks if name in value) and rest_are(
            [item for name, item in value.items() if name not in careful]
        )

    return check_object


def _list_check(items: JsonSchema) -> _Check:
    """Return the check of a list whose items share one schema."""
    check = _check_of(items, TypeConformanceLevel.RECURSIVE)
    if check is None:
        return _all_plain
    return lambda values: all(map(check, values))


def _may_nest(schema: JsonSchema) -> bool:
    """Return True unless the schema says that no value is an object or a list."""
    kinds = schema.get("type")
    if not isinstance(kinds, (str, list)):
        return True
    return "object" in kinds or "array" in kinds


def _is_boolean(value: Any) -> bool:
    return type(value) in _BOOLEAN


def _all_plain(values: Iterable[Any]) -> bool:
    return _are_plain(map(type, values))


def _all_json(values: Iterable[Any]) -> bool:
    return all(map(_is_json, values))


def _is_json(value: Any) -> bool:
    """Return True for a value of nothing but JSON's own types, to any depth."""
    kind = type(value)
    if kind is list:
        return _all_json(value)
    if kind is dict:
        return _all_json(value.values()) and all(type(key) is str for key in value)
    return kind in _PLAIN
