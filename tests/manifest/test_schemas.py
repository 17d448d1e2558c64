"""Schema loaders: inline, files, merged schemas, and dynamic schemas from an API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tap_core.manifest.components.dynamic_schema_loader import (
    ComplexFieldType,
    DynamicSchemaLoader,
    SchemaTypeIdentifier,
    TypesMap,
)
from tap_core.manifest.components.record_selector import RecordFilter
from tap_core.manifest.components.schema_loaders import InlineSchemaLoader, JsonFileSchemaLoader
from tap_core.manifest.components.transformations import AddedFieldDefinition, AddFields
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interpolation import BoundTemplate, compile_template
from tap_core.manifest.schema_loading import load_schema
from tap_core.schema.yaml_checks import YAML_NODES


class Users:
    """A stream whose retrievers are lists of records."""

    name = "users"
    config: dict[str, Any] = {}

    def iterate_records(self, retriever: Any) -> Iterable[Any]:
        return iter(retriever)


def write_schema(file: Path, schema: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(schema), encoding="utf-8")
    return file


def make_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def test_inline_schema_is_used_unchanged():
    assert InlineSchemaLoader(make_schema(id=TEXT)).json_schema(Users()) == make_schema(id=TEXT)
    assert InlineSchemaLoader().json_schema(Users()) == {}


@pytest.mark.parametrize(
    "file_path, path",
    [
        ("schemas/users.json", ""),
        ("users.json", ""),
        ("source_x/schemas/users.json", "./source_x/schemas/users.json"),
        ("schemas/users.json", "./source_x/schemas/users.json"),
        ("other/people.json", "other/people.json"),
    ],
)
def test_schema_file_is_found_in_the_folder_of_the_manifest(tmp_path, file_path, path):
    """A path may start with the name of the connector's former package."""
    folder = tmp_path / "connector"
    write_schema(folder / file_path, make_schema(id=TEXT))
    assert JsonFileSchemaLoader(path, folder).json_schema(Users()) == make_schema(id=TEXT)


def test_schema_path_may_start_with_the_folder_of_the_manifest(tmp_path):
    write_schema(tmp_path / "source_x" / "schemas" / "users.json", make_schema(id=TEXT))
    loader = JsonFileSchemaLoader("./source_x/schemas/users.json", tmp_path / "source_x")
    assert loader.json_schema(Users()) == make_schema(id=TEXT)


def test_missing_schema_file_is_an_error_with_a_hint(tmp_path):
    loader = JsonFileSchemaLoader("a.json", tmp_path, "manifest.yaml, line 7")
    with pytest.raises(ManifestError, match=r"line 7: there is no file 'a\.json'.*Inline"):
        loader.json_schema(Users())


@pytest.mark.parametrize("path", ["../other/secret", "schemas/../../other/secret", "{}/secret"])
def test_schema_file_outside_the_folder_of_the_manifest_is_not_read(tmp_path, path):
    """A response may contain the name of a stream, and must not choose the file that is opened."""
    write_schema(tmp_path / "other" / "secret.json", make_schema(id=TEXT))
    folder = tmp_path / "connector"
    (folder / "schemas").mkdir(parents=True)
    path = path.format(tmp_path / "other")
    with pytest.raises(ManifestError, match="there is no file"):
        JsonFileSchemaLoader(f"{path}.json", folder).json_schema(Users())
    assert load_schema(None, SimpleNamespace(name=path), folder) == {}


def test_references_to_the_file_and_to_shared_files_are_resolved(tmp_path):
    """As in connectors, the folder ``shared`` is next to the schema."""
    shared = {"type": "object", "properties": {"n": {"$ref": "#/definitions/n"}}}
    write_schema(tmp_path / "schemas/shared/inner.json", {**shared, "definitions": {"n": NUMBER}})
    schema = make_schema(
        a={"$ref": "inner.json"}, b={"$ref": "#/definitions/t"}, c={"$ref": "inner.json"}
    )
    write_schema(tmp_path / "schemas/users.json", {**schema, "definitions": {"t": TEXT}})
    loaded = JsonFileSchemaLoader("", tmp_path).json_schema(Users())
    assert loaded == make_schema(a=make_schema(n=NUMBER), b=TEXT, c=make_schema(n=NUMBER))


