"""Transformations of records: the results equal those of airbyte-cdk 7.39."""

from __future__ import annotations

import copy
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tap_core.manifest.builder import build_component
from tap_core.manifest.components.partition_routers import PartitionSlice
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import Transformation
from tap_core.manifest.loader import read_manifest

HEAD = """
version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [s]}
definitions:
  changes:
"""


@pytest.fixture
def transform(tmp_path: Path):
    """Return a function that applies transformations, written as YAML, to a record."""

    def change(text: str, record: dict[str, Any], **scope: Any) -> dict[str, Any]:
        lines = "".join(f"    {line}\n" for line in text.strip().splitlines())
        file = tmp_path / "manifest.yaml"
        file.write_text(f"{HEAD}{lines}streams: []\n", encoding="utf-8")
        manifest = read_manifest(file)
        config = {"account": "0042", "version": "1.50"}
        record = copy.deepcopy(record)
        node = manifest.tree["definitions"]["changes"]
        for transformation in build_component(manifest, node, list[Transformation], config):
            variables = {"config": config, "record": record, "stream_slice": {}, **scope}
            transformation.transform(record, variables)
        return record

    return change


def add_field(value: str, option: str = "") -> str:
    return f"""
- type: AddFields
  fields:
    - type: AddedFieldDefinition
      path: [new]
      value: {value}
      {option}
"""


@pytest.mark.parametrize(
    "value, option, expected",
    [
        ('"{{ record.id }}"', "", 7),
        ('"{{ record.id }}"', "value_type: string", "7"),
        ('"{{ record.price }}"', "value_type: string", "1.5"),
        ('"{{ record.text }}"', "", 1.5),
        ('"{{ record.text }}"', "value_type: string", "1.50"),
        ('"{{ config.version }}"', "value_type: string", "1.50"),
        ('"{{ config.account }}"', "", "0042"),
        ('"{{ record.id }}"', "value_type: number", "7"),
        ('"{{ record.id }}"', "value_type: integer", 7),
        ('"7"', "value_type: string", "7"),
        ("7", "", 7),
        ('"{{ record.inner }}"', "", {"price": 1.5}),
        ('"{{ record.price * 2.5 }}"', "", 3.75),
        ('"{{ record.missing }}"', "", ""),
        ('"{{ record.nothing }}"', "", None),
        ('"{{ stream_slice.parent_slice.x }}|{{ stream_slice.id }}"', "", "|9"),
    ],
)
def test_added_value_is_parsed_as_a_literal_by_value_type(transform, value, option, expected):
    """As in Airbyte's YAML reference; ``value_type`` keeps literals of other types as strings."""
    record = {
        "id": 7,
        "price": Decimal("1.50"),
        "text": "1.50",
        "inner": {"price": Decimal("1.50")},
        "nothing": None,
    }
    transformed = transform(
        add_field(value, option), record, stream_slice=PartitionSlice({"id": 9})
    )
    assert transformed == {**record, "new": expected}


def test_add_fields_creates_missing_objects_and_lists(transform):
    text = add_field("x").replace("[new]", "[a, b, '1']")
    assert transform(text, {"a": None}) == {"a": {"b": [None, "x"]}}
    with pytest.raises(ManifestError, match=r"a\.b\.1 cannot be added"):
        transform(text, {"a": 5})


def test_fields_are_added_if_the_condition_is_true(transform):
    text = """
- type: AddFields
  condition: "{{ value and path[0] == 'a' }}"
  fields:
    - {type: AddedFieldDefinition, path: [a], value: "{{ record.id }}"}
    - {type: AddedFieldDefinition, path: [b], value: "{{ record.id }}"}
"""
    assert transform(text, {"id": 1}) == {"id": 1, "a": 1}
    assert transform(text, {"id": 0}) == {"id": 0}


def test_template_in_a_path_is_used_as_text_with_a_warning(transform, caplog):
    """As in airbyte-cdk."""
    text = add_field("v").replace("[new]", "[a, '{{ config.account }}']")
    assert transform(text, {}) == {"a": {"{{ config.account }}": "v"}}
    assert "path[1]: this option takes no template: the text '{{ config.acc" in caplog.text
    text = "- {type: RemoveFields, field_pointers: [['{{ config.account }}']]}"
    assert transform(text, {"0042": 1, "{{ config.account }}": 2}) == {"0042": 1}


