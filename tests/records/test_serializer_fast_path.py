"""The compiled check of records: it changes only the speed, not the bytes."""

from __future__ import annotations

import copy
import logging
from collections import OrderedDict
from datetime import datetime, timezone
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core.protocols.singer.writer import encode_body
from tap_core.records import compiled_check
from tap_core.records.conform import compile_conformer, to_json_compatible, warn_once
from tap_core.records.prune import pop_deselected_record_properties
from tap_core.records.serializer import compile_conformer_only, compile_serializer
from tap_core.singerlib.catalog import MetadataMapping, SelectionMask
from tap_core.typing.inspect import TypeConformanceLevel
from tests.records import values

SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        'it\'s "odd"\\\n': {"type": ["string", "null"]},
        "flag": {"type": ["boolean", "null"]},
        "gone": {"type": ["string", "null"]},
        "place": {"type": ["object", "null"], "properties": {"city": {"type": "string"}}},
        "tags": {"type": ["array", "null"], "items": {"type": "boolean"}},
    }
}
EVERYTHING = SelectionMask({(): True})
MASK = MetadataMapping.from_iterable(
    [{"breadcrumb": ["properties", "gone"], "metadata": {"selected": False}}]
).resolve_selection()
USUAL = {
    "id": 1,
    'it\'s "odd"\\\n': "x",
    "flag": True,
    "gone": "y",
    "place": {"city": "z"},
    "tags": [True],
}


def new_serializer(level=TypeConformanceLevel.RECURSIVE):
    return compile_serializer(
        schema=SCHEMA,
        mask=MASK,
        level=level,
        encode=encode_body,
        unmapped=warn_once("s", logging.getLogger("test")),
    )


def warm_serializer(level=TypeConformanceLevel.RECURSIVE):
    serializer = new_serializer(level)
    for _ in range(100):
        serializer(copy.deepcopy(USUAL))
    assert serializer.fits(copy.deepcopy(USUAL))
    return serializer


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(
        ["\ud800", b"\x00", Decimal("1.50"), datetime(2024, 1, 1, tzinfo=timezone.utc)]
    ),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["city", "other"]), inner, max_size=2)
    ),
    max_leaves=4,
)
RECORDS = st.fixed_dictionaries({}, optional={**dict.fromkeys(USUAL, VALUES), "unknown": VALUES})


@pytest.mark.parametrize("level", list(TypeConformanceLevel))
@settings(deadline=None)
@given(changes=RECORDS, without=st.sets(st.sampled_from(sorted(USUAL)), max_size=2))
def test_fast_path_writes_the_bytes_of_a_new_serializer(level, changes, without) -> None:
    record = {k: v for k, v in {**USUAL, **changes}.items() if k not in without}
    serializer = warm_serializer(level)
    first, other = copy.deepcopy(record), copy.deepcopy(record)
    quick = encode_or_serialize(serializer, first)
    assert quick == new_serializer(level)(other)
    assert "gone" not in first


def encode_or_serialize(serializer, record):
    """Encode a record as the sync engine does."""
    if serializer.fits(record):
        try:
            return serializer.encode(record)
        except (UnicodeEncodeError, TypeError, ValueError, OverflowError):
            return serializer(record)
    return serializer(record)


def test_check_is_compiled_again_when_records_have_other_properties() -> None:
    serializer = warm_serializer()
    assert not serializer.fits({"id": 1})
    for _ in range(300):
        assert serializer({"id": 1}) == b'{"id":1}'
    assert serializer.fits({"id": 2})


@pytest.mark.parametrize("name, value", [("flag", 1), ("id", [{1}]), ("place", {"city": [b"1"]})])
def test_record_that_needs_conversion_does_not_fit(name, value) -> None:
    assert not warm_serializer().fits({**copy.deepcopy(USUAL), name: value})


NESTED = {
    "properties": {
        "id": {"type": "integer"},
        "place": {
            "type": ["object", "null"],
            "properties": {
                "city": {"type": "string"},
                "open": {"type": "boolean"},
                "geo": {"type": "object", "properties": {"lat": {"type": "number"}}},
            },
        },
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "paid": {"type": "boolean"}},
            },
        },
    }
}


def usual_nested():
    """Return a new record with an object in an object, and a list of objects."""
    place = {"city": "x", "open": True, "geo": {"lat": 1.5}}
    return {"id": 1, "place": place, "lines": [{"sku": "a", "paid": True}] * 2}


def create_serializer(schema, mask, sample, level=TypeConformanceLevel.RECURSIVE, unmapped=id):
    """Return a serializer whose check is compiled for a sample, if it needs no conversion."""
    serializer = compile_serializer(
        schema=schema,
        mask=mask,
        level=level,
        encode=encode_body,
        unmapped=unmapped,
    )
    for _ in range(20):
        serializer(copy.deepcopy(sample))
    return serializer


