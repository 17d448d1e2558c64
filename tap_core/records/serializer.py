"""Serialization of an author's record to the bytes of its body: the function run per record.

Decisions that depend on schema and selection are made once per layout (the order of keys in the
source's records), so that a record of a known layout with plain values is encoded directly. All
other records take the slow path (`conform`), with the same bytes. Deselected properties are
deleted from the author's own record, because taps read it again afterwards.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tap_core.exceptions import DataError
from tap_core.records.compiled_check import always_false, compile_record_check
from tap_core.records.conform import (
    UnmappedCallback,
    compile_conformer,
    has_uniform_items,
    to_json_compatible,
)
from tap_core.records.select import compile_pruner
from tap_core.typing.inspect import (
    TypeConformanceLevel,
    is_exclusive_boolean_type,
    is_object_type,
)

if TYPE_CHECKING:
    from tap_core.singerlib.catalog import SelectionMask
    from tap_core.types import JsonSchema, Record, RecordBodyEncoder

__all__ = [
    "ENCODING_ERRORS",
    "RecordSerializer",
    "TypedRecordSerializer",
    "compile_conformer_only",
    "compile_serializer",
    "encode_record",
    "make_value_check",
]

ENCODING_ERRORS = (UnicodeEncodeError, TypeError, ValueError, OverflowError)
"""Errors of an encoder for values that only the slow path can write."""

_PLAIN: frozenset[type] = frozenset((str, int, float, bool, NoneType))
_BOOLEAN: frozenset[type] = frozenset((bool, NoneType))
_NESTED: frozenset[type] = _PLAIN | {dict, list}
_SURELY_FINITE: frozenset[type] = _PLAIN - {float}
_are_plain = _PLAIN.issuperset
_are_text = frozenset((str,)).issuperset
_LAYOUTS = 64
_SIGNATURES = 4096
_WORTH_COMPILING = 16
"""Number of records of one layout after which its check is compiled."""

_Check: TypeAlias = Callable[[Any], bool]
"""Predicate that is True for a value that needs no conversion."""

_Signature: TypeAlias = tuple[type, ...]
"""Types of a record's values, in their order."""


class _Layout(NamedTuple):
    """Encoding decisions for records whose keys come in one particular order."""

    drops: tuple[str, ...]
    """Deselected properties, which are deleted from the record."""
    allowed: tuple[frozenset[type], ...]
    """Types that need no conversion, for each property that is kept."""
    sure: tuple[frozenset[type], ...]
    """The types in `allowed` that need no check of the value."""
    nested: tuple[tuple[str, _Check], ...]
    """Properties whose values may be objects or lists, with the check of such values."""
    good: set[_Signature]
    """Signatures that need no conversion, apart from nested values."""
    fits: list[Callable[[Record], bool]]
    """Compiled check of a whole record; empty until it is compiled."""
    uses: Iterator[int]
    """Counter of the records that were checked."""


class RecordSerializer:
    """Function from a record to its encoded body, for one stream and one thread.

    A loop may skip the call: a record for which ``shape.fits`` returns True can be passed directly
    to ``shape.encode``. Each call of the serializer may replace ``fits``.
    """

    __slots__ = ("_careful", "_find", "_known", "_layout", "encode", "fits")

    def __init__(
        self,
        find: Callable[[list[str]], _Layout | None],
        careful: RecordBodyEncoder,
        encode: RecordBodyEncoder,
    ) -> None:
        """Use ``find`` to get layouts, and ``careful`` for records that must be converted."""
        self._find = find
        self._careful = careful
        self.encode: RecordBodyEncoder = encode
        self._known: list[str] = []
        self._layout = find(self._known)
        self.fits: Callable[[Record], bool] = always_false

    def __call__(self, record: Record) -> Any:
        """Prune, conform and encode one record."""
        keys = list(record)
        turns = keys != self._known
        if turns:
            self._turn_to(keys)
        layout = self._layout
        is_good = layout is not None and (
            (turns and self.fits(record)) or self._is_good(record, layout)
        )
        if not is_good:
            return self._careful(record)
        try:
            return self.encode(record)
        except ENCODING_ERRORS:
            return self._careful(record)

    def _is_good(self, record: Record, layout: _Layout) -> bool:
        """Delete deselected properties; return True if all others need no conversion."""
        if next(layout.uses) == _WORTH_COMPILING:
            self.fits = _get_record_check(self._known, layout)
        for name in layout.drops:
            del record[name]
        types = tuple(map(type, record.values()))
        if types not in layout.good and not _learn(types, layout.allowed, layout.good):
            return False
        return all(check(record[name]) for name, check in layout.nested)

    def _turn_to(self, keys: list[str]) -> None:
        """Use the layout of records with the keys in this order from now on."""
        self._known, self._layout = keys, self._find(keys)
        made = self._layout.fits if self._layout is not None else []
        self.fits = made[0] if made else always_false


