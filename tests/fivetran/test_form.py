"""The configuration form that is built from a JSON Schema of settings."""

from __future__ import annotations

from typing import Any

import pytest

from tap_core import typing as th
from tap_core.capabilities import BATCH_CONFIG, STREAM_MAPS_CONFIG
from tap_core.config.loading import deep_copy_config, merge_missing_config_jsonschema
from tap_core.filesystem.config import BASE_CONFIG_SCHEMA
from tap_core.protocols.fivetran.configuration_form import build_form
from tap_core.protocols.fivetran.enums import TextField
from tap_core.protocols.fivetran.proto_messages import ConfigurationFormResponse
from tap_core.tap_base import Tap
from target_spark.config.settings import SCHEMA


def get_fields(properties: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    """Return the fields of a form by name, including those of groups."""
    form = build_form({"type": "object", "properties": properties, **keywords}, {})
    assert form == ConfigurationFormResponse.FromString(form.SerializeToString())
    return by_name(form.fields)


def by_name(fields: Any) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for field in fields:
        assert field.name not in result
        assert field.label
        assert field.WhichOneof("type")
        result[field.name] = field
        inner = by_name(field.conditional_fields.fields)
        assert result.keys().isdisjoint(inner)
        result.update(inner)
    return result


def field_kind(field: Any) -> str:
    """Return the kind of a field's input."""
    kind = str(field.WhichOneof("type"))
    return TextField(field.text_field).name if kind == "text_field" else kind


def condition(field: Any) -> tuple[str, Any]:
    tested = field.conditional_fields.condition
    kind = tested.WhichOneof("visible_when")
    return tested.condition_field, (kind, getattr(tested, kind))


def test_text_field_has_label_description_example_and_default() -> None:
    """F6: title, description, examples and default come from the schema."""
    fields = {
        "title": "Start",
        "description": "Since when.",
        "examples": ["2020"],
        "default": "2021",
    }
    field = get_fields({"start_date": {"type": "string", **fields}})["start_date"]
    assert (field.label, field.description) == ("Start", "Since when.")
    assert (field.placeholder, field.default_value) == ("2020", "2021")
    assert field_kind(field) == "PlainText"
    assert field.HasField("required")
    assert not field.required


@pytest.mark.parametrize(
    "name, label",
    [
        ("client_id", "Client ID"),
        ("accountIds", "Account IDs"),
        ("oauth_redirect_uri", "OAuth redirect URI"),
        ("s3-bucket", "S3 bucket"),
        ("größe", "Größe"),
        ("_", "_"),
    ],
)
def test_label_without_a_title_comes_from_the_name(name: str, label: str) -> None:
    assert get_fields({name: {"type": "string"}})[name].label == label


@pytest.mark.parametrize(
    "schema, kind",
    [
        ({"type": ["boolean", "null"]}, "toggle_field"),
        ({"type": "boolean", "enum": [True, False]}, "toggle_field"),
        ({"type": "integer"}, "PlainText"),
        ({"enum": ["a", "b", None]}, "dropdown_field"),
        ({"const": "a"}, "dropdown_field"),
        ({"allOf": [{"enum": ["a", "b"]}]}, "dropdown_field"),
        ({"enum": ["a", "b"], "enumNames": ["A", "B"]}, "descriptive_dropdown_fields"),
        ({"enum": ["a"], "x-enum-descriptions": {"a": "?"}}, "descriptive_dropdown_fields"),
        ({"oneOf": [{"const": 1, "title": "One"}, {"const": 2}]}, "descriptive_dropdown_fields"),
        ({"type": "string", "secret": True}, "Password"),
        ({"type": "string", "writeOnly": True}, "Password"),
        ({"type": "string", "airbyte_secret": True}, "Password"),
        ({"type": "string", "format": "password"}, "Password"),
        ({"type": "string", "contentMediaType": "application/x-pem-file"}, "upload_field"),
        ({"type": "string", "format": "file"}, "upload_field"),
        ({"type": "string", "secret": True, "format": "file"}, "upload_field"),
        ({"type": "array", "items": {"type": "string"}}, "PlainText"),
        ({}, "PlainText"),
    ],
)
def test_input_kind_follows_the_schema(schema: dict[str, Any], kind: str) -> None:
    """F6: enums are dropdowns, booleans toggles, secrets passwords, files uploads."""
    assert field_kind(get_fields({"setting": schema})["setting"]) == kind


@pytest.mark.parametrize(
    "name, kind",
    [
        ("api_key", "Password"),
        ("refresh_token", "Password"),
        ("user", "PlainText"),
        ("ca_certificate", "upload_field"),
        ("private_key_file", "upload_field"),
        ("certificate_path", "PlainText"),
    ],
)
def test_secrets_and_certificates_are_recognized_by_name(name: str, kind: str) -> None:
    """F6: a setting named like a secret is a password field even without a mark."""
    assert field_kind(get_fields({name: {"type": "string"}})[name]) == kind


def test_secret_has_no_default_and_secret_objects_have_password_fields() -> None:
    """F3: a form contains no credentials."""
    fields = get_fields(
        {
            "token": {"type": "string", "default": "abc"},
            "login": {
                "secret": True,
                "properties": {"user": {"type": "string"}, "age": {"properties": {"x": {}}}},
            },
        }
    )
    assert not fields["token"].HasField("default_value")
    assert {field_kind(fields[name]) for name in ("token", "login.user", "login.age.x")} == {
        "Password"
    }


def test_dropdown_has_text_values_with_descriptions() -> None:
    choices = [{"const": "f", "title": "Full", "description": "All."}, {"const": 2}]
    fields = get_fields({"mode": {"oneOf": choices, "default": 2}, "plain": {"enum": [1, True]}})
    offered = fields["mode"].descriptive_dropdown_fields.descriptive_dropdown_field
    assert [(option.value, option.label, option.description) for option in offered] == [
        ("f", "Full", "All."),
        ("2", "2", ""),
    ]
    assert fields["mode"].default_value == "2"
    assert list(fields["plain"].dropdown_field.dropdown_field) == ["1", "true"]


def test_required_fields_come_first_then_schema_order() -> None:
    """F6: a required setting with a default is still in the form and shows the default."""
    properties = {"a": {}, "b": {"default": 1}, "c": {}, "d": {"properties": {"e": {}, "f": {}}}}
    required = {"required": ["b", "d"]}
    properties["d"] |= {"required": ["f"]}
    fields = get_fields(properties, **required)
    assert list(fields) == ["b", "d.f", "a", "c", "d.e"]
    assert [name for name, field in fields.items() if field.required] == ["b", "d.f"]
    assert fields["b"].default_value == "1"


def test_order_keyword_of_the_schema_is_respected() -> None:
    fields = get_fields({"a": {"order": 2}, "b": {}, "c": {"order": 0}}, required=["b"])
    assert list(fields) == ["c", "a", "b"]


def test_object_has_a_field_for_each_property() -> None:
    """Field names are paths. No field of an optional object is required."""
    inner = {"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]}
    fields = get_fields({"server": {**inner, "title": "FTP"}, "spare": inner}, required=["server"])
    assert {name: (field.label, field.required) for name, field in fields.items()} == {
        "server.port": ("FTP: Port", True),
        "spare.port": ("Spare: Port", False),
    }


def test_description_explains_how_to_write_arrays_and_objects() -> None:
    fields = get_fields(
        {
            "ids": {"type": "array", "items": {"type": "string"}, "description": "Which."},
            "counts": {"type": "array", "items": {"type": "integer"}, "default": [1, 2]},
            "any": {"type": ["object", "null"], "examples": [{"a": 1}]},
            "since": {"type": "string", "format": "date"},
        }
    )
    assert fields["ids"].description.startswith("Which. Several values are separated by commas")
    assert fields["counts"].description == "Given as a JSON array."
    assert fields["counts"].default_value == "[1,2]"
    assert (fields["any"].description, fields["any"].placeholder) == (
        "Given as a JSON object.",
        '{"a":1}',
    )
    assert fields["since"].placeholder == "2024-01-31"


def test_hidden_settings_are_in_the_form_only_if_required() -> None:
    properties = {"a": {"airbyte_hidden": True}, "b": {"x-hidden": True}, "c": {"x-hidden": True}}
    assert list(get_fields(properties, required=["c"])) == ["c"]


def test_built_in_settings_of_the_sdk_are_not_in_the_form() -> None:
    """F6: a tap's own setting with the name of a built-in one is in the form."""
    schema: dict[str, Any] = {"properties": {"url": {}, "batch_config": {"type": "string"}}}
    extended = deep_copy_config(schema)
    for config in (BATCH_CONFIG, STREAM_MAPS_CONFIG):
        merge_missing_config_jsonschema(config, extended)
    assert "stream_maps" in extended["properties"]
    assert build_form(extended, {}) == build_form(schema, {})


# ------------------------------------------------------------------ fields that depend on others

LOGIN = {
    "title": "Login",
    "description": "How to log in.",
    "oneOf": [
        {
            "title": "OAuth",
            "description": "By a browser.",
            "properties": {"way": {"const": "oauth"}, "client": {}, "url": {"type": "string"}},
            "required": ["way", "client"],
        },
        {
            "properties": {"way": {"enum": ["token"]}, "key": {}, "url": {"type": "string"}},
            "required": ["way", "key"],
        },
        {"properties": {"way": {"const": "none"}, "url": {"type": "string"}}},
    ],
}


def test_union_of_objects_is_a_dropdown_with_conditional_fields() -> None:
    """F6: fields of a branch are shown when it is chosen; common fields appear once."""
    fields = get_fields({"login": {**LOGIN, "default": {"way": "token"}}}, required=["login"])
    assert list(fields) == [
        *("login.way", "login.way=oauth", "login.client"),
        *("login.way=token", "login.key", "login.url"),
    ]
    choice = fields["login.way"]
    assert choice.default_value == "token"
    assert (choice.label, choice.description, choice.required) == ("Login", "How to log in.", True)
    offered = choice.descriptive_dropdown_fields.descriptive_dropdown_field
    assert [(option.value, option.label) for option in offered] == [
        ("oauth", "OAuth"),
        ("token", "token"),
        ("none", "none"),
    ]
    assert condition(fields["login.way=oauth"]) == ("login.way", ("string_value", "oauth"))
    assert fields["login.client"].required
    assert not fields["login.url"].required


def test_fields_with_equal_names_are_qualified_by_their_branch() -> None:
    union = th.DiscriminatedUnion(
        "kind",
        a=th.ObjectType(th.Property("id", th.StringType)),
        b=th.ObjectType(th.Property("id", th.IntegerType)),
    )
    fields = get_fields(th.PropertiesList(th.Property("x", union)).to_dict()["properties"])
    assert [name for name in fields if name.endswith(".id")] == ["x.a.id", "x.b.id"]


def test_union_without_a_discriminator_is_chosen_by_title() -> None:
    kinds = [{"title": "By name", "properties": {"name": {}}}, {"properties": {"id": {}}}]
    fields = get_fields({"user": {"anyOf": kinds, "description": "Who."}})
    assert list(fields["user"].dropdown_field.dropdown_field) == ["By name", "Option 2"]
    assert condition(fields["user=Option 2"]) == ("user", ("string_value", "Option 2"))


def test_union_at_the_top_level_is_in_the_form() -> None:
    """With a discriminator its branches are conditional; otherwise all fields are optional."""
    kinds = [
        {"properties": {"mode": {"const": "file"}, "file": {}}, "required": ["file"]},
        {"properties": {"mode": {"const": "host"}, "host": {}}},
    ]
    properties = {"mode": {"enum": ["file", "host"], "title": "Where from", "default": "host"}}
    fields = get_fields(properties, oneOf=kinds, required=["mode"])
    assert list(fields) == ["mode", "mode=file", "file", "mode=host", "host"]
    assert (fields["mode"].label, fields["mode"].default_value) == ("Where from", "host")
    loose = [{"properties": {"file": {}}, "required": ["file"]}, {"properties": {"host": {}}}]
    assert list(get_fields({"a": {}}, anyOf=loose)) == ["a", "file", "host"]


def test_conditionally_required_fields_are_shown_under_their_condition() -> None:
    """F6: by ``if`` with one value, or by ``dependentRequired``."""
    properties = {
        "mode": {"enum": ["all", "some"]},
        "proxy": {"type": "boolean"},
        "user": {"type": "string"},
        "word": {"type": "string"},
        "ids": {},
    }
    rules = [
        {
            "if": {"properties": {"mode": {"const": "some"}}},
            "then": {"required": ["ids"]},
            "else": {"properties": {"limit": {"type": "integer"}}},
        },
        {
            "if": {"properties": {"proxy": {"const": True}}},
            "then": {"properties": {"proxy_url": {"type": "string"}}, "required": ["proxy_url"]},
        },
    ]
    fields = get_fields(
        properties, allOf=rules, required=["mode"], dependentRequired={"user": ["word"]}
    )
    assert list(fields) == [
        *("mode", "mode=some", "ids", "mode=all", "limit"),
        *("proxy", "proxy=true", "proxy_url", "user", "user=set", "word"),
    ]
    assert condition(fields["proxy=true"]) == ("proxy", ("bool_value", True))
    assert condition(fields["user=set"]) == ("user", ("empty_value", False))
    assert [fields[name].required for name in ("ids", "limit", "proxy_url", "word")] == [
        *(True, False, True, True)
    ]


@pytest.mark.parametrize(
    "keywords",
    [
        {"dependentRequired": {"a": ["b"], "b": ["a"]}},
        {"dependentRequired": {"a": ["c"], "b": ["c"]}},
        {"dependentRequired": {"object": ["c"], "gone": ["c"]}},
        {"if": {"properties": {"a": {"minLength": 3}}}, "then": {"required": ["c"]}},
        {"if": {"required": ["a"]}, "then": {"required": ["c"]}, "else": False},
        {"if": True, "then": {"properties": {"c": {}}}},
        {"dependencies": {"a": {"properties": {"c": {}}}}},
    ],
)
def test_unsupported_conditions_hide_no_field(keywords: dict[str, Any]) -> None:
    """Cyclic conditions and those on several answers: all fields are shown."""
    properties = {"a": {}, "b": {}, "c": {}, "object": {"properties": {"x": {}}}}
    fields = get_fields(properties, **keywords)
    assert {"a", "c", "object.x"} <= fields.keys()
    top = {field.name for field in build_form({"properties": properties, **keywords}, {}).fields}
    assert {"a", "c", "object.x"} <= top


def test_dependency_of_an_always_present_setting_is_required() -> None:
    properties = {"a": {"type": "boolean"}, "b": {}, "c": {"default": 1}, "d": {}}
    fields = get_fields(properties, dependentRequired={"a": ["b"], "c": ["d"]})
    assert [name for name, field in fields.items() if field.required] == ["b", "d"]


# ------------------------------------------------------------------ whole forms


def test_form_lists_connection_tests_and_selection_support() -> None:
    """F7: connection tests have a name and a label."""
    form = build_form({}, {"connection": "Reaching the source", "rows": "Reading"})
    assert [(connection_test.name, connection_test.label) for connection_test in form.tests] == [
        ("connection", "Reaching the source"),
        ("rows", "Reading"),
    ]
    assert form.schema_selection_supported
    assert form.table_selection_supported
    without_selection = build_form({}, {}, selects_tables=False)
    assert without_selection == ConfigurationFormResponse()
    assert Tap.connection_tests == {"connection": "Reaching the source"}


@pytest.mark.parametrize("schema", [BASE_CONFIG_SCHEMA, SCHEMA, {"$ref": "#/nowhere"}, {}])
def test_every_schema_has_a_form(schema: dict[str, Any]) -> None:
    """F6: names are unique, and each field has a label and a type."""
    by_name(build_form(schema, {}).fields)


def test_references_are_resolved() -> None:
    fields = get_fields(
        {"region": {"$ref": "#/$defs/region"}, "lost": {"$ref": "#/$defs/region"}},
        **{"$defs": {"region": {"title": "Region", "enum": ["eu", "us"]}}},
    )
    assert (fields["region"].label, field_kind(fields["region"])) == ("Region", "dropdown_field")
