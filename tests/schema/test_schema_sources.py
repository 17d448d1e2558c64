"""Schema sources, the attribute StreamSchema, and schema directories."""

from __future__ import annotations

import importlib
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tap_core import Stream, Tap
from tap_core.exceptions import SchemaNotFoundError, SchemaNotValidError
from tap_core.schema import source as names
from tap_core.schema.source import (
    OpenAPISchema,
    OpenAPISchemaNormalizer,
    SchemaDirectory,
    SchemaSource,
    StreamSchema,
)

DOCUMENTS = Path(__file__).with_name("documents")
FILES = DOCUMENTS / "files"
PLAIN = json.loads((FILES / "plain.json").read_text())


class CountingSource(SchemaSource[str]):
    """A source that records the requested keys."""

    def __init__(self, schema=None):
        super().__init__()
        self.requested = []
        self.schema = {"type": "object", "properties": {}} if schema is None else schema

    def fetch_schema(self, key):
        self.requested.append(key)
        return self.schema


class Things:
    """The members of a stream that StreamSchema uses."""

    name = "things"
    primary_keys = ("id",)


def test_schema_module_has_all_names_of_its_public_list():
    assert set(names.__all__) <= vars(names).keys()
    assert names.UnsupportedOpenAPISpec is names.UnsupportedSchemaFormatError


# Sources


def test_each_schema_is_fetched_once():
    source = CountingSource()
    for key in ("a", "b", "a"):
        source.get_schema(key)
    assert source.requested == ["a", "b"]


def test_each_caller_gets_a_copy_of_the_schema():
    source = CountingSource()
    source.get_schema("a")["properties"]["mine"] = {}
    assert source.get_schema("a") == {"type": "object", "properties": {}}


def test_abstract_schema_source_cannot_be_instantiated():
    with pytest.raises(TypeError):
        SchemaSource()


def test_schema_that_is_not_an_object_is_an_error_with_source_and_key():
    with pytest.raises(
        SchemaNotValidError, match=r"JSON object: that of 'a' in CountingSource\(\).*list"
    ):
        CountingSource(schema=[]).get_schema("a")


def test_error_of_a_source_becomes_schema_not_found():
    class Broken(CountingSource):
        def fetch_schema(self, key):
            raise KeyError(key)

    with pytest.raises(SchemaNotFoundError, match=r"'a' in Broken\(\) \(KeyError") as caught:
        Broken().get_schema("a")
    assert isinstance(caught.value.__cause__, KeyError)


def test_failed_fetch_is_repeated_at_the_next_request():
    class Late(CountingSource):
        def fetch_schema(self, key):
            if not self.requested:
                self.requested.append(key)
                raise OSError("not yet")
            return self.schema

    source = Late()
    with pytest.raises(SchemaNotFoundError):
        source.get_schema("a")
    assert source.get_schema("a") == source.schema


# The attribute


def test_schema_is_found_by_the_name_of_the_stream():
    class Plain(Things):
        name = "plain"
        schema = StreamSchema(SchemaDirectory(FILES))

    assert Plain().schema == PLAIN


def test_key_has_priority_over_the_stream_name():
    class Other(Things):
        schema = StreamSchema(SchemaDirectory(FILES), key="plain")

    assert Other().schema == PLAIN


def test_class_attribute_is_the_stream_schema_itself():
    class Other(Things):
        schema = StreamSchema(CountingSource())

    assert isinstance(Other.schema, StreamSchema)
    assert Other.schema.schema_source.requested == []


def test_stream_resolves_its_schema_once_and_keeps_changes():
    class Other(Things):
        schema = StreamSchema(CountingSource())

    first, other = Other(), Other()
    first.schema["properties"]["mine"] = {}
    assert first.schema is first.schema
    assert list(first.schema["properties"]) == ["mine"]
    assert other.schema["properties"] == {}


def test_schema_is_updated_when_primary_keys_change():
    class Item(Things):
        name = "Item"
        schema = StreamSchema(OpenAPISchema(DOCUMENTS / "shop_v31.json"))

    stream = Item()
    assert stream.schema["properties"]["id"] == {"type": "integer"}
    stream.primary_keys = None
    assert stream.schema["properties"]["id"] == {"type": ["integer", "null"]}
    stream.primary_keys = ("id",)
    assert stream.schema["properties"]["id"] == {"type": "integer"}


def test_get_stream_schema_can_be_overridden():
    class WithTenant(StreamSchema):
        def get_stream_schema(self, stream, stream_class):
            schema = super().get_stream_schema(stream, stream_class)
            schema["title"] = stream_class.__name__
            schema["properties"].pop("at")
            return schema

    class Plain(Things):
        name = "plain"
        schema = WithTenant(SchemaDirectory(FILES))

    stream = Plain()
    for _ in range(2):
        assert stream.schema == {
            "type": "object",
            "title": "Plain",
            "properties": {"id": {"type": "integer"}},
        }


