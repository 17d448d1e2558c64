"""Stream maps: errors of invalid maps, and custom map classes."""

from __future__ import annotations

import copy
import logging
import os
import subprocess
import sys
from pathlib import Path
from uuid import NAMESPACE_DNS, UUID, uuid5

import pytest

from tap_core.exceptions import MapExpressionError, StreamMapConfigError, StreamSetupError
from tap_core.mapper import (
    CustomStreamMap,
    PluginMapper,
    RemoveRecordTransform,
    SameRecordTransform,
    StreamMap,
    check_uuid,
    md5,
    sha256,
)
from tap_core.records.flatten import FlatteningOptions

LOGGER = logging.getLogger("maps")
SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "deep": {"type": "object", "properties": {"x": {"type": "integer"}}},
    },
}
RECORD = {"id": 1, "name": "Ada", "deep": {"x": 2}}
FLATTENING = {"flattening_enabled": True, "flattening_max_depth": 3}
FLATTENING_OPTIONS = FlatteningOptions(enabled=True, max_level=1)


def make_custom_map(
    map_class=CustomStreamMap, flattening_options=None, faker_config=None, **definition
):
    return map_class(
        stream_alias="people",
        map_config={},
        faker_config=faker_config or {},
        raw_schema=SCHEMA,
        key_properties=["id"],
        map_transform=definition,
        flattening_options=flattening_options,
        stream_name="people",
    )


def make_mapper(**config):
    plugin_mapper = PluginMapper(config, LOGGER)
    plugin_mapper.register_raw_stream_schema("people", SCHEMA, ["id"])
    return plugin_mapper


@pytest.mark.parametrize(
    "definition, location",
    [
        ({"x": "1 +"}, "property 'x' in the map of stream 'people'"),
        ({"x": "name.__class__"}, "property 'x' in the map of stream 'people'"),
        ({"x": "import os"}, "property 'x' in the map of stream 'people'"),
        ({"x": "foo(1)"}, "the function 'foo' is not defined"),
        ({"__filter__": "lambda: 1"}, "the __filter__ of stream 'people'"),
        ({"__filter__": "pass"}, "the __filter__ of stream 'people'"),
        ({"__alias__": "import os"}, "the __alias__ of stream 'people'"),
        ({"__alias__": "a b"}, "the __alias__ of stream 'people'"),
    ],
)
def test_invalid_expression_is_rejected_at_registration_with_its_location(definition, location):
    with pytest.raises(MapExpressionError) as caught:
        make_mapper(stream_maps={"people": definition})
    assert location in str(caught.value)


@pytest.mark.parametrize(
    "definition, message",
    [
        ({"__filter__": 5}, "must be text"),
        ({"x": 5}, "Unexpected type 'int' in stream map for 'people:x'"),
        ({"x": ["id"]}, "Unexpected type 'list' in stream map for 'people:x'"),
        ({"id": None}, "Removing key property 'id' is not permitted in 'people'"),
        ({"__key_properties__": ["gone"]}, r"Invalid key properties for 'people': \[gone\]"),
        ({"__source__": "people", "__alias__": "x"}, "it can have no __alias__"),
        ({"__alias__": 5}, "it must be text"),
        *(({"__source__": odd}, "must be text") for odd in (None, 5, ["people"], {})),
    ],
)
def test_invalid_map_is_rejected_with_its_stream(definition, message):
    with pytest.raises(StreamMapConfigError, match=message):
        make_mapper(stream_maps={"people": definition})


@pytest.mark.parametrize("config", [{"stream_maps": {"odd": {"x": "id"}}}, FLATTENING])
@pytest.mark.parametrize("properties", ["object", ["a"], 5])
def test_invalid_schema_is_rejected_with_its_stream(config, properties):
    """SEC21: target and mapper read schemas of others."""
    plugin_mapper = PluginMapper(config, LOGGER)
    with pytest.raises(StreamSetupError, match="schema of stream 'odd' can be neither mapped"):
        plugin_mapper.register_raw_stream_schema(
            "odd", {"type": "object", "properties": properties}, []
        )


