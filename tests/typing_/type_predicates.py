"""Results of the type predicates, with tap_core and with singer_sdk.

Run as a script it uses the package named in its first argument and prints the answers.
It must run without anything of this project.
"""

from __future__ import annotations

import datetime as dt
import importlib
import itertools
import json
import sys
import uuid
from typing import Any

PREDICATES = """
is_object_type is_uniform_list is_datetime_type is_date_or_datetime_type
get_datelike_property_type is_string_array_type is_array_type is_boolean_type
is_integer_type is_string_type is_null_type is_number_type is_secret_type
""".split()  # noqa: SIM905 - a list of names reads best as words

ZONES = [None, dt.timezone.utc, dt.timezone(dt.timedelta(hours=-5))]


def schemas() -> list[dict[str, Any]]:
    """Return plain, combined and unusual schemas."""
    names = ["string", "integer", "number", "boolean", "object", "array", "null"]
    kinds: list[Any] = [*names, *([name] for name in names), *([name, "null"] for name in names)]
    kinds += [list(pair) for pair in itertools.combinations(names, 3)]
    plain: list[dict[str, Any]] = [{"type": kind} for kind in kinds]
    plain += [
        {"type": kind, "format": format_}
        for kind in ("string", ["null", "string"], "integer")
        for format_ in ("date-time", "date", "time", "uuid")
    ]
    item = {"type": ["string", "null"]}
    plain += [
        {"type": "array", "items": item},
        {"type": ["array", "null"], "items": {"type": "integer"}},
        {"type": "array", "items": [item, item]},
        {"type": "array", "items": item, "prefixItems": [item]},
        {"type": "object", "properties": {"a": {"type": "string", "secret": True}}},
        {"type": "object", "properties": {"a": {"type": "string", "writeOnly": True}}},
        {"type": "string", "secret": True},
        {"type": "string", "secret": False, "writeOnly": False},
    ]
    combined = [
        {keyword: [first, second]}
        for keyword in ("anyOf", "allOf", "oneOf")
        for first, second in itertools.product(plain[::4], plain[::5])
    ]
    unusual: list[dict[str, Any]] = [
        {},
        {"const": 1},
        {"enum": ["a"]},
        {"type": []},
        {"anyOf": []},
        {"allOf": []},
        {"oneOf": []},
        {"anyOf": ["object", "null"]},
        {"anyOf": [{"anyOf": [{"type": "string", "format": "date-time"}]}, {"type": "null"}]},
        {"type": "string", "anyOf": [{"type": "object"}]},
        {"type": "array"},
        {"format": "date-time"},
        {"properties": {"a": {"type": "string"}}},
    ]
    return [*plain, *combined, *unusual]


def values() -> list[Any]:
    """Return Python values to convert to JSON values."""
    instants = [
        dt.datetime(2021, 2, 3, 4, 5, 6, microsecond, zone)
        for microsecond in (0, 7, 123456)
        for zone in ZONES
    ]
    return [*instants, uuid.UUID(int=7), 1, 1.5, None, "x", [1], {"a": None}]


def answers(package: str) -> dict[str, Any]:
    """Return the result or error of every predicate for every schema."""
    helpers = importlib.import_module(f"{package}.helpers._typing")
    results: dict[str, Any] = {}
    for name, (number, schema) in itertools.product(PREDICATES, enumerate(schemas())):
        question = getattr(helpers, name)
        try:
            answer = question(schema)
        except Exception as ex:  # noqa: BLE001 - the tests compare the errors
            # tap_core's subclasses of ValueError count as ValueError.
            kinds = [kind.__name__ for kind in type(ex).__mro__]
            answer = "ValueError" if "StreamSetupError" in kinds else kinds[0]
        results[f"{name} {number} {json.dumps(schema)}"] = answer
    results["to_json_compatible"] = [helpers.to_json_compatible(value) for value in values()]
    for number, schema in enumerate(schemas()):
        if "null" not in schema.get("anyOf", ()):  # singer_sdk wraps such a list in another list
            results[f"append_type {number}"] = helpers.append_type(schema, "null")
    return dict(json.loads(json.dumps(results)))


if __name__ == "__main__":
    print(json.dumps(answers(sys.argv[1])))
