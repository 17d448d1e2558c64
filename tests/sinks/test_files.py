"""Reading of batch files: values are conformed to the schema as in RECORD messages."""

from __future__ import annotations

import gzip
import json
from datetime import date, datetime, time, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

from tap_core.batch.encodings import BaseBatchFileEncoding
from tap_core.sinks.batch_files import BatchFileReader, get_batch_config

JSONL = BaseBatchFileEncoding("jsonl")
PARQUET = BaseBatchFileEncoding("parquet")
SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "on": {"type": ["boolean", "null"]},
        "at": {"type": ["string", "null"], "format": "date-time"},
        "strict": {"type": "string"},
        "deep": {
            "type": "object",
            "properties": {"on": {"type": "boolean"}, "a": {"type": "string"}},
        },
        "list": {"type": "array", "items": {"type": "object", "properties": {"on": {}}}},
        "any": {},
        "true": True,
        "false": False,
        "one": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "other": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "enum": {"enum": ["a"]},
        "maybe": {"enum": ["a", None]},
    }
}


def lines(tmp_path, *rows, schema=SCHEMA, config=None):
    path = tmp_path / "rows.json"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return list(BatchFileReader("s", schema, config).records(str(path), JSONL))


def table(tmp_path, columns, schema=SCHEMA):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table(columns), path)
    return list(BatchFileReader("s", schema).records(path.as_uri(), PARQUET))


def test_batch_file_values_are_conformed_and_unknown_properties_kept(tmp_path):
    rows = lines(
        tmp_path,
        {"id": 1.5, "on": 1, "deep": {"on": 0, "more": 1}, "list": [{"x": 1}], "stranger": [1]},
        {"id": 2, "on": True},
    )
    assert rows == [
        {
            "id": Decimal("1.5"),
            "on": True,
            "deep": {"on": False, "more": 1},
            "list": [{"x": 1}],
            "stranger": [1],
        },
        {"id": 2, "on": True},
    ]


def test_parquet_types_are_converted_to_json_values(tmp_path):
    [row] = table(
        tmp_path,
        {
            "id": [2],
            "at": [datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc)],
            "day": pa.array([date(2024, 1, 2)]),
            "hour": pa.array([time(3, 4)]),
            "raw": [b"\x01\xff"],
            "price": [Decimal("1.10")],
            "half": pa.array([0.1]),
            "deep": [{"on": True, "half": 0.5}],
            "nan": [float("nan")],
        },
        schema={"properties": {**SCHEMA["properties"], "raw": {"type": "string"}, "nan": {
            "type": "number"}, "day": {"type": "string"}, "hour": {"type": "string"}}},
    )  # fmt: skip
    assert row == {
        "id": 2,
        "at": "2024-01-02T03:04:05.000000+00:00",
        "day": "2024-01-02",
        "hour": "03:04:00",
        "raw": "01ff",
        "price": Decimal("1.10"),
        "half": Decimal("0.1"),
        "deep": {"on": True, "half": Decimal("0.5")},
        "nan": None,
    }


def test_parquet_null_not_allowed_by_the_schema_is_an_absent_property(tmp_path):
    columns = dict.fromkeys(SCHEMA["properties"], pa.array([None], pa.string()))
    columns["deep"] = pa.array([{"on": None, "a": "x"}])
    [row] = table(tmp_path, columns)
    assert row == {
        "on": None,
        "at": None,
        "deep": {"a": "x"},
        "any": None,
        "true": None,
        "one": None,
        "maybe": None,
    }
    assert lines(tmp_path, {"strict": None}) == [{"strict": None}]


def test_parquet_null_of_an_object_in_an_array_is_an_absent_property(tmp_path):
    row = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}}
    schema = {"properties": {"rows": {"type": "array", "items": {"type": "array", "items": row}}}}
    columns = {"rows": pa.array([[[{"a": None, "b": 1}, {"a": "x", "b": None}], None], None])}
    assert table(tmp_path, columns, schema) == [
        {"rows": [[{"b": 1}, {"a": "x", "b": None}], None]},
        {},
    ]


def test_batch_files_are_read_from_the_configured_storage(tmp_path):
    config_dict = {
        "encoding": {"format": "jsonl", "compression": "gzip"},
        "storage": {"root": tmp_path.as_uri(), "prefix": "p"},
    }
    (tmp_path / "one file.gz").write_bytes(gzip.compress(b'{"id":1}\n'))
    config = get_batch_config({"batch_config": config_dict})
    assert config is not None
    reader = BatchFileReader("s", SCHEMA, config)
    encoding = BaseBatchFileEncoding("jsonl", "gzip")
    assert list(reader.records("/elsewhere/one%20file.gz", encoding)) == [{"id": 1}]
    del config_dict["storage"]
    assert get_batch_config({"batch_config": config_dict}) is None
    assert get_batch_config({}) is None


@pytest.mark.parametrize("schema", [{"properties": {}}, {"properties": {"a": {"$ref": "#/x"}}}])
def test_records_of_an_untyped_schema_are_unchanged(tmp_path, schema):
    rows = [{"a": {"b": [1, None]}, "c": "x"}]
    assert lines(tmp_path, *rows, schema=schema) == rows
