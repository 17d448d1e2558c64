"""The schema that `target-spark replay` reads from a catalog or messages, and invalid commands."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tap_core.events import SchemaEvent, StreamId
from target_spark.cli.schema_input import parse_schemas, select_one
from target_spark.errors import UnsupportedError
from target_spark.target import TargetSpark
from tests.target.warehouse import record, schema

NUMBERS = {"id": {"type": "integer"}, "n": {"type": ["null", "integer"]}}
TEXTS = {"id": {"type": "integer"}, "n": {"type": ["null", "integer", "string"]}}


def schema_event(properties: dict[str, Any], *keys: str) -> SchemaEvent:
    return SchemaEvent(StreamId("a"), {"type": "object", "properties": properties}, keys)


def select_from_text(text: str, stream: str) -> SchemaEvent:
    return select_one(parse_schemas(text), stream)


def test_schema_is_read_from_a_catalog_or_messages() -> None:
    properties = {"type": "object", "properties": NUMBERS}
    entry = {"tap_stream_id": "a", "stream": "a", "schema": properties}
    root = {"breadcrumb": [], "metadata": {"table-key-properties": ["id"]}}
    inner = {"breadcrumb": ["properties", "n"], "metadata": {}}
    for catalog in (
        {"streams": [{"stream": "b"}, {**entry, "key_properties": ["id"]}]},
        {"streams": [{**entry, "metadata": [inner, root]}]},
    ):
        assert select_from_text(json.dumps(catalog, indent=2), "a") == schema_event(NUMBERS, "id")
    assert select_from_text(json.dumps({"streams": [entry]}), "a") == schema_event(NUMBERS)
    messages = [schema("a", NUMBERS), record("a", id=1), schema("b", NUMBERS), schema("a", TEXTS)]
    text = "\n".join(map(json.dumps, messages))
    assert select_from_text(text, "a") == schema_event(TEXTS)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_a_message_may_contain_the_line_separators_of_unicode(separator: str) -> None:
    properties = {"id": {"type": "integer", "description": f"a{separator}b"}}
    messages = [schema("a", properties), record("a", id=1)]
    text = "\r\n".join(json.dumps(message, ensure_ascii=False) for message in messages)
    assert select_from_text(text, "a") == schema_event(properties)


@pytest.mark.parametrize(
    "text",
    ['{"type": "object", "properties": {}}', "", '{"streams": []}', '{"type":"SCHEMA"\n', "[]"],
)
def test_text_without_a_schema_of_the_stream_is_rejected(text: str) -> None:
    with pytest.raises(UnsupportedError, match="schema"):
        select_from_text(text, "a")


@pytest.mark.parametrize(
    "document",
    [
        {"streams": [1]},
        {"streams": {"a": {}}},
        {"streams": [{"stream": "a", "schema": [1]}]},
        {"streams": [{"stream": "a", "schema": {"type": "object"}, "key_properties": 1}]},
        {"streams": [{"stream": "a", "schema": {"type": "object"}, "metadata": [1]}]},
        {"type": "SCHEMA", "stream": "a", "schema": "b"},
    ],
)
def test_value_of_the_wrong_type_is_an_error(document: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="schema file is not valid"):
        select_from_text(json.dumps(document), "a")


def test_misspelt_stream_is_suggested() -> None:
    with pytest.raises(UnsupportedError, match=r"Did you mean 'orders'\?"):
        select_from_text(json.dumps(schema("orders", NUMBERS)), "order")


def run_replay(
    folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str, **config: Any
) -> tuple[int, str]:
    """Run ``target-spark replay a`` with input that fails before Spark starts."""
    options = {"path": str(folder / "tables"), "format": "parquet", **config}
    (folder / "config.json").write_text(json.dumps(options))
    line = ["replay", "a", "--config", str(folder / "config.json"), *arguments]
    code = TargetSpark.cli.main(line, standalone_mode=False)
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err


def test_invalid_replay_command_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, errors = run_replay(tmp_path, capsys, "--schema", str(tmp_path / "none.json"))
    assert (code, "The file of --schema cannot be read" in errors) == (1, True)
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\0")
    code, errors = run_replay(tmp_path, capsys, "--schema", str(binary))
    assert (code, "The file of --schema is not UTF-8 text" in errors) == (1, True)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(schema("a", NUMBERS))))
    code, errors = run_replay(tmp_path, capsys, "--schema", "-", dry_run=True)
    assert (code, "dry run" in errors) == (1, True)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(schema("b", NUMBERS))))
    maps = {"b": {"__alias__": "a", "id": "id"}, "a": None}
    code, errors = run_replay(tmp_path, capsys, "--schema", "-", stream_maps=maps, dry_run=True)
    assert (code, "dry run" in errors) == (1, True)  # it found b, which the maps call a
    assert not (tmp_path / "tables").exists()


def test_a_schema_file_may_begin_with_a_byte_order_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "catalog.json"
    path.write_text(json.dumps(schema("a", NUMBERS)), encoding="utf-8-sig")
    code, errors = run_replay(tmp_path, capsys, "--schema", str(path), dry_run=True)
    assert (code, "dry run" in errors) == (1, True)
