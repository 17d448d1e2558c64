"""Schemas with references, resolved by tap_core and by the peer.

Run as a script it uses the package named in its first argument and prints the results. It must
not import anything else of this project.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]}
PERSON = {
    "type": "object",
    "properties": {"home": {"$ref": "#/definitions/address"}, "work": {"$ref": "#/$defs/a~1b"}},
}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/definitions/node"}}}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "none": ({"type": "object", "properties": {"a": {"type": "string"}}}, None),
    "in properties": (
        {
            "type": "object",
            "properties": {"p": {"$ref": "#/definitions/person"}, "q": {"type": "integer"}},
            "definitions": {"person": PERSON, "address": ADDRESS},
            "$defs": {"a/b": ADDRESS},
        },
        None,
    ),
    "at the root": ({"$ref": "#/definitions/address", "definitions": {"address": ADDRESS}}, None),
    "chained": (
        {
            "properties": {"p": {"$ref": "#/definitions/one"}},
            "definitions": {"one": {"$ref": "#/definitions/two"}, "two": {"type": "null"}},
        },
        None,
    ),
    "in every place": (
        {
            "items": {"$ref": "#/definitions/x"},
            "contains": {"$ref": "#/definitions/x"},
            "not": {"$ref": "#/definitions/x"},
            "if": {"$ref": "#/definitions/x"},
            "then": {"$ref": "#/definitions/x"},
            "else": {"$ref": "#/definitions/x"},
            "propertyNames": {"$ref": "#/definitions/x"},
            "anyOf": [{"$ref": "#/definitions/x"}, {"type": "null"}],
            "allOf": [{"$ref": "#/definitions/x"}],
            "oneOf": [{"type": "null"}, {"$ref": "#/definitions/x"}],
            "prefixItems": [{"$ref": "#/definitions/x"}],
            "patternProperties": {"^a": {"$ref": "#/definitions/x"}},
            "additionalProperties": {"$ref": "#/definitions/x"},
            "unevaluatedProperties": {"$ref": "#/definitions/x"},
            "unevaluatedItems": False,
            "definitions": {"x": {"type": "string", "enum": ["a"]}},
        },
        None,
    ),
    "beside keywords": (
        {
            "properties": {
                "a": {"$ref": "#/definitions/x", "description": "mine", "title": "mine"},
            },
            "definitions": {"x": {"type": "string", "title": "theirs"}},
        },
        None,
    ),
    "shared": (
        {
            "properties": {"a": {"$ref": "#/definitions/p"}, "b": {"$ref": "#/definitions/p"}},
            "definitions": {"p": PERSON, "address": ADDRESS},
            "$defs": {"a/b": {"type": "null"}},
        },
        None,
    ),
    "other documents": (
        {"properties": {"a": {"$ref": "other"}, "b": {"$ref": "other#/properties/street"}}},
        {"other": ADDRESS},
    ),
    "circle": (
        {"properties": {"n": {"$ref": "#/definitions/node"}}, "definitions": {"node": NODE}},
        None,
    ),
    "circle to the root": ({"type": "object", "properties": {"n": {"$ref": "#"}}}, None),
    "circle of references": (
        {
            "properties": {"n": {"$ref": "#/definitions/n"}},
            "definitions": {"n": {"$ref": "#/definitions/n"}},
        },
        None,
    ),
    "nowhere": ({"properties": {"a": {"$ref": "#/definitions/x"}}}, None),
    "unknown document": ({"properties": {"a": {"$ref": "other"}}}, None),
}


def outcomes(package: str) -> dict[str, Any]:
    """Return the resolved schema of every case without its ``definitions``, or its error."""
    resolve = importlib.import_module(f"{package}.singerlib").resolve_schema_references
    outcomes_by_case: dict[str, Any] = {}
    for name, case in CASES.items():
        schema, refs = json.loads(json.dumps(case))
        try:
            result = resolve(schema, refs)
        except Exception as ex:  # noqa: BLE001 - that there is an error is compared
            outcomes_by_case[name] = f"an error: {bool(ex.args or str(ex))}"
        else:
            assert result is schema
            outcomes_by_case[name] = {
                k: v for k, v in result.items() if k not in {"definitions", "$defs"}
            }
    return outcomes_by_case


if __name__ == "__main__":
    print(json.dumps(outcomes(sys.argv[1])))
