"""Defaults and built-in settings: filled in, never shared, never written into a class."""

from __future__ import annotations

from types import MappingProxyType

from tap_core.config.loading import (
    deep_copy_config,
    fill_defaults,
    is_secret,
    merge_missing_config_jsonschema,
)


def filled(config, schema):
    fill_defaults(config, schema)
    return config


def test_defaults_are_filled_where_nothing_is_said():
    schema = {"properties": {"a": {"default": 1}, "b": {"default": None}, "c": {"type": "string"}}}
    assert filled({}, schema) == {"a": 1, "b": None}
    assert filled({"a": 0, "b": 2}, schema) == {"a": 0, "b": 2}


def test_objects_and_arrays_that_are_there_are_filled_inside():
    inner = {"type": "object", "properties": {"x": {"default": 5}}}
    schema = {"properties": {"one": inner, "many": {"items": inner}, "none": inner}}
    found = filled({"one": {}, "many": [{}, {"x": 6}]}, schema)
    assert found == {"one": {"x": 5}, "many": [{"x": 5}, {"x": 6}]}


def test_the_default_of_an_object_is_filled_inside_too():
    inner = {"type": "object", "default": {}, "properties": {"x": {"default": 5}}}
    assert filled({}, {"properties": {"one": inner}}) == {"one": {"x": 5}}
    assert inner["default"] == {}


def test_parts_that_must_all_hold_give_their_defaults():
    schema = {"allOf": [{"properties": {"a": {"default": 1}}}]}
    assert filled({}, schema) == {"a": 1}


def test_a_default_is_not_shared_between_configurations():
    schema = {"properties": {"a": {"default": [1]}}}
    first, second = filled({}, schema), filled({}, schema)
    first["a"].append(2)
    assert second == {"a": [1]}
    assert schema["properties"]["a"]["default"] == [1]


def test_missing_settings_are_merged_as_copies():
    source = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    target = {"properties": {"a": {"type": "integer"}}}
    merge_missing_config_jsonschema(source, target)
    assert target["properties"] == {"a": {"type": "integer"}, "b": {"type": "string"}}
    target["properties"]["b"]["type"] = "null"
    assert source["properties"]["b"] == {"type": "string"}
    empty: dict = {}
    merge_missing_config_jsonschema(source, empty)
    assert set(empty["properties"]) == {"a", "b"}


def test_copies_are_of_containers_only():
    thing = object()
    original = MappingProxyType({"a": [{"b": thing}]})
    copy = deep_copy_config(original)
    assert copy == {"a": [{"b": thing}]}
    copy["a"][0]["b"] = None
    assert original["a"][0]["b"] is thing


def test_names_and_marks_make_a_secret():
    assert is_secret("x", {"secret": True})
    assert is_secret("x", {"writeOnly": True})
    assert is_secret("API-Key")
    assert is_secret("refresh_token")
    assert not is_secret("page_size", {"type": "integer"})