class TypedRecordSerializer(RecordSerializer):
    """Serializer of a stream whose body encoder has a type for each property.

    The encoder selects and converts properties, so records are not pruned or conformed before.
    ``careful`` encodes the records that ``encode`` rejects.
    """

    __slots__ = ()

    def __init__(self, encode: RecordBodyEncoder, careful: RecordBodyEncoder) -> None:
        super().__init__(lambda _keys: None, careful, encode)
        self.fits = _is_record

    def __call__(self, record: Record) -> Any:
        """Return the encoded body of one record with values of any type."""
        return self._careful(record)

    def body(self, record: Record) -> Any:
        """Encode a record on the fast path, or with ``careful`` if that fails."""
        try:
            return self.encode(record)
        except ENCODING_ERRORS:
            return self._careful(record)


def compile_serializer(
    *,
    schema: JsonSchema,
    effective_schema: JsonSchema,
    mask: SelectionMask,
    level: TypeConformanceLevel,
    encode: RecordBodyEncoder,
    unmapped: UnmappedCallback,
) -> RecordSerializer:
    """Return the serializer of a stream, which prunes, conforms and encodes one record.

    ``schema`` and ``mask`` define the deselected properties. Values are conformed to
    ``effective_schema``, which is that of the input catalog if there is one.
    """
    prune = compile_pruner(schema, mask)
    conform = compile_conformer(effective_schema, level, unmapped)

    def careful(record: Record) -> Any:
        if prune is not None:
            prune(record)
        return _encode_converted(conform(record), encode)

    return RecordSerializer(_layout_finder(effective_schema, mask, level), careful, encode)


def compile_conformer_only(
    *,
    schema: JsonSchema,
    effective_schema: JsonSchema,
    mask: SelectionMask,
    level: TypeConformanceLevel,
    unmapped: UnmappedCallback,
    copies: bool,
) -> RecordSerializer:
    """Return a serializer that prunes and conforms a record without encoding it.

    Its body is the record: the author's own object if nothing must be converted, unless ``copies``
    requests an object that may be changed.
    """
    prune = compile_pruner(schema, mask)
    conform = compile_conformer(effective_schema, level, unmapped)

    def careful(record: Record) -> Any:
        if prune is not None:
            prune(record)
        conformed = conform(record)
        return record.copy() if copies and conformed is record else conformed

    if copies:
        return RecordSerializer(lambda _keys: None, careful, _same)
    return RecordSerializer(
        _layout_finder(effective_schema, mask, level, finite=True), careful, _same
    )


def encode_record(record: Record, encode: RecordBodyEncoder) -> Any:
    """Encode a record with any values.

    Raises:
        DataError: A value is nested too deeply, or an integer has too many digits.
    """
    values = record.values()
    if _are_text(map(type, record)) and (_are_plain(map(type, values)) or _all_json(values)):
        try:
            return encode(record)
        except ENCODING_ERRORS:
            pass
    return _encode_converted(record, encode)


def _encode_converted(record: Record, encode: RecordBodyEncoder) -> Any:
    try:
        return encode(to_json_compatible(record))
    except (ValueError, RecursionError) as error:
        raise DataError(f"A record cannot be written as JSON: {error}") from error


def make_value_check(
    schema: JsonSchema | None, level: TypeConformanceLevel
) -> Callable[[Any], bool]:
    """Return a predicate that is True for values of a property that need no conversion."""
    return _build_check(schema, level) or _is_plain


def _same(record: Record) -> Any:
    return record


def _is_record(record: Any) -> bool:
    return type(record) is dict


def _get_record_check(keys: list[str], layout: _Layout) -> Callable[[Record], bool]:
    """Return the compiled check of a layout; it is compiled once."""
    if not layout.fits:
        kept = [name for name in keys if name not in layout.drops]
        allowed = dict(zip(kept, layout.sure, strict=True))
        checks = dict(layout.nested)
        numbers = [name for name, kinds in allowed.items() if kinds is not _BOOLEAN]
        # A property without a check may hold an object or a list, unchanged (a JSON column
        # that is declared as text), if it only has JSON types.
        checks |= {name: checks.get(name, _is_json) for name in numbers}
        layout.fits.append(compile_record_check(keys, allowed, checks))
    return layout.fits[0]


def _learn(types: _Signature, allowed: tuple[frozenset[type], ...], good: set[_Signature]) -> bool:
    """Return True if values of these types need no conversion, and remember the types."""
    fine = all(kind in kinds for kind, kinds in zip(types, allowed, strict=True))
    if fine and len(good) < _SIGNATURES:
        good.add(types)
    return fine


