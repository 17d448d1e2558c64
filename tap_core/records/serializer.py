"""Serialization of a tap's records to the bytes of messages.

A record whose values need no conversion is encoded directly (the fast path). A compiled check
recognizes most such records; the rules of `tap_core.records.value_rules` recognize the rest. Any
other record is first converted with `tap_core.records.conform` (the slow path). Deselected
properties are deleted from the tap's record in place, as in singer_sdk.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tap_core.exceptions import DataError
from tap_core.records.compiled_check import always_false, compile_record_check
from tap_core.records.conform import (
    SCHEMA_NAME,
    UnmappedCallback,
    compile_conformer,
    is_conversion_replaced,
    key_to_text,
    to_json_compatible,
)
from tap_core.records.prune import (
    DeselectedNames,
    RecordPruner,
    compile_pruner,
    get_deselected_names,
)
from tap_core.records.value_rules import (
    PLAIN_TYPES,
    ObjectRule,
    build_object_rule,
    is_json,
)
from tap_core.typing.inspect import TypeConformanceLevel

if TYPE_CHECKING:
    from tap_core.singerlib.catalog import SelectionMask
    from tap_core.types import JsonSchema, Record, RecordBodyEncoder

__all__ = [
    "ENCODING_ERRORS",
    "RecordChecks",
    "RecordSerializer",
    "TypedRecordSerializer",
    "compile_conformer_only",
    "compile_record_encoder",
    "compile_serializer",
    "encode_record",
]

ENCODING_ERRORS = (UnicodeEncodeError, TypeError, ValueError, OverflowError)
"""Errors of a body encoder for values that must be converted before they can be encoded."""

_FIRST_COMPILATION = 16
_COMPILATION_GROWTH = 16
"""Factor by which the number of records between two compilations grows."""


class RecordChecks(NamedTuple):
    """Checks that a stream's record passes if it can be encoded without conversion.

    Attributes:
        rule: Rule that accepts records that need no conversion.
        deselected: Deselected properties, which are deleted first.
    """

    rule: ObjectRule
    deselected: DeselectedNames
    prune: RecordPruner | None
    """Function that deletes the deselected properties of a record; None if all are selected."""


class RecordSerializer:
    """Callable that encodes the records of one stream; not thread-safe.

    A call deletes deselected properties, converts values and encodes the record. A loop can avoid
    most calls, for speed: if ``serializer.fits(record)`` returns True, the record needs no
    conversion and can be passed directly to ``serializer.encode``. A call of the serializer may
    replace ``fits``, so the loop must read this attribute again after each call. `serialize` does
    the same for a single record.

    ``fits`` is compiled for the properties of a sample record. If later records have other
    properties, ``fits`` is compiled again after 16 such records, then after 256, and so on.
    """

    __slots__ = ("_checks", "_encode_slowly", "_until_compilation", "encode", "fits")

    def __init__(
        self,
        checks: RecordChecks | None,
        encode_slowly: RecordBodyEncoder,
        encode: RecordBodyEncoder,
    ) -> None:
        """Create a serializer.

        Args:
            checks: Checks of records that need no conversion, or None if each record must be
                encoded with ``encode_slowly``.
            encode_slowly: Function that deletes deselected properties, converts and encodes any
                record.
            encode: Function that encodes a record whose values need no conversion.
        """
        self._checks = checks
        self._encode_slowly = encode_slowly
        self.encode: RecordBodyEncoder = encode
        self.fits: Callable[[Record], bool] = always_false
        self._until_compilation = itertools.chain.from_iterable(
            range(_FIRST_COMPILATION * _COMPILATION_GROWTH**n - 1, -1, -1)
            for n in itertools.count()
        )
        """Countdown to each compilation of `fits`: from 15 to 0, then from 255 to 0, and so on."""

    def __call__(self, record: Record) -> Any:
        """Return the encoded record, and delete deselected properties from ``record`` in place."""
        checks = self._checks
        if checks is None:
            return self._encode_slowly(record)
        if checks.prune is not None:
            checks.prune(record)
        if not checks.rule.accepts(record):
            return self._encode_slowly(record)
        if next(self._until_compilation) == 0:
            self.fits = compile_record_check(checks.rule, record, checks.deselected)
        try:
            return self.encode(record)
        except ENCODING_ERRORS:
            return self._encode_slowly(record)

    def serialize(self, record: Record) -> Any:
        """Return the encoded record like a call, but without conversion if the record ``fits``."""
        if not self.fits(record):
            return self(record)
        try:
            return self.encode(record)
        except ENCODING_ERRORS:
            return self._encode_slowly(record)


class TypedRecordSerializer(RecordSerializer):
    """Serializer for an encoder that uses the type of each property, such as Fivetran's.

    The encoder itself selects properties and converts values, so it gets the tap's records
    unchanged. It has two functions: the fast ``encode`` and, for records on which that fails,
    ``encode_slowly``.
    """

    __slots__ = ()

    def __init__(self, encode: RecordBodyEncoder, encode_slowly: RecordBodyEncoder) -> None:
        super().__init__(None, encode_slowly, encode)
        self.fits = _is_record

    def __call__(self, record: Record) -> Any:
        """Return the record encoded with ``encode_slowly``, which accepts values of any type."""
        return self._encode_slowly(record)


def compile_serializer(
    *,
    schema: JsonSchema,
    mask: SelectionMask,
    level: TypeConformanceLevel,
    encode: RecordBodyEncoder,
    unmapped: UnmappedCallback,
    schema_name: str = SCHEMA_NAME,
) -> RecordSerializer:
    """Compile the serializer for the records of a stream.

    Args:
        schema: Schema with the types to convert to: the schema in the input catalog or, without an
            input catalog, the stream's schema.
        mask: Selection of each property, from the catalog.
        level: Values to convert: none, only those of top-level properties, or also nested ones.
        encode: Function that encodes a record with JSON values.
        unmapped: Function that is called with the paths of properties that ``schema`` does not
            declare.
        schema_name: Beginning of the error message about a schema without properties.
    """
    prune = compile_pruner(mask)
    conform = compile_conformer(schema, level, unmapped, schema_name)

    def encode_slowly(record: Record) -> Any:
        if prune is not None:
            prune(record)
        return encode_record(conform(record), encode)

    rule = build_object_rule(schema, level)
    return RecordSerializer(_build_checks(rule, mask, prune), encode_slowly, encode)


def compile_conformer_only(
    *,
    schema: JsonSchema,
    mask: SelectionMask,
    level: TypeConformanceLevel,
    unmapped: UnmappedCallback,
    copies: bool,
    schema_name: str = SCHEMA_NAME,
) -> RecordSerializer:
    """Compile a serializer that converts records, and returns them as dicts without encoding.

    If ``copies`` is True, it returns a new dict for each record, which the caller may change. If it
    is False, it returns the tap's own dict if no value has to be converted. The other arguments
    define the deselected properties and the conversion, as in `compile_serializer`.
    """
    prune = compile_pruner(mask)
    conform = compile_conformer(schema, level, unmapped, schema_name)

    def encode_slowly(record: Record) -> Any:
        if prune is not None:
            prune(record)
        conformed = conform(record)
        return record.copy() if copies and conformed is record else conformed

    if copies:
        return RecordSerializer(None, encode_slowly, _return_unchanged)
    rule = build_object_rule(schema, level, finite=True)
    return RecordSerializer(_build_checks(rule, mask, prune), encode_slowly, _return_unchanged)


def _build_checks(
    rule: ObjectRule, mask: SelectionMask, prune: RecordPruner | None
) -> RecordChecks | None:
    """Return the checks that a record passes if it can be encoded without conversion.

    ``rule`` accepts such a record after ``prune`` has deleted its deselected properties. If all
    records must be converted, return None: the stream is deselected, or the tap has replaced the
    function that converts a value.
    """
    if not mask[()] or is_conversion_replaced():
        return None
    return RecordChecks(rule, get_deselected_names(mask), prune)


def compile_record_encoder(encode: RecordBodyEncoder) -> RecordBodyEncoder:
    """Compile a function that encodes a record like `encode_record`, but faster for many records.

    The function is not thread-safe.
    """

    def encode_slowly(record: Record) -> Any:
        return encode_record(record, encode)

    rule = build_object_rule({}, TypeConformanceLevel.NONE)
    return RecordSerializer(RecordChecks(rule, {}, None), encode_slowly, encode).serialize


def encode_record(record: Record, encode: RecordBodyEncoder) -> Any:
    """Encode a record whose values may have any Python type.

    Return the result of ``encode``. Values that JSON does not support are converted with
    `to_json_compatible` first.

    Raises:
        DataError: A value is nested too deeply, or an integer has too many digits.
    """
    try:
        try:
            plain = is_json(dict(record))  # a record may be of a subclass of dict
            return encode(record if plain else _convert_other_values(record))
        except ENCODING_ERRORS:
            return encode(to_json_compatible(record))
    except RecursionError as error:
        reason = "a value in it is nested too deeply, or contains itself"
        raise DataError(f"A record cannot be written as JSON: {reason}.") from error
    except ValueError as error:
        raise DataError(f"A record cannot be written as JSON: {error}") from error


def _convert_other_values(record: Record) -> Record:
    """Return a copy of a record in which only values that JSON does not support are converted."""
    return {
        name if type(name) is str else key_to_text(name): value
        if type(value) in PLAIN_TYPES or is_json(value)
        else to_json_compatible(value)
        for name, value in record.items()
    }


def _return_unchanged(record: Record) -> Any:
    return record


def _is_record(record: Any) -> bool:
    return type(record) is dict
