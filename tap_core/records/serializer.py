"""Serialization of a tap's records to the bytes of a message body; runs once per record.

A *layout* is the order of keys in a record. Decisions that depend on schema and selection are
made once per layout, so that a record with a known layout and plain values is encoded directly.
All other records are first converted with `tap_core.records.conform` (the slow path), with the
same bytes as result. Deselected properties are deleted from the author's own record, because taps
read it again afterwards.
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
from tap_core.records.prune import compile_pruner
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
"""Errors of a body encoder for values that must be converted before they can be encoded."""

_PLAIN: frozenset[type] = frozenset((str, int, float, bool, NoneType))
_BOOLEAN: frozenset[type] = frozenset((bool, NoneType))
_NESTED: frozenset[type] = _PLAIN | {dict, list}
_SURELY_FINITE: frozenset[type] = _PLAIN - {float}
_are_plain = _PLAIN.issuperset
_are_text = frozenset((str,)).issuperset
_LAYOUTS = 64
_SIGNATURES = 4096
_WORTH_COMPILING = 16
"""Number of records with one layout after which the check of this layout is compiled."""

_Check: TypeAlias = Callable[[Any], bool]
"""Predicate that is True for a value that can be encoded without conversion."""

_Signature: TypeAlias = tuple[type, ...]
"""Types of a record's values, in the order of its keys."""


class _Layout(NamedTuple):
    """Decisions about encoding records, made once for all records with the same order of keys."""

    drops: tuple[str, ...]
    """Names of the deselected properties, which are deleted from the record."""
    allowed: tuple[frozenset[type], ...]
    """For each selected property, the types whose values may need no conversion."""
    sure: tuple[frozenset[type], ...]
    """For each selected property, the subset of `allowed` whose values never need conversion."""
    nested: tuple[tuple[str, _Check], ...]
    """Names of the properties that may hold objects or lists, each with the check of its value."""
    known_signatures: set[_Signature]
    """Cache of signatures for which every type is in `allowed`."""
    fits: list[Callable[[Record], bool]]
    """The compiled check of a whole record as the only element; empty until it is compiled."""
    uses: Iterator[int]
    """Counter of the records that were checked with this layout."""


class RecordSerializer:
    """Callable that encodes the records of one stream. Only one thread may use it.

    It removes deselected properties and converts values first. A loop may skip the call for speed:
    if ``serializer.fits(record)`` returns True, the record can be passed directly to
    ``serializer.encode``. A call of the serializer may replace the function ``fits``, so the loop
    must read the attribute again after each call.
    """

    __slots__ = ("_encode_slowly", "_find", "_keys", "_layout", "encode", "fits")

    def __init__(
        self,
        find: Callable[[list[str]], _Layout | None],
        encode_slowly: RecordBodyEncoder,
        encode: RecordBodyEncoder,
    ) -> None:
        """Create a serializer.

        Args:
            find: Returns the layout for a list of keys, or None if records with these keys must be
                encoded with ``encode_slowly``.
            encode_slowly: Prunes, converts and encodes any record.
            encode: Encodes a record whose values need no conversion.
        """
        self._find = find
        self._encode_slowly = encode_slowly
        self.encode: RecordBodyEncoder = encode
        self._keys: list[str] = []
        self._layout = find(self._keys)
        self.fits: Callable[[Record], bool] = always_false

    def __call__(self, record: Record) -> Any:
        """Return the encoded record. Deselected properties are deleted from ``record`` itself."""
        keys = list(record)
        is_new_layout = keys != self._keys
        if is_new_layout:
            self._use_layout(keys)
        layout = self._layout
        is_encodable = layout is not None and (
            (is_new_layout and self.fits(record)) or self._is_encodable(record, layout)
        )
        if not is_encodable:
            return self._encode_slowly(record)
        try:
            return self.encode(record)
        except ENCODING_ERRORS:
            return self._encode_slowly(record)

    def _is_encodable(self, record: Record, layout: _Layout) -> bool:
        """Delete the deselected properties; return True if the values need no conversion."""
        if next(layout.uses) == _WORTH_COMPILING:
            self.fits = _get_record_check(self._keys, layout)
        for name in layout.drops:
            del record[name]
        types = tuple(map(type, record.values()))
        if types not in layout.known_signatures and not _check_signature(
            types, layout.allowed, layout.known_signatures
        ):
            return False
        return all(check(record[name]) for name, check in layout.nested)

    def _use_layout(self, keys: list[str]) -> None:
        """Use the layout for these keys, in this order, from now on."""
        self._keys, self._layout = keys, self._find(keys)
        compiled = self._layout.fits if self._layout is not None else []
        self.fits = compiled[0] if compiled else always_false


