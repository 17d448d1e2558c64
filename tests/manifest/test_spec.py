"""The settings that a manifest declares."""

from __future__ import annotations

import json

from tap_core.http.words import secrets_of
from tap_core.manifest.load import read_manifest
from tap_core.manifest.spec import config_jsonschema, documentation_url
from tap_core.protocols.airbyte.spec import specification
from tap_core.secrets import hider

_TEXT = """\
definitions:
  key: {type: string, airbyte_secret: true, order: 1}
streams: "#/nowhere"
spec:
  type: Spec
  documentation_url: https://x/docs
  connection_specification:
    $schema: http://json-schema.org/draft-07/schema#
    required: [pat]
    properties:
      pat: "#/definitions/key"
      since: {type: string, format: date, examples: [2024-01-01], pattern_descriptor: YYYY}
      login:
        oneOf:
          - properties: {door: {type: string, airbyte_secret: true}}
"""


def test_the_settings_are_a_json_schema_with_airbytes_words_kept_and_secrets_marked():
    """Only what the settings need is resolved: a broken stream does not hide them."""
    schema = config_jsonschema(read_manifest(_TEXT))
    assert schema["type"] == "object"
    assert schema["required"] == ["pat"]
    assert schema["properties"]["pat"] == {
        "type": "string",
        "airbyte_secret": True,
        "order": 1,
        "secret": True,
    }
    assert schema["properties"]["since"]["examples"] == ["2024-01-01"]
    door = schema["properties"]["login"]["oneOf"][0]["properties"]["door"]
    assert door["secret"] is True
    json.dumps(schema)


def test_what_is_marked_is_hidden_and_airbytes_spec_has_the_order():
    schema = config_jsonschema(read_manifest(_TEXT))
    assert "hush-hush" not in secrets_of({"pat": "hush-hush"}, schema).hide("a hush-hush b")
    told = specification(schema)["connectionSpecification"]
    assert told["properties"]["pat"]["order"] == 1
    assert told["properties"]["pat"]["airbyte_secret"] is True


def test_a_secret_of_one_alternative_is_hidden_too():
    schema = config_jsonschema(read_manifest(_TEXT))
    settings = {"login": {"door": "hush-hush"}}
    assert "hush-hush" not in secrets_of(settings, schema).hide("a hush-hush b")
    assert "hush-hush" not in hider(settings, schema)("a hush-hush b")


def test_a_manifest_without_settings_takes_any():
    manifest = read_manifest("streams: []\n")
    assert config_jsonschema(manifest) == {
        "type": "object",
        "properties": {},
        "additionalProperties": True,
    }
    assert documentation_url(manifest) is None


def test_the_address_of_the_documentation_is_found_under_both_names():
    assert documentation_url(read_manifest(_TEXT)) == "https://x/docs"
    assert documentation_url(read_manifest("spec: {documentationUrl: y}\n")) == "y"