@pytest.mark.parametrize(
    "reference, message",
    [("#/properties/a", "refers to itself"), ("b.json", "not exist"), ("#/x", "not exist")],
)
def test_unresolvable_schema_reference_is_rejected(tmp_path, reference, message):
    write_schema(tmp_path / "users.json", make_schema(a={"$ref": reference}))
    with pytest.raises(ManifestError, match=message):
        JsonFileSchemaLoader("", tmp_path).json_schema(Users())


def test_schema_file_whose_references_multiply_is_rejected(tmp_path, monkeypatch):
    """SEC13: each definition has two references to the next one."""
    monkeypatch.setitem(vars(YAML_NODES), "value", 500)
    references = [{"$ref": f"#/definitions/d{number}"} for number in range(10)]
    definitions = {
        f"d{number}": make_schema(a=following, b=following)
        for number, following in enumerate(references[1:])
    }
    schema = make_schema(a=references[0])
    write_schema(tmp_path / "users.json", {**schema, "definitions": {**definitions, "d9": TEXT}})
    with pytest.raises(
        ManifestError, match=r"users\.json has more than 500 values.*TAP_CORE_YAML_NODES"
    ):
        JsonFileSchemaLoader("", tmp_path).json_schema(Users())


def test_schema_file_that_is_no_object_is_rejected(tmp_path):
    (tmp_path / "users.json").write_text("[1]")
    with pytest.raises(ManifestError, match=r"users\.json must be a JSON object"):
        JsonFileSchemaLoader("", tmp_path).json_schema(Users())


@pytest.mark.parametrize(
    "schema, fault",
    [
        ({"properties": ["id"]}, "properties: \"['id']\" is not a mapping"),
        ({"properties": {"a": {"type": 0}}}, "properties.a.type: 0 is not the name of a type"),
        ({"properties": {"a": {"items": {"type": [{}]}}}}, "properties.a.items.type: {} is not"),
        ({"anyOf": [{}, {"oneOf": [None]}]}, "anyOf[1].oneOf[0]: None is not a mapping"),
    ],
)
def test_schema_of_invalid_structure_is_rejected_with_its_path(tmp_path, schema, fault):
    """Before, it ended the run with a Python exception."""
    with pytest.raises(ManifestError, match=re.escape(f"not a JSON Schema: {fault}")):
        InlineSchemaLoader(schema)
    loader = JsonFileSchemaLoader(folder=write_schema(tmp_path / "users.json", schema).parent)
    with pytest.raises(ManifestError, match=re.escape(f"users.json is not a JSON Schema: {fault}")):
        loader.json_schema(Users())


def test_schema_of_unusual_but_known_structure_is_accepted():
    schema = {
        "type": [None, "object"],
        "properties": {"a": None, "b": True, "c": {"type": None, "anyOf": {"type": "string"}}},
    }
    assert InlineSchemaLoader(schema).json_schema(Users()) == schema


def test_reference_to_a_boolean_schema_is_resolved(tmp_path):
    schema = make_schema(a={"$ref": "#/definitions/any"})
    write_schema(tmp_path / "users.json", {**schema, "definitions": {"any": True}})
    assert JsonFileSchemaLoader("", tmp_path).json_schema(Users()) == make_schema(a=True)


def test_schema_defaults_to_the_file_of_the_stream_name(tmp_path):
    assert load_schema(None, Users(), tmp_path) == {}
    write_schema(tmp_path / "schemas/users.json", make_schema(id=TEXT))
    assert load_schema(None, Users(), tmp_path) == make_schema(id=TEXT)