def test_overriding_property_can_call_super():
    class Plain(Things):
        name = "plain"
        schema = StreamSchema(SchemaDirectory(FILES))

    class More(Plain):
        @property
        def schema(self):
            return {**super().schema, "title": "More"}

    assert More().schema == {**PLAIN, "title": "More"}


def test_stream_schema_can_be_pickled():
    attribute = StreamSchema(SchemaDirectory(FILES), key="plain")
    stream = Things()
    assert attribute.__get__(stream, Things) == PLAIN
    assert pickle.loads(pickle.dumps(attribute)).__get__(stream, Things) == PLAIN  # noqa: S301


# With a tap


class Nodes(Stream):
    name = "nodes"
    primary_keys = ("value",)
    schema = StreamSchema(OpenAPISchema(DOCUMENTS / "shop_v30.yaml"), key="Node")

    def get_records(self, context):
        yield {"value": "a", "next": {"value": "b"}, "unknown": 1}


class Plains(Stream):
    name = "plain"
    primary_keys = ("id",)
    replication_key = "at"
    schema = StreamSchema(SchemaDirectory(FILES))

    def get_records(self, context):
        yield {"id": 1, "at": "2024-01-01T00:00:00Z"}


class Missing(Plains):
    name = "missing"


class TapNodes(Tap):
    name = "tap-nodes"

    def discover_streams(self):
        return [Nodes(self), Plains(self)]


def test_discovery_outputs_the_resolved_schemas(capsys):
    with pytest.raises(SystemExit, match="0"):
        TapNodes.cli(["--discover"])
    streams = {s["stream"]: s for s in json.loads(capsys.readouterr().out)["streams"]}
    assert streams["plain"]["schema"] == PLAIN
    assert streams["nodes"]["schema"] == {
        "type": "object",
        "properties": {
            "value": {"type": "string"},
            "next": {},
            "all": {"type": ["array", "null"], "items": {}},
        },
    }
    breadcrumbs = [entry["breadcrumb"] for entry in streams["nodes"]["metadata"]]
    assert ["properties", "next"] in breadcrumbs


def test_sync_conforms_records_to_the_resolved_schemas(capsys):
    TapNodes().sync_all()
    messages = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    records = {m["stream"]: m["record"] for m in messages if m["type"] == "RECORD"}
    assert records["nodes"] == {"value": "a", "next": {"value": "b"}}
    state = [m["value"] for m in messages if m["type"] == "STATE"][-1]
    assert state["bookmarks"]["plain"]["replication_key_value"] == "2024-01-01T00:00:00Z"


def test_key_properties_of_an_input_catalog_change_the_schema():
    catalog = TapNodes().catalog_dict
    [entry] = [item for item in catalog["streams"] if item["stream"] == "nodes"]
    entry["key_properties"] = []
    for item in entry["metadata"]:
        item["metadata"].pop("table-key-properties", None)
    stream = TapNodes(catalog=catalog).streams["nodes"]
    assert stream.schema["properties"]["value"]["type"] == ["string", "null"]
    assert stream.effective_schema["properties"]["value"]["type"] == "string"


def test_missing_schema_is_an_error_when_it_is_accessed():
    stream = Missing(TapNodes())
    with pytest.raises(SchemaNotFoundError, match=r"'missing' in SchemaDirectory\('.*files'\)"):
        _ = stream.schema


