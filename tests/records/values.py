"""Values of all types that sources yield, and schemas that may not match them."""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, NamedTuple
from uuid import UUID

from hypothesis import strategies as st


class Text(str):
    """A subclass of str."""

    __slots__ = ()


class Level(str, Enum):
    """An enum whose values are strings."""

    HIGH = "high"


class Colour(Enum):
    """An enum whose values are not strings."""

    RED = 1


class Rank(IntEnum):
    """An enum of integers."""

    FIRST = 1


class Float64(float):
    """A subclass of float, as NumPy's float64 is."""

    def __repr__(self) -> str:
        return f"Float64({float(self)})"


class Moment(dt.datetime):
    """A subclass of datetime with its own text, as pendulum's DateTime is."""

    def isoformat(self, sep: str = "T", timespec: str = "auto") -> str:
        return f"moment {super().isoformat(sep, timespec)}"


class Day(dt.date):
    """A subclass of date with its own text."""

    def isoformat(self) -> str:
        return f"day {super().isoformat()}"


class Money(Decimal):
    """A subclass of Decimal."""


class Point(NamedTuple):
    """A named tuple."""

    x: object
    y: object


ZONES = [
    dt.timezone.utc,
    dt.timezone(dt.timedelta(0), "GMT"),
    dt.timezone(dt.timedelta(hours=-3, minutes=-30)),
    dt.timezone(dt.timedelta(minutes=19, seconds=32)),
]

NAMES = ["a", "b", "c", "d", "e"]

UNUSUAL_VALUES: list[Any] = [
    Text("é"),
    Text("\ud800"),
    Level.HIGH,
    Colour.RED,
    Rank.FIRST,
    Float64(1.5),
    Money("1.50"),
    Point(1, "y"),
    2**200,
    -(2**200),
    2**63,
    float("nan"),
    float("inf"),
    -0.0,
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("-Infinity"),
    Decimal("1E+400"),
    Decimal("0.1000"),
    b"\x00",
    b"\x01\xff",
    b"",
    dt.datetime(2024, 1, 2, 3, 4, 5),  # noqa: DTZ001
    dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.timezone(dt.timedelta(hours=-7))),
    dt.datetime(2024, 1, 2, 3, 4, 5, 60, dt.timezone.utc),
    Moment(2024, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc),
    dt.date(2024, 1, 2),
    Day(2024, 1, 2),
    dt.time(3, 4, 5),
    dt.timedelta(days=1, microseconds=1),
    UUID(int=1),
    "\ud800 lone",
    "\U0001f600\u2028",
    OrderedDict(b=1, a=2),
    (1, 2),
    {3},
    {1: "int", None: "none", 1.5: "float", False: "bool"},
    {Level.HIGH: 1, Text("\udc00"): 2},
]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(UNUSUAL_VALUES),
    st.dates(),
    st.datetimes(timezones=st.none() | st.sampled_from(ZONES)),
)

names = st.one_of(
    st.sampled_from(NAMES), st.sampled_from(["x.y", "", "é", Text("a"), Level.HIGH, 1, None])
)

values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        st.dictionaries(names, inner, max_size=3),
    ),
    max_leaves=8,
)

records = st.dictionaries(names, values, max_size=6)

KINDS: list[Any] = [
    {},
    True,
    False,
    {"type": "string"},
    {"type": ["string", "null"], "format": "date-time"},
    {"type": ["integer", "null"]},
    {"type": "boolean"},
    {"type": ["null", "boolean"]},
    {"type": ["boolean", "string"]},
    {"type": "number"},
    {"type": "object"},
    {"type": ["object", "null"], "additionalProperties": True},
    {"type": "array"},
    {"type": "array", "items": {}},
    {"type": "array", "items": {"type": "boolean"}},
    {"type": "array", "items": [{"type": "string"}]},
    {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
    {"oneOf": [{"type": "object"}, {"type": "boolean"}]},
    {"enum": ["x", 1]},
    {"$ref": "#/definitions/x"},
]


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(["object", ["null", "object"], ["object", "string"]]),
                "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
            },
            optional={"additionalProperties": st.sampled_from([True, False, {"type": "string"}])},
        ),
        st.fixed_dictionaries({"type": st.just(["array", "null"]), "items": inner}),
    )


properties = st.recursive(st.sampled_from(KINDS), _nested, max_leaves=6)

schemas = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(st.sampled_from(NAMES), properties, max_size=6),
    },
    optional={"additionalProperties": st.sampled_from([True, False])},
)

crumbs = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(
    lambda path: tuple(word for name in path for word in ("properties", name))
)

masks = st.dictionaries(crumbs, st.booleans(), max_size=4)


@st.composite
def changed(draw: st.DrawFn, value: Any) -> Any:
    """Draw a copy of a JSON value that differs in one place, at any depth."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        name = draw(st.sampled_from(list(value)))
        changes = st.sampled_from(["remove", "replace", "change", "add"])
        match draw(changes):
            case "remove":
                return {key: item for key, item in value.items() if key is not name}
            case "add":
                return {**value, draw(st.sampled_from(NAMES)): draw(values)}
            case "replace":
                return {**value, name: draw(values)}
        return {**value, name: draw(changed(value[name]))}
    if isinstance(value, list) and value and draw(st.booleans()):
        return [*value[:-1], draw(changed(value[-1]))]
    return dict(value) if isinstance(value, dict) else draw(values)


_PLAIN = st.sampled_from(["x", "é", 1, -0.5, True, None, Decimal("1.50")])


def usual(schema: Any) -> st.SearchStrategy[Any]:
    """Return the values of a property with this schema that most sources would yield."""
    definition = schema if isinstance(schema, dict) else {}
    kinds = definition.get("type", ())
    if "properties" in definition:
        fields = {name: usual(inner) for name, inner in definition["properties"].items()}
        objects = st.fixed_dictionaries(fields)
        return objects | st.fixed_dictionaries({}, optional=fields) | objects
    if isinstance(definition.get("items"), dict):
        return st.lists(usual(definition["items"]), max_size=3)
    if "boolean" in kinds:
        return st.booleans() | st.none()
    return _PLAIN | st.dictionaries(st.sampled_from(NAMES), _PLAIN, max_size=2)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Any, dict[Any, Any], list[dict[Any, Any]]]:
    """Draw a schema, the usual record of a stream with this schema, and other records.

    Some of the others differ from the usual one in one place, some have usual values, and some have
    nothing to do with the schema. Rarely the usual record needs conversion.
    """
    schema = draw(schemas)
    record = draw(st.one_of(usual(schema), usual(schema), usual(schema), records))
    others = draw(st.lists(changed(record) | usual(schema) | records, min_size=1, max_size=4))
    return schema, record, others