class TypedRecordSerializer(RecordSerializer):
    """Serializer for an encoder that knows the type of each property, such as Fivetran's.

    This encoder also selects properties and converts values, so records are passed to it unchanged.
    A record that ``encode`` cannot encode is passed to ``encode_slowly``.
    """

    __slots__ = ()

    def __init__(self, encode: RecordBodyEncoder, encode_slowly: RecordBodyEncoder) -> None:
        super().__init__(lambda _keys: None, encode_slowly, encode)
        self.fits = _is_record

    def __call__(self, record: Record) -> Any:
        """Return the record encoded with ``encode_slowly``, which accepts values of any type."""
        return self._encode_slowly(record)

    def body(self, record: Record) -> Any:
        """Return the record encoded with ``encode``. If that fails, use ``encode_slowly``."""
        try:
            return self.encode(record)
        except ENCODING_ERRORS:
            return self._encode_slowly(record)


def compile_serializer(
    *,
    schema: JsonSchema,
    effective_schema: JsonSchema,
    mask: SelectionMask,
    level: TypeConformanceLevel,
    encode: RecordBodyEncoder,
    unmapped: UnmappedCallback,
) -> RecordSerializer:
    """Return the serializer of a stream.

    Args:
        schema: Schema of the stream; with ``mask`` it defines the deselected properties.
        effective_schema: Schema that defines the types to convert to: that of the input catalog,
            or ``schema`` if there is no input catalog.
        mask: Selection of each property, from the catalog.
        level: Nesting depth to which values are converted.
        encode: Encoder for records with JSON values.
        unmapped: Called with the paths of properties that ``effective_schema`` does not declare.
    """
    prune = compile_pruner(schema, mask)
    conform = compile_conformer(effective_schema, level, unmapped)

    def encode_slowly(record: Record) -> Any:
        if prune is not None:
            prune(record)
        return _encode_converted(conform(record), encode)

    return RecordSerializer(_layout_finder(effective_schema, mask, level), encode_slowly, encode)


def compile_conformer_only(
    *,
    schema: JsonSchema,
    effective_schema: JsonSchema,
    mask: SelectionMask,
    level: TypeConformanceLevel,
    unmapped: UnmappedCallback,
    copies: bool,
) -> RecordSerializer:
    """Return a serializer that selects properties and converts values, but does not encode.

    It returns the converted record. With ``copies`` True, this is always a new dict, which the
    caller may change. With ``copies`` False, it is the dict of the tap's code if no value had to be
    converted. The other arguments are those of `compile_serializer`.
    """
    prune = compile_pruner(schema, mask)
    conform = compile_conformer(effective_schema, level, unmapped)

    def encode_slowly(record: Record) -> Any:
        if prune is not None:
            prune(record)
        conformed = conform(record)
        return record.copy() if copies and conformed is record else conformed

    if copies:
        return RecordSerializer(lambda _keys: None, encode_slowly, _same)
    return RecordSerializer(
        _layout_finder(effective_schema, mask, level, finite=True), encode_slowly, _same
    )


