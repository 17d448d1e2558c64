"""Validation of each record against its stream's JSON Schema, for the setting `strict`.

A record is valid if the schema declares every field, every value has a type that the schema allows,
and no required field is missing. Fields of nested objects are checked if the objects are stored as
structs. Bounds, lengths, patterns and enumerations are not checked; a value that does not fit its
column is found when its batch is committed. Source: JSON Schema 2020-12, Validation, sections 6.1.1
and 6.5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tap_core.config.similar_names import list_names
from tap_core.events import SchemaEvent, StreamId
from tap_core.exceptions import InvalidJSONSchema
from tap_core.redaction.row_values import describe_value
from tap_core.schema.references import map_subschemas
from tap_core.sinks.validation import JSONSchemaValidator
from tap_core.types import JsonSchema
from target_spark.columns import TableSchema
from target_spark.config.options import LoadOptions
from target_spark.errors import UnsupportedError
from target_spark.loader.stream_context import build_table_schema, resolve_schema
from target_spark.loader.undeclared_properties import undeclared_in

__all__ = ["StrictCheck"]

_OF_STRUCTURE: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "allOf", "anyOf", "oneOf"}
)
_REMEDY: Final = "Fix the source or the declared schema, or set strict to false."


@dataclass(frozen=True, slots=True)
class _DeclaredSchema:
    """Compiled form of a SCHEMA message, cached per stream.

    Attributes:
        message: The SCHEMA message.
        table_schema: The table columns that the message declares.
        validator: A validator of the record's structure (fields and types only).
        certainly_fits: Fast check of a record. It returns True only for valid records. If it
            returns False, ``validator`` must check the record.
    """

    message: SchemaEvent
    table_schema: TableSchema
    validator: JSONSchemaValidator
    certainly_fits: Callable[[Any], bool]


class StrictCheck:
    """Callable object that checks records against the schemas of their streams.

    A call returns None for a valid record, else the end of an error message, such as ``with fields
    that its schema does not declare: a``. The caller adds line number and stream.
    """

    def __init__(self, options: LoadOptions) -> None:
        self._options = options
        self._declared: dict[StreamId, _DeclaredSchema] = {}

    def __call__(self, schema_message: SchemaEvent | None, body: bytes) -> str | None:
        """Return a description of a record's first error, or None if the record is valid.

        Args:
            schema_message: The newest SCHEMA message of the record's stream. None if there was no
                such message, which is an error.
            body: The record as JSON.

        Raises:
            UnsupportedError: The schema is invalid, or cannot be converted to table columns.
        """
        if schema_message is None:
            return f"which is not declared. {_REMEDY}"
        declared = self._get_declared(schema_message)
        try:
            record = msgspec.json.decode(body)
        except (msgspec.MsgspecError, RecursionError) as error:
            return f"which cannot be read: {error}. {_REMEDY}"
        fault = next(_find_errors(record, declared), None)
        return fault and f"{fault}. {_REMEDY}"

    def _get_declared(self, schema_message: SchemaEvent) -> _DeclaredSchema:
        declared = self._declared.get(schema_message.stream)
        if declared is None or (
            declared.message is not schema_message and declared.message != schema_message
        ):
            declared = self._declared[schema_message.stream] = self._compile(schema_message)
        return declared

    def _compile(self, schema_message: SchemaEvent) -> _DeclaredSchema:
        schema = resolve_schema(schema_message)
        table_schema = build_table_schema(self._options, schema_message, schema, versioned=False)
        try:
            validator = JSONSchemaValidator({"type": "object", **_reduce_to_structure(schema)})
        except InvalidJSONSchema as error:
            first, *_ = str(error).splitlines()
            raise UnsupportedError(
                f"The schema of stream {schema_message.stream} is not a valid JSON Schema, so its"
                f" records cannot be validated: {first}. {_REMEDY}"
            ) from error
        return _DeclaredSchema(schema_message, table_schema, validator, validator.certain_check)


def _reduce_to_structure(schema: JsonSchema) -> JsonSchema:
    """Return a copy of a JSON Schema that checks only fields and types, not formats or ranges."""
    structure = {word: value for word, value in schema.items() if word in _OF_STRUCTURE}
    reduced = map_subschemas(structure, _reduce_to_structure)
    # Two branches that differ only in a bound or a constant have the same structure.
    if "oneOf" in reduced:
        reduced["allOf"] = [*reduced.get("allOf", ()), {"anyOf": reduced.pop("oneOf")}]
    return reduced


def _find_errors(record: Any, declared: _DeclaredSchema) -> Iterator[str]:
    if not isinstance(record, dict):
        yield f"which is {describe_value(record)} and not an object"
        return
    if names := undeclared_in(record, declared.table_schema):
        yield f"with fields that its schema does not declare: {list_names(names)}"
    if not declared.certainly_fits(record):
        errors = declared.validator.validator.iter_errors(record)
        yield from map(
            _describe_error, sorted(errors, key=lambda error: list(map(str, error.path)))
        )


def _describe_error(error: Any) -> str:
    """Return a jsonschema error as text without the record's values.

    An example is ``whose field id is a string, where its schema has integer``.
    """
    path = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
    ).removeprefix(".")
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        names = ", ".join(f"{path}.{name}" if path else name for name in missing)
        return f"without fields that its schema requires: {names}"
    actual = describe_value(error.instance)
    if error.validator == "type":
        types = error.validator_value
        expected = types if isinstance(types, str) else " or ".join(types)
        return f"whose field {path} is {actual}, where its schema has {expected}"
    return f"whose field {path} is {actual}, which its schema does not allow"
