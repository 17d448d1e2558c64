"""Airbyte's metadata columns, nested keys and cursors, in table schemas, spool lines and SQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tap_core.events import Rows, SchemaEvent, StreamId
from target_spark.columns import (
    AIRBYTE_COLUMNS,
    CDC_DELETED_AT,
    DELETED_AT,
    META,
    TABLE_VERSION,
    Boolean,
    Column,
    ColumnOptions,
    ColumnSource,
    Integer,
    TableSchema,
    Text,
    Timestamp,
    schema_from_json_schema,
    to_json_schema,
)
from target_spark.errors import UnsupportedError
from target_spark.frames.airbyte_meta import meta_prefix
from target_spark.loader.stream_context import compute_schema_digest
from target_spark.storage.spool import Spool, SpoolFolder
from target_spark.writers.base import MergeKeys
from target_spark.writers.merge_statement import Matched, Merge, build_upsert, source_column
from tests.target.columns.widening_of_all_types import diff_with_table

AIRBYTE = ColumnOptions(airbyte=True)
INT: dict[str, Any] = {"type": ["null", "integer"]}
TEXT: dict[str, Any] = {"type": ["null", "string"]}
TIME: dict[str, Any] = {"type": "string", "format": "date-time"}


def object_schema(**properties: Any) -> dict[str, Any]:
    return {"type": ["null", "object"], "properties": properties}


def table_schema(
    properties: dict[str, Any],
    *keys: str,
    options: ColumnOptions = AIRBYTE,
    **nested: tuple[str, ...],
) -> TableSchema:
    paths = {name.replace("__", "."): path for name, path in nested.items()}
    return schema_from_json_schema(
        {"type": "object", "properties": properties}, keys, options, paths
    )


def get_columns(schema: TableSchema) -> dict[str, Column]:
    return {column.name: column for column in schema.columns}


def test_airbyte_columns_follow_the_record_columns():
    """The columns of Airbyte's documentation: id, time, meta and generation of each row."""
    schema = table_schema({"id": INT})
    assert schema.types == {
        "id": "bigint",
        "_airbyte_raw_id": "string",
        "_airbyte_extracted_at": "timestamp",
        "_airbyte_meta": "string",
        "_airbyte_generation_id": "bigint",
    }
    assert schema.nulls_invalid_values
    assert schema.has_meta


def test_invalid_values_can_be_quarantined_by_option():
    schema = table_schema(
        {"id": INT}, options=ColumnOptions(airbyte=True, quarantines_invalid_rows=True)
    )
    assert schema.has_meta
    assert not schema.nulls_invalid_values


def test_generation_id_replaces_the_table_version_column():
    options = ColumnOptions(airbyte=True, table_version=True, metadata=True)
    assert (options.version_column, ColumnOptions().version_column) == (
        "_airbyte_generation_id",
        TABLE_VERSION,
    )
    names = table_schema({"id": INT}, options=options).types
    assert TABLE_VERSION not in names
    assert "_sdc_received_at" in names


def test_record_properties_named_like_airbyte_columns_are_ignored():
    """PyAirbyte sends the columns of its cache, with these among them."""
    airbyte_properties = dict.fromkeys(AIRBYTE_COLUMNS, TEXT)
    schema = table_schema({"id": INT, **airbyte_properties})
    assert [c.name for c in schema.columns if c.feed is ColumnSource.PROPERTY] == ["id"]
    assert {c.name for c in schema.columns if c.feed is ColumnSource.METADATA} == {*AIRBYTE_COLUMNS}
    singer_schema = table_schema({"id": INT, META: TEXT}, options=ColumnOptions())
    assert get_columns(singer_schema)[META].feed is ColumnSource.PROPERTY


def test_singer_run_empties_the_airbyte_columns_of_rows_it_updates():
    """The old values would describe the row before the update."""
    table = {"id": "bigint", **{name: type_.ddl for name, type_ in AIRBYTE_COLUMNS.items()}}
    singer_schema, changes = diff_with_table(
        table_schema({"id": INT}, options=ColumnOptions()), table
    )
    assert changes == ()
    assert {column.feed for column in singer_schema.columns[1:]} == {ColumnSource.EMPTIED}
    airbyte_schema, changes = diff_with_table(table_schema({"id": INT}), table)
    assert changes == ()
    assert {column.feed for column in airbyte_schema.columns[1:]} == {ColumnSource.METADATA}


def test_keys_and_deletion_marks_must_fit_their_columns():
    assert table_schema({"id": INT}, "id").must_fit == {"id", DELETED_AT, CDC_DELETED_AT}


# ----------------------------------------------------------------- inside a property


def test_nested_key_gets_a_column_and_its_object_keeps_it():
    meta = object_schema(id=INT, at=TIME)
    schema = table_schema(
        {"meta": meta}, "meta.id", meta__id=("meta", "id"), meta__at=("meta", "at")
    )
    columns = get_columns(schema)
    assert (schema.keys, schema.key_sources) == (("meta_id",), ("meta.id",))
    assert (columns["meta_id"].type, columns["meta_id"].path) == (Integer(), ("meta", "id"))
    assert columns["meta_at"].type == Timestamp()
    assert columns["meta"].type.ddl == "struct<`id`: bigint, `at`: timestamp>"
    assert "meta.id" not in to_json_schema(schema)["properties"]


