"""Definitions of plugins for Meltano, Airbyte and Fivetran: one source, the JSON Schema."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tap_core import InlineMapper, Tap, Target
from tap_core import typing as th
from tap_core.about import AboutFormatter, AboutInfo, define_meltano_plugin
from tap_core.capabilities import TapCapabilities, TargetCapabilities
from tap_core.config.meltano_settings import define_settings, list_required_groups
from tap_core.exceptions import ConfigurationError
from tap_core.io.yaml_writer import write_yaml
from tap_core.plugin_base import PluginBase
from tap_core.protocols.airbyte.spec import specification
from tap_core.protocols.config_schema import find_sdk_settings
from tap_core.protocols.fivetran.form_fields import build_fields
from tap_core.types import JsonSchema
from target_spark.config.settings import SCHEMA
from target_spark.fivetran.configuration_form import FORM
from target_spark.target import TargetSpark
from tests.peers import missing_reason, peer_python

ROOT = Path(__file__).resolve().parents[2]
MELTANO = peer_python("meltano")

SETTINGS = th.PropertiesList(
    th.Property("api_url", th.URIType, default="https://x.example", examples=["https://y.example"]),
    th.Property("token", th.StringType, required=True, secret=True, default="none"),
    th.Property("start_date", th.DateTimeType, description="The first\n   day."),
    th.Property("page_size", th.IntegerType, default=0),
    th.Property("rate", th.NumberType),
    th.Property("verify", th.BooleanType, default=False, title="Verify TLS"),
    th.Property("region", th.StringType, allowed_values=["eu", "us"]),
    th.Property("size", th.IntegerType, allowed_values=[1, 2]),
    th.Property("ids", th.ArrayType(th.IntegerType)),
    th.Property("headers", th.ObjectType(additional_properties=th.StringType)),
    th.Property(
        "database",
        th.ObjectType(
            th.Property("host", th.StringType, required=True),
            th.Property("password", th.StringType),
        ),
        required=True,
    ),
    th.Property("login", th.ObjectType(th.Property("name", th.StringType)), secret=True),
).to_dict()


class TapDefined(Tap):
    """Reads   what is defined.

    Not part of the definition.
    """

    name = "tap-defined"
    config_jsonschema = SETTINGS

    def discover_streams(self) -> list[Any]:
        return []


class TargetDefined(Target):
    """Writes it."""

    name = "target-defined"


class MapDefined(InlineMapper):
    """Changes it."""

    name = "map-defined"

    def map_schema_message(self, message_dict: dict[str, Any]) -> Any:
        raise NotImplementedError

    map_record_message = map_state_message = map_schema_message
    map_activate_version_message = map_batch_message = map_schema_message


def read_definition(plugin: type[PluginBase], format_name: str) -> dict[str, Any]:
    """Return what ``--about`` prints in a format, read as YAML."""
    text = AboutFormatter.get_formatter(format_name).format_about(plugin._get_about_info())
    definition: dict[str, Any] = yaml.safe_load(text)
    return definition


def meltano_settings(schema: JsonSchema) -> dict[str, dict[str, Any]]:
    return {setting.pop("name"): setting for setting in define_settings(schema)}


def test_settings_have_label_kind_description_options_and_default() -> None:
    assert meltano_settings(SETTINGS) == {
        "api_url": {
            "label": "API URL",
            "kind": "string",
            "value": "https://x.example",
            "placeholder": "Ex. https://y.example",
        },
        "token": {"label": "Token", "kind": "string", "sensitive": True},
        "start_date": {
            "label": "Start date",
            "kind": "date_iso8601",
            "description": "The first day.",
        },
        "page_size": {"label": "Page size", "kind": "integer", "value": 0},
        "rate": {"label": "Rate", "kind": "integer"},
        "verify": {"label": "Verify TLS", "kind": "boolean", "value": False},
        "region": {
            "label": "Region",
            "kind": "options",
            "options": [{"label": "eu", "value": "eu"}, {"label": "us", "value": "us"}],
        },
        "size": {"label": "Size", "kind": "integer"},
        "ids": {"label": "IDs", "kind": "array"},
        "headers": {"label": "Headers", "kind": "object"},
        "database.host": {"label": "Database: Host", "kind": "string"},
        "database.password": {
            "label": "Database: Password",
            "kind": "string",
            "sensitive": True,
        },
        "login.name": {"label": "Login: Name", "kind": "string", "sensitive": True},
    }


def test_setting_with_several_types_has_the_kind_that_accepts_any_text() -> None:
    schema = {
        "properties": {
            "limit": {"type": ["integer", "string", "null"]},
            "one_or_many": {"oneOf": [{"type": "string"}, {"type": "array"}]},
            "any": {},
            "kept": {"type": "string", "airbyte_hidden": True},
            "to": {"type": "string", "format": "email"},
        }
    }
    settings = meltano_settings(schema)
    assert [setting["kind"] for setting in settings.values()] == [*["string"] * 4, "email"]
    assert [name for name, setting in settings.items() if setting.get("hidden")] == ["kept"]


@pytest.mark.parametrize(
    "schema, groups",
    [
        ({}, []),
        ({"anyOf": [{"required": ["a"]}, {}]}, [["a"]]),
        ({"required": ["a", "b"]}, [["a", "b"]]),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, [["a"], ["b"]]),
        (
            {"required": ["x"], "oneOf": [{"required": ["a", "x"]}, {"required": ["b"]}]},
            [["x", "a"], ["x", "b"]],
        ),
        (SETTINGS, [["token", "database.host"]]),
    ],
)
def test_required_settings_are_one_group_per_alternative(
    schema: JsonSchema, groups: list[list[str]]
) -> None:
    assert list_required_groups(schema) == groups


def test_meltano_definition_of_a_tap_has_the_keys_of_the_hub() -> None:
    definition = read_definition(TapDefined, "meltano")
    assert {key: value for key, value in definition.items() if key != "settings"} == {
        "name": "tap-defined",
        "namespace": "tap_defined",
        "variant": "default",
        "label": "Defined",
        "description": "Reads what is defined.",
        "pip_url": "tap-defined",
        "executable": "tap-defined",
        "capabilities": sorted(map(str, TapDefined._get_about_info().capabilities)),
        "settings_group_validation": [["token", "database.host"]],
    }
    names = [setting["name"] for setting in definition["settings"]]
    assert {"token", "stream_maps", "batch_config.encoding.format"} <= set(names)


def test_capabilities_that_meltano_does_not_know_are_left_out() -> None:
    assert TargetCapabilities.VALIDATE_RECORDS in TargetDefined.capabilities
    assert "validate-records" not in read_definition(TargetDefined, "meltano")["capabilities"]
    assert "schema-flattening" in read_definition(TargetDefined, "meltano")["capabilities"]
    assert "schema-flattening" not in read_definition(MapDefined, "meltano")["capabilities"]


def test_target_spark_requires_a_location_and_marks_its_secrets() -> None:
    definition = read_definition(TargetSpark, "meltano")
    assert definition["pip_url"] == "tap-core-sdk[spark]"
    groups = [["path"], ["warehouse"], ["catalog"], ["database"]]
    assert definition["settings_group_validation"] == groups
    settings = {setting["name"]: setting for setting in definition["settings"]}
    assert settings.keys() == TargetSpark._get_about_info().settings["properties"].keys() - {
        "faker_config"
    } | {"faker_config.seed", "faker_config.locale"}
    assert [name for name, setting in settings.items() if setting.get("sensitive")] == [
        "spark",
        "webhook",
    ]
    assert all(setting["label"] and setting["description"] for setting in settings.values())


PLUGINS: dict[str, tuple[type[PluginBase], ...]] = {
    "extractors": (TapDefined,),
    "loaders": (TargetSpark, TargetDefined),
    "mappers": (MapDefined,),
}


@pytest.mark.peer
@pytest.mark.skipif(MELTANO is None, reason=missing_reason("meltano"))
def test_definitions_are_valid_by_the_json_schema_of_meltano() -> None:
    assert MELTANO is not None
    [path] = MELTANO.parents[1].glob(
        "lib/python*/site-packages/meltano/schemas/meltano.schema.json"
    )
    validator = jsonschema.Draft202012Validator(json.loads(path.read_text("utf-8")))
    plugins: dict[str, Any] = {
        group: [read_definition(plugin, "meltano") for plugin in PLUGINS[group]]
        for group in PLUGINS
    }
    assert [error.message for error in validator.iter_errors({"plugins": plugins})] == []
    sample = yaml.safe_load((ROOT / "samples" / "meltano.yml").read_text("utf-8"))
    assert [error.message for error in validator.iter_errors(sample)] == []
    plugins["loaders"][0]["settings"][0]["kind"] = "text"
    assert list(validator.iter_errors({"plugins": plugins}))


def test_samples_and_templates_have_the_definitions_of_today(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "samples" / "tap_flights"))
    script = runpy.run_path(str(ROOT / "scripts" / "write_meltano_definitions.py"))
    for path in script["FILES"]:
        assert path.read_text("utf-8") == script["render"](path), (
            "run scripts/write_meltano_definitions.py"
        )


def test_about_prints_a_definition_without_a_yaml_library() -> None:
    program = (
        "import sys; sys.modules['yaml'] = None; from target_spark.target import TargetSpark;"
        "TargetSpark.cli(['--about', '--format=meltano'])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert yaml.safe_load(process.stdout) == read_definition(TargetSpark, "meltano")


# Airbyte's metadata

REQUIRED_BY_AIRBYTE = {
    *("name", "definitionId", "connectorType", "dockerRepository", "dockerImageTag", "license"),
    *("documentationUrl", "githubIssueLabel", "connectorSubtype", "releaseStage"),
}
"""Required fields of ConnectorMetadataDefinitionV0, the schema of Airbyte's registry."""

