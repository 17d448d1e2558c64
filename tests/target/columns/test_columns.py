"""The mapping of JSON Schema to column types; values of an undeclared type become text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.schema.references import resolve_schema_references
from target_spark.columns import (
    METADATA_COLUMNS,
    Array,
    Binary,
    Boolean,
    Column,
    ColumnOptions,
    ColumnSource,
    ColumnType,
    Date,
    Decimal,
    Double,
    Integer,
    Struct,
    TableSchema,
    Text,
    Timestamp,
    from_table,
    schema_from_json_schema,
    to_json_schema,
)
from target_spark.columns.ddl_parser import parse_ddl
from target_spark.tables.identifiers import sanitize_names

PLAIN = ColumnOptions()


def get_columns(
    properties: dict[str, Any], options: ColumnOptions = PLAIN
) -> dict[str, ColumnType]:
    table_schema = schema_from_json_schema(
        {"type": "object", "properties": properties}, (), options
    )
    return {column.name: column.type for column in table_schema.columns}


def get_type(schema: Any, options: ColumnOptions = PLAIN) -> ColumnType:
    return get_columns({"a": schema}, options)["a"]


@pytest.mark.parametrize(
    "schema,expected",
    [
        ({"type": "integer"}, Integer()),
        ({"type": ["null", "integer"]}, Integer()),
        ({"type": "boolean"}, Boolean()),
        ({"type": "number"}, Double()),
        ({"type": "string"}, Text()),
        ({"type": "string", "format": "date-time"}, Timestamp()),
        ({"type": ["string", "null"], "format": "date"}, Date()),
        ({"type": "string", "format": "time"}, Text()),
        ({"type": "string", "format": "uuid"}, Text()),
        ({"type": "string", "contentEncoding": "base64"}, Binary()),
        ({"type": "string", "contentEncoding": "hex"}, Text()),
        ({}, Text()),
        ({"description": "anything"}, Text()),
        (True, Text()),
        (False, Text()),
        ({"type": "null"}, Text()),
        ({"type": []}, Text()),
        ({"type": ["integer", "string"]}, Text()),
        ({"type": ["integer", "number", "null"]}, Double()),
        ({"type": ["object", "string"], "properties": {"x": {"type": "string"}}}, Text()),
        ({"type": "object"}, Text()),
        ({"type": "object", "properties": {}}, Text()),
        ({"type": "array"}, Text()),
        ({"type": "array", "items": {}}, Text()),
        ({"type": "array", "items": True}, Text()),
        ({"type": "array", "items": [{"type": "string"}]}, Text()),
        ({"type": "array", "items": {"type": "integer"}}, Array(Integer())),
        ({"type": "array", "items": {"type": "array"}}, Array(Text())),
    ],
)
def test_json_type_and_format_select_the_column_type(schema: Any, expected: ColumnType):
    assert get_type(schema) == expected


@pytest.mark.parametrize(
    "schema,expected",
    [
        ({"maximum": 2**63 - 1, "minimum": -(2**63)}, Integer()),
        ({"maximum": 2**63}, Decimal(38, 0)),
        ({"minimum": -(2**63) - 1}, Decimal(38, 0)),
        ({"exclusiveMaximum": 2**63}, Integer()),
        ({"exclusiveMaximum": 2**63 + 1}, Decimal(38, 0)),
        ({"maximum": 2**63, "exclusiveMaximum": True}, Integer()),
        ({"maximum": 2**63, "exclusiveMaximum": False}, Decimal(38, 0)),
        ({"minimum": -(2**63) - 1, "exclusiveMinimum": True}, Integer()),
        ({"maximum": 2**64, "exclusiveMaximum": 10}, Integer()),
        ({"maximum": float(2**63 - 1)}, Integer()),
        ({"maximum": 1e20}, Decimal(38, 0)),
        ({"maximum": float("inf")}, Integer()),
        ({"maximum": 10**40}, Decimal(38, 0)),
        ({"const": 2**64}, Decimal(38, 0)),
        ({"enum": [None, 1, -(2**63) - 1]}, Decimal(38, 0)),
        ({"enum": [10**5000]}, Decimal(38, 0)),
        ({"maximum": 2**63 - 1, "enum": [1, 2**64]}, Decimal(38, 0)),
        ({"enum": [2**63 - 1, -(2**63)]}, Integer()),
    ],
)
def test_integer_beyond_64_bits_is_a_decimal(schema: dict[str, Any], expected: ColumnType):
    assert get_type({"type": "integer", **schema}) == expected


def test_values_beyond_64_bits_without_a_type_are_a_decimal():
    assert get_type({"const": 2**70}) == Decimal(38, 0)
    assert get_type({"enum": [1, 2**64, None]}) == Decimal(38, 0)
    assert get_type({"anyOf": [{"const": 2**64}, {"const": 1}]}) == Decimal(38, 0)


@pytest.mark.parametrize(
    "schema,expected",
    [
        ({"multipleOf": 0.01}, Decimal(38, 2)),
        ({"multipleOf": 1e-9}, Decimal(38, 9)),
        ({"multipleOf": 0.25}, Decimal(38, 2)),
        ({"multipleOf": 1}, Decimal(38, 0)),
        ({"multipleOf": 10}, Decimal(38, 0)),
        ({"multipleOf": 0}, Double()),
        ({"multipleOf": 1e-20}, Decimal(38, 20)),
        ({"multipleOf": 1e-38}, Decimal(38, 18)),
        ({"multipleOf": 1e-30, "minimum": -1, "maximum": 1}, Decimal(38, 30)),
        ({"multipleOf": 1e-38, "minimum": -1e62, "maximum": 1e62}, Decimal(38, 18)),
        ({"format": "x-singer.decimal", "precision": 12, "scale": 4}, Decimal(12, 4)),
    ],
)
def test_multiple_of_selects_the_decimal_scale(schema: dict[str, Any], expected: ColumnType):
    assert get_type({"type": "number", **schema}) == expected


@pytest.mark.parametrize("word", ["x-singer.decimal", "singer.decimal"])
def test_string_with_decimal_format_is_a_decimal(word: str):
    decimal = {"type": ["string", "null"], "format": word}
    assert get_type(decimal) == Decimal(38, 18)
    assert get_type({**decimal, "precision": 10, "scale": 2}) == Decimal(10, 2)
    assert get_type({**decimal, "precision": 10}) == Decimal(10, 0)
    assert get_type({**decimal, "precision": 60, "scale": 30}) == Decimal(38, 18)


def test_options_select_the_types_of_numbers():
    exact = ColumnOptions(plain_numbers=Decimal(38, 9), oversized_as_text=True)
    assert get_type({"type": "number"}, exact) == Decimal(38, 9)
    assert get_type({"type": "integer", "maximum": 10**40}, exact) == Text()
    assert get_type({"type": "number", "multipleOf": 1e-38}, exact) == Text()
    assert get_type({"type": "integer", "maximum": 10**30}, exact) == Decimal(38, 0)


def test_exclusive_bounds_of_38_digits_are_read_exactly():
    """Taps of databases declare a NUMERIC(38, 2) in this way."""
    limits = {"minimum": -(10**36), "exclusiveMinimum": True, "exclusiveMaximum": 10**36}
    options = ColumnOptions(oversized_as_text=True)
    assert get_type({"type": "number", "multipleOf": 0.01, **limits}, options) == Decimal(38, 2)
    assert get_type({"type": "number", "multipleOf": 0.001, **limits}, options) == Text()


def test_declared_objects_are_structs_at_any_depth():
    point = {"type": "object", "properties": {"x": {"type": "integer"}, "X": {"type": "number"}}}
    struct = get_type(
        {"type": ["object", "null"], "properties": {"p": {"type": "array", "items": point}}}
    )
    assert struct.ddl == "struct<`p`: array<struct<`x_2`: bigint, `X`: double>>>"


@pytest.mark.parametrize(
    "keywords", [{"additionalProperties": True}, {"patternProperties": {"^x": {}}}]
)
def test_object_with_additional_properties_is_text(keywords: dict[str, Any]):
    closed = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert isinstance(get_type(closed), Struct)
    assert isinstance(get_type({**closed, "additionalProperties": False}), Struct)
    assert get_type({**closed, **keywords}) == Text()


INT = {"type": "integer"}
OBJECT_X = {"type": "object", "properties": {"x": INT}}
OBJECT_XY = {"type": "object", "properties": {"x": {"type": "number"}, "y": INT}}


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    "alternatives,ddl",
    [
        ([INT, {"type": "null"}], "bigint"),
        ([INT, {"type": "number"}], "double"),
        (
            [INT, {"type": "number", "format": "singer.decimal", "precision": 9, "scale": 2}],
            "decimal(22,2)",
        ),
        ([INT, {"type": "number", "multipleOf": 1e-20}], "string"),
        ([{"type": "string", "format": "date-time"}, {"type": "null"}], "timestamp"),
        ([{"type": "string", "format": "date-time"}, {"type": "string"}], "string"),
        ([OBJECT_X, OBJECT_XY], "struct<`x`: double, `y`: bigint>"),
        ([OBJECT_X, {"type": "object"}], "string"),
        ([OBJECT_X, INT], "string"),
        (
            [{"type": "array", "items": INT}, {"type": "array", "items": {"type": "number"}}],
            "array<double>",
        ),
        ([{"anyOf": [INT, {"type": "null"}]}, {"type": "null"}], "bigint"),
        ([{"type": "null"}], "string"),
    ],
)
def test_alternatives_get_a_common_type_or_text(word: str, alternatives: list[Any], ddl: str):
    assert get_type({word: alternatives}).ddl == ddl


def test_keywords_next_to_any_of_apply_to_each_alternative():
    schema = {"type": ["string", "null"], "anyOf": [{"format": "date-time"}, {"type": "null"}]}
    assert get_type(schema) == Timestamp()


def test_all_of_is_merged_into_one_schema():
    assert get_type({"allOf": [{"type": "number"}, {"multipleOf": 0.1}]}) == Decimal(38, 1)
    assert get_type({"allOf": [{"type": ["integer", "null"]}, {"type": "number"}]}) == Integer()
    merged = get_type({"allOf": [OBJECT_X, {"properties": {"y": {"type": "boolean"}}}]})
    assert merged.ddl == "struct<`x`: bigint, `y`: boolean>"


def test_any_of_next_to_all_of_is_respected():
    schema = {"anyOf": [{"type": "integer"}, {"type": "null"}], "allOf": [{"anyOf": [{}, {}]}]}
    assert get_type(schema) == Integer()


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, {"properties": {}}, {"type": "object", "properties": None}]
)
def test_schema_without_properties_has_one_column_for_whole_records(schema: dict[str, Any]):
    (column,) = schema_from_json_schema(schema, (), PLAIN).columns
    assert (column.name, column.type, column.feed) == ("record", Text(), ColumnSource.WHOLE)


def test_one_of_at_the_root_merges_its_properties():
    schema = {"oneOf": [OBJECT_X, OBJECT_XY]}
    assert schema_from_json_schema(schema, (), PLAIN).types == {"x": "double", "y": "bigint"}


def test_keys_have_the_sanitized_names_of_their_columns():
    table_schema = schema_from_json_schema(
        {"properties": {"user id": INT, "b": INT}}, ("user id", "lost"), PLAIN
    )
    assert table_schema.key_sources == ("user id", "lost")
    assert table_schema.keys == ("user_id", "lost")
    assert table_schema.types == {"user_id": "bigint", "lost": "string", "b": "bigint"}


def test_repeated_key_counts_once():
    table_schema = schema_from_json_schema(
        {"properties": {"id": INT, "b": INT}}, ("b", "id", "b"), PLAIN
    )
    assert table_schema.key_sources == table_schema.keys == ("b", "id")


def test_descriptions_become_comments_and_do_not_affect_equality():
    with_comment = schema_from_json_schema(
        {"properties": {"a": {**INT, "description": "how many"}}}, (), PLAIN
    )
    assert with_comment.columns[0].comment == "how many"
    assert with_comment == schema_from_json_schema({"properties": {"a": INT}}, (), PLAIN)


def test_metadata_columns_come_last_and_keep_their_names():
    properties = {"_sdc_sequence": INT, "_sdc_deleted_at": {"type": "string"}, "a": INT}
    table_schema = schema_from_json_schema(
        {"properties": properties}, (), ColumnOptions(metadata=True)
    )
    names = list(table_schema.types)
    assert names == ["_sdc_sequence_2", "a", *METADATA_COLUMNS]
    versioned = schema_from_json_schema(
        {"properties": {"a": INT}}, (), ColumnOptions(table_version=True)
    )
    assert versioned.types == {"a": "bigint", "_sdc_table_version": "bigint"}


def test_column_fed_by_finds_the_column_of_a_property():
    table_schema = schema_from_json_schema({"properties": {"a b": INT}}, (), PLAIN)
    assert isinstance(table_schema, TableSchema)
    assert table_schema.column_fed_by("a b").name == "a_b"
    assert table_schema.column_fed_by("a_b") is None


@pytest.mark.parametrize(
    "schema,expected",
    [
        ({"enum": ["a", "b", None]}, Text()),
        ({"const": 5}, Integer()),
        ({"enum": [1, 2.5]}, Double()),
        ({"enum": [True, False]}, Boolean()),
        ({"enum": [True, 1]}, Text()),
        ({"enum": [{"a": 1}]}, Text()),
        ({"enum": [None]}, Text()),
        ({"enum": []}, Text()),
        ({"enum": ["2024-01-01"], "format": "date"}, Date()),
        ({"enum": [1, 2], "type": "number"}, Double()),
        ({"type": "string", "nullable": True}, Text()),
        ({"type": "integer", "nullable": True, "enum": [1, None]}, Integer()),
        ({"type": "array", "prefixItems": [INT], "items": INT}, Text()),
        ({"type": "array", "items": INT, "additionalItems": False}, Array(Integer())),
        ({"type": "array", "contains": INT}, Text()),
        ({"type": "object", "additionalProperties": INT}, Text()),
        ({**OBJECT_X, "additionalProperties": {}}, Text()),
        ({**OBJECT_X, "unevaluatedProperties": {"type": "string"}}, Text()),
        ({"anyOf": [OBJECT_X, {**OBJECT_XY, "additionalProperties": {}}]}, Text()),
        ({"type": "string", "contentEncoding": "base16"}, Text()),
        ({"type": "string", "contentMediaType": "application/json"}, Text()),
        *(
            ({"type": "string", "format": name}, Text())
            for name in ("duration", "email", "uri", "ipv4", "hostname", "regex", "year")
        ),
        ({"type": "integer", "minimum": -9.2e18, "maximum": 9.2e18}, Integer()),
        ({"type": "integer", "maximum": 1e308}, Decimal(38, 0)),
        ({"type": "number", "minimum": -1e308, "maximum": 1e308}, Double()),
        ({"type": "number", "exclusiveMinimum": True, "minimum": 0}, Double()),
        ({"type": "number", "multipleOf": 0.01, "exclusiveMaximum": 1e30}, Decimal(38, 2)),
        ({"type": "integer", "minimum": "0", "maximum": "10"}, Integer()),
    ],
)
def test_common_keywords_of_real_schemas_select_the_type(
    schema: dict[str, Any], expected: ColumnType
):
    assert get_type(schema) == expected


def test_references_are_resolved_and_circular_ones_are_text():
    schema = {
        "properties": {
            "at": {"$ref": "#/$defs/when"},
            "old": {"$ref": "#/definitions/when"},
            "node": {"$ref": "#/$defs/node"},
        },
        "$defs": {
            "when": {"type": "string", "format": "date-time"},
            "node": {
                "type": "object",
                "properties": {"id": INT, "next": {"$ref": "#/$defs/node"}},
            },
        },
        "definitions": {"when": {"type": "string", "format": "date"}},
    }
    resolved = resolve_schema_references(schema, cut_circles=True)
    assert schema_from_json_schema(resolved, (), PLAIN).types == {
        "at": "timestamp",
        "old": "date",
        "node": "struct<`id`: bigint, `next`: string>",
    }


# ------------------------------------------------------------------------ to_json_schema

SCALARS = st.sampled_from([Boolean(), Integer(), Double(), Text(), Timestamp(), Date(), Binary()])
DECIMALS = st.integers(1, 38).flatmap(
    lambda digits: st.builds(Decimal, st.just(digits), st.integers(0, digits))
)
NAMES = st.text("abAB .é😀_", min_size=1, max_size=3)


def structs(inner: st.SearchStrategy[ColumnType]) -> st.SearchStrategy[ColumnType]:
    fields = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    return fields.map(
        lambda types: Struct(
            tuple(
                Column(source, name, types[source])
                for source, name in sanitize_names(list(types)).items()
            )
        )
    )


TYPES = st.recursive(SCALARS | DECIMALS, lambda inner: inner.map(Array) | structs(inner))


@given(structs(TYPES))
def test_to_json_schema_round_trips_columns(struct: Struct):
    table_schema = TableSchema(struct.fields)
    schema = to_json_schema(table_schema)
    assert (
        schema_from_json_schema(json.loads(json.dumps(schema)), (), PLAIN).columns
        == table_schema.columns
    )
    of_table = to_json_schema(from_table(table_schema.types, table_schema.sources))
    assert of_table == schema


@pytest.mark.parametrize(
    "ddl,back",
    [
        ("int", "bigint"),
        ("float", "double"),
        ("timestamp_ntz", "timestamp"),
        ("varchar(10)", "string"),
        ("map<string,int>", "string"),
        ("variant", "string"),
    ],
)
def test_foreign_column_types_become_a_type_that_holds_their_values(ddl: str, back: str):
    schema = to_json_schema(from_table({"a": ddl}))
    assert schema_from_json_schema(schema, (), PLAIN).types == {"a": back}


@pytest.mark.parametrize("name", ["b not null", "b comment 'c'"])
def test_nested_field_keeps_a_name_that_looks_like_a_constraint(name: str):
    inner = f"struct<`{name}`: int not null comment 'is not null'>"
    parsed = parse_ddl(f"struct<`a`: array<{inner}> not null>")
    assert parsed == parse_ddl(f"struct<a:array<struct<{name}:int>>>")
    assert parsed.ddl == f"struct<`a`: array<struct<`{name}`: int>>>"


def test_to_json_schema_keeps_descriptions_and_omits_metadata_columns():
    options = ColumnOptions(metadata=True)
    properties = {"a": {"type": ["null", "integer"], "description": "how many"}}
    table_schema = schema_from_json_schema(
        {"type": "object", "properties": properties}, (), options
    )
    assert to_json_schema(table_schema) == {"type": "object", "properties": properties}
    assert to_json_schema(schema_from_json_schema({}, (), PLAIN)) == {
        "type": "object",
        "properties": {},
    }


def test_thousands_of_columns_are_mapped():
    names = {f"c{n}": INT for n in range(2000)}
    assert len(get_columns(names)) == 2000