def _layout_finder(
    schema: JsonSchema, mask: SelectionMask, level: TypeConformanceLevel, *, finite: bool = False
) -> Callable[[list[str]], _Layout | None]:
    """Return the function that finds, or computes, the layout of an order of keys.

    It returns None for records that need the slow path. The number of cached layouts is bounded,
    for sources with ever new orders of keys. With ``finite``, a number that JSON cannot represent
    needs conversion too (an encoder writes null for it anyway).
    """
    properties: dict[str, JsonSchema] = schema.get("properties") or {}
    partial = {
        crumb[1]
        for crumb, selected in mask.items()
        if len(crumb) > 2 and not selected  # noqa: PLR2004 - deeper than a property
    }
    unknown_ok = bool(schema.get("additionalProperties")) or level == TypeConformanceLevel.NONE
    layouts: dict[tuple[str, ...], _Layout | None] = {}

    def decide(keys: tuple[str, ...]) -> _Layout | None:
        if not all(type(name) is str for name in keys):
            return None
        drops = tuple(name for name in keys if not mask["properties", name])
        kept = [name for name in keys if name not in drops]
        if any(name in partial or (name not in properties and not unknown_ok) for name in kept):
            return None
        rules = [(name, _build_rule(properties.get(name), level)) for name in kept]
        if finite:
            rules = [(name, (kinds, _finite_check(kinds, check))) for name, (kinds, check) in rules]
        nested = tuple((name, check) for name, (_, check) in rules if check is not None)
        allowed = tuple(kinds for _, (kinds, _) in rules)
        plain = _SURELY_FINITE if finite else _PLAIN
        sure = tuple(kinds if kinds is _BOOLEAN else plain for kinds in allowed)
        return _Layout(drops, allowed, sure, nested, set(), [], itertools.count(1))

    def find(keys: list[str]) -> _Layout | None:
        order = tuple(keys)
        if order not in layouts:
            if len(layouts) >= _LAYOUTS:
                layouts.clear()
            layouts[order] = decide(order)
        return layouts[order]

    return find


def _build_rule(
    schema: JsonSchema | None, level: TypeConformanceLevel
) -> tuple[frozenset[type], _Check | None]:
    """Return the types that a property may have, and the check of its nested values."""
    check = _build_check(schema, level)
    if check is _is_boolean:
        return _BOOLEAN, None
    return (_PLAIN, None) if check is None else (_NESTED, check)


def _finite_check(kinds: frozenset[type], check: _Check | None) -> _Check | None:
    """Return a check that also requires all numbers, nested ones included, to be finite."""
    if kinds is _BOOLEAN:
        return check
    fits = check or _is_plain

    def check_finite(value: Any) -> bool:
        return fits(value) and _is_finite(value)

    return check_finite


def _is_finite(value: Any) -> bool:
    """Return True if all numbers in a value of JSON types are finite."""
    if type(value) is dict:
        return all(map(_is_finite, value.values()))
    if type(value) is list:
        return all(map(_is_finite, value))
    return type(value) is not float or math.isfinite(value)


def _build_check(schema: JsonSchema | None, level: TypeConformanceLevel) -> _Check | None:
    """Return the check that a property needs in addition to its type, or None."""
    if not isinstance(schema, dict):
        return _is_json
    if level != TypeConformanceLevel.NONE and is_exclusive_boolean_type(schema):
        return _is_boolean
    if level == TypeConformanceLevel.RECURSIVE and (nested := _nested_check(schema)):
        return nested
    return _is_json if _may_nest(schema) else None


def _nested_check(schema: JsonSchema) -> _Check | None:
    """Return the check of a declared object or uniform list, or None for other schemas."""
    as_object = _object_check(schema) if is_object_type(schema) and "properties" in schema else None
    as_list = _list_check(schema["items"]) if has_uniform_items(schema) else None
    if as_object is None and as_list is None:
        return None

    def check(value: Any) -> bool:
        kind = type(value)
        if kind is dict:
            return as_object(value) if as_object else _is_json(value)
        if kind is list:
            return as_list(value) if as_list else _is_json(value)
        return kind in _PLAIN or _is_decimal(value)

    return check


def _object_check(schema: JsonSchema) -> _Check:
    """Return the check of an object with declared properties."""
    keep_unknown = bool(schema.get("additionalProperties"))
    properties = schema.get("properties") or {}
    known = properties.keys()
    checks = [
        (name, check)
        for name, definition in properties.items()
        if (check := _build_check(definition, TypeConformanceLevel.RECURSIVE)) is not None
    ]
    careful = {name for name, _ in checks}

    rest_are = _all_json if keep_unknown else _all_plain

    def check_object(value: Record) -> bool:
        if not (_all_text(value) if keep_unknown else value.keys() <= known):
            return False
        if careful.isdisjoint(value):
            return rest_are(value.values())
        return all(check(value[name]) for name, check in checks if name in value) and rest_are(
            [item for name, item in value.items() if name not in careful]
        )

    return check_object


def _list_check(items: JsonSchema) -> _Check:
    """Return the check of a list whose items share one schema."""
    check = _build_check(items, TypeConformanceLevel.RECURSIVE)
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


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN or _is_decimal(value)


def _is_decimal(value: Any) -> bool:
    return type(value) is Decimal and value.is_finite()


def _all_plain(values: Collection[Any]) -> bool:
    return _are_plain(map(type, values)) or all(map(_is_plain, values))


def _all_text(names: Iterable[Any]) -> bool:
    return all(type(name) is str for name in names)


def _all_json(values: Iterable[Any]) -> bool:
    return all(map(_is_json, values))


def _is_json(value: Any) -> bool:
    """Return True for a value that holds only the exact types of JSON, to any depth."""
    kind = type(value)
    if kind is list:
        return _all_json(value)
    if kind is dict:
        return _all_json(value.values()) and _all_text(value)
    return kind in _PLAIN or _is_decimal(value)
