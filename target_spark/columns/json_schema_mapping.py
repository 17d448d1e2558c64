"""Mapping of JSON Schema to table columns.

A property without a definite type becomes a text column, which can hold any value as JSON. Types
are never guessed from property names. Every column is nullable, independently of ``required``.

- ``integer``: 64 bits, or an exact decimal if the declared bounds need more;
- ``number``: double; with ``multipleOf`` a decimal that has as many decimal places;
- ``string``: by ``format`` (``date-time``, ``date``, ``x-singer.decimal``) and ``contentEncoding``
  (``base64``), else text; times and durations are text;
- ``object`` with declared properties: a struct; without them, or with ``additionalProperties`` and
  the like: text;
- ``array`` with one schema for its items: an array; else text;
- several types (a list, ``anyOf``, ``oneOf``): their common type, or text;
- no type, but values (``const``, ``enum``): the type of the values.

References (``$ref``) are resolved before a schema is mapped. A property with an unresolved
reference becomes text. Unknown keywords are ignored, as JSON Schema requires.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from tap_core.schema.numeric_bounds import DECIMAL_FORMATS
from tap_core.schema.type_variants import (
    allows_undeclared_properties,
    merge_object_variants,
    object_schema,
    split_variants,
)
from target_spark.columns.nested_keys import nested_columns, nested_sources
from target_spark.columns.numeric_types import (
    common_decimal,
    to_decimal_type,
    to_integer_type,
    to_number_type,
)
from target_spark.columns.table_schema import (
    AIRBYTE_COLUMNS,
    DELETED_AT,
    ORDINAL,
    ColumnOptions,
    TableSchema,
)
from target_spark.columns.types import (
    Array,
    Binary,
    Boolean,
    Column,
    ColumnSource,
    ColumnType,
    Date,
    Decimal,
    Double,
    Integer,
    Struct,
    Text,
    Timestamp,
)
from target_spark.tables.identifiers import sanitize_names

__all__ = ["WHOLE_RECORD", "schema_from_json_schema", "undeclared_keys"]

WHOLE_RECORD = "record"
"""Name of the column with the whole record as JSON, for a stream without declared properties."""

_MAX_DEPTH = 50
"""Maximum nesting of structs and arrays. Deeper objects and lists become columns of JSON text,
because Spark fails with a stack overflow at a few more levels."""

_EMPTY: Mapping[str, Any] = MappingProxyType({})

_DELETION_TIME_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {"type": "string", "format": "date-time"}
)
"""Schema of the property `_sdc_deleted_at`, which marks a row as deleted if it is not null.

It replaces the schema that the stream declares: in a text column, any text would delete the row."""

_Schema = Mapping[str, Any]


def schema_from_json_schema(
    schema: _Schema,
    keys: Sequence[str],
    options: ColumnOptions,
    nested: Mapping[str, Sequence[str]] = _EMPTY,
) -> TableSchema:
    """Convert the JSON Schema of a stream to the columns of its table.

    A key that is not a declared property becomes a text column. If the schema declares no
    properties, one column holds the whole record as JSON, in addition to the key columns. The
    property ``_sdc_deleted_at`` becomes a timestamp column, independently of its schema. If the
    options add Airbyte's columns, properties with the same names are left out.

    Args:
        schema: JSON Schema of the stream.
        keys: Names of the key properties. A repeated name counts once.
        options: The options for column types and additional columns.
        nested: The keys and replication keys that are nested in a property: their paths by name,
            such as ``{"user.id": ["user", "id"]}``. Each gets a separate column.

    Raises:
        UnsupportedError: A nested key is not declared, or is not a single value.
    """
    root = object_schema(schema)
    declared = dict(root.get("properties") or {})
    metadata = options.metadata_columns()
    names = {column.name for column in metadata}
    for name in names & AIRBYTE_COLUMNS.keys():
        declared.pop(name, None)
    if DELETED_AT in names:
        declared.pop(DELETED_AT, None)
    elif DELETED_AT in declared:
        declared[DELETED_AT] = _DELETION_TIME_SCHEMA
    nested_names = nested_sources(nested, declared)
    plain_keys = [key for key in keys if key not in nested_names]
    properties = {**dict.fromkeys(plain_keys, _EMPTY), **declared}
    reserved = (*names, ORDINAL, *options.reserved)
    record = _build_columns(properties, options, reserved=reserved)
    record += nested_columns(
        nested,
        nested_names,
        declared,
        partial(_to_column_type, options=options, depth=0),
        (*reserved, *(column.name for column in record)),
    )
    if not declared:
        whole_record_names = sanitize_names(
            [WHOLE_RECORD], (*reserved, *(column.name for column in record))
        )
        record += (Column("", whole_record_names[WHOLE_RECORD], Text(), feed=ColumnSource.WHOLE),)
    by_source = {column.source: column.name for column in record}
    sources = tuple(dict.fromkeys(nested_names.get(key, key) for key in keys))
    return TableSchema(
        columns=record + metadata,
        keys=tuple(by_source[source] for source in sources),
        key_sources=sources,
        truncate_timestamps=options.truncate_timestamps,
        nulls_invalid_values=options.nulls_invalid_values,
    )


def undeclared_keys(
    schema: _Schema, keys: Sequence[str], nested: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys that a JSON Schema does not declare, and the properties that it declares.

    The caller lists the keys and the properties in an error about misspelled keys.

    Args:
        schema: JSON Schema of the stream. If it declares no properties, no key is returned.
        keys: Names of the key properties.
        nested: Paths of the keys inside other properties, by name, such as
            ``{"user.id": ["user", "id"]}``. These keys are not checked.
    """
    declared = tuple(object_schema(schema).get("properties") or ())
    nested_names = {name for name, path in nested.items() if tuple(path) != (name,)}
    undeclared = tuple(key for key in keys if key not in declared and key not in nested_names)
    return (undeclared if declared else ()), declared


