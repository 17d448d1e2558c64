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


def settings_of(**properties) -> dict:
    schema = {"properties": properties}
    before = deepcopy(schema)
    found = specification(schema)["connectionSpecification"]["properties"]
    assert schema == before
    return {name: setting.get("airbyte_secret") for name, setting in found.items()}


def test_a_source_says_its_settings_and_the_version() -> None:
    """SP3, SP4, SP5: nothing that it has not is said."""
    found = specification(SettingsTap._full_schema())
    assert found.keys() == {"protocol_version", "connectionSpecification"}
    assert found["protocol_version"] == "0.5.2"
    assert found["connectionSpecification"]["type"] == "object"
    assert found["connectionSpecification"]["required"] == ["api_url"]
    days = found["connectionSpecification"]["properties"]["days"]
    assert (days["default"], days["order"]) == (3, 4)


def test_a_page_about_it_is_reported() -> None:
    """SP5: as an address."""
    found = specification({}, documentation="https://example.com/tap")
    assert found["documentationUrl"] == "https://example.com/tap"
    assert "changelogUrl" not in found
    assert found["connectionSpecification"] == {"type": "object", "properties": {}}


def test_a_page_about_its_changes_is_reported() -> None:
    """SP5: as an address, beside that of the documentation."""
    found = specification({}, changelog="https://example.com/changes")
    assert found["changelogUrl"] == "https://example.com/changes"
    assert "documentationUrl" not in found


def test_a_destination_says_its_modes() -> None:
    """SP6."""
    modes = ("append", "overwrite", "append_dedup")
    found = specification({}, destination_sync_modes=modes)
    assert found["supported_destination_sync_modes"] == list(modes)


def test_secrets_are_marked() -> None:
    """SP11: by the schema's mark and by the name, at every depth."""
    found = specification(SettingsTap._full_schema())["connectionSpecification"]["properties"]
    assert found["key"]["airbyte_secret"] is True
    assert found["login"]["properties"]["password"]["airbyte_secret"] is True
    others = (found["api_url"], found["days"], found["max_tokens"], found["login"])
    assert not any("airbyte_secret" in one for one in others)


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
def test_a_name_marks_texts_alone_and_the_author_has_the_last_word(setting, mark) -> None:
    """SP11."""
    assert settings_of(auth_token=setting) == {"auth_token": mark}


def test_of_a_secret_object_each_part_is_marked() -> None:
    """SP11: clients hide texts and numbers only."""
    parts = {"type": "object", "secret": True, "properties": {"a": {"type": "string"}, "b": True}}
    found = specification({"properties": {"x": parts}})["connectionSpecification"]
    assert found["properties"]["x"]["properties"] == {
        "a": {"type": "string", "airbyte_secret": True},
        "b": True,
    }
    assert settings_of(whole={"type": "object", "secret": True}) == {"whole": True}


def test_secrets_of_one_of_several_logins_are_marked() -> None:
    """SP11: in alternatives, and where references led."""
    schema = {
        "properties": {
            "login": {"oneOf": [{"$ref": "#/definitions/by_token"}, {"type": "string"}]},
            "odd": True,
        },
        "definitions": {"by_token": {"properties": {"token": {"type": "string"}}}},
    }
    found = specification(schema)["connectionSpecification"]["properties"]
    assert found["login"]["oneOf"][0]["properties"]["token"]["airbyte_secret"] is True
    assert found["odd"] is True


def test_what_comes_with_the_sdk_is_hidden() -> None:
    """A form shows what the author declared; a setting of the same name is the author's."""
    schema = SettingsTap._full_schema()
    schema["properties"]["batch_config"] = {"type": "string"}
    found = specification(schema)["connectionSpecification"]["properties"]
    hidden = {name for name, setting in found.items() if setting.get("airbyte_hidden")}
    assert {"stream_maps", "flattening_enabled", "faker_config"} <= hidden
    assert not hidden & {"api_url", "key", "login", "days", "batch_config"}