@pytest.mark.parametrize(
    "path, value",
    [
        (("place", "city"), b"x"),
        (("place", "city"), {"a": {1}}),
        (("place", "open"), 1),
        (("place", "geo"), {"lat": Decimal("NaN")}),
        (("place", "geo"), {"lat": 1.5, "undeclared": 1}),
        (("place", "geo"), {"undeclared": 1}),
        (("place", "geo", "lat"), datetime(2024, 1, 1, tzinfo=timezone.utc)),
        (("place", "geo"), OrderedDict(lat=1.5)),
        (("place",), (1, 2)),
        (("lines",), [{"sku": "a", "paid": 0}]),
        (("lines",), [{"sku": "a", "paid": True}, {"undeclared": 1}]),
        (("lines",), [b"x"]),
    ],
    ids=str,
)
def test_nested_value_that_needs_conversion_does_not_fit(path, value) -> None:
    serializer = create_serializer(NESTED, EVERYTHING, usual_nested())
    assert serializer.fits(usual_nested())
    record = usual_nested()
    within = record
    for name in path[:-1]:
        within = within[name]
    within[path[-1]] = value
    assert not serializer.fits(record)


@pytest.mark.parametrize(
    "place",
    [
        None,
        {},
        {"city": "x"},
        {"city": Decimal("1.5"), "open": None, "geo": None},
        {"city": ["JSON", {"in": "a text column"}], "open": False, "geo": {}},
        {"geo": {"lat": 1}, "open": False},
    ],
    ids=str,
)
def test_object_with_missing_properties_or_null_fits(place) -> None:
    serializer = create_serializer(NESTED, EVERYTHING, usual_nested())
    record = {**usual_nested(), "place": place}
    assert serializer.fits(record)
    assert encode_body(record) == new_body(NESTED, EVERYTHING, record)


def test_properties_of_objects_are_deselected_by_the_compiled_check() -> None:
    mask = SelectionMask(
        {
            ("properties", "place", "properties", "city"): False,
            ("properties", "place", "properties", "geo", "properties", "lat"): False,
        }
    )
    serializer = create_serializer(NESTED, mask, usual_nested())
    for place in (usual_nested()["place"], {"geo": {"lat": 1}, "open": False}):
        record = {**usual_nested(), "place": place}
        assert serializer.fits(record)
        assert record["place"] == {"open": place["open"], "geo": {}}


@pytest.mark.parametrize(
    "place",
    [
        {"city": "x", "geo": {"lat": 1}},
        {"city": "x", "open": True, "geo": [{"lat": 1}]},
        {"city": "x", "open": True, "geo": OrderedDict(lat=1)},
        {"city": "x", "geo": OrderedDict(lat=1), "undeclared": 1},
        OrderedDict(city="x", open=True, geo={"lat": 1}),
    ],
    ids=str,
)
def test_deselected_property_of_an_unusual_object_is_never_sent(place) -> None:
    mask = SelectionMask(
        {
            ("properties", "place", "properties", "city"): False,
            ("properties", "place", "properties", "geo", "properties", "lat"): False,
        }
    )
    serializer = create_serializer(NESTED, mask, usual_nested())
    record, other = ({**usual_nested(), "place": copy.deepcopy(place)} for _ in range(2))
    assert encode_or_serialize(serializer, record) == new_body(NESTED, mask, other)
    assert record == other
    assert "city" not in record["place"]


def test_property_deselected_in_an_undeclared_object_is_never_sent() -> None:
    mask = SelectionMask({("properties", "a", "properties", "x"): False})
    schema = {"properties": {"a": {}, "b": {"type": "array", "items": {"type": "string"}}}}
    serializer = create_serializer(schema, mask, {"a": None, "b": []})
    assert serializer.fits({"a": None, "b": ["y"]})
    record = {"a": {"x": 1, "y": 2}, "b": []}
    assert encode_or_serialize(serializer, record) == b'{"a":{"y":2},"b":[]}'
    assert record == {"a": {"y": 2}, "b": []}


def new_body(schema, mask, record):
    """Encode a record without a compiled check."""
    return create_serializer(schema, mask, {"undeclared": 1})(record)


class Misleading(str):
    """A name whose ``repr`` is code."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "__import__('sys').exit('executed')"


@pytest.mark.parametrize(
    "name",
    [
        "'] or r.clear() or r['",
        '"""',
        "\\",
        "\n    return True",
        "\ud800",
        "{x}",
        "%s",
        Misleading("a"),
    ],
    ids=ascii,
)
def test_names_of_properties_are_never_executed(name) -> None:
    """A property name in the schema, in a record or in the selection is only text."""
    inner = {"type": "object", "properties": {name: {"type": "string"}, "gone": {}}}
    schema = {"properties": {name: inner, "rows": {"type": "array", "items": inner}}}
    crumb = ("properties", name, "properties", "gone")
    mask = SelectionMask({crumb: False, ("properties", Misleading("gone")): False})
    sample = {name: {name: "x", "gone": 1}, "rows": [{name: "x"}]}
    serializer = create_serializer(schema, mask, sample)
    record = copy.deepcopy(sample)
    assert encode_or_serialize(serializer, record) == new_body(schema, mask, copy.deepcopy(sample))
    assert serializer.fits(copy.deepcopy(sample)) or type(name) is Misleading
    assert record == {name: {name: "x"}, "rows": [{name: "x"}]}