def encode_record(record: Record, encode: RecordBodyEncoder) -> Any:
    """Encode a record that may hold values of any type.

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
    """Return a function that is True for values of a property that need no conversion."""
    return _build_check(schema, level) or _is_plain


def _same(record: Record) -> Any:
    return record


def _is_record(record: Any) -> bool:
    return type(record) is dict


def _get_record_check(keys: list[str], layout: _Layout) -> Callable[[Record], bool]:
    """Return the compiled check for records with a layout. It is compiled at the first call."""
    if not layout.fits:
        selected = [name for name in keys if name not in layout.drops]
        allowed = dict(zip(selected, layout.sure, strict=True))
        checks = dict(layout.nested)
        numbers = [name for name, kinds in allowed.items() if kinds is not _BOOLEAN]
        # A property without a check may hold an object or a list, unchanged (a JSON column
        # that is declared as text), if it only has JSON types.
        checks |= {name: checks.get(name, _is_json) for name in numbers}
        layout.fits.append(compile_record_check(keys, allowed, checks))
    return layout.fits[0]


def _check_signature(
    types: _Signature, allowed: tuple[frozenset[type], ...], known_signatures: set[_Signature]
) -> bool:
    """Return True if the type of each value in a record is allowed for its property.

    ``types`` are the types of the record's values in order. Combinations that were found to be
    allowed are added to ``known_signatures``.
    """
    fine = all(kind in kinds for kind, kinds in zip(types, allowed, strict=True))
    if fine and len(known_signatures) < _SIGNATURES:
        known_signatures.add(types)
    return fine


def _layout_finder(
    schema: JsonSchema, mask: SelectionMask, level: TypeConformanceLevel, *, finite: bool = False
) -> Callable[[list[str]], _Layout | None]:
    """Return a function that looks up the layout for a list of keys.

    The function returns None if records with these keys may need conversion. Layouts are computed
    at first use and cached; a full cache is cleared.

    Args:
        schema: Schema that defines the types to convert to.
        mask: Selection of each property, from the catalog.
        level: Nesting depth to which values are converted.
        finite: True if NaN and infinity need conversion; False if the encoder writes them as null.
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
        selected = [name for name in keys if name not in drops]
        if any(name in partial or (name not in properties and not unknown_ok) for name in selected):
            return None
        rules = [(name, _build_rule(properties.get(name), level)) for name in selected]
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
    """Return the types allowed for a property without conversion, and a check of other values.

    The check is None if the type of a value is enough to decide.
    """
    check = _build_check(schema, level)
    if check is _is_boolean:
        return _BOOLEAN, None
    return (_PLAIN, None) if check is None else (_NESTED, check)


def _finite_check(kinds: frozenset[type], check: _Check | None) -> _Check | None:
    """Return a check that adds to ``check`` the condition that all numbers are finite.

    Numbers nested in lists and objects must be finite too. A check of booleans stays unchanged.
    """
    if kinds is _BOOLEAN:
        return check
    fits = check or _is_plain

    def check_finite(value: Any) -> bool:
        return fits(value) and _is_finite(value)

    return check_finite


def _is_finite(value: Any) -> bool:
    """Return True if a JSON value contains neither NaN nor infinity."""
    if type(value) is dict:
        return all(map(_is_finite, value.values()))
    if type(value) is list:
        return all(map(_is_finite, value))
    return type(value) is not float or math.isfinite(value)


def _build_check(schema: JsonSchema | None, level: TypeConformanceLevel) -> _Check | None:
    """Return the check of a property's values that is True if they need no conversion.

    Return None if the type of a value is enough to know this.
    """
    if not isinstance(schema, dict):
        return _is_json
    if level != TypeConformanceLevel.NONE and is_exclusive_boolean_type(schema):
        return _is_boolean
    if level == TypeConformanceLevel.RECURSIVE and (nested := _nested_check(schema)):
        return nested
    return _is_json if _may_nest(schema) else None


def _nested_check(schema: JsonSchema) -> _Check | None:
    """Return the check for values of an object schema, or of a list schema with uniform items.

    Return None for any other schema.
    """
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
    """Return a predicate for objects whose properties are declared by a schema."""
    keep_unknown = bool(schema.get("additionalProperties"))
    properties = schema.get("properties") or {}
    declared = properties.keys()
    checks = [
        (name, check)
        for name, definition in properties.items()
        if (check := _build_check(definition, TypeConformanceLevel.RECURSIVE)) is not None
    ]
    encode_slowly = {name for name, _ in checks}

    rest_are = _all_json if keep_unknown else _all_plain

    def check_object(value: Record) -> bool:
        if not (_all_text(value) if keep_unknown else value.keys() <= declared):
            return False
        if encode_slowly.isdisjoint(value):
            return rest_are(value.values())
        return all(check(value[name]) for name, check in checks if name in value) and rest_are(
            [item for name, item in value.items() if name not in encode_slowly]
        )

    return check_object


def _list_check(items: JsonSchema) -> _Check:
    """Return a predicate for lists whose items are declared by the schema ``items``."""
    check = _build_check(items, TypeConformanceLevel.RECURSIVE)
    if check is None:
        return _all_plain
    return lambda values: all(map(check, values))


def _may_nest(schema: JsonSchema) -> bool:
    """Return True if values of a schema may be objects or arrays."""
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
    """Return True if a value can be written as JSON unchanged.

    It may contain only JSON types (but no subclasses of them) and finite Decimals.
    """
    kind = type(value)
    if kind is list:
        return _all_json(value)
    if kind is dict:
        return _all_json(value.values()) and _all_text(value)
    return kind in _PLAIN or _is_decimal(value)
