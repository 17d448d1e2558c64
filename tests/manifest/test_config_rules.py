"""Rules of a manifest's spec for the config, and streams that depend on the config."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tap_core.exceptions import ConfigurationError
from tap_core.manifest.lint import lint_manifest
from tests.http.server import Reply, Server, serving
from tests.manifest.running import list_paths, manifest, run, stream

PARAMETERS = """\
request_parameters:
  region: "{{ config['region'] }}"
  derived: "{{ config.get('derived') }}"
  kind: "{{ config.get('auth', {}).get('kind') }}"
  old: "{{ config.get('old') }}"
"""
RULES = """\
config_migrations:
  - type: ConfigMigration
    transformations:
      - type: ConfigAddFields
        condition: "{{ config.get('old') }}"
        fields: [{type: AddedFieldDefinition, path: [auth, kind], value: "{{ config['old'] }}"}]
      - {type: ConfigRemoveFields, field_pointers: [[old]]}
transformations:
  - {type: ConfigRemapField, map: {eu: europe}, field_path: [region]}
  - type: ConfigAddFields
    fields:
      - {type: AddedFieldDefinition, path: [derived], value: "{{ config['region'] }}-1"}
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def with_rules(folder: Path, rules: str) -> Path:
    """Write a manifest with one stream and these rules, and return its path."""
    path = manifest(folder, stream("items", "/items", PARAMETERS))
    text = path.read_text(encoding="utf-8")
    added = "  config_normalization_rules:\n" + indent(rules, "    ") + "streams:\n"
    path.write_text(text.replace("streams:\n", added), encoding="utf-8")
    return path


def test_migrations_and_transformations_change_the_config_that_templates_use(
    tmp_path: Path, server: Server
) -> None:
    server.answers(Reply({"data": []}))
    config = {"region": "eu", "old": "key"}
    run(with_rules(tmp_path, RULES), server, config=config)
    assert list_paths(server) == ["/items?region=europe&derived=europe-1&kind=key&old=None"]
    assert config == {"region": "eu", "old": "key"}


def test_rules_leave_a_config_unchanged_that_they_do_not_match(
    tmp_path: Path, server: Server
) -> None:
    server.answers(Reply({"data": []}))
    run(with_rules(tmp_path, RULES), server, config={"region": "asia"})
    assert list_paths(server) == ["/items?region=asia&derived=asia-1&kind=None&old=None"]


@pytest.mark.parametrize(
    ("region", "is_valid"),
    [
        ('{"a": 1}', True),
        ('{"a": "x-9"}', False),
        pytest.param('{"a": "x-9", "b": ' + "[" * 200_000, False, id="nested too deeply"),
    ],
)
def test_a_config_that_fails_a_validation_is_an_error_that_shows_no_value(
    region: str, is_valid: bool, tmp_path: Path, server: Server
) -> None:
    rules = """\
validations:
  - type: DpathValidator
    field_path: [region]
    validation_strategy:
      type: ValidateAdheresToSchema
      base_schema: {type: object, properties: {a: {type: integer}}}
  - type: PredicateValidator
    value: "{{ config['region'] }}"
    validation_strategy: {type: ValidateAdheresToSchema, base_schema: {type: object}}
"""
    path = with_rules(tmp_path, rules)
    server.answers(Reply({"data": []}))
    if is_valid:
        run(path, server, config={"region": region})
        return
    with pytest.raises(ConfigurationError, match="The setting 'region' is not valid") as caught:
        run(path, server, config={"region": region})
    assert "x-9" not in str(caught.value)
    assert not server.requests


def test_classes_of_the_connector_change_and_validate_the_config(
    tmp_path: Path, server: Server
) -> None:
    base = "airbyte_cdk.sources.declarative"
    (tmp_path / "components.py").write_text(
        f"from {base}.transformations.config_transformations.config_transformation import"
        " ConfigTransformation\n"
        f"from {base}.validators.validation_strategy import ValidationStrategy\n"
        "class Upper(ConfigTransformation):\n"
        "    def transform(self, config):\n"
        "        config['region'] = config['region'].upper()\n"
        "class Short(ValidationStrategy):\n"
        "    def validate(self, value):\n"
        "        if len(value) > 4:\n"
        "            raise ValueError('it is too long')\n",
        encoding="utf-8",
    )
    rules = """\
transformations:
  - {type: CustomConfigTransformation, class_name: source_declarative_manifest.components.Upper}
validations:
  - type: DpathValidator
    field_path: [region]
    validation_strategy:
      {type: CustomValidationStrategy, class_name: source_declarative_manifest.components.Short}
"""
    path = with_rules(tmp_path, rules)
    server.answers(Reply({"data": []}))
    run(path, server, config={"region": "asia"})
    assert server.requests[0].query["region"] == ["ASIA"]
    with pytest.raises(ConfigurationError, match="'region' is not valid: it is too long"):
        run(path, server, config={"region": "europe"})


CONDITIONAL = """\
  - type: ConditionalStreams
    condition: "{{ config['api_key'] == 'full' }}"
    streams:
"""


@pytest.mark.parametrize(("key", "names"), [("full", ["items", "more"]), ("free", ["items"])])
def test_conditional_streams_exist_if_their_condition_is_true(
    key: str, names: list[str], tmp_path: Path, server: Server
) -> None:
    conditional = CONDITIONAL + indent(stream("more", "/more"), "    ")
    path = manifest(tmp_path, stream("items", "/items"), conditional)
    server.answers_by(lambda request: Reply({"data": [{"id": 1}]}))
    result = run(path, server, config={"api_key": key})
    schemas = [line["stream"] for line in result.lines if line["type"] == "SCHEMA"]
    assert schemas == names


def test_lint_checks_the_streams_and_rules_that_depend_on_the_config(tmp_path: Path) -> None:
    problems: dict[str, Any] = {}
    broken = CONDITIONAL + indent(stream("more", "/more", "htp_method: GET"), "    ")
    problems["streams"] = lint_manifest(manifest(tmp_path, stream("items", "/i"), broken)).problems
    rules = RULES.replace("map:", "mapp:")
    problems["rules"] = lint_manifest(with_rules(tmp_path, rules)).problems
    assert [
        (name, problem.path)
        for name, found_problems in problems.items()
        for problem in found_problems
        if problem.is_error and "option" in problem.message
    ] == [
        ("streams", "streams[1].streams[0].retriever.requester.htp_method"),
        ("rules", "spec.config_normalization_rules.transformations[0].mapp"),
    ]
    messages = [problem.message for problem in lint_manifest(with_rules(tmp_path, RULES)).problems]
    assert not any("'derived'" in message for message in messages)
    assert any("'region'" in message for message in messages)