def test_nested_key_column_gets_a_number_if_its_name_is_taken():
    meta = object_schema(id=INT)
    schema = table_schema({"meta.id": TEXT, "meta": meta}, "meta.id", meta__id=("meta", "id"))
    assert schema.keys == ("meta_id_2",)
    assert get_columns(schema)["meta.id"].type == Text()
    assert get_columns(schema)["meta_id_2"].type == Integer()
    other_case = table_schema({"Meta_ID": TEXT, "meta": meta}, "meta.id", meta__id=("meta", "id"))
    assert get_columns(other_case)["Meta_ID"].path == ()
    assert other_case.keys == ("meta_id_2",)
    two_paths = table_schema(
        {"a": object_schema(b_c=INT), "a_b": object_schema(c=INT)},
        a__b_c=("a", "b_c"),
        a_b__c=("a_b", "c"),
    )
    assert {"a_b_c", "a_b_c_2"} <= get_columns(two_paths).keys()


def test_nested_key_column_is_recognized_in_an_existing_table():
    meta = object_schema(id=INT)
    schema = table_schema({"meta.id": TEXT, "meta": meta}, "meta.id", meta__id=("meta", "id"))
    adapted, changes = diff_with_table(schema, schema.types, sources=schema.sources)
    assert (adapted.columns, changes) == (schema.columns, ())


def test_open_object_is_text_and_its_nested_key_has_a_column():
    meta = {**object_schema(id=INT), "additionalProperties": True}
    schema = table_schema({"meta": meta}, "meta.id", meta__id=("meta", "id"))
    assert get_columns(schema)["meta"].type == Text()
    assert get_columns(schema)["meta_id"].type == Integer()


def test_path_of_one_part_refers_to_the_property():
    schema = table_schema({"id": INT}, "id", id=("id",))
    assert (schema.keys, get_columns(schema)["id"].path) == (("id",), ())


def test_nested_boolean_key_is_text():
    schema = table_schema(
        {"meta": object_schema(ok={"type": "boolean"})}, "meta.ok", meta__ok=("meta", "ok")
    )
    assert get_columns(schema)["meta_ok"].type == Text()
    assert Boolean() in {c.type for c in get_columns(schema)["meta"].type.fields}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("schema", "path", "reason"),
    [
        (
            {"type": "array", "items": object_schema(id=INT)},
            ("meta", "id"),
            "meta is not an object",
        ),
        ({"type": "string"}, ("meta", "id"), "meta is not an object"),
        ({"type": "object"}, ("meta", "id"), "meta is free-form"),
        ({}, ("meta", "id"), "meta is free-form"),
        (object_schema(at=TIME), ("meta", "id"), "declares no meta.id"),
        (object_schema(id=object_schema(x=INT)), ("meta", "id"), "it is not a single value"),
        (
            object_schema(id={"type": "array", "items": INT}),
            ("meta", "id"),
            "it is not a single value",
        ),
        (object_schema(id=INT), ("mata", "id"), "declares no mata"),
    ],
)
def test_path_to_an_undeclared_or_composite_value_is_rejected(
    schema: dict[str, Any], path: tuple[str, ...], reason: str
):
    """Configured catalogs name keys and cursors as paths of any depth."""
    with pytest.raises(UnsupportedError, match=f"cannot be a key or a cursor.*{reason}"):
        table_schema({"meta": schema}, "k", k=path)


def test_schema_digest_depends_on_the_nested_path():
    event, other = (SchemaEvent(StreamId("a"), {}, ("k",), nested={"k": ("m", p)}) for p in "xy")
    assert compute_schema_digest(event) != compute_schema_digest(other)


# --------------------------------------------------------------------- lines and SQL


def test_spool_line_contains_the_meta_of_its_row(tmp_path: Path):
    folder = SpoolFolder(tmp_path)
    try:
        spool = Spool(folder, StreamId("a"))
        changes = b'{"changes":[]}'
        spool.add(Rows(StreamId("a"), [b'{"x":1}', b"{}"], meta=[changes, None], version=2), 5)
        long_row = b'{"x":"' + b"x" * (1 << 20) + b'"}'
        spool.add(Rows(StreamId("a"), [long_row], meta=[changes]), 7)
        spool.add(Rows(StreamId("a"), [long_row]), 8)
        first, *later = Path(spool.close_batch().paths[0]).read_bytes().splitlines()
    finally:
        folder.close()
    assert first == b'{"n":5,"t":null,"v":2,"m":{"changes":[]},"r":{"x":1}}'
    parsed = [json.loads(line) for line in later]
    assert [line.get("m", "none") for line in parsed] == [None, {"changes": []}, "none"]
    assert [line["n"] for line in parsed] == [6, 7, 8]


def test_meta_prefix_contains_the_sync_id_if_known():
    assert (meta_prefix(None), meta_prefix(7)) == ('{"changes":', '{"sync_id":7,"changes":')


def test_merge_replaces_a_row_only_if_its_cursor_is_not_older():
    """Append and dedup: the row with the greatest cursor is kept."""
    keys = MergeKeys(("id",), "n", cursor="at", by_cursor=True, removed="gone")
    newer = f"(x.`at` IS NULL OR x.`at` <= {source_column('at')})"
    columns = ["id", "at", "gone"]
    assert build_upsert("x", columns, keys) == Merge(
        "x",
        f"x.`id` = {source_column('id')}",
        (
            Matched(None, f"{newer} AND {source_column('gone')} IS NOT NULL"),
            Matched({name: source_column(name) for name in columns}, newer),
        ),
        columns,
        f"{source_column('gone')} IS NULL",
    )
