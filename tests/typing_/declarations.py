"""Declarations of types, evaluated with tap_core and with singer_sdk.

Run as a script it imports the module named in its first argument as ``th`` and prints
the result of each declaration. It must not import other modules of this project.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

PLAIN = [
    "DateTimeType",
    "TimeType",
    "DateType",
    "DurationType",
    "EmailType",
    "IDNEmailType",
    "HostnameType",
    "IDNHostnameType",
    "IPv4Type",
    "IPv6Type",
    "UUIDType",
    "URIType",
    "IRIType",
    "URIReferenceType",
    "IRIReferenceType",
    "URITemplateType",
    "JSONPointerType",
    "RelativeJSONPointerType",
    "RegexType",
    "SingerDecimalType",
    "StringType",
    "BooleanType",
    "IntegerType",
    "DecimalType",
    "NumberType",
    "AnyType",
]
"""Types whose class can be used in place of an instance."""


def declarations(th: Any) -> dict[str, Callable[[], Any]]:
    """Return name to a function that evaluates the declaration."""
    return {
        **make_plain_types(th),
        **_bounded(th),
        **_properties(th),
        **_structures(th),
        **_mistakes(th),
        **make_sql_types(th),
    }


def make_plain_types(th: Any) -> dict[str, Callable[[], Any]]:
    cases: dict[str, Callable[[], Any]] = {}
    for name in PLAIN:
        kind = getattr(th, name)
        cases |= {
            f"{name} class": lambda kind=kind: kind.type_dict,
            f"{name} object": lambda kind=kind: kind().to_dict(),
            f"{name} nullable": lambda kind=kind: kind(nullable=True).to_dict(),
            f"{name} enum": lambda kind=kind: kind(allowed_values=[1, "x"]).to_dict(),
            f"{name} examples": lambda kind=kind: kind(examples=[None]).to_dict(),
            f"{name} json": lambda kind=kind: kind(examples=["x"]).to_json(indent=1),
            f"{name} required": lambda kind=kind: th.Property("p", kind, required=True).to_dict(),
            f"{name} optional": lambda kind=kind: th.Property("p", kind).to_dict(),
            f"{name} wrapped": lambda kind=kind: th.Property(
                "p", kind(nullable=True, allowed_values=["a"]), nullable=True
            ).to_dict(),
            f"{name} in list": lambda kind=kind: th.ArrayType(kind).to_dict(),
        }
    return cases


def _bounded(th: Any) -> dict[str, Callable[[], Any]]:
    text = {"min_length": 0, "max_length": 9, "pattern": ".*", "nullable": True}
    number = {
        "minimum": 0,
        "maximum": 1.5,
        "exclusive_minimum": -1,
        "exclusive_maximum": 2,
        "multiple_of": 0.5,
        "allowed_values": [1],
        "examples": [1.5],
        "nullable": True,
    }
    return {
        "bounded text": lambda: th.StringType(**text).to_json(),
        "bounded date": lambda: th.DateType(**text, allowed_values=["x"]).to_json(),
        "bounded integer": lambda: th.IntegerType(**number).to_json(),
        "bounded number": lambda: th.NumberType(**number).to_json(),
        "constant": lambda: th.Constant({"a": [1]}).to_dict(),
        "constant null": lambda: th.Constant(None).to_dict(),
        "null": lambda: th.NullType().to_dict(),
        "custom": lambda: th.CustomType({"type": "string", "x-y": 1}).to_dict(),
        "extras": lambda: th.StringType(allowed_values=["a"], examples=["b"]).extras,
        "no extras": lambda: th.BooleanType(allowed_values=[]).extras,
    }


def _properties(th: Any) -> dict[str, Callable[[], Any]]:
    keywords: dict[str, dict[str, Any]] = {
        "default": {"default": "x"},
        "falsy default": {"default": False},
        "description": {"description": "what it is"},
        "empty description": {"description": ""},
        "secret": {"secret": True},
        "no secret": {"secret": None},
        "enum": {"allowed_values": ["a", "b"]},
        "empty enum": {"allowed_values": []},
        "examples": {"examples": ["a"]},
        "nullable": {"required": True, "nullable": True},
        "not nullable": {"nullable": False},
        "title": {"title": "A title"},
        "empty title": {"title": ""},
        "deprecated": {"deprecated": True},
        "not deprecated": {"deprecated": False},
        "further": {"minLength": 3, "description": "d", "x-more": {"a": 1}},
        "further wins": {"title": "t", "required": True, "type": "mine"},
        "all": {
            "required": True,
            "default": "d",
            "description": "text",
            "secret": True,
            "allowed_values": ["d"],
            "examples": ["d"],
            "nullable": True,
            "title": "t",
            "deprecated": True,
            "requires_properties": ["q"],
        },
    }
    kinds: dict[str, Callable[[], Any]] = {
        "text": lambda: th.StringType,
        "own enum": lambda: th.StringType(allowed_values=["z"], examples=["y"]),
        "custom": lambda: th.CustomType({"type": ["integer", "null"], "title": "own", "enum": [1]}),
        "any": lambda: th.AnyType,
        "constant": lambda: th.Constant(1),
        "any of": lambda: th.AnyOf(th.StringType, th.NullType()),
        "one of": lambda: th.OneOf(th.StringType, th.IntegerType),
        "all of": lambda: th.AllOf(th.ObjectType(), th.ObjectType()),
        "list": lambda: th.ArrayType(th.IntegerType),
        "object": lambda: th.ObjectType(th.Property("x", th.StringType)),
    }
    cases: dict[str, Callable[[], Any]] = {}
    for kind_name, kind in kinds.items():
        for name, values in keywords.items():
            cases[f"property {kind_name} {name}"] = lambda kind=kind, values=values: th.Property(
                "p", kind(), **values
            ).to_json()
    positional = ("p", th.StringType, True, "d", "text", True, ["d"], ["e"])
    cases["positional"] = lambda: th.Property(*positional).to_json()
    return cases


def _structures(th: Any) -> dict[str, Callable[[], Any]]:
    person = th.ObjectType(
        th.Property("id", th.IntegerType, required=True),
        th.Property("name", th.StringType, requires_properties=["id"]),
        th.Property("id", th.StringType),
    )
    required = th.Property("r", th.DateTimeType, required=True)
    properties_list = th.PropertiesList(required, th.Property("o", person, title="An o"))
    appended = th.PropertiesList(required)
    appended.append(th.Property("more", th.ArrayType(person)))
    appended.append(th.Property("r", th.BooleanType))
    return {
        "list class": lambda: th.ArrayType(th.ArrayType(th.StringType)).to_json(),
        "list nullable": lambda: th.ArrayType(
            th.StringType(nullable=True), nullable=True, allowed_values=[[1]], examples=[[]]
        ).to_json(),
        "object": person.to_json,
        "object empty": th.ObjectType().to_json,
        "object nullable": th.ObjectType(nullable=True, examples=[{}]).to_json,
        "object closed": th.ObjectType(required, additional_properties=False).to_json,
        "object silent": th.ObjectType(required, additional_properties=None).to_json,
        "object typed": th.ObjectType(additional_properties=th.StringType).to_json,
        "object typed object": th.ObjectType(
            additional_properties=th.ObjectType(required), nullable=True
        ).to_json,
        "object patterns": th.ObjectType(
            pattern_properties={"^a": th.StringType, "^b": th.NullType()}
        ).to_json,
        "object no patterns": th.ObjectType(pattern_properties={}).to_json,
        "any of": th.AnyOf(th.StringType, person).to_json,
        "one of": th.OneOf(th.StringType, th.AllOf(person, th.ObjectType())).to_json,
        "all of none": th.AllOf().to_json,
        "union": th.DiscriminatedUnion(
            "kind",
            cat=person,
            dog=th.ObjectType(additional_properties=False, pattern_properties={"x": th.StringType}),
        ).to_json,
        "properties": properties_list.to_json,
        "properties empty": th.PropertiesList().to_json,
        "properties open": th.PropertiesList(additional_properties=True).to_json,
        "properties closed": th.PropertiesList(additional_properties=False).to_json,
        "properties appended": appended.to_json,
        "properties nullable": th.PropertiesList(required, nullable=True).to_json,
        "properties iterated": lambda: [item.name for item in appended],
        "properties items": lambda: [(name, item.optional) for name, item in appended.items()],
        "append to object": lambda: th.append_type({"type": "string"}, "null"),
        "append again": lambda: th.append_type({"type": ["null"], "a": 1}, "null"),
        "append same": lambda: th.append_type({"type": "null"}, "null"),
        "append to any": lambda: th.append_type({"anyOf": [{"type": "string"}]}, "null"),
        "append to single any": lambda: th.append_type({"anyOf": "string"}, "null"),
        "append to one": lambda: th.append_type({"oneOf": []}, "null"),
        "append to nothing": lambda: th.append_type({"const": 1}, "null"),
    }


def _mistakes(th: Any) -> dict[str, Callable[[], Any]]:
    class Unfinished(th.JSONTypeHelper):
        """A type without a `type_dict`."""

    return {
        "bare object": lambda: th.Property("p", th.ObjectType).to_dict(),
        "bare list": lambda: th.Property("p", th.ArrayType).to_dict(),
        "bare custom": lambda: th.Property("p", th.CustomType).to_dict(),
        "unfinished": lambda: Unfinished().to_dict(),
        "unknown keyword": lambda: th.StringType(maximum=1),
        "list of nothing": th.ArrayType,
    }


def make_sql_types(th: Any) -> dict[str, Callable[[], Any]]:
    names = """TIMESTAMP timestamp_ntz DATETIME2 date INT BIGINT integer number DECIMAL
    numeric double FLOAT8 STRING text VARCHAR(10) nchar BOOLEAN bool variant json blob"""
    return {
        f"from sql {name}": lambda name=name: th.to_jsonschema_type(name) for name in names.split()
    }


def outcome(evaluate: Callable[[], Any]) -> Any:
    """Return the result of a declaration, or the class name of its error."""
    try:
        return evaluate()
    except Exception as ex:  # noqa: BLE001 - the tests compare the errors
        return {"error": type(ex).__name__}


def outcomes(th: Any) -> dict[str, Any]:
    """Return the results of all declarations as JSON values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        results = {name: outcome(declaration) for name, declaration in declarations(th).items()}
    return dict(json.loads(json.dumps(results)))


def correct_alternatives(value: Any) -> Any:
    """Return a result of singer_sdk with only one schema for null in each ``anyOf`` and ``oneOf``.

    singer_sdk adds one to ``oneOf`` and the text "null" to ``anyOf``, also if another schema allows
    null. ``value`` is a JSON value or text.
    """
    if isinstance(value, str):
        is_combined = '"anyOf"' in value or '"oneOf"' in value
        return json.dumps(correct_alternatives(json.loads(value))) if is_combined else value
    if isinstance(value, list):
        return [correct_alternatives(item) for item in value]
    if not isinstance(value, dict):
        return value
    corrected = {name: correct_alternatives(item) for name, item in value.items()}
    for keyword, added in (("anyOf", "null"), ("oneOf", {"type": "null"})):
        options = corrected.get(keyword)
        if isinstance(options, list) and options[-1:] == [added]:
            types = [item.get("type", ()) for item in options[:-1] if isinstance(item, dict)]
            is_known = any("null" in item for item in types)
            corrected[keyword] = [*options[:-1], *([] if is_known else [{"type": "null"}])]
    return corrected


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    print(json.dumps({"names": dir(module), "outcomes": outcomes(module)}))