def test_several_schemas_are_merged_and_the_first_definition_wins(tmp_path):
    loaders = [
        InlineSchemaLoader(make_schema(id=TEXT)),
        InlineSchemaLoader(make_schema(id=NUMBER, more=NUMBER)),
    ]
    schema = load_schema(loaders, Users(), tmp_path)
    assert schema["properties"] == {"id": TEXT, "more": NUMBER}
    assert schema["type"] == ["null", "object"]


def make_identifier(**options: Any) -> SchemaTypeIdentifier:
    return SchemaTypeIdentifier(
        ["name"], **{"type_pointer": ["type"], "schema_pointer": ["fields"], **options}
    )


def load_dynamic_properties(*fields: dict[str, Any], **options: Any) -> dict[str, Any]:
    loader = DynamicSchemaLoader([{"fields": list(fields)}], **options)
    return loader.json_schema(Users())["properties"]


def test_dynamic_schema_is_created_from_the_fields_of_the_api():
    """As in Airbyte's YAML reference for DynamicSchemaLoader and SchemaTypeIdentifier."""
    condition = BoundTemplate(compile_template("{{ raw_schema.size > 1 }}"), {}, "condition")
    types = [
        TypesMap("timestamp_with_timezone", "datetime"),
        TypesMap(ComplexFieldType("array", ComplexFieldType("array", "integer")), "grid"),
        TypesMap(["string", "number"], "mixed"),
        TypesMap("integer", "num", condition),
        TypesMap("boolean", ["bool", "null"]),
    ]
    integer = {"type": ["null", "integer"]}
    assert load_dynamic_properties(
        {"name": "at", "type": "datetime"},
        {"name": "grid", "type": "grid"},
        {"name": "mixed", "type": "mixed"},
        {"name": "num", "type": "num", "size": 2},
        {"name": "flag", "type": ["bool", "null"]},
        {"name": "plain"},
        schema_type_identifier=make_identifier(types_mapping=types),
    ) == {
        "at": {"type": ["null", "string"], "format": "date-time"},
        "grid": {
            "type": ["null", "array"],
            "items": {"type": ["null", "array"], "items": integer},
        },
        "mixed": {"oneOf": [{"type": ["null", "string"]}, {"type": ["null", "number"]}]},
        "num": integer,
        "flag": {"type": ["null", "boolean"]},
        "plain": {"type": ["null", "string"]},
    }


@pytest.mark.parametrize("response", [{"error": "busy"}, {"fields": None}, {"fields": {"a": 1}}])
def test_response_without_a_list_of_fields_is_an_error(response: dict[str, Any]) -> None:
    """Before, the stream had a schema without properties."""
    with pytest.raises(ManifestError, match=r"no list of fields at \['fields'\]"):
        DynamicSchemaLoader([response], make_identifier()).json_schema(Users())


def test_dynamic_properties_can_be_filtered_and_transformed():
    name = AddedFieldDefinition(
        ["added"], BoundTemplate(compile_template("{{ {'type': 'string'} }}"), {}, "value")
    )
    schema_filter = RecordFilter(
        BoundTemplate(compile_template("{{ 'a' in record }}"), {}, "condition")
    )
    assert load_dynamic_properties(
        {"name": "a"},
        {"name": "b"},
        schema_type_identifier=make_identifier(),
        schema_filter=schema_filter,
        schema_transformations=[AddFields([name])],
    ) == {"a": {"type": ["null", "string"]}, "added": TEXT}


def test_dynamic_schema_without_fields_has_no_properties():
    loader = DynamicSchemaLoader([], make_identifier())
    assert loader.json_schema(Users())["properties"] == {}


@pytest.mark.parametrize(
    "field, message",
    [
        ({"name": "a", "type": "money"}, "'money' is not a type"),
        ({"type": "string"}, "without a name"),
    ],
)
def test_invalid_field_of_a_dynamic_schema_is_an_error(field, message):
    with pytest.raises(ManifestError, match=message):
        load_dynamic_properties(field, schema_type_identifier=make_identifier())


def test_items_of_a_type_other_than_array_are_an_error():
    with pytest.raises(ManifestError, match="items belong"):
        ComplexFieldType("object", "string")
