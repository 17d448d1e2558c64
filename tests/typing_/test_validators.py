"""The validator that fills in defaults."""

from __future__ import annotations

from jsonschema.validators import Draft202012Validator

from tap_core import typing as th


def test_default_validator_is_draft_2020_12():
    kind = th.DEFAULT_JSONSCHEMA_VALIDATOR
    assert kind.META_SCHEMA == Draft202012Validator.META_SCHEMA
    assert kind.VALIDATORS.keys() == Draft202012Validator.VALIDATORS.keys()


def test_defaults_are_filled_at_each_depth_and_values_kept():
    schema = th.PropertiesList(
        th.Property("a", th.IntegerType, default=1),
        th.Property("b", th.IntegerType, default=2),
        th.Property(
            "inner", th.ObjectType(th.Property("c", th.StringType, default="c")), default={}
        ),
        th.Property("none", th.StringType),
    ).to_dict()
    instance = {"b": 7}
    validator = th.extend_validator_with_defaults(th.DEFAULT_JSONSCHEMA_VALIDATOR)(schema)
    assert list(validator.iter_errors(instance)) == []
    assert instance == {"a": 1, "b": 7, "inner": {"c": "c"}}


def test_invalid_default_is_reported():
    schema = th.PropertiesList(th.Property("a", th.IntegerType, default="x")).to_dict()
    validator = th.extend_validator_with_defaults(th.DEFAULT_JSONSCHEMA_VALIDATOR)(schema)
    assert [list(error.path) for error in validator.iter_errors({})] == [["a"]]


def test_instance_that_is_not_an_object_is_a_validation_error():
    schema = th.PropertiesList(th.Property("a", th.IntegerType, default=1)).to_dict()
    validator = th.extend_validator_with_defaults(th.DEFAULT_JSONSCHEMA_VALIDATOR)(schema)
    assert [error.validator for error in validator.iter_errors([])] == ["type"]


def test_defaults_are_not_shared_between_instances():
    schema = th.PropertiesList(
        th.Property("list", th.ArrayType(th.StringType), default=[]),
    ).to_dict()
    validator = th.extend_validator_with_defaults(th.DEFAULT_JSONSCHEMA_VALIDATOR)(schema)
    first: dict[str, list[str]] = {}
    second: dict[str, list[str]] = {}
    validator.validate(first)
    first["list"].append("x")
    validator.validate(second)
    assert second == {"list": []}
