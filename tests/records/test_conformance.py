"""Conversion of record values to JSON values, by type conformance level."""

from __future__ import annotations

import datetime as dt
import json
import logging
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core.exceptions import DiscoveryError
from tap_core.helpers import _typing as helpers
from tap_core.parsing.datetimes import format_iso
from tap_core.records.conform import (
    compile_conformer,
    conform_primitive,
    conform_record_data_types,
    get_property_schema,
    to_json_compatible,
    warn_once,
)
from tap_core.typing.inspect import TypeConformanceLevel
from tests.records.values import (
    KINDS,
    ZONES,
    Colour,
    Float64,
    Level,
    Money,
    Point,
    Rank,
    Text,
    scalars,
    values,
)

RECURSIVE, ROOT_ONLY, NONE = (
    TypeConformanceLevel.RECURSIVE,
    TypeConformanceLevel.ROOT_ONLY,
    TypeConformanceLevel.NONE,
)
STRING, BOOLEAN = {"type": "string"}, {"type": ["boolean", "null"]}
EAST = dt.timezone(dt.timedelta(hours=2))


def conformed(record, schema, level=RECURSIVE):
    return compile_conformer(schema, level, lambda names: None)(record)


@pytest.mark.parametrize(
    "value, schema, expected",
    [
        (dt.datetime(2024, 1, 2), STRING, "2024-01-02T00:00:00.000000+00:00"),  # noqa: DTZ001
        (dt.datetime(2024, 1, 2, tzinfo=EAST), STRING, "2024-01-02T00:00:00.000000+02:00"),
        (dt.date(2024, 1, 2), STRING, "2024-01-02"),
        (dt.time(1, 2, 3), STRING, "01:02:03"),
        (dt.timedelta(hours=1), STRING, "1970-01-01T01:00:00+00:00"),
        (b"\x01\xff", STRING, "01ff"),
        (b"\x00", BOOLEAN, False),
        (b"\x01", BOOLEAN, True),
        (b"\x00", {"type": ["string", "boolean"]}, False),
        (float("nan"), {"type": "number"}, None),
        (float("-inf"), {"type": "number"}, None),
        (Decimal("NaN"), {"type": "number"}, None),
        (Decimal("sNaN"), {"type": "number"}, None),
        (Decimal("Infinity"), {"type": "number"}, None),
        (Decimal("1E+400"), {"type": "number"}, Decimal("1E+400")),
        (Decimal("0.10"), {"type": "number"}, Decimal("0.10")),
        (0, BOOLEAN, False),
        (7, BOOLEAN, True),
        (None, BOOLEAN, None),
        ("no", BOOLEAN, True),
        (0, {"type": ["boolean", "integer"]}, 0),
        (0.0, BOOLEAN, 0.0),
        (1, STRING, 1),
        ("x", {"type": "integer"}, "x"),
    ],
)
def test_value_is_converted_to_the_declared_type(value, schema, expected):
    converted = conform_primitive(value, schema)
    assert (type(converted), converted) == (type(expected), expected)
    assert conformed({"a": value}, {"properties": {"a": schema}}) == {"a": expected}


@settings(deadline=None)
@given(scalars, st.sampled_from(KINDS))
def test_compiled_conversion_of_a_single_value_is_that_of_conform_primitive(value, schema):
    definition = get_property_schema(schema)
    array = {"type": "array", "items": definition}
    converted = conformed({"a": value, "b": [value]}, {"properties": {"a": schema, "b": array}})
    expected = conform_primitive(value, definition)
    assert repr(converted) == repr({"a": expected, "b": [expected]})


@given(st.datetimes(timezones=st.none() | st.sampled_from(ZONES)))
def test_datetime_has_microseconds_and_an_offset(value):
    aware = value if value.tzinfo else value.replace(tzinfo=dt.timezone.utc)
    assert format_iso(value) == aware.isoformat("T", "microseconds")


