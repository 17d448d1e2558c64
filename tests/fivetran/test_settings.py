"""The answers of a configuration form as settings: every setting round-trips."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tap_core import typing as th
from tap_core.config.validation import validate_config
from tap_core.exceptions import ConfigurationError
from tap_core.filesystem.config import BASE_CONFIG_SCHEMA
from tap_core.protocols.fivetran.configuration import parse_configuration
from tap_core.protocols.fivetran.form_fields import (
    FieldKind,
    FieldSpec,
    build_fields,
    iterate_names,
)
from tap_core.singerlib.json import dump_json
from tests.fivetran.settings_schemas import SchemaAndValue, settings_and_schemas


def value_at(config: Any, path: Iterable[str]) -> Any:
    for name in path:
        if not isinstance(config, Mapping) or name not in config:
            return None
        config = config[name]
    return config


def to_text(value: Any) -> str:
    return value if isinstance(value, str) else dump_json(value)


def answer_questions(questions: Iterable[FieldSpec], config: Mapping[str, Any]) -> dict[str, str]:
    """Answer the questions of a form with these settings, as a user would."""
    answers: dict[str, str] = {}
    for question in questions:
        value = value_at(config, question.path)
        if value is None:
            continue
        answer = to_text(value) if question.is_setting else find_option(question, value)
        answers[question.name] = answer
        for below in question.dependents:
            is_met = answer != "" if below.answer is None else to_text(below.answer) == answer
            if is_met:
                answers.update(answer_questions(below.fields, config))
    return answers


def find_option(question: FieldSpec, value: Mapping[str, Any]) -> str:
    """Return the option of a union whose questions match the value."""
    mark = next(name for name in value if name.startswith("only_"))
    [option] = [
        below.answer
        for below in question.dependents
        if any(field.path[-1] == mark for field in below.fields)
    ]
    return str(option)


def default_answers(questions: Iterable[FieldSpec]) -> dict[str, str]:
    """Return what an unchanged form sends: defaults, toggles that are off, and empty fields."""
    answers = dict.fromkeys(iterate_names(questions), "")
    for question in questions:
        if question.kind is FieldKind.TOGGLE:
            answers[question.name] = "false"
        if "default" in question.schema and question.kind is not FieldKind.PASSWORD:
            answers[question.name] = to_text(question.schema["default"])
        for below in question.dependents:
            answers.update(default_answers(below.fields))
    return answers


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(settings_and_schemas())
def test_settings_round_trip_through_the_form(schema_and_config: SchemaAndValue) -> None:
    """F6: every setting that a connector needs can be entered in the form, with every type.

    Defaults, toggles that are off and empty fields do not make the settings invalid.
    """
    schema, config = schema_and_config
    assert validate_config(config, schema) == []
    questions = build_fields(schema)
    names = list(iterate_names(questions))
    assert len(names) == len(set(names))
    answers = answer_questions(questions, config)
    assert parse_configuration(answers, schema) == config
    assert (
        validate_config(
            parse_configuration({**default_answers(questions), **answers}, schema), schema
        )
        == []
    )


SCHEMA = {
    "type": "object",
    "properties": {
        "count": {"type": ["integer", "null"]},
        "rate": {"type": "number"},
        "full": {"type": "boolean"},
        "since": {"type": "string", "format": "date-time"},
        "names": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "either": {"type": ["array", "string"], "items": {"type": "string"}},
        "extra": {"type": "object", "additionalProperties": True},
        "level": {"enum": [1, 2, None]},
        "login": {
            "type": "object",
            "properties": {"user": {"type": "string"}, "age": {"type": "integer"}},
        },
    },
}


@pytest.mark.parametrize(
    "name, text, value",
    [
        ("count", "7", 7),
        ("count", "seven", "seven"),
        ("rate", "0.10", Decimal("0.10")),
        ("full", "TRUE", True),
        ("full", "False", False),
        ("full", "perhaps", "perhaps"),
        ("since", "2024-01-31", "2024-01-31"),
        ("names", '["a, b"]', ["a, b"]),
        ("names", "a, b\n c,", ["a", "b", "c"]),
        ("names", "[a", ["[a"]),
        ("numbers", "[1, 2]", [1, 2]),
        ("numbers", "1, 2", "1, 2"),
        ("either", "a,b", "a,b"),
        ("either", '["a"]', ["a"]),
        ("extra", '{"a": 1.50}', {"a": Decimal("1.50")}),
        ("extra", "{", "{"),
        ("extra", '{"a":' * 100_000, '{"a":' * 100_000),
        ("level", "2", 2),
        ("level", "3", "3"),
        ("unknown", "1", "1"),
        ("unknown.inner", "1", "1"),
    ],
)
def test_text_is_converted_to_the_type_of_its_setting(name: str, text: str, value: Any) -> None:
    """An invalid value is kept, so that the validation of the settings reports it."""
    assert parse_configuration({name: text}, SCHEMA) == {name: value}


def test_configuration_of_more_than_a_megabyte_is_refused() -> None:
    """SEC2, SEC13: every log line is searched for each line of a secret."""
    lines = "\n".join(map("{:016x}".format, range(1 << 16)))
    with pytest.raises(ConfigurationError, match="1,048,576 characters"):
        parse_configuration({"note": lines}, SCHEMA)


def test_empty_answer_of_an_optional_setting_is_dropped() -> None:
    """A form sends all of its fields, also empty ones."""
    assert parse_configuration(dict.fromkeys(SCHEMA["properties"], ""), SCHEMA) == {}
    required = {"properties": {"note": {"type": "string"}}, "required": ["note"]}
    assert parse_configuration({"note": ""}, required) == {"note": ""}


def test_object_may_be_given_by_fields_as_json_or_both() -> None:
    """The fields take precedence over the JSON of the object."""
    as_fields = {"login.user": "me", "login.age": "7"}
    as_json = {"login": '{"user": "you", "more": [1]}'}
    assert parse_configuration(as_fields, SCHEMA) == {"login": {"user": "me", "age": 7}}
    assert parse_configuration(as_json, SCHEMA) == {"login": {"user": "you", "more": [1]}}
    both = {**as_json, **as_fields}
    assert parse_configuration(both, SCHEMA) == {"login": {"user": "me", "age": 7, "more": [1]}}
    assert parse_configuration({**as_fields, "login": "me"}, SCHEMA) == {"login": "me"}


def test_settings_outside_the_form_are_converted_too() -> None:
    """Built-in and hidden settings may be in a configuration that was not made with the form."""
    schema = {"properties": {"debug": {"type": "integer", "airbyte_hidden": True}}}
    assert parse_configuration({"debug": "3"}, schema) == {"debug": 3}
    assert parse_configuration(
        {"stream_maps": '{"a": null}'}, {"properties": {"stream_maps": {"type": "object"}}}
    ) == {"stream_maps": {"a": None}}


def test_uploaded_text_file_is_decoded() -> None:
    """Fivetran sends uploads as base64; a binary file stays encoded."""
    schema = {"properties": {"ca_certificate": {"type": "string"}}}
    pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    sent = base64.b64encode(pem.encode()).decode()
    assert parse_configuration({"ca_certificate": sent}, schema) == {"ca_certificate": pem}
    assert parse_configuration({"ca_certificate": pem}, schema) == {"ca_certificate": pem}
    binary = base64.b64encode(b"\xff\xfe\x00").decode()
    assert parse_configuration({"ca_certificate": binary}, schema) == {"ca_certificate": binary}
    schema["properties"]["ca_certificate"]["contentEncoding"] = "base64"
    assert parse_configuration({"ca_certificate": sent}, schema) == {"ca_certificate": sent}


UNION = th.PropertiesList(
    th.Property(
        "login",
        th.DiscriminatedUnion(
            "way",
            oauth=th.ObjectType(
                th.Property("client", th.StringType, required=True),
                th.Property("secret", th.StringType, required=True),
            ),
            token=th.ObjectType(
                th.Property("client", th.IntegerType),
                th.Property("token", th.StringType, required=True),
            ),
        ),
        required=True,
    )
).to_dict()


def test_only_the_chosen_branch_of_a_union_is_used() -> None:
    """Answers of another branch, which is now hidden, are dropped."""
    stale = {"login.oauth.client": "old", "login.oauth.secret": "old"}
    chosen_now = {"login.way": "token", "login.token.client": "5", "login.token.token": "t"}
    result = {"login": {"way": "token", "client": 5, "token": "t"}}
    assert parse_configuration({**stale, **chosen_now}, UNION) == result
    by_hand = {"login.way": "token", "login.client": "5", "login.token.token": "t"}
    assert parse_configuration(by_hand, UNION) == result
    unknown = parse_configuration({"login.way": "magic", "login.token.token": "t"}, UNION)
    assert unknown == {"login": {"way": "magic"}}


def test_object_with_only_default_answers_is_absent() -> None:
    """Defaults shown in the form do not configure an FTP server without a host."""
    defaults = {"ftp.port": "21", "ftp.encoding": "utf-8", "sftp.ssh_kwargs.timeout": "60"}
    assert parse_configuration({"path": "x", **defaults}, BASE_CONFIG_SCHEMA) == {"path": "x"}
    with_host = parse_configuration({"path": "x", "ftp.host": "h", **defaults}, BASE_CONFIG_SCHEMA)
    assert with_host["ftp"] == {"host": "h", "port": 21, "encoding": "utf-8"}


def test_union_without_a_discriminator_is_chosen_by_title_or_given_as_json() -> None:
    """The chosen title is not itself a setting."""
    kinds = [{"title": "Name", "properties": {"name": {}}}, {"properties": {"id": {}, "on": {}}}]
    schema = {"properties": {"user": {"oneOf": kinds}}}
    stale = {"user.name": "me", "user.id": "7"}
    assert parse_configuration({"user": "Option 2", **stale}, schema) == {"user": {"id": "7"}}
    assert parse_configuration({"user": "Name", **stale}, schema) == {"user": {"name": "me"}}
    assert parse_configuration({"user": '{"id": 7}'}, schema) == {"user": {"id": 7}}
    assert parse_configuration({"user": "who"}, schema) == {"user": "who"}


def test_hidden_field_is_used_only_if_it_was_changed() -> None:
    """A default of a hidden field is dropped; a value that the user typed is kept."""
    rule = {"if": {"properties": {"on": {"const": True}}}, "then": {"required": ["port", "full"]}}
    port = {"type": "integer", "default": 21}
    properties = {"on": {"type": "boolean"}, "port": port, "full": {"type": "boolean"}}
    schema = {"properties": properties, "allOf": [{"allOf": [rule]}]}
    untouched = {"port": "21", "full": "false"}
    assert parse_configuration({"on": "false", **untouched}, schema) == {"on": False}
    assert parse_configuration({"on": "true", **untouched}, schema) == {
        "on": True,
        "port": 21,
        "full": False,
    }
    assert parse_configuration({"on": "false", "port": "22"}, schema) == {"on": False, "port": 22}
