"""Settings from environment variables, which are parsed by the types of the schema."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tap_core.config.loading import parse_environment_config, read_environment
from tap_core.exceptions import ConfigValidationError

PREFIX = "TAP_X_"


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    """Run the test in an empty folder, where no `.env` file is found."""
    monkeypatch.chdir(tmp_path)


def read(monkeypatch, text: str, schema: dict, name: str = "setting"):
    monkeypatch.setenv(PREFIX + name.upper(), text)
    return read_environment({"properties": {name: schema}}, PREFIX)


@pytest.mark.parametrize(
    "schema, text, value",
    [
        ({"type": "string"}, "12", "12"),
        ({"type": ["string", "null"]}, "", ""),
        ({}, "1", "1"),
        ({"type": "integer"}, "12", 12),
        ({"type": ["integer", "null"]}, "-3", -3),
        ({"type": ["integer", "string"]}, "12", 12),
        ({"type": ["integer", "string"]}, "twelve", "twelve"),
        ({"type": "number"}, "1", 1),
        ({"type": "number"}, "0.10", Decimal("0.10")),
        ({"type": ["number", "string"]}, "1.50", "1.50"),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "YES", True),
        ({"type": "boolean"}, "on", True),
        ({"type": "boolean"}, "1", True),
        ({"type": "boolean"}, "0", False),
        ({"type": "boolean"}, "off", False),
        ({"type": "boolean"}, "", False),
        ({"type": "array", "items": {"type": "string"}}, '["a", "b,c"]', ["a", "b,c"]),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": "object"}, '{"a": {"b": 1}}', {"a": {"b": 1}}),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, "5", 5),
        ({"anyOf": [{"type": "object"}, {"type": "string"}]}, "plain", "plain"),
    ],
)
def test_variable_is_parsed_by_the_type_of_its_setting(monkeypatch, schema, text, value):
    variables = read(monkeypatch, text, schema)
    assert variables.faults == {}
    assert variables.values == {"setting": value}
    assert type(variables.values["setting"]) is type(value)


@pytest.mark.parametrize(
    "schema, text, needed",
    [
        ({"type": "integer"}, "1.5", "an integer"),
        ({"type": "integer"}, "", "an integer"),
        ({"type": "number"}, "many", "a number"),
        ({"type": "number"}, "NaN", "a number"),
        ({"type": "boolean"}, "maybe", "one of true, 1, yes, on, false, 0, no, off"),
        ({"type": "array", "items": {"type": "integer"}}, "1,2", "a JSON array"),
        ({"type": "array"}, '{"a": 1}', "a JSON array"),
        ({"type": "object"}, "[1]", "a JSON object"),
        ({"type": "object"}, "{a}", "a JSON object"),
        ({"type": ["integer", "boolean"]}, "x", "an integer or one of true"),
    ],
)
def test_invalid_value_error_names_the_variable(monkeypatch, schema, text, needed):
    variables = read(monkeypatch, text, schema)
    assert variables.values == {}
    assert variables.faults["setting"].startswith(
        f"setting: variable TAP_X_SETTING must be {needed}"
    )
    assert variables.faults["setting"].endswith(f"(it is {text!r})")


@pytest.mark.parametrize(
    "name, schema",
    [
        ("setting", {"type": "integer", "secret": True}),
        ("setting", {"type": "integer", "writeOnly": True}),
        ("client_secret", {"type": "integer"}),
        ("access_token", {"type": "integer"}),
        ("db_password", {"type": "integer"}),
        ("api_key", {"type": "object"}),
    ],
)
def test_invalid_secret_value_is_not_shown(monkeypatch, name, schema):
    variables = read(monkeypatch, "hunter2", schema, name)
    assert list(variables.faults) == [name]
    assert "hunter2" not in variables.faults[name]


def test_comma_separated_array_is_parsed_with_a_deprecation_warning(monkeypatch, caplog):
    schema = {"type": "array", "items": {"type": "string"}}
    assert read(monkeypatch, "a,b", schema).values == {"setting": ["a", "b"]}
    assert "Parsing array of the form 'x,y,z', which is deprecated" in caplog.text


def test_variable_name_ignores_dashes_and_case_of_the_setting(monkeypatch):
    monkeypatch.setenv("TAP_X_API_URL", "u")
    schema = {"properties": {"api-Url": {"type": "string"}}}
    assert read_environment(schema, PREFIX).values == {"api-Url": "u"}


def test_variable_with_a_second_underscore_is_ignored(monkeypatch):
    monkeypatch.setenv("TAP_X__SELECT", '["*.*"]')
    schema = {"properties": {"_select": {"type": "string"}, "-select": {"type": "string"}}}
    assert read_environment(schema, PREFIX).values == {}


def test_misspelled_variable_is_a_warning_with_the_similar_setting(monkeypatch, caplog):
    """Its value is not shown, because it may be a secret."""
    schema = {"properties": {name: {} for name in ("access_token", "log_level", "api-url", "user")}}
    for name in ("ACCES_TOKEN", "LOGLEVEL", "_USER", "API_URL", "API_URI", "REGION"):
        monkeypatch.setenv(f"TAP_X_{name}", "s3cret")
    monkeypatch.setenv("TAP_XACCESS_TOKEN", "s3cret")
    with caplog.at_level("WARNING"):
        assert read_environment(schema, PREFIX).values == {"api-url": "s3cret"}
    [warning] = [record.getMessage() for record in caplog.records]
    assert warning == (
        "Variable 'TAP_X_ACCES_TOKEN' is not a setting of this plugin. Did you mean"
        " 'TAP_X_ACCESS_TOKEN'?"
    )


def test_every_invalid_variable_is_reported(monkeypatch):
    monkeypatch.setenv("TAP_X_A", "x")
    monkeypatch.setenv("TAP_X_B", "y")
    monkeypatch.setenv("TAP_X_C", "3")
    schema = {"properties": {name: {"type": "integer"} for name in "abc"}}
    with pytest.raises(ConfigValidationError) as caught:
        parse_environment_config(schema, PREFIX)
    assert len(caught.value.errors) == 2
    monkeypatch.delenv("TAP_X_A")
    monkeypatch.delenv("TAP_X_B")
    assert parse_environment_config(schema, PREFIX) == {"c": 3}


def test_dotenv_file_adds_variables_that_are_not_set(tmp_path, monkeypatch):
    (tmp_path / ".env").write_text("TAP_X_A=from_file\nTAP_X_B='quoted # text'\n")
    monkeypatch.setenv("TAP_X_A", "from_variable")
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    variables = read_environment(schema, PREFIX)
    assert variables.values == {"a": "from_variable", "b": "quoted # text"}


def test_dotenv_file_path_can_be_given(tmp_path):
    path = tmp_path / "named.env"
    path.write_text("TAP_X_A=7\n")
    schema = {"properties": {"a": {"type": "integer"}}}
    assert parse_environment_config(schema, PREFIX, path) == {"a": 7}
