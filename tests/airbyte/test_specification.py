"""The answer to `spec`."""

from __future__ import annotations

from copy import deepcopy

import pytest

from tap_core import Tap
from tap_core import typing as th
from tap_core.protocols.airbyte.spec import specification


class SettingsTap(Tap):
    name = "tap-settings"
    config_jsonschema = th.PropertiesList(
        th.Property("api_url", th.StringType, required=True),
        th.Property("key", th.StringType, secret=True),
        th.Property(
            "login",
            th.ObjectType(
                th.Property("user", th.StringType), th.Property("password", th.StringType)
            ),
        ),
        th.Property("max_tokens", th.IntegerType),
        th.Property("days", th.IntegerType, default=3),
    ).to_dict()

    def discover_streams(self):
        return []


def get_settings(**properties) -> dict:
    schema = {"properties": properties}
    before = deepcopy(schema)
    settings = specification(schema)["connectionSpecification"]["properties"]
    assert schema == before
    return {name: setting.get("airbyte_secret") for name, setting in settings.items()}


def test_specification_has_the_settings_and_the_protocol_version() -> None:
    """SP3, SP4, SP5: absent features are omitted."""
    result = specification(SettingsTap._full_schema())
    assert result.keys() == {"protocol_version", "connectionSpecification"}
    assert result["protocol_version"] == "0.5.2"
    assert result["connectionSpecification"]["type"] == "object"
    assert result["connectionSpecification"]["required"] == ["api_url"]
    days = result["connectionSpecification"]["properties"]["days"]
    assert (days["default"], days["order"]) == (3, 4)


def test_documentation_url_is_included() -> None:
    """SP5."""
    result = specification({}, documentation="https://example.com/tap")
    assert result["documentationUrl"] == "https://example.com/tap"
    assert "changelogUrl" not in result
    assert result["connectionSpecification"] == {"type": "object", "properties": {}}


def test_changelog_url_is_included() -> None:
    """SP5."""
    result = specification({}, changelog="https://example.com/changes")
    assert result["changelogUrl"] == "https://example.com/changes"
    assert "documentationUrl" not in result


def test_destination_lists_its_sync_modes() -> None:
    """SP6."""
    modes = ("append", "overwrite", "append_dedup")
    result = specification({}, destination_sync_modes=modes)
    assert result["supported_destination_sync_modes"] == list(modes)


def test_secrets_are_marked() -> None:
    """SP11: by the schema and by the name, also in nested objects."""
    settings = specification(SettingsTap._full_schema())["connectionSpecification"]["properties"]
    assert settings["key"]["airbyte_secret"] is True
    assert settings["login"]["properties"]["password"]["airbyte_secret"] is True
    other_settings = (
        settings["api_url"],
        settings["days"],
        settings["max_tokens"],
        settings["login"],
    )
    assert not any("airbyte_secret" in setting for setting in other_settings)


@pytest.mark.parametrize(
    ("setting", "mark"),
    [
        ({"type": "string"}, True),
        ({"type": ["null", "string"]}, True),
        ({"type": "integer"}, None),
        ({"type": "integer", "writeOnly": True}, True),
        ({"type": "string", "secret": False}, None),
        ({"type": "string", "airbyte_secret": False}, False),
    ],
)
def test_secret_name_marks_only_strings_unless_declared_otherwise(setting, mark) -> None:
    """SP11."""
    assert get_settings(auth_token=setting) == {"auth_token": mark}


def test_every_property_of_a_secret_object_is_marked() -> None:
    """SP11: clients mask only strings and numbers."""
    parts = {"type": "object", "secret": True, "properties": {"a": {"type": "string"}, "b": True}}
    result = specification({"properties": {"x": parts}})["connectionSpecification"]
    assert result["properties"]["x"]["properties"] == {
        "a": {"type": "string", "airbyte_secret": True},
        "b": True,
    }
    assert get_settings(whole={"type": "object", "secret": True}) == {"whole": True}


def test_secrets_in_unions_and_references_are_marked() -> None:
    """SP11."""
    schema = {
        "properties": {
            "login": {"oneOf": [{"$ref": "#/definitions/by_token"}, {"type": "string"}]},
            "odd": True,
        },
        "definitions": {"by_token": {"properties": {"token": {"type": "string"}}}},
    }
    result = specification(schema)["connectionSpecification"]["properties"]
    assert result["login"]["oneOf"][0]["properties"]["token"]["airbyte_secret"] is True
    assert result["odd"] is True


def test_built_in_settings_of_the_sdk_are_hidden() -> None:
    """A tap's own setting with the name of a built-in one is shown."""
    schema = SettingsTap._full_schema()
    schema["properties"]["batch_config"] = {"type": "string"}
    result = specification(schema)["connectionSpecification"]["properties"]
    hidden = {name for name, setting in result.items() if setting.get("airbyte_hidden")}
    assert {"stream_maps", "flattening_enabled", "faker_config"} <= hidden
    assert not hidden & {"api_url", "key", "login", "days", "batch_config"}