INSTALLED = AboutInfo(
    name="tap-my-shop",
    description="Reads a shop.",
    version="1.2.3",
    sdk_version="0.1.0",
    supported_python_versions=None,
    capabilities=[TapCapabilities.CATALOG],
    settings={},
    env_var_prefix="TAP_MY_SHOP_",
    requirement="tap-core-sdk[spark]",  # a distribution that is installed
    documentation_url="https://docs.example",
)


def test_airbyte_metadata_has_the_fields_that_the_registry_requires() -> None:
    text = AboutFormatter.get_formatter("airbyte").format_about(INSTALLED)
    metadata = yaml.safe_load(text)
    assert metadata["metadataSpecVersion"] == "1.0"
    data = metadata["data"]
    assert data.keys() >= REQUIRED_BY_AIRBYTE
    assert (data["name"], data["connectorType"]) == ("My shop", "source")
    assert data["dockerRepository"] == data["githubIssueLabel"] == "source-my-shop"
    assert (data["dockerImageTag"], data["license"]) == ("1.2.3", "Apache-2.0")
    assert text == AboutFormatter.get_formatter("airbyte").format_about(INSTALLED)


def test_airbyte_metadata_leaves_out_what_no_installed_package_states() -> None:
    data = read_definition(TargetDefined, "airbyte")["data"]
    assert data["connectorType"] == "destination"
    assert REQUIRED_BY_AIRBYTE - data.keys() == {"dockerImageTag", "license", "documentationUrl"}