def test_empty_condition_is_the_same_as_none(transform):
    """Before, an empty condition was false: no field was added or removed."""
    text = """
- type: AddFields
  condition: ""
  fields: [{type: AddedFieldDefinition, path: [a], value: "{{ record.id }}"}]
- {type: RemoveFields, condition: "", field_pointers: [[id]]}
"""
    assert transform(text, {"id": 1}) == {"a": 1}


@pytest.mark.parametrize(
    "pointers, expected",
    [
        ("[[id], [absent]]", {"a": {"b": 1, "c": [{"d": 1}, {"d": 2}]}, "x-y": 1}),
        ("[[a, b], [a, c, '0']]", {"id": 1, "a": {"c": [None, {"d": 2}]}, "x-y": 1}),
        ("[[a, c, '*', d]]", {"id": 1, "a": {"b": 1, "c": [{}, {}]}, "x-y": 1}),
        ("[['**', d], [x-y]]", {"id": 1, "a": {"b": 1, "c": [{}, {}]}}),
        ("[]", {"id": 1, "a": {"b": 1, "c": [{"d": 1}, {"d": 2}]}, "x-y": 1}),
    ],
)
def test_remove_fields_removes_all_matches_of_its_pointers(transform, pointers, expected):
    record = {"id": 1, "a": {"b": 1, "c": [{"d": 1}, {"d": 2}]}, "x-y": 1}
    assert transform(f"- {{type: RemoveFields, field_pointers: {pointers}}}", record) == expected


def test_remove_fields_condition_is_evaluated_per_value(transform):
    """As in airbyte-cdk, ``property`` is each scalar value, independent of the pointers."""
    text = """
- type: RemoveFields
  field_pointers: [["**"]]
  condition: "{{ property|string == '' }}"
"""
    assert transform(text, {"a": "", "b": {"c": "", "d": Decimal("0.5")}, "e": []}) == {
        "b": {"d": Decimal("0.5")},
        "e": [],
    }


def test_keys_to_lower_changes_top_level_keys(transform):
    assert transform("- type: KeysToLower", {"Id": 1, "In": {"X": 1}}) == {"id": 1, "in": {"X": 1}}


@pytest.mark.parametrize(
    "name, snake",
    [
        ("createdAt", "created_at"),
        ("HTTPServer2", "httpserver_2"),
        ("Foo  Bar", "foo_bar"),
        ("_id", "_id"),
        ("1st", "_1_st"),
        ("a.b-c", "a_b_c"),
        ("Übung", "ubung"),
        ("Имя", "имя"),
    ],
)
def test_keys_to_snake_case_changes_all_keys(transform, name, snake):
    transformed = transform("- type: KeysToSnakeCase", {name: {name: [{name: 1}]}})
    assert transformed == {snake: {snake: [{name: 1}]}}


def test_keys_replace_replaces_text_in_all_keys(transform):
    text = "- {type: KeysReplace, old: '$', new: \"{{ record['_'] }}\"}"
    assert transform(text, {"$a": {"$b": 1}, "_": "x"}) == {"xa": {"xb": 1}, "_": "x"}


@pytest.mark.parametrize(
    "options, expected",
    [
        ("", {"id": 1, "p": {"a": 1}, "a": 1}),
        (", delete_origin_value: true", {"id": 1, "a": 1}),
        (", replace_record: true", {"a": 1}),
        (
            ", key_transformation: {type: KeyTransformation, prefix: p_, suffix: _s}",
            {"id": 1, "p": {"a": 1}, "p_a_s": 1},
        ),
    ],
)
def test_dpath_flatten_fields_lifts_the_fields_of_an_object(transform, options, expected):
    text = f"- {{type: DpathFlattenFields, field_path: [p]{options}}}"
    assert transform(text, {"id": 1, "p": {"a": 1}}) == expected
    assert transform(text, {"id": 1, "p": 5}) == {"id": 1, "p": 5}


def test_dpath_flatten_fields_does_not_overwrite_existing_fields(transform):
    text = "- {type: DpathFlattenFields, field_path: [p], delete_origin_value: true}"
    assert transform(text, {"a": 0, "p": {"a": 1, "b": 2}}) == {"a": 0, "p": {"a": 1, "b": 2}}


@pytest.mark.parametrize(
    "into_lists, expected",
    [
        ("true", {"id": 1, "x": 2, "l.0": 5, "l.1": 6}),
        ("false", {"id": 1, "x": 2, "l": [5, 6]}),
    ],
)
def test_flatten_fields_lifts_all_nested_values(transform, into_lists, expected):
    text = f"- {{type: FlattenFields, flatten_lists: {into_lists}}}"
    assert transform(text, {"l": [5, 6], "id": 1, "o": {"x": 2}}) == expected
