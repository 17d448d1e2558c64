"""The check of each record against the description of its stream, for the setting `strict`.

A record has the structure that is declared when each of its fields is declared, at every depth
that has columns of its own; when every value has a type that its schema allows; and when no
required field is missing. Bounds, lengths, patterns and enumerations are not looked at; whether a
value fits its column is found when its batch is committed. Source: JSON Schema 2020-12, Validation,
sections 6.1.1 and 6.5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tap_core.events import SchemaEvent, StreamId
from tap_core.exceptions import InvalidJSONSchema
from tap_core.redaction.row_values import describe_value
from tap_core.schema.references import map_subschemas
from tap_core.sinks.validation import JSONSchemaValidator
from tap_core.types import JsonSchema
from target_spark.columns import TableSchema
from target_spark.config.options import LoadOptions
from target_spark.errors import UnsupportedError
from target_spark.loader.stream_context import layout_wanted, resolve_schema
from target_spark.loader.undeclared_properties import undeclared_in

__all__ = ["StrictCheck"]

_OF_STRUCTURE: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "allOf", "anyOf", "oneOf"}
)
_NAMED: Final = 10
"""Undeclared fields that a message names."""

_WAY_OUT: Final = "Mend the source or the declared schema, or set strict to false."


@dataclass(frozen=True, slots=True)
class _Declared:
    """What a description declares: the columns, and the schema of its structure, compiled."""

    by: SchemaEvent
    layout: TableSchema
    validator: JSONSchemaValidator
    surely_fits: Callable[[Any], bool]


class StrictCheck:
    """Returns what is wrong with a record, as a sentence that follows its line and stream."""

    def __init__(self, options: LoadOptions) -> None:
        self._options = options
        self._declared: dict[StreamId, _Declared] = {}

    def __call__(self, described: SchemaEvent | None, body: bytes) -> str | None:
        """Return the first thing that is wrong with a record; None: it is as declared.

        Raises:
            UnsupportedError: the declared schema is none, or cannot be a table.
        """
        if described is None:
            return f"which is not declared. {_WAY_OUT}"
        declared = self._get_declared(described)
        try:
            record = msgspec.json.decode(body)
        except (msgspec.MsgspecError, RecursionError) as error:
            return f"which cannot be read: {error}. {_WAY_OUT}"
        fault = next(_faults(record, declared), None)
        return fault and f"{fault}. {_WAY_OUT}"

    def _get_declared(self, described: SchemaEvent) -> _Declared:
        known = self._declared.get(described.stream)
        if known is None or (known.by is not described and known.by != described):
            known = self._declared[described.stream] = self._declared_by(described)
        return known

    def _declared_by(self, described: SchemaEvent) -> _Declared:
        schema = resolve_schema(described)
        layout = layout_wanted(self._options, described, schema, versioned=False)
        try:
            validator = JSONSchemaValidator({"type": "object", **_reduce_to_structure(schema)})
        except InvalidJSONSchema as error:
            first, *_ = str(error).splitlines()
            raise UnsupportedError(
                f"The schema of stream {described.stream} is no JSON Schema, so no record can be"
                f" held against it: {first}. {_WAY_OUT}"
            ) from error
        return _Declared(described, layout, validator, validator.certain_check)


def _reduce_to_structure(schema: JsonSchema) -> JsonSchema:
    """Return what a schema says about fields and types, without all else."""
    kept = {word: value for word, value in schema.items() if word in _OF_STRUCTURE}
    found = map_subschemas(kept, _reduce_to_structure)
    # Two branches that differ in a bound or a constant alone have one structure.
    if "oneOf" in found:
        found["allOf"] = [*found.get("allOf", ()), {"anyOf": found.pop("oneOf")}]
    return found


def _faults(record: Any, declared: _Declared) -> Iterator[str]:
    if not isinstance(record, dict):
        yield f"which is {describe_value(record)} and no object"
        return
    if names := undeclared_in(record, declared.layout):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        fields = ", ".join(names[:_NAMED])
        yield f"with fields that its schema does not declare: {fields}{more}"
    if not declared.surely_fits(record):
        errors = declared.validator.validator.iter_errors(record)
        yield from map(_sentence, sorted(errors, key=lambda error: list(map(str, error.path))))


def _sentence(error: Any) -> str:
    """Return in words what one error of jsonschema says, without a value of the record."""
    path = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
    ).removeprefix(".")
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        names = ", ".join(f"{path}.{name}" if path else name for name in missing)
        return f"without fields that its schema requires: {names}"
    found = describe_value(error.instance)
    if error.validator == "type":
        types = error.validator_value
        wanted = types if isinstance(types, str) else " or ".join(types)
        return f"whose field {path} is {found}, where its schema has {wanted}"
    return f"whose field {path} is {found}, which its schema does not allow"