def test_properties_with_the_same_flattened_name_are_rejected():
    inner = {"type": "object", "properties": {"b": {"type": "integer"}}}
    schema = {"properties": {"a__b": {"type": "integer"}, "a": inner}}
    with pytest.raises(StreamSetupError, match=r"stream 'odd' .* Duplicate column name .* a__b"):
        PluginMapper(FLATTENING, LOGGER).register_raw_stream_schema("odd", schema, [])


def test_evaluation_error_names_stream_and_property():
    stream_map = make_custom_map(x="name + 1")
    with pytest.raises(MapExpressionError, match=r"property 'x' in the map of stream 'people'"):
        stream_map.transform(RECORD)
    with pytest.raises(MapExpressionError, match=r"the __filter__ of stream 'people'.*'gone'"):
        make_custom_map(__filter__="gone").get_filter_result(RECORD)


def test_assignment_in_a_filter_causes_a_warning():
    with pytest.warns(UserWarning, match="an assignment is ignored"):
        stream_map = make_custom_map(__filter__="x = id")
    assert stream_map.get_filter_result(RECORD)


def test_settings_and_schemas_of_the_caller_are_not_changed():
    schema, config = (
        copy.deepcopy(SCHEMA),
        {"stream_maps": {"__else__": None, "people": {"__alias__": "p", "name": None, "new": "1"}}},
    )
    settings = copy.deepcopy(config)
    plugin_mapper = PluginMapper(settings, LOGGER)
    plugin_mapper.register_raw_stream_schema("people", schema, ["id"])
    assert (settings, schema) == (config, SCHEMA)
    assert plugin_mapper.stream_maps["people"][0].raw_schema == SCHEMA


def test_a_stream_is_mapped_again_when_its_schema_changes():
    plugin_mapper = make_mapper()
    first = plugin_mapper.stream_maps["people"]
    plugin_mapper.register_raw_stream_schema("people", SCHEMA, ["id"])
    assert plugin_mapper.stream_maps["people"] is first
    plugin_mapper.register_raw_stream_schema("people", {**SCHEMA, "title": "new"}, ["id"])
    assert plugin_mapper.stream_maps["people"][0].raw_schema["title"] == "new"


def test_alias_like_a_number_is_taken_as_text():
    plugin_mapper = make_mapper(stream_maps={"people": {"__alias__": "2024_01"}})
    assert plugin_mapper.stream_maps["people"][0].stream_alias == "2024_01"


@pytest.mark.parametrize("options", [{"x\ud800": "id"}, {"__alias__": r"'x\ud800'"}])
def test_name_with_a_lone_surrogate_is_rejected(options):
    with pytest.raises(StreamMapConfigError, match=r"'x\\ud800' in the .* has a lone surrogate"):
        make_mapper(stream_maps={"people": options})


def test_null_alias_keeps_the_stream_name():
    plugin_mapper = make_mapper(stream_maps={"people": {"__alias__": None}})
    assert plugin_mapper.stream_maps["people"][0].stream_alias == "people"


def test_quick_transform_gives_the_result_of_transform():
    same_record_subclass = type(
        "SameRecordSubclass", (SameRecordTransform,), {"transform": lambda self, record: {"own": 1}}
    )
    custom_subclass = type(
        "CustomSubclass", (CustomStreamMap,), {"transform": lambda self, record: {"own": 2}}
    )
    maps = [
        make_custom_map(x="id", __filter__="id < 2"),
        make_custom_map(x="_.get('deep')", flattening_options=FLATTENING_OPTIONS),
        make_custom_map(__else__=None, __key_properties__=[], x="id"),
        make_custom_map(map_class=custom_subclass, x="id"),
        SameRecordTransform("people", SCHEMA, ["id"], None),
        SameRecordTransform("people", SCHEMA, ["id"], FLATTENING_OPTIONS),
        RemoveRecordTransform("people", SCHEMA, ["id"], FLATTENING_OPTIONS),
        same_record_subclass("people", SCHEMA, ["id"], None),
    ]
    for stream_map in maps:
        for record in (RECORD, {"id": 2}, {"id": 0}):
            assert stream_map.quick_transform(dict(record)) == stream_map.transform(dict(record))
    empty = make_custom_map(__else__=None, __key_properties__=[])
    assert empty.quick_transform(RECORD) is empty.transform(RECORD) is None


