"""Hypothesis strategies for JSON Schemas of settings with valid settings.

Optional properties are sometimes missing. An object without values is present only if it is
required, because a form cannot express it.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

__all__ = ["Made", "settings_and_schemas"]

Made = tuple[dict[str, Any], Any]
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


def _of(schema: dict[str, Any], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Made]:
    return st.tuples(st.just(schema), values)


def _has_value(value: Any) -> bool:
    """Return True if a value contains anything but objects."""
    return not isinstance(value, dict) or any(map(_has_value, value.values()))


def _choices() -> st.SearchStrategy[Made]:
    values = st.lists(
        st.sampled_from(["a", "b c", "1", "true", 2, 30, True, 1.5]), min_size=1, max_size=4
    )
    unlike = values.map(
        lambda found: list({json.dumps(one).strip('"'): one for one in found}.values())
    )

    def shapes(found: list[Any]) -> st.SearchStrategy[Made]:
        described = [{"const": one, "title": f"It is {one}"} for one in found]
        schemas: list[dict[str, Any]] = [{"enum": found}, {"oneOf": [*described, {"type": "null"}]}]
        return st.tuples(st.sampled_from(schemas), st.sampled_from(found))

    return unlike.flatmap(shapes)


_LEAVES = st.one_of(
    _of({"type": "string"}, _TEXTS),
    _of({"type": ["string", "null"], "secret": True}, _TEXTS),
    _of({"type": "string", "format": "date-time"}, st.just("2024-01-31T00:00:00Z")),
    _of({"type": ["integer", "null"]}, st.integers()),
    _of({"anyOf": [{"type": "integer"}, {"type": "null"}]}, st.integers()),
    _of({"type": "number"}, st.integers() | st.decimals(-9, 9, places=3)),
    _of({"type": "boolean"}, st.booleans()),
    _of({"type": ["boolean", "null"], "default": True}, st.booleans()),
    _of({"type": "array", "items": {"type": "string"}}, st.lists(_TEXTS)),
    _of({"type": "array", "items": {"type": "integer"}}, st.lists(st.integers())),
    _of({"type": "object"}, st.dictionaries(_TEXTS, st.integers(), min_size=1)),
    _of({"allOf": [{"type": "string", "enum": ["x", "y"]}], "default": "x"}, st.just("y")),
    _choices(),
)


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[Made], least: int = 0) -> Made:
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=least, max_size=4, unique=True))
    properties: dict[str, Any] = {}
    value: dict[str, Any] = {}
    required = []
    for name in names:
        properties[name], made = draw(inner)
        is_required = draw(st.booleans())
        if is_required:
            required.append(name)
        if is_required or (_has_value(made) and draw(st.booleans())):
            value[name] = made
    schema = {"type": "object", "properties": properties, "required": required}
    return {**schema, "additionalProperties": False}, value


@st.composite
def _unions(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    """Make an object of one of several branches, with or without a discriminator."""
    made = draw(st.lists(_objects(inner), min_size=2, max_size=3))
    branches, values = [], []
    is_tagged = draw(st.booleans())
    for number, (schema, value) in enumerate(made):
        if is_tagged:
            tag: tuple[str, Any] = ("kind", f"kind{number}")
            own = {"const": tag[1]}
        else:
            tag, own = (f"only_{number}", number), {"type": "integer"}
        properties = {tag[0]: own, **schema["properties"]}
        required = [tag[0], *schema["required"]]
        title = {"title": f"Kind {number}"} if draw(st.booleans()) else {}
        branches.append({**schema, **title, "properties": properties, "required": required})
        values.append({tag[0]: tag[1], **value})
    return {"oneOf": branches}, draw(st.sampled_from(values))


@st.composite
def _conditional(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    """Make an object with properties that are required by the value or presence of another."""
    schema, value = draw(_objects(inner))
    more, made = draw(inner.filter(lambda found: _has_value(found[1])))
    way = draw(st.sampled_from(["choice", "toggle", "beside"]))
    if way == "beside":
        own: dict[str, Any] = {"type": "string"}
        rule: dict[str, Any] = {"dependentRequired": {"asked": ["more"]}}
        answer: Any = draw(st.sampled_from([None, "something"]))
        leads = answer is not None
    else:
        answers: list[Any] = ["a", "b"] if way == "choice" else [True, False]
        own = {"enum": answers} if way == "choice" else {"type": "boolean"}
        tested = {"properties": {"asked": {"const": answers[0]}}, "required": ["asked"]}
        branch = draw(st.sampled_from(["then", "else"]))
        rule = {"allOf": [{"if": tested, branch: {"required": ["more"]}}]}
        answer = draw(st.sampled_from(answers))
        leads = (answer == answers[0]) == (branch == "then")
    properties = {**schema["properties"], "asked": own, "more": more}
    required = schema["required"] if way == "beside" else [*schema["required"], "asked"]
    value = {**value, **({} if answer is None else {"asked": answer})}
    whole = {**schema, **rule, "properties": properties, "required": required}
    return whole, {**value, **({"more": made} if leads else {})}


_PARTS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(_objects(inner, least=1), _unions(inner), _conditional(inner)),
    max_leaves=6,
)


def settings_and_schemas() -> st.SearchStrategy[Made]:
    """Return a strategy of schemas of settings, each with valid settings."""
    return _objects(_PARTS, least=1) | _conditional(_PARTS)
