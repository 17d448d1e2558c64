"""The compiled way and the careful way from a record to its bytes are one."""

from __future__ import annotations

import copy
import json
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tap_core.protocols.singer.writer import encode_body
from tap_core.records.conform import compile_conformer, to_json_compatible
from tap_core.records.select import pop_deselected_record_properties
from tap_core.records.serializer import compile_serializer
from tap_core.singerlib.catalog import SelectionMask
from tap_core.typing.inspect import TypeConformanceLevel
from tests.records.values import ODD, masks, records, schemas

LEVELS = list(TypeConformanceLevel)
RECURSIVE = TypeConformanceLevel.RECURSIVE

EVERYTHING = SelectionMask({(): True})


def shape_of(schema, mask=EVERYTHING, level=RECURSIVE, unmapped=lambda names: None):
    return compile_serializer(
        schema=schema,
        effective_schema=schema,
        mask=mask,
        level=level,
        encode=encode_body,
        unmapped=unmapped,
    )


def plainly(record, schema, mask, level):
    """The same, one step after the other."""
    pop_deselected_record_properties(record, schema, mask)
    return encode_body(
        to_json_compatible(compile_conformer(schema, level, lambda names: None)(record))
    )


@settings(deadline=None)
@given(
    st.lists(records, min_size=1, max_size=4),
    schemas,
    masks,
    st.sampled_from(LEVELS),
    st.booleans(),
)
def test_both_ways_give_the_same_bytes(rows, schema, crumbs, level, whole):
    """Whatever came before: a shape remembers layouts and types."""
    mask = SelectionMask({(): True, **({} if whole else crumbs)})
    shape = shape_of(schema, mask, level)
    for row in [*rows, *rows]:
        ours, theirs = copy.deepcopy(row), copy.deepcopy(row)
        assert shape(ours) == plainly(theirs, schema, mask, level)
        assert repr(ours) == repr(theirs), "the author sees the same left of his record"


@settings(deadline=None)
@given(st.lists(records, min_size=1, max_size=4), schemas, st.sampled_from(LEVELS))
def test_what_the_loop_spares_itself_is_spared_rightly(rows, schema, level):
    """The engine encodes a record that fits as it is."""
    shape = shape_of(schema, level=level)
    for row in rows:
        for _ in range(20):
            shape(copy.deepcopy(row))
        for other in rows:
            if shape.fits(other):
                try:
                    body = shape.encode(other)
                except UnicodeEncodeError:
                    continue
                assert body == plainly(copy.deepcopy(other), schema, EVERYTHING, level)


@settings(deadline=None)
@given(records, schemas, st.sampled_from(LEVELS))
@example({"a": "\ud800"}, {"properties": {"a": {"type": "string"}}}, RECURSIVE)
def test_every_body_is_json_in_utf_8(row, schema, level):
    json.loads(shape_of(schema, level=level)(row).decode(), parse_float=Decimal)


@pytest.mark.parametrize("value", ODD, ids=repr)
@pytest.mark.parametrize("level", LEVELS)
def test_no_value_stops_a_sync(value, level):
    for schema in ({}, {"type": "object", "properties": {}}, {"type": "array", "items": {}}):
        shape = shape_of({"properties": {"a": schema, "b": {"type": "string"}}}, level=level)
        body = shape({"a": value, "b": "x"})
        assert json.loads(body, parse_float=Decimal)["b"] == "x"


def test_plain_records_of_one_layout_take_the_short_way():
    shape = shape_of({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}})
    for _ in range(20):
        shape({"a": 1, "b": "x"})
    assert shape.fits({"a": None, "b": "x"})


def test_records_that_need_more_do_not_take_the_short_way():
    shape = shape_of({"properties": {"a": {"type": "boolean"}, "b": {"type": "object"}}})
    for row in ({"a": 1}, {"b": {1: 2}}, {"c": 1}):
        for _ in range(20):
            shape(row)
        assert not shape.fits(row)


def test_the_order_of_keys_is_the_records_own():
    shape = shape_of({"properties": {"a": {}, "b": {}}})
    assert [shape({"b": 1, "a": 2}), shape({"a": 1, "b": 2})] == [
        b'{"b":1,"a":2}',
        b'{"a":1,"b":2}',
    ]


def test_a_source_of_ever_new_layouts_is_forgotten_again():
    """Memory must not grow with the number of layouts, and the bytes stay right."""
    names = [f"n{number}" for number in range(300)]
    shape = shape_of({"properties": {name: {"type": "integer"} for name in names}})
    for name in names * 2:
        assert shape({name: 1}) == b'{"%s":1}' % name.encode()


def test_unknown_properties_are_told_each_time():
    told = []
    shape = shape_of(
        {"properties": {"a": {"properties": {}, "type": "object"}}}, unmapped=told.append
    )
    for _ in range(2):
        assert shape({"a": {"x": 1}, "b": 2}) == b'{"a":{}}'
    assert told == [("a.x", "b")] * 2


def test_a_deselected_property_is_taken_from_the_record_itself():
    mask = SelectionMask({(): True, ("properties", "b"): False})
    shape = shape_of({"properties": {"a": {}, "b": {}}}, mask)
    rows = [{"a": 1, "b": 2}, {"b": 2, "a": [1]}, {"a": 1}]
    assert [shape(row) for row in rows] == [b'{"a":1}', b'{"a":[1]}', b'{"a":1}']
    assert rows == [{"a": 1}, {"a": [1]}, {"a": 1}]


def test_a_deselected_property_of_an_object_is_taken_too():
    mask = SelectionMask({(): True, ("properties", "a", "properties", "b"): False})
    definition = {"type": "object", "properties": {"b": {}, "c": {}}}
    shape = shape_of({"properties": {"a": definition}}, mask)
    row = {"a": {"b": 1, "c": 2}}
    assert shape(row) == b'{"a":{"c":2}}'
    assert row == {"a": {"c": 2}}


@pytest.mark.parametrize(
    "value", [{None: 1}, {True: 1}, {"x": {None: 1}}, {"x": [{1.5: 1}]}], ids=str
)
def test_keys_that_are_no_text_are_written_as_json_writers_do(value):
    """In an object that takes any property, where a declared one would do."""
    definition = {"type": "object", "properties": {"a": {}}, "additionalProperties": True}
    schema = {"properties": {"o": definition}}
    body = shape_of(schema)({"o": value})
    assert body == plainly({"o": value}, schema, EVERYTHING, RECURSIVE)
    assert b"None" not in body
    assert b"True" not in body
