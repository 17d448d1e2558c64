"""Sources of schemas, the attribute that asks them, and directories."""

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


class Counting(SchemaSource[str]):
    """A source that counts how often it is asked."""

    def __init__(self, schema=None):
        super().__init__()
        self.asked = []
        self.schema = {"type": "object", "properties": {}} if schema is None else schema

    def fetch_schema(self, key):
        self.asked.append(key)
        return self.schema


class Things:
    """What has a name and keys can have a schema."""

    name = "things"
    primary_keys = ("id",)


def test_the_face_shows_what_its_list_says():
    assert set(names.__all__) <= vars(names).keys()
    assert names.UnsupportedOpenAPISpec is names.UnsupportedSchemaFormatError


# Sources


def test_a_source_is_asked_once_for_each_key():
    source = Counting()
    for key in ("a", "b", "a"):
        source.get_schema(key)
    assert source.asked == ["a", "b"]


def test_each_caller_gets_a_copy_of_the_schema():
    source = Counting()
    source.get_schema("a")["properties"]["mine"] = {}
    assert source.get_schema("a") == {"type": "object", "properties": {}}


def test_a_source_without_its_own_method_cannot_be_made():
    with pytest.raises(TypeError):
        SchemaSource()


def test_what_is_no_object_is_no_schema_and_the_error_names_source_and_key():
    with pytest.raises(
        SchemaNotValidError, match=r"JSON object: that of 'a' in Counting\(\).*list"
    ):
        Counting(schema=[]).get_schema("a")


def test_any_error_of_a_source_means_that_there_is_no_schema():
    class Broken(Counting):
        def fetch_schema(self, key):
            raise KeyError(key)

    with pytest.raises(SchemaNotFoundError, match=r"'a' in Broken\(\) \(KeyError") as caught:
        Broken().get_schema("a")
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_error_is_not_kept_so_a_source_may_be_asked_again():
    class Late(Counting):
        def fetch_schema(self, key):
            if not self.asked:
                self.asked.append(key)
                raise OSError("not yet")
            return self.schema

    source = Late()
    with pytest.raises(SchemaNotFoundError):
        source.get_schema("a")
    assert source.get_schema("a") == source.schema


# The attribute


def test_a_schema_is_found_by_the_streams_name():
    class Plain(Things):
        name = "plain"
        schema = StreamSchema(SchemaDirectory(FILES))

    assert Plain().schema == PLAIN


def test_a_key_comes_before_the_name():
    class Other(Things):
        schema = StreamSchema(SchemaDirectory(FILES), key="plain")

    assert Other().schema == PLAIN


def test_the_class_itself_has_the_attribute_and_no_schema():
    class Other(Things):
        schema = StreamSchema(Counting())

    assert isinstance(Other.schema, StreamSchema)
    assert Other.schema.schema_source.asked == []


def test_a_stream_resolves_its_schema_once_and_keeps_what_is_done_to_it():
    class Other(Things):
        schema = StreamSchema(Counting())

    one, other = Other(), Other()
    one.schema["properties"]["mine"] = {}
    assert one.schema is one.schema
    assert list(one.schema["properties"]) == ["mine"]
    assert other.schema["properties"] == {}


def test_a_schema_follows_the_primary_keys():
    class Item(Things):
        name = "Item"
        schema = StreamSchema(OpenAPISchema(DOCUMENTS / "shop_v31.json"))

    stream = Item()
    assert stream.schema["properties"]["id"] == {"type": "integer"}
    stream.primary_keys = None
    assert stream.schema["properties"]["id"] == {"type": ["integer", "null"]}
    stream.primary_keys = ("id",)
    assert stream.schema["properties"]["id"] == {"type": "integer"}


def test_an_author_may_change_what_was_found():
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


def test_a_property_that_overrides_it_can_ask_it():
    class Plain(Things):
        name = "plain"
        schema = StreamSchema(SchemaDirectory(FILES))

    class More(Plain):
        @property
        def schema(self):
            return {**super().schema, "title": "More"}

    assert More().schema == {**PLAIN, "title": "More"}


def test_an_attribute_that_was_used_can_be_pickled():
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


def test_discovery_shows_the_resolved_schemas(capsys):
    with pytest.raises(SystemExit, match="0"):
        TapNodes.cli(["--discover"])
    found = {s["stream"]: s for s in json.loads(capsys.readouterr().out)["streams"]}
    assert found["plain"]["schema"] == PLAIN
    assert found["nodes"]["schema"] == {
        "type": "object",
        "properties": {
            "value": {"type": "string"},
            "next": {},
            "all": {"type": ["array", "null"], "items": {}},
        },
    }
    breadcrumbs = [entry["breadcrumb"] for entry in found["nodes"]["metadata"]]
    assert ["properties", "next"] in breadcrumbs


def test_a_sync_conforms_records_to_the_resolved_schemas(capsys):
    TapNodes().sync_all()
    messages = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    records = {m["stream"]: m["record"] for m in messages if m["type"] == "RECORD"}
    assert records["nodes"] == {"value": "a", "next": {"value": "b"}}
    state = [m["value"] for m in messages if m["type"] == "STATE"][-1]
    assert state["bookmarks"]["plain"]["replication_key_value"] == "2024-01-01T00:00:00Z"


