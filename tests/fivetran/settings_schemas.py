"""Hypothesis strategies for JSON Schemas of settings with valid settings.

Optional properties are sometimes missing. An object without values is present only if it is
required, because a form cannot express it.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

__all__ = ["SchemaAndValue", "settings_and_schemas"]

SchemaAndValue = tuple[dict[str, Any], Any]
"""A schema and a value that it allows."""

_NAMES = ["host", "port", "client_id", "client_secret", "start_date", "mode", "full", "ids"]
_TEXTS = st.sampled_from(
    [
        "a",
        "Ärger",
        "1",
        "1.0",
        "true",
        "null",
        "[1",
        "{}",
        "a,b",
        '"q"',
        "a\nb",
        "a\u2028b",
        "🙂",
        "-",
    ]
)


def _pair(
    schema: dict[str, Any], values: st.SearchStrategy[Any]
) -> st.SearchStrategy[SchemaAndValue]:
    return st.tuples(st.just(schema), values)


def _has_value(value: Any) -> bool:
    """Return True if a value contains anything but objects."""
    return not isinstance(value, dict) or any(map(_has_value, value.values()))


def _choices() -> st.SearchStrategy[SchemaAndValue]:
    values = st.lists(
        st.sampled_from(["a", "b c", "1", "true", 2, 30, True, 1.5]), min_size=1, max_size=4
    )
    distinct = values.map(
        lambda options: list({json.dumps(value).strip('"'): value for value in options}.values())
    )

    def shapes(options: list[Any]) -> st.SearchStrategy[SchemaAndValue]:
        branches = [{"const": value, "title": f"It is {value}"} for value in options]
        schemas: list[dict[str, Any]] = [
            {"enum": options},
            {"oneOf": [*branches, {"type": "null"}]},
        ]
        return st.tuples(st.sampled_from(schemas), st.sampled_from(options))

    return distinct.flatmap(shapes)


_LEAVES = st.one_of(
    _pair({"type": "string"}, _TEXTS),
    _pair({"type": ["string", "null"], "secret": True}, _TEXTS),
    _pair({"type": "string", "format": "date-time"}, st.just("2024-01-31T00:00:00Z")),
    _pair({"type": ["integer", "null"]}, st.integers()),
    _pair({"anyOf": [{"type": "integer"}, {"type": "null"}]}, st.integers()),
    _pair({"type": "number"}, st.integers() | st.decimals(-9, 9, places=3)),
    _pair({"type": "boolean"}, st.booleans()),
    _pair({"type": ["boolean", "null"], "default": True}, st.booleans()),
    _pair({"type": "array", "items": {"type": "string"}}, st.lists(_TEXTS)),
    _pair({"type": "array", "items": {"type": "integer"}}, st.lists(st.integers())),
    _pair({"type": "object"}, st.dictionaries(_TEXTS, st.integers(), min_size=1)),
    _pair({"allOf": [{"type": "string", "enum": ["x", "y"]}], "default": "x"}, st.just("y")),
    _choices(),
)


@st.composite
def _objects(
    draw: st.DrawFn, inner: st.SearchStrategy[SchemaAndValue], min_size: int = 0
) -> SchemaAndValue:
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=min_size, max_size=4, unique=True))
    properties: dict[str, Any] = {}
    value: dict[str, Any] = {}
    required = []
    for name in names:
        properties[name], property_value = draw(inner)
        is_required = draw(st.booleans())
        if is_required:
            required.append(name)
        if is_required or (_has_value(property_value) and draw(st.booleans())):
            value[name] = property_value
    schema = {"type": "object", "properties": properties, "required": required}
    return {**schema, "additionalProperties": False}, value


@st.composite
def _unions(draw: st.DrawFn, inner: st.SearchStrategy[SchemaAndValue]) -> SchemaAndValue:
    """Make an object of one of several branches, with or without a discriminator."""
    objects = draw(st.lists(_objects(inner), min_size=2, max_size=3))
    branches, values = [], []
    is_tagged = draw(st.booleans())
    for number, (schema, value) in enumerate(objects):
        if is_tagged:
            tag: tuple[str, Any] = ("kind", f"kind{number}")
            tag_schema = {"const": tag[1]}
        else:
            tag, tag_schema = (f"only_{number}", number), {"type": "integer"}
        properties = {tag[0]: tag_schema, **schema["properties"]}
        required = [tag[0], *schema["required"]]
        title = {"title": f"Kind {number}"} if draw(st.booleans()) else {}
        branches.append({**schema, **title, "properties": properties, "required": required})
        values.append({tag[0]: tag[1], **value})
    return {"oneOf": branches}, draw(st.sampled_from(values))


@st.composite
def _conditional(draw: st.DrawFn, inner: st.SearchStrategy[SchemaAndValue]) -> SchemaAndValue:
    """Make an object with properties that are required by the value or presence of another."""
    schema, value = draw(_objects(inner))
    dependent, dependent_value = draw(inner.filter(lambda item: _has_value(item[1])))
    kind = draw(st.sampled_from(["choice", "toggle", "beside"]))
    if kind == "beside":
        controlling: dict[str, Any] = {"type": "string"}
        rule: dict[str, Any] = {"dependentRequired": {"asked": ["more"]}}
        answer: Any = draw(st.sampled_from([None, "something"]))
        is_met = answer is not None
    else:
        answers: list[Any] = ["a", "b"] if kind == "choice" else [True, False]
        controlling = {"enum": answers} if kind == "choice" else {"type": "boolean"}
        condition = {"properties": {"asked": {"const": answers[0]}}, "required": ["asked"]}
        branch = draw(st.sampled_from(["then", "else"]))
        rule = {"allOf": [{"if": condition, branch: {"required": ["more"]}}]}
        answer = draw(st.sampled_from(answers))
        is_met = (answer == answers[0]) == (branch == "then")
    properties = {**schema["properties"], "asked": controlling, "more": dependent}
    required = schema["required"] if kind == "beside" else [*schema["required"], "asked"]
    value = {**value, **({} if answer is None else {"asked": answer})}
    result = {**schema, **rule, "properties": properties, "required": required}
    return result, {**value, **({"more": dependent_value} if is_met else {})}


_PARTS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(_objects(inner, min_size=1), _unions(inner), _conditional(inner)),
    max_leaves=6,
)


def settings_and_schemas() -> st.SearchStrategy[SchemaAndValue]:
    """Return a strategy of schemas of settings, each with valid settings."""
    return _objects(_PARTS, min_size=1) | _conditional(_PARTS)