# Directories


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Create the package `of_schemas.inside` with plain.json, and return its name."""
    inside = tmp_path / "of_schemas" / "inside"
    inside.mkdir(parents=True)
    for folder in (inside.parent, inside):
        (folder / "__init__.py").touch()
    (inside / "plain.json").write_text(json.dumps(PLAIN))
    monkeypatch.syspath_prepend(tmp_path)
    yield "of_schemas.inside"
    for name in ("of_schemas", "of_schemas.inside"):
        sys.modules.pop(name, None)


def test_schema_directory_accepts_a_path_or_string():
    assert SchemaDirectory(FILES).get_schema("plain") == PLAIN
    assert SchemaDirectory(str(FILES)).get_schema("plain") == PLAIN
    assert SchemaDirectory("/no/such/folder").dir_path == Path("/no/such/folder")


def test_schema_directory_accepts_a_package_or_its_name(package):
    assert SchemaDirectory(package).get_schema("plain") == PLAIN
    assert SchemaDirectory(importlib.import_module(package)).get_schema("plain") == PLAIN


def test_schema_directory_can_be_a_package_in_a_zip_file(tmp_path, monkeypatch):
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("of_zipped/__init__.py", "")
        packed.writestr("of_zipped/plain.json", json.dumps(PLAIN))
        packed.writestr("of_zipped/use.json", '{"properties": {"a": {"$ref": "plain.json"}}}')
    monkeypatch.syspath_prepend(archive)
    source = SchemaDirectory("of_zipped")
    sys.modules.pop("of_zipped")
    assert source.get_schema("plain") == PLAIN
    assert source.get_schema("use") == {"properties": {"a": PLAIN}}


@pytest.mark.parametrize("name", ["no_such_package", "tap_core.schema.source", "a b"])
def test_name_that_is_not_a_package_is_a_folder(name):
    source = SchemaDirectory(name)
    with pytest.raises(SchemaNotFoundError):
        source.get_schema("plain")


def test_folder_has_priority_over_a_package_of_the_same_name(tmp_path, monkeypatch):
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "plain.json").write_text(json.dumps(PLAIN))
    monkeypatch.chdir(tmp_path)
    assert SchemaDirectory("json").get_schema("plain") == PLAIN


def test_references_between_files_are_resolved_and_cut_at_recursion():
    user = SchemaDirectory(FILES).get_schema("users")
    assert user["properties"] == {
        "id": {"type": "integer"},
        "address": {
            "type": "object",
            "properties": {"street": {"type": ["string", "null"]}, "tenant": {}},
        },
        "manager": {},
        "group": {"type": "string"},
    }


@pytest.mark.parametrize(
    "reference",
    ["none.json", "plain.json#/no", "/etc/passwd", "file:///etc/passwd", "https://a.b/c"],
)
def test_invalid_or_external_reference_is_named_in_the_error(tmp_path, reference):
    (tmp_path / "a.json").write_text(json.dumps({"properties": {"x": {"$ref": reference}}}))
    (tmp_path / "plain.json").write_text(json.dumps(PLAIN))
    with pytest.raises(SchemaNotFoundError, match=reference):
        SchemaDirectory(tmp_path).get_schema("a")


def test_error_of_a_referenced_file_is_in_the_message(tmp_path):
    (tmp_path / "a.json").write_text('{"properties": {"x": {"$ref": "torn.json"}}}')
    (tmp_path / "torn.json").write_text('{"type": "object",}')
    with pytest.raises(SchemaNotFoundError, match=r"'torn.json' \(JSONDecodeError: .*line 1"):
        SchemaDirectory(tmp_path).get_schema("a")


def test_file_names_with_url_characters_are_read(tmp_path):
    (tmp_path / "a#b 100%:c.json").write_text('{"properties": {"x": {"$ref": "#"}}}')
    source = SchemaDirectory(tmp_path)
    assert source.get_schema("a#b 100%:c") == {"properties": {"x": {}}}


def test_byte_order_mark_is_ignored(tmp_path):
    (tmp_path / "plain.json").write_text(json.dumps(PLAIN), encoding="utf-8-sig")
    assert SchemaDirectory(tmp_path).get_schema("plain") == PLAIN


def test_files_with_other_extensions_are_read_as_json(tmp_path):
    (tmp_path / "plain.schema").write_text(json.dumps(PLAIN))
    (tmp_path / "plain.yml").write_text("type: object\nproperties: {no: {type: string}}\n")
    assert SchemaDirectory(tmp_path, extension="schema").get_schema("plain") == PLAIN
    assert SchemaDirectory(tmp_path, extension="yml").get_schema("plain")["properties"] == {
        "no": {"type": "string"}
    }


@pytest.mark.parametrize(
    "key, cause", [("none", FileNotFoundError), ("torn", json.JSONDecodeError)]
)
def test_missing_or_invalid_file_is_the_cause_of_the_error(key, cause):
    with pytest.raises(SchemaNotFoundError, match=f"Schema not found for '{key}'") as caught:
        SchemaDirectory(FILES).get_schema(key)
    assert isinstance(caught.value.__cause__, cause)


def test_file_that_contains_a_list_is_rejected():
    with pytest.raises(SchemaNotValidError, match="Schema must be a JSON object"):
        SchemaDirectory(FILES).get_schema("list")


def test_plain_json_file_does_not_import_optional_libraries():
    script = (
        "import sys; from tap_core.schema.source import SchemaDirectory as D;"
        f"D({str(FILES)!r}).get_schema('plain');"
        "print([m for m in ('referencing', 'yaml', 'requests', 'jsonschema') if m in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert process.stdout.strip() == "[]"


def test_custom_source_can_have_a_preprocessor():
    class Normalized(CountingSource):
        def __init__(self, schema):
            super().__init__(schema)
            self._preprocessor = OpenAPISchemaNormalizer()

    source = Normalized({"type": "object", "properties": {"a": {"type": "string"}}})
    assert source.get_schema("x", key_properties=("a",)) == source.schema
    assert source.get_schema("x")["type"] == ["object", "null"]


def test_schema_sources_are_exported_by_the_package():
    import tap_core

    assert tap_core.StreamSchema is StreamSchema
    assert tap_core.SchemaDirectory is SchemaDirectory
    assert tap_core.OpenAPISchema is OpenAPISchema
    assert tap_core.SchemaSource is SchemaSource