def test_an_input_catalog_may_change_the_keys():
    catalog = TapNodes().catalog_dict
    [entry] = [one for one in catalog["streams"] if one["stream"] == "nodes"]
    entry["key_properties"] = []
    for one in entry["metadata"]:
        one["metadata"].pop("table-key-properties", None)
    stream = TapNodes(catalog=catalog).streams["nodes"]
    assert stream.schema["properties"]["value"]["type"] == ["string", "null"]
    assert stream.effective_schema["properties"]["value"]["type"] == "string"


def test_a_stream_without_a_schema_says_so_when_it_is_asked():
    stream = Missing(TapNodes())
    with pytest.raises(SchemaNotFoundError, match=r"'missing' in SchemaDirectory\('.*files'\)"):
        _ = stream.schema


# Directories


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `of_schemas.inside` that holds plain.json."""
    inside = tmp_path / "of_schemas" / "inside"
    inside.mkdir(parents=True)
    for folder in (inside.parent, inside):
        (folder / "__init__.py").touch()
    (inside / "plain.json").write_text(json.dumps(PLAIN))
    monkeypatch.syspath_prepend(tmp_path)
    yield "of_schemas.inside"
    for name in ("of_schemas", "of_schemas.inside"):
        sys.modules.pop(name, None)


def test_a_directory_is_a_path_or_its_text():
    assert SchemaDirectory(FILES).get_schema("plain") == PLAIN
    assert SchemaDirectory(str(FILES)).get_schema("plain") == PLAIN
    assert SchemaDirectory("/no/such/folder").dir_path == Path("/no/such/folder")


def test_a_directory_is_a_package_or_its_name(package):
    assert SchemaDirectory(package).get_schema("plain") == PLAIN
    assert SchemaDirectory(importlib.import_module(package)).get_schema("plain") == PLAIN


def test_a_package_may_lie_in_a_zip_file(tmp_path, monkeypatch):
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
def test_what_is_no_package_is_taken_as_a_folder(name):
    source = SchemaDirectory(name)
    with pytest.raises(SchemaNotFoundError):
        source.get_schema("plain")


def test_a_folder_comes_before_a_package_of_the_same_name(tmp_path, monkeypatch):
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "plain.json").write_text(json.dumps(PLAIN))
    monkeypatch.chdir(tmp_path)
    assert SchemaDirectory("json").get_schema("plain") == PLAIN


def test_references_lead_to_other_files_and_end_where_they_began():
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
def test_a_reference_to_nothing_or_to_elsewhere_is_an_error_that_names_it(tmp_path, reference):
    (tmp_path / "a.json").write_text(json.dumps({"properties": {"x": {"$ref": reference}}}))
    (tmp_path / "plain.json").write_text(json.dumps(PLAIN))
    with pytest.raises(SchemaNotFoundError, match=reference):
        SchemaDirectory(tmp_path).get_schema("a")


def test_names_that_mean_something_in_addresses_are_names_of_files(tmp_path):
    (tmp_path / "a#b 100%:c.json").write_text('{"properties": {"x": {"$ref": "#"}}}')
    source = SchemaDirectory(tmp_path)
    assert source.get_schema("a#b 100%:c") == {"properties": {"x": {}}}


def test_a_byte_order_mark_is_no_part_of_a_schema(tmp_path):
    (tmp_path / "plain.json").write_text(json.dumps(PLAIN), encoding="utf-8-sig")
    assert SchemaDirectory(tmp_path).get_schema("plain") == PLAIN


def test_other_extensions_are_json_unless_they_are_yaml(tmp_path):
    (tmp_path / "plain.schema").write_text(json.dumps(PLAIN))
    (tmp_path / "plain.yml").write_text("type: object\nproperties: {no: {type: string}}\n")
    assert SchemaDirectory(tmp_path, extension="schema").get_schema("plain") == PLAIN
    assert SchemaDirectory(tmp_path, extension="yml").get_schema("plain")["properties"] == {
        "no": {"type": "string"}
    }


@pytest.mark.parametrize(
    "key, cause", [("none", FileNotFoundError), ("torn", json.JSONDecodeError)]
)
def test_what_is_missing_or_broken_is_the_cause_of_the_error(key, cause):
    with pytest.raises(SchemaNotFoundError, match=f"Schema not found for '{key}'") as caught:
        SchemaDirectory(FILES).get_schema(key)
    assert isinstance(caught.value.__cause__, cause)


def test_a_list_in_a_file_is_no_schema():
    with pytest.raises(SchemaNotValidError, match="Schema must be a JSON object"):
        SchemaDirectory(FILES).get_schema("list")


def test_files_without_references_or_yaml_import_nothing_for_them():
    script = (
        "import sys; from tap_core.schema.source import SchemaDirectory as D;"
        f"D({str(FILES)!r}).get_schema('plain');"
        "print([m for m in ('referencing', 'yaml', 'requests', 'jsonschema') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


def test_a_preprocessor_may_be_given_to_a_source_of_ones_own():
    class Normalized(Counting):
        def __init__(self, schema):
            super().__init__(schema)
            self._preprocessor = OpenAPISchemaNormalizer()

    source = Normalized({"type": "object", "properties": {"a": {"type": "string"}}})
    assert source.get_schema("x", key_properties=("a",)) == source.schema
    assert source.get_schema("x")["type"] == ["object", "null"]


def test_the_package_shows_the_sources_when_it_is_asked_for_them():
    import tap_core

    assert tap_core.StreamSchema is StreamSchema
    assert tap_core.SchemaDirectory is SchemaDirectory
    assert tap_core.OpenAPISchema is OpenAPISchema
    assert tap_core.SchemaSource is SchemaSource