@pytest.mark.parametrize(
    "value, expected",
    [
        (dt.datetime(2024, 1, 2), '"2024-01-02T00:00:00"'),  # noqa: DTZ001
        (dt.date(2024, 1, 2), '"2024-01-02"'),
        (dt.timedelta(1), '"1 day, 0:00:00"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (b"ab", '"ab"'),
        (Level.HIGH, '"high"'),
        (Colour.RED, '"Colour.RED"'),
        (Rank.FIRST, "1"),
        (Text("t"), '"t"'),
        (Float64(1.5), "1.5"),
        (Money("1.50"), "1.50"),
        (Point(1, 2), '{"x":1,"y":2}'),
        ((1, 2), "[1,2]"),
        ({None: 1, True: 2, 3: 4, 1.5: 6, Rank.FIRST: 0}, '{"null":1,"true":0,"3":4,"1.5":6}'),
        (2**200, str(2**200)),
        ("\ud800", '"?"'),
        (Text("\ud800"), '"?"'),
        (float("nan"), "null"),
    ],
    ids=repr,
)
def test_values_without_a_schema_are_written_as_json_libraries_do(value, expected):
    from tap_core.protocols.singer.writer import encode_json

    assert encode_json(to_json_compatible(value)).decode() == expected


@settings(deadline=None)
@given(values)
def test_json_compatible_values_have_exact_json_types(value):
    def check(value):
        assert type(value) in {dict, list, str, int, float, bool, Decimal, type(None)}
        if isinstance(value, dict):
            for name, item in value.items():
                assert type(name) is str
                check(item)
        elif isinstance(value, list):
            for item in value:
                check(item)
        elif isinstance(value, (float, Decimal)):
            assert value - value == 0

    check(to_json_compatible(value))


@settings(deadline=None)
@given(values)
def test_json_compatible_value_is_not_changed_again(value):
    once = to_json_compatible(value)
    assert to_json_compatible(once) == once
    assert json.loads(json.dumps(once, default=float)) is not ...


OBJECT = {"type": "object", "properties": {"t": STRING, "o": {"type": "object"}}}
NESTED = {"properties": {"o": OBJECT, "l": {"type": "array", "items": OBJECT}, "t": STRING}}
DATE = dt.date(2024, 1, 2)
RECORD = {"o": {"t": DATE, "x": 1}, "l": [{"t": DATE, "x": 1}, DATE], "t": DATE, "x": 1}


def test_recursive_level_conforms_nested_values():
    assert conformed(RECORD, NESTED) == {
        "o": {"t": "2024-01-02"},
        "l": [{"t": "2024-01-02"}, "2024-01-02"],
        "t": "2024-01-02",
    }


def test_root_only_level_leaves_objects_and_arrays():
    assert conformed(RECORD, NESTED, ROOT_ONLY) == {
        "o": {"t": DATE, "x": 1},
        "l": [{"t": DATE, "x": 1}, DATE],
        "t": "2024-01-02",
    }


def test_none_level_returns_the_record_unchanged():
    assert conformed(RECORD, NESTED, NONE) is RECORD


@pytest.mark.parametrize("level", [RECURSIVE, ROOT_ONLY])
def test_conforming_does_not_change_the_record(level):
    before = repr(RECORD)
    conformed(RECORD, NESTED, level)
    assert repr(RECORD) == before


@pytest.mark.parametrize("allowed", [True, {"type": "string"}])
def test_additional_properties_are_kept_only_in_objects_that_allow_them(allowed):
    schema = {"properties": {"o": {**OBJECT, "additionalProperties": allowed}}}
    assert conformed({"o": {"x": 1}, "y": 1}, schema) == {"o": {"x": 1}}


@pytest.mark.parametrize(
    "definition",
    [{}, True, {"oneOf": [{"type": "string"}]}, {"enum": [1]}, {"$ref": "#/x"}],
    ids=str,
)
@pytest.mark.parametrize("value", [[1, [2]], {"x": 1}, "x"], ids=str)
def test_property_without_a_type_accepts_any_value(definition, value):
    assert conformed({"a": value}, {"properties": {"a": definition}}) == {"a": value}


def test_schema_without_properties_is_an_error_at_the_first_record():
    assert conformed({}, {"type": "object"}) == {}
    with pytest.raises(DiscoveryError, match=r"'id', 'name'.*additionalProperties"):
        conformed({"id": 1, "name": 2}, {"type": "object"})
    assert conformed({"id": 1}, {"type": "object", "additionalProperties": True}) == {"id": 1}
    assert conformed({"id": 1}, {"type": "object", "properties": {}}) == {}


def test_each_set_of_unknown_properties_is_logged_once(caplog):
    logger = logging.getLogger("tap-test")
    conform = compile_conformer(
        {"properties": {"a": OBJECT}}, RECURSIVE, warn_once("users", logger)
    )
    for record in ({"x": 1}, {"x": 2}, {"a": {"y": 1}, "x": 1}, {"x": 1}):
        conform(record)
    assert [record.getMessage() for record in caplog.records] == [
        f"Properties {names} were present in the 'users' stream but not found in catalog"
        " schema. Ignoring."
        for names in ("('x',)", "('a.y', 'x')")
    ]


def test_conform_record_data_types_conforms_a_single_record(caplog):
    schema = {"properties": {"a": STRING}}
    logger = logging.getLogger("tap-test")
    record = conform_record_data_types("users", {"a": DATE, "b": 1}, schema, RECURSIVE, logger)
    assert record == {"a": "2024-01-02"}
    assert "('b',)" in caplog.text


def test_conform_record_data_types_follows_a_changed_schema_and_warns_once(caplog):
    schema = {"properties": {"a": STRING}}
    logger = logging.getLogger("tap-test")
    for _ in range(2):
        assert conform_record_data_types("ones", {"a": 1, "b": 2}, schema, RECURSIVE, logger) == {
            "a": 1
        }
    assert len(caplog.records) == 1
    schema["properties"]["b"] = {"type": "boolean"}
    record = conform_record_data_types("ones", {"a": 1, "b": 2}, schema, RECURSIVE, logger)
    assert record == {"a": 1, "b": True}


def test_function_that_a_tap_assigns_replaces_the_warning_about_dropped_properties(
    monkeypatch, caplog
):
    calls = []
    monkeypatch.setattr(helpers, "_warn_unmapped_properties", lambda *args: calls.append(args))
    schema = {"properties": {"a": STRING}}
    logger = logging.getLogger("tap-test")
    conform_record_data_types("replaced", {"b": 1}, schema, RECURSIVE, logger)
    assert calls == [("replaced", ("b",), logger)]
    assert not caplog.records


def test_function_that_a_tap_assigns_converts_every_value(monkeypatch):
    calls = []

    def convert(elem, property_schema):
        calls.append((elem, property_schema))
        return str(elem)

    monkeypatch.setattr(helpers, "_conform_primitive_property", convert)
    integer = {"type": "integer"}
    array = {"type": "array", "items": integer}
    schema = {
        "properties": {
            "id": integer,
            "many": array,
            "one": {"type": "object", "properties": {"b": STRING}},
        }
    }
    assert conformed({"id": 1, "many": [2], "one": {"b": "x"}}, schema) == {
        "id": "1",
        "many": ["2"],
        "one": {"b": "x"},
    }
    assert calls == [(1, integer), (2, integer), ("x", STRING)]
