"""`tap_core.typing`: declarations of types and properties."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tap_core import typing as th
from tests.typing_.declarations import outcomes


def test_properties_list_gives_a_json_schema():
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


def test_null_is_the_last_type_and_not_added_to_enum():
    declared = th.Property("p", th.StringType, allowed_values=["a"]).to_dict()
    assert declared == {"p": {"type": ["string", "null"], "enum": ["a"]}}


def test_type_dict_of_class_and_instance_are_equal():
    assert th.DateType.type_dict == th.DateType().type_dict


def test_type_dict_returns_a_new_dict_each_time():
    kind = th.StringType(max_length=3)
    kind.type_dict["maxLength"] = 4
    assert kind.type_dict["maxLength"] == 3


def test_type_shared_by_properties_is_not_changed():
    type_dict = {"type": "string"}
    kind = th.CustomType(type_dict)
    first = th.Property("a", kind, required=True, description="first", secret=True)
    second = th.Property("b", kind, required=True)
    assert first.to_dict()["a"]["description"] == "first"
    assert second.to_dict() == {"b": {"type": "string"}}
    assert type_dict == {"type": "string"}


def test_container_type_class_without_arguments_is_rejected_with_a_hint():
    with pytest.raises(ValueError, match=r"ObjectType\(\.\.\.\)"):
        th.Property("p", th.ObjectType).to_dict()


def test_custom_type_may_define_type_dict_for_class_or_instance():
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


def test_invalid_declarations_raise_the_expected_exceptions():
    results = outcomes(th)
    errors = {name: value["error"] for name, value in results.items() if "error" in value}
    assert errors == {
        "bare object": "ValueError",
        "bare list": "ValueError",
        "bare custom": "ValueError",
        "unfinished": "NotImplementedError",
        "unknown keyword": "TypeError",
        "list of nothing": "TypeError",
    }


def test_every_name_in_all_exists():
    assert [name for name in th.__all__ if not hasattr(th, name)] == []


def test_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="no_such_type"):
        _ = th.no_such_type


def test_typing_module_imports_no_heavy_packages():
    heavy = {"jsonschema", "pendulum", "sqlalchemy", "requests", "typer", "referencing"}
    script = f"import sys, tap_core.typing; print(sorted({heavy} & set(sys.modules)))"
    process = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert process.stdout.strip() == "[]"