def _build_columns(
    properties: Mapping[str, Any],
    options: ColumnOptions,
    reserved: Sequence[str] = (),
    depth: int = 0,
) -> tuple[Column, ...]:
    names = sanitize_names(list(properties), reserved)
    return tuple(
        Column(source, names[source], _to_column_type(schema, options, depth), _get_comment(schema))
        for source, schema in properties.items()
    )


def _get_comment(schema: Any) -> str | None:
    text = schema.get("description") if isinstance(schema, Mapping) else None
    return text if isinstance(text, str) and text else None


def _to_column_type(schema: Any, options: ColumnOptions, depth: int) -> ColumnType:
    if depth > _MAX_DEPTH:
        return Text()
    variants = list(split_variants(schema))
    kinds = {kind for kind, _ in variants}
    if kinds == {"object"}:
        return _to_struct_type(
            merge_object_variants([variant for _, variant in variants]), options, depth
        )
    if kinds == {"array"}:
        return _to_array_type([variant for _, variant in variants], options, depth)
    return _find_common_type(
        [_to_scalar_type(kind, variant, options) for kind, variant in variants]
    )


def _to_struct_type(schema: _Schema, options: ColumnOptions, depth: int) -> ColumnType:
    properties = schema.get("properties")
    if not properties or allows_undeclared_properties(schema):
        return Text()
    return Struct(_build_columns(properties, options, depth=depth + 1))


def _to_array_type(variants: Sequence[_Schema], options: ColumnOptions, depth: int) -> ColumnType:
    items = [variant.get("items") for variant in variants]
    is_tuple = any(variant.get("prefixItems") for variant in variants)
    if is_tuple or not all(isinstance(item, Mapping) and item for item in items):
        return Text()
    item = items[0] if len(items) == 1 else {"anyOf": items}
    return Array(_to_column_type(item, options, depth + 1))


def _to_scalar_type(kind: str, schema: _Schema, options: ColumnOptions) -> ColumnType:
    if kind == "boolean":
        return Boolean()
    if kind == "integer":
        return to_integer_type(schema, options)
    if kind == "number":
        return to_number_type(schema, options)
    return _to_string_type(schema, options) if kind == "string" else Text()


def _to_string_type(schema: _Schema, options: ColumnOptions) -> ColumnType:
    format_ = schema.get("format")
    if format_ == "date-time":
        return Timestamp()
    if format_ == "date":
        return Date()
    if format_ in DECIMAL_FORMATS:
        return to_decimal_type(schema, options)
    return Binary() if schema.get("contentEncoding") == "base64" else Text()


def _find_common_type(types: Sequence[ColumnType]) -> ColumnType:
    """Return a column type that can store the values of all given types.

    For equal types, the result is the same type; for integer and double, it is double; for integers
    and decimals, a decimal. For all other mixtures, and for more than 38 digits, it is text.
    """
    distinct = set(types)
    if len(distinct) == 1:
        return distinct.pop()
    if distinct == {Integer(), Double()}:
        return Double()
    exact = [type_ for type_ in distinct if isinstance(type_, Integer | Decimal)]
    if exact and len(exact) == len(distinct):
        return common_decimal(exact) or Text()
    return Text()
