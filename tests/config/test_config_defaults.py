"""Defaults and built-in settings: filled into a configuration, never shared or written back."""

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


def test_defaults_fill_missing_settings_only():
    schema = {"properties": {"a": {"default": 1}, "b": {"default": None}, "c": {"type": "string"}}}
    assert filled({}, schema) == {"a": 1, "b": None}
    assert filled({"a": 0, "b": 2}, schema) == {"a": 0, "b": 2}


def test_defaults_are_filled_within_objects_and_arrays():
    inner = {"type": "object", "properties": {"x": {"default": 5}}}
    schema = {"properties": {"one": inner, "many": {"items": inner}, "none": inner}}
    config = filled({"one": {}, "many": [{}, {"x": 6}]}, schema)
    assert config == {"one": {"x": 5}, "many": [{"x": 5}, {"x": 6}]}


def test_defaults_are_filled_within_a_default_object():
    inner = {"type": "object", "default": {}, "properties": {"x": {"default": 5}}}
    assert filled({}, {"properties": {"one": inner}}) == {"one": {"x": 5}}
    assert inner["default"] == {}


def test_defaults_of_all_of_branches_are_filled():
    schema = {"allOf": [{"properties": {"a": {"default": 1}}}]}
    assert filled({}, schema) == {"a": 1}


def test_defaults_are_not_shared_between_configurations():
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


def test_deep_copy_copies_only_containers():
    leaf = object()
    original = MappingProxyType({"a": [{"b": leaf}]})
    copy = deep_copy_config(original)
    assert copy == {"a": [{"b": leaf}]}
    copy["a"][0]["b"] = None
    assert original["a"][0]["b"] is leaf


def test_secrets_are_recognized_by_name_and_by_schema():
    assert is_secret("x", {"secret": True})
    assert is_secret("x", {"writeOnly": True})
    assert is_secret("API-Key")
    assert is_secret("refresh_token")
    assert not is_secret("page_size", {"type": "integer"})
