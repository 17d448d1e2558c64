"""The spec of a manifest: settings, secrets, documentation and OAuth flow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tap_core.manifest.cli import main
from tap_core.manifest.loader import read_manifest
from tap_core.manifest.spec import (
    changelog_url,
    config_jsonschema,
    documentation_url,
    get_oauth_spec,
)
from tap_core.manifest.tap import make_tap_class
from tap_core.protocols.airbyte.spec import specification
from tap_core.redaction import collect_secrets, make_redactor

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


def test_config_schema_keeps_airbyte_keywords_and_marks_secrets():
    """Only references of the spec are resolved: an invalid stream does not matter."""
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


def test_secrets_are_redacted_and_the_spec_keeps_the_order():
    schema = config_jsonschema(read_manifest(_TEXT))
    assert "hush-hush" not in collect_secrets({"pat": "hush-hush"}, schema).hide("a hush-hush b")
    spec = specification(schema)["connectionSpecification"]
    assert spec["properties"]["pat"]["order"] == 1
    assert spec["properties"]["pat"]["airbyte_secret"] is True


def test_secret_of_a_oneof_alternative_is_redacted():
    schema = config_jsonschema(read_manifest(_TEXT))
    settings = {"login": {"door": "hush-hush"}}
    assert "hush-hush" not in collect_secrets(settings, schema).hide("a hush-hush b")
    assert "hush-hush" not in make_redactor(settings, schema)("a hush-hush b")


def test_manifest_without_a_spec_accepts_any_setting():
    manifest = read_manifest("streams: []\n")
    assert config_jsonschema(manifest) == {
        "type": "object",
        "properties": {},
        "additionalProperties": True,
    }
    assert documentation_url(manifest) is None


def test_setting_without_a_schema_may_have_any_value(tmp_path: Path, capfd):
    """An author may leave a property empty, as in ``token:``."""
    declared = "streams: []\nspec: {connection_specification: {properties: {token: , other: x}}}"
    assert config_jsonschema(read_manifest(declared))["properties"] == {"token": {}, "other": {}}
    (tmp_path / "manifest.yaml").write_text(declared, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["--manifest", str(tmp_path / "manifest.yaml"), "--about"])
    assert ended.value.code == 0
    assert "Name: token" in capfd.readouterr().out


def test_documentation_url_is_found_under_both_names():
    assert documentation_url(read_manifest(_TEXT)) == "https://x/docs"
    assert documentation_url(read_manifest("spec: {documentationUrl: y}\n")) == "y"


@pytest.mark.parametrize("name", ["changelog_url", "changelogUrl"])
def test_changelog_url_is_reported(name: str, tmp_path: Path) -> None:
    text = f"{_TEXT}  {name}: https://x/changes\n"
    assert changelog_url(read_manifest(text)) == "https://x/changes"
    assert changelog_url(read_manifest(_TEXT)) is None
    path = tmp_path / "manifest.yaml"
    path.write_text(text)
    assert make_tap_class(path).get_changelog_url() == "https://x/changes"


_CONSENT = """\
streams: []
definitions:
  token: {type: string, path_in_connector_config: [credentials, token]}
spec:
  type: Spec
  connection_specification: {type: object, properties: {credentials: {type: object}}}
  advanced_auth:
    auth_flow_type: oauth2.0
    predicate_key: [credentials, kind]
    predicate_value: browser
    oauth_config_specification:
      oauth_connector_input_specification:
        consent_url: "https://x/authorize?{{ client_id_key }}={{ client_id_value }}"
      complete_oauth_output_specification:
        type: object
        properties: {token: "#/definitions/token"}
"""


def _read_spec(path: Path, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    with pytest.raises(SystemExit) as ended:
        main(["spec", "--manifest", str(path)])
    assert ended.value.code == 0
    spec: dict[str, Any] = json.loads(capfd.readouterr().out)["spec"]
    return spec


def test_advanced_auth_is_passed_to_the_spec_unchanged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    """Templates are kept for the platform; references are resolved."""
    (path := tmp_path / "x.yaml").write_text(_CONSENT, encoding="utf-8")
    spec = _read_spec(path, capfd)["advanced_auth"]
    assert spec == get_oauth_spec(read_manifest(_CONSENT))
    flow = spec.pop("oauth_config_specification")
    assert spec == {
        "auth_flow_type": "oauth2.0",
        "predicate_key": ["credentials", "kind"],
        "predicate_value": "browser",
    }
    consent_url = flow["oauth_connector_input_specification"]["consent_url"]
    assert consent_url == "https://x/authorize?{{ client_id_key }}={{ client_id_value }}"
    token = flow["complete_oauth_output_specification"]["properties"]["token"]
    assert token == {"type": "string", "path_in_connector_config": ["credentials", "token"]}


def test_spec_without_advanced_auth_has_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (path := tmp_path / "x.yaml").write_text("streams: []\n", encoding="utf-8")
    assert "advanced_auth" not in _read_spec(path, capfd)
