"""The vocabulary of types: what is said without a peer at hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tap_core import typing as th
from tests.typing_.declarations import outcomes


def test_a_schema_as_authors_write_it():
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("at", th.DateTimeType, description="When"),
        th.Property("key", th.StringType, secret=True, requires_properties=["id"]),
        th.Property("tags", th.ArrayType(th.StringType)),
    )
    assert schema.to_dict() == {
        "type": "object",
        "properties": {
            "id": {"type": ["integer"]},
            "at": {"type": ["string", "null"], "format": "date-time", "description": "When"},
            "key": {"type": ["string", "null"], "secret": True, "writeOnly": True},
            "tags": {"type": ["array", "null"], "items": {"type": ["string"]}},
        },
        "required": ["id"],
        "dependentRequired": {"key": ["id"]},
        "$schema": "https://json-schema.org/draft/2020-12/schema",
    }


def test_null_comes_last_and_enum_does_not_gain_it():
    declared = th.Property("p", th.StringType, allowed_values=["a"]).to_dict()
    assert declared == {"p": {"type": ["string", "null"], "enum": ["a"]}}


def test_a_class_and_its_object_describe_the_same():
    assert th.DateType.type_dict == th.DateType().type_dict


def test_each_description_is_a_new_dictionary():
    kind = th.StringType(max_length=3)
    kind.type_dict["maxLength"] = 4
    assert kind.type_dict["maxLength"] == 3


def test_a_type_that_properties_share_is_never_changed():
    own = {"type": "string"}
    kind = th.CustomType(own)
    first = th.Property("a", kind, required=True, description="first", secret=True)
    second = th.Property("b", kind, required=True)
    assert first.to_dict()["a"]["description"] == "first"
    assert second.to_dict() == {"b": {"type": "string"}}
    assert own == {"type": "string"}


def test_a_bare_class_that_needs_content_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"ObjectType\(\.\.\.\)"):
        th.Property("p", th.ObjectType).to_dict()


def test_a_type_of_ones_own_may_be_written_either_way():
    class Money(th.JSONTypeHelper[str]):
        @th.DefaultInstanceProperty
        def type_dict(self):
            return {"type": "string", "x-money": True}

    class Amount(Money):
        @property
        def type_dict(self):
            return {"type": "number"}

    assert th.Property("m", Money, required=True).to_dict()["m"]["x-money"] is True
    assert th.ArrayType(Amount()).type_dict["items"] == {"type": "number"}


def test_what_goes_wrong_is_told_by_the_type_of_the_error():
    found = outcomes(th)
    errors = {name: value["error"] for name, value in found.items() if "error" in value}
    assert errors == {
        "bare object": "ValueError",
        "bare list": "ValueError",
        "bare custom": "ValueError",
        "unfinished": "NotImplementedError",
        "unknown keyword": "TypeError",
        "list of nothing": "TypeError",
    }


def test_every_name_that_is_listed_is_there():
    assert [name for name in th.__all__ if not hasattr(th, name)] == []


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_type"):
        _ = th.no_such_type


def test_the_vocabulary_is_light_to_import():
    heavy = {"jsonschema", "pendulum", "sqlalchemy", "requests", "typer", "referencing"}
    script = f"import sys, tap_core.typing; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