def test_objects_below_the_depth_of_the_compiled_check_are_checked_by_rules() -> None:
    schema, sample, wrong = {"type": "boolean"}, True, 1
    for number in range(40):
        items = {"type": "object", "properties": {"a": schema}}
        schema = {"type": "array", "items": items} if number % 2 else items
        sample, wrong = (
            [{"a": value}] if number % 2 else {"a": value} for value in (sample, wrong)
        )
    serializer = create_serializer({"properties": {"a": schema}}, EVERYTHING, {"a": sample})
    assert serializer.fits({"a": sample})
    assert not serializer.fits({"a": wrong})


def test_check_of_a_very_wide_object_is_not_compiled() -> None:
    names = [f"n{number}" for number in range(3_000)]
    inner = {"type": "object", "properties": {name: {"type": "boolean"} for name in names}}
    schema = {"properties": {"a": inner, "b": {"type": "integer"}}}
    sample = {"a": dict.fromkeys(names, True), "b": 1}
    serializer = create_serializer(schema, EVERYTHING, sample)
    assert serializer.fits(sample)
    assert not serializer.fits({**sample, "a": {**sample["a"], "n2999": 1}})


def test_record_is_checked_after_a_sample_with_only_deselected_properties() -> None:
    names = [f"n{number}" for number in range(3_000)]
    schema = {"properties": {**{name: {} for name in names}, "a": {"type": "integer"}}}
    hidden = [("properties", name) for name in names]
    mask = SelectionMask({(): True, **dict.fromkeys(hidden, False)})
    serializer = create_serializer(schema, mask, dict.fromkeys(names))
    assert serializer.fits(dict.fromkeys(names))
    for record in ({"undeclared": 1}, {"a": "text"}, {"a": 1}):
        assert not serializer.fits(record)


def test_record_with_many_properties_is_checked_by_several_functions(monkeypatch) -> None:
    lines = []

    def compile_source(source, names):
        lines.append(source.count("\n"))
        exec(source, names)  # noqa: S102 - the code that the check generates

    monkeypatch.setattr(compiled_check, "exec", compile_source, raising=False)
    flags = [f"n{number}" for number in range(5_000)]
    place = {"type": "object", "properties": {"zip": {"type": "integer"}, "open": {}}}
    schema = {"properties": {**{name: {"type": "boolean"} for name in flags}, "place": place}}
    hidden = [("properties", name) for name in flags[:2_500]]
    inner = ("properties", "place", "properties", "zip")
    mask = SelectionMask({(): True, **dict.fromkeys([*hidden, inner], False)})
    sample = {**dict.fromkeys(flags, True), "place": {"zip": 1, "open": True}}
    serializer = create_serializer(schema, mask, sample)
    assert len(lines) == 6
    assert max(lines) < 1_020
    record = copy.deepcopy(sample)
    assert serializer.fits(record)
    assert record == {**dict.fromkeys(flags[2_500:], True), "place": {"open": True}}
    assert serializer.fits(record)
    assert not serializer.fits(OrderedDict(record))
    for name in ("n2500", "n4999"):
        assert not serializer.fits({**record, name: 1})
        assert not serializer.fits({other: record[other] for other in record if other != name})
    assert not serializer.fits({**record, "undeclared": 1})


@settings(deadline=None)
@given(
    schema_and_rows=values.streams(),
    crumbs=values.masks,
    level=st.sampled_from(list(TypeConformanceLevel)),
)
def test_any_record_after_any_sample_has_the_bytes_and_warnings_of_the_slow_path(
    schema_and_rows, crumbs, level
) -> None:
    schema, sample, rows = schema_and_rows
    mask = SelectionMask({(): True, **crumbs})
    ours: list[object] = []
    serializer = create_serializer(schema, mask, sample, level, ours.append)
    ours.clear()
    for row in [*rows, sample]:
        first, other, theirs = copy.deepcopy(row), copy.deepcopy(row), []
        body = encode_or_serialize(serializer, first)
        pop_deselected_record_properties(other, schema, mask)
        conformed = compile_conformer(schema, level, theirs.append)(other)
        assert body == encode_body(to_json_compatible(conformed))
        assert repr(first) == repr(other), "the author sees the same left of his record"
        assert ours == theirs
        ours.clear()


@settings(deadline=None)
@given(
    schema_and_rows=values.streams(),
    crumbs=values.masks,
    level=st.sampled_from(list(TypeConformanceLevel)),
)
def test_record_for_stream_maps_has_the_values_of_the_slow_path(
    schema_and_rows, crumbs, level
) -> None:
    schema, sample, rows = schema_and_rows
    mask = SelectionMask({(): True, **crumbs})
    convert = compile_conformer_only(
        schema=schema,
        mask=mask,
        level=level,
        unmapped=id,
        copies=False,
    )
    for _ in range(20):
        convert(copy.deepcopy(sample))
    for row in [*rows, sample]:
        first, other = copy.deepcopy(row), copy.deepcopy(row)
        converted = first if convert.fits(first) else convert(first)
        pop_deselected_record_properties(other, schema, mask)
        expected = compile_conformer(schema, level, id)(other)
        assert repr(converted) == repr(expected)