def test_subclass_can_add_functions_and_filters():
    class UpperCaseMap(CustomStreamMap):
        @property
        def functions(self):
            return {**super().functions, "shout": str.upper}

        def get_filter_result(self, record):
            return super().get_filter_result(record) and record["id"] < 3

    stream_map = make_custom_map(map_class=UpperCaseMap, name="shout(name)")
    assert stream_map.has_filter
    assert stream_map.may_mutate
    assert stream_map.transform(RECORD) == {**RECORD, "name": "ADA"}
    assert stream_map.transform({**RECORD, "id": 3}) is None


def test_custom_stream_map_flattens_its_result():
    class DoublingMap(StreamMap):
        def transform(self, record):
            return super().transform({**record, "id": record["id"] * 2})

        def get_filter_result(self, record):
            return True

    stream_map = DoublingMap("people", SCHEMA, ["id"], FLATTENING_OPTIONS)
    assert stream_map.quick_transform(RECORD) == {"id": 2, "name": "Ada", "deep__x": 2}
    stream_map.transformed_schema = {"properties": {"deep": {}}}
    assert stream_map.transform(RECORD) == {"id": 2, "name": "Ada", "deep": '{"x":2}'}


def test_md5_and_sha256_give_hex_digests():
    assert md5("a") == "0cc175b9c0f1b6a831c399e269772661"
    assert sha256("a").startswith("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785")


def test_uuid_functions_create_and_check_texts():
    stream_map = make_custom_map(
        name="uuid4()", deep="check_uuid(uuid4())", id="int(check_uuid(name, 4))"
    )
    mapped = stream_map.transform(RECORD)
    assert UUID(mapped["name"]).version == 4
    assert mapped["deep"] is True
    assert mapped["id"] == 0
    types = {
        name: definition["type"]
        for name, definition in stream_map.transformed_schema["properties"].items()
    }
    assert (types["name"], types["deep"]) == (["string", "null"], ["boolean", "null"])
    text = str(uuid5(NAMESPACE_DNS, "a.test"))
    assert [check_uuid(text, version) for version in (None, 5, 4)] == [True, True, False]
    assert not check_uuid(None)


FAKER_MODULE = """
class Faker:
    seeds = []

    def __init__(self, locale="default"):
        self.locale = locale

    @classmethod
    def seed(cls, seed):
        cls.seeds.append(seed)

    def name(self):
        return f"{self.locale} {self.seeds}"

    @property
    def factories(self):
        return [self]

    @property
    def providers(self):
        return [self]
"""
"""A stand-in for the package Faker, which is not installed."""

FAKER_PROGRAM = """
import sys
from tests.mapper.test_maps import RECORD, make_custom_map
for config in ({}, {"seed": 5, "locale": "it_IT"}):
    record = make_custom_map(x="id", faker_config=config).transform(RECORD)
    print(record["x"], "faker" in sys.modules)
    print(make_custom_map(x="fake.name()", faker_config=config).transform(RECORD)["x"])
print(make_custom_map(x="id").fake.locale)
try:
    make_custom_map(x="fake.seeds").transform(RECORD)
except Exception as error:
    print("not available" in str(error))
"""


def test_faker_is_imported_only_if_a_map_uses_it(tmp_path):
    (tmp_path / "faker").mkdir()
    (tmp_path / "faker" / "__init__.py").write_text(FAKER_MODULE)
    process = subprocess.run(
        [sys.executable, "-c", FAKER_PROGRAM],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.splitlines() == [
        *("1 False", "default []", "1 True", "it_IT [5]"),
        "default",
        "True",
    ]


def test_without_faker_the_fake_attribute_is_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "faker", None)
    assert make_custom_map(x="id").fake is None
    assert make_custom_map(x="_.get('fake')").transform(RECORD)["x"] is None
    with pytest.raises(MapExpressionError, match="the package Faker is not installed"):
        make_custom_map(x="fake.name()").transform(RECORD)
