"""Schemas: in the manifest, in files, merged, and made of what an API says of its fields."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
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


class Users:
    """A stream; its retrievers bring what they are told."""

    name = "users"
    config: dict[str, Any] = {}

    def iterate_records(self, retriever: Any) -> Iterable[Any]:
        return iter(retriever)


def written(file: Path, schema: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(schema), encoding="utf-8")
    return file


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def test_a_schema_in_the_manifest_is_taken_as_it_is():
    assert InlineSchemaLoader(of(id=TEXT)).json_schema(Users()) == of(id=TEXT)
    assert InlineSchemaLoader().json_schema(Users()) == {}


@pytest.mark.parametrize(
    "place, path",
    [
        ("schemas/users.json", ""),
        ("users.json", ""),
        ("source_x/schemas/users.json", "./source_x/schemas/users.json"),
        ("schemas/users.json", "./source_x/schemas/users.json"),
        ("other/people.json", "other/people.json"),
    ],
)
def test_a_file_is_found_in_the_folder_of_the_manifest(tmp_path, place, path):
    """A path may begin with the package that the connector once was."""
    folder = tmp_path / "connector"
    written(folder / place, of(id=TEXT))
    assert JsonFileSchemaLoader(path, folder).json_schema(Users()) == of(id=TEXT)


def test_a_path_may_begin_with_the_folder_of_the_manifest_itself(tmp_path):
    written(tmp_path / "source_x" / "schemas" / "users.json", of(id=TEXT))
    loader = JsonFileSchemaLoader("./source_x/schemas/users.json", tmp_path / "source_x")
    assert loader.json_schema(Users()) == of(id=TEXT)


def test_a_file_that_is_not_there_is_an_error_with_a_way_out(tmp_path):
    loader = JsonFileSchemaLoader("a.json", tmp_path, "manifest.yaml, line 7")
    with pytest.raises(ManifestError, match=r"line 7: there is no file 'a\.json'.*Inline"):
        loader.json_schema(Users())


def test_references_within_and_to_shared_files_are_resolved(tmp_path):
    """As connectors have them: ``shared`` lies beside the schema."""
    shared = {"type": "object", "properties": {"n": {"$ref": "#/definitions/n"}}}
    written(tmp_path / "schemas/shared/inner.json", {**shared, "definitions": {"n": NUMBER}})
    schema = of(a={"$ref": "inner.json"}, b={"$ref": "#/definitions/t"}, c={"$ref": "inner.json"})
    written(tmp_path / "schemas/users.json", {**schema, "definitions": {"t": TEXT}})
    found = JsonFileSchemaLoader("", tmp_path).json_schema(Users())
    assert found == of(a=of(n=NUMBER), b=TEXT, c=of(n=NUMBER))


@pytest.mark.parametrize(
    "reference, message",
    [("#/properties/a", "refers to itself"), ("b.json", "not exist"), ("#/x", "not exist")],
)
def test_references_that_lead_nowhere_are_refused(tmp_path, reference, message):
    written(tmp_path / "users.json", of(a={"$ref": reference}))
    with pytest.raises(ManifestError, match=message):
        JsonFileSchemaLoader("", tmp_path).json_schema(Users())


def test_without_a_loader_the_file_of_the_streams_name_counts_or_nothing(tmp_path):
    assert load_schema(None, Users(), tmp_path) == {}
    written(tmp_path / "schemas/users.json", of(id=TEXT))
    assert load_schema(None, Users(), tmp_path) == of(id=TEXT)


def test_of_several_schemas_the_first_that_has_a_property_counts():
    loaders = [InlineSchemaLoader(of(id=TEXT)), InlineSchemaLoader(of(id=NUMBER, more=NUMBER))]
    found = load_schema(loaders, Users())
    assert found["properties"] == {"id": TEXT, "more": NUMBER}
    assert found["type"] == ["null", "object"]


def identifier(**options: Any) -> SchemaTypeIdentifier:
    return SchemaTypeIdentifier(
        ["name"], **{"type_pointer": ["type"], "schema_pointer": ["fields"], **options}
    )


def described(*fields: dict[str, Any], **options: Any) -> dict[str, Any]:
    loader = DynamicSchemaLoader([{"fields": list(fields)}], **options)
    return loader.json_schema(Users())["properties"]


def test_a_schema_is_made_of_what_the_api_says_of_its_fields():
    """Airbyte's YAML reference, DynamicSchemaLoader and SchemaTypeIdentifier."""
    condition = BoundTemplate(compile_template("{{ raw_schema.size > 1 }}"), {}, "condition")
    types = [
        TypesMap("timestamp_with_timezone", "datetime"),
        TypesMap(ComplexFieldType("array", ComplexFieldType("array", "integer")), "grid"),
        TypesMap(["string", "number"], "mixed"),
        TypesMap("integer", "num", condition),
        TypesMap("boolean", ["bool", "null"]),
    ]
    whole = {"type": ["null", "integer"]}
    assert described(
        {"name": "at", "type": "datetime"},
        {"name": "grid", "type": "grid"},
        {"name": "mixed", "type": "mixed"},
        {"name": "num", "type": "num", "size": 2},
        {"name": "flag", "type": ["bool", "null"]},
        {"name": "plain"},
        schema_type_identifier=identifier(types_mapping=types),
    ) == {
        "at": {"type": ["null", "string"], "format": "date-time"},
        "grid": {
            "type": ["null", "array"],
            "items": {"type": ["null", "array"], "items": whole},
        },
        "mixed": {"oneOf": [{"type": ["null", "string"]}, {"type": ["null", "number"]}]},
        "num": whole,
        "flag": {"type": ["null", "boolean"]},
        "plain": {"type": ["null", "string"]},
    }


def test_properties_can_be_filtered_and_changed():
    name = AddedFieldDefinition(
        ["added"], BoundTemplate(compile_template("{{ {'type': 'string'} }}"), {}, "value")
    )
    kept = RecordFilter(BoundTemplate(compile_template("{{ 'a' in record }}"), {}, "condition"))
    assert described(
        {"name": "a"},
        {"name": "b"},
        schema_type_identifier=identifier(),
        schema_filter=kept,
        schema_transformations=[AddFields([name])],
    ) == {"a": {"type": ["null", "string"]}, "added": TEXT}


def test_an_api_that_says_nothing_gives_no_properties():
    loader = DynamicSchemaLoader([], identifier())
    assert loader.json_schema(Users())["properties"] == {}


@pytest.mark.parametrize(
    "field, message",
    [
        ({"name": "a", "type": "money"}, "'money' is not a type"),
        ({"type": "string"}, "without a name"),
    ],
)
def test_a_field_that_cannot_be_understood_is_an_error(field, message):
    with pytest.raises(ManifestError, match=message):
        described(field, schema_type_identifier=identifier())


def test_items_belong_to_arrays():
    with pytest.raises(ManifestError, match="items belong"):
        ComplexFieldType("object", "string")
