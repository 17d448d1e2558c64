"""Hypothesis strategies of JSON schemas, values and records."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

__all__ = ["any_documents", "records", "schemas", "values"]

NAMES = st.sampled_from(["a", "b", "c d", "é'\"", "$x"])
TYPES = ["string", "null", "boolean", "integer", "number", "object", "array"]
TEXTS = st.sampled_from(["", "a", "abc", "2024-01-31", "2024-01-31T00:00:00Z", "a@b.de", "ÄÖ"])
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.just(10**30),
    st.sampled_from([Decimal("0.5"), Decimal("1.0"), Decimal("-2.25"), Decimal("0.10")]),
    st.sampled_from([0.5, 1.0, float("nan")]),
)
SCALARS = st.one_of(TEXTS, NUMBERS, st.booleans(), st.none())

values = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
records = st.dictionaries(NAMES, values, max_size=5)

SMALL = st.integers(0, 3)
BOUND = st.one_of(st.integers(-2, 2), st.sampled_from([Decimal("0.5"), Decimal("-1.5")]))
ANNOTATIONS = {
    "title": TEXTS,
    "description": TEXTS,
    "default": values,
    "x-anything": values,
}


def _keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    types = st.sampled_from(TYPES)
    branches = st.lists(inner, min_size=1, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": types | st.lists(types, min_size=1, max_size=3, unique=True),
        "properties": st.dictionaries(NAMES, inner, max_size=4),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": inner,
        "items": inner,
        "enum": st.lists(values, max_size=4),
        "const": values,
        "minimum": BOUND,
        "maximum": BOUND,
        "exclusiveMinimum": BOUND,
        "exclusiveMaximum": BOUND,
        "multipleOf": st.sampled_from([1, 2, Decimal("0.25"), 0.1]),
        "minLength": SMALL,
        "maxLength": SMALL,
        "pattern": st.sampled_from(["^a", "b", "^$", "é"]),
        "format": st.sampled_from(["date", "date-time", "email", "ipv4", "odd"]),
        "minItems": SMALL,
        "maxItems": SMALL,
        "uniqueItems": st.booleans(),
        "minProperties": SMALL,
        "maxProperties": SMALL,
        "anyOf": branches,
        "oneOf": branches,
        "allOf": branches,
        "not": inner,
        "patternProperties": st.dictionaries(st.just("^a"), inner, max_size=1),
        "dependentRequired": st.just({"a": ["b"]}),
        **ANNOTATIONS,
    }
    everyday = {name: keywords[name] for name in ("type", "properties", "required", "items")}
    return st.fixed_dictionaries({}, optional=keywords) | st.fixed_dictionaries(
        {}, optional=everyday
    )


LEAVES = st.booleans() | st.fixed_dictionaries({}, optional={"type": st.sampled_from(TYPES)})
schemas = st.recursive(LEAVES, _keywords, max_leaves=8)

any_documents = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | _keywords(inner)
        | st.dictionaries(
            st.sampled_from(
                ["type", "required", "enum", "title", "$schema", "$id", "items", "minLength"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)
"""Documents that resemble schemas; most are not valid ones."""