def test_mapper_has_no_airbyte_metadata() -> None:
    with pytest.raises(ConfigurationError, match="map-defined is a mapper, which Airbyte does not"):
        read_definition(MapDefined, "airbyte")


# The three protocols


@pytest.mark.parametrize("plugin", [TargetSpark, TapDefined])
def test_the_three_protocols_show_the_same_texts(plugin: type[PluginBase]) -> None:
    """The settings that the SDK adds are not part of Fivetran's form."""
    all_settings = plugin._get_about_info().settings
    own_names = all_settings["properties"].keys() - find_sdk_settings(all_settings)
    schema = {
        **all_settings,
        "properties": {k: v for k, v in all_settings["properties"].items() if k in own_names},
    }
    meltano = meltano_settings(schema)
    form = {field.name: field for field in build_fields(schema)}
    airbyte = specification(schema)["connectionSpecification"]["properties"]

    assert form.keys() == meltano.keys()
    for name, setting in meltano.items():
        field, options = form[name], setting.get("options", [])
        assert field.label == setting["label"]
        assert " ".join(field.schema.get("description", "").split()) == setting.get(
            "description", ""
        )
        if options:
            assert [(choice.label, choice.value) for choice in field.options] == [
                (option["label"], option["value"]) for option in options
            ]
        if "." not in name:
            spec = airbyte[name]
            assert " ".join(spec.get("description", "").split()) == setting.get("description", "")
            assert spec.get("title", setting["label"]) == setting["label"]
            assert bool(spec.get("airbyte_secret")) == setting.get("sensitive", False)
            if options:
                values = [value for value in spec["enum"] if value is not None]
                assert values == [option["value"] for option in options]


def test_fivetran_form_of_target_spark_has_the_labels_of_its_settings() -> None:
    [field] = [field for field in build_fields(FORM) if field.name == "format"]
    labels = [(option.value, option.label) for option in field.options]
    assert labels == [("delta", "Delta Lake"), ("iceberg", "Iceberg")]
    [setting] = [
        setting_of_form
        for setting_of_form in define_settings(SCHEMA)
        if setting_of_form["name"] == "format"
    ]
    assert labels == [(option["value"], option["label"]) for option in setting["options"][:2]]


# YAML


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "a", "yes", "No", "null", "~", "1", "1.5", "1e3", "0x1", "2020-01-01", "="),
        *("a b", "a  b", " a", "a ", "a,", "a, b", "a:", "a: b", "a #b", "#a", "- a", "[a]"),
        *("{a}", "*a", "&a", "!a", "%a", "it's", 'say "x"', "back\\slash", "line\nbreak"),
        *("tab\there", "é", "\x85", "\ufeff", "\u2028", "😀", "😀\x85"),
        *("x" * 200, "word " * 40, ("word " * 40).strip(), ("a: b # c - " * 20).strip()),
    ],
)
def test_yaml_text_is_read_as_it_was(text: str) -> None:
    document = {
        "key": text,
        "list": [text, "x", text],
        "deep": [{"inner": text, "more": {"value": text}}, [text], text],
        f"k{text}": 1,
    }
    assert yaml.safe_load(write_yaml(document)) == document


def test_yaml_values_other_than_text_are_read_as_they_were() -> None:
    document = {"a": None, "b": True, "c": 0, "d": 1.5, "e": [], "f": {}, "g": [1, None, False]}
    document |= {"h": [{}, [["😀\x7f"]], {"x": {}}], "i": {"j": {"k": [1, [2, {"l": 3}]]}}}
    assert yaml.safe_load(write_yaml(document)) == document


def test_yaml_lines_are_at_most_100_characters_long() -> None:
    text = write_yaml(define_meltano_plugin(TargetSpark._get_about_info()))
    assert max(map(len, text.splitlines())) <= 100
