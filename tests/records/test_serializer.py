"""The compiled serializer writes the same bytes as the separate steps."""

from __future__ import annotations

import copy
import json
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tap_core.exceptions import DataError
from tap_core.protocols.singer.writer import encode_body
from tap_core.records.conform import compile_conformer, to_json_compatible
from tap_core.records.prune import pop_deselected_record_properties
from tap_core.records.serializer import compile_serializer, encode_record
from tap_core.singerlib.catalog import SelectionMask
from tap_core.typing.inspect import TypeConformanceLevel
from tests.records.values import UNUSUAL_VALUES, masks, records, schemas

LEVELS = list(TypeConformanceLevel)
RECURSIVE = TypeConformanceLevel.RECURSIVE

SELECT_ALL = SelectionMask({(): True})


def make_serializer(schema, mask=SELECT_ALL, level=RECURSIVE, unmapped=lambda names: None):
    return compile_serializer(
        schema=schema,
        mask=mask,
        level=level,
        encode=encode_body,
        unmapped=unmapped,
    )


def encode_step_by_step(record, schema, mask, level):
    """Select, conform and encode a record in separate steps."""
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
def test_serializer_writes_the_bytes_of_the_separate_steps(
    rows, schema, selection, level, selects_all
):
    """This holds for any sequence of records: a serializer adapts to the first ones."""
    mask = SelectionMask({(): True, **({} if selects_all else selection)})
    serializer = make_serializer(schema, mask, level)
    for row in [*rows, *rows]:
        our_record, expected_record = copy.deepcopy(row), copy.deepcopy(row)
        assert serializer(our_record) == encode_step_by_step(expected_record, schema, mask, level)
        assert repr(our_record) == repr(expected_record), (
            "both change the author's record in the same way"
        )


@settings(deadline=None)
@given(st.lists(records, min_size=1, max_size=4), schemas, st.sampled_from(LEVELS))
def test_record_that_fits_is_encoded_directly_with_the_same_bytes(rows, schema, level):
    """The sync engine encodes a record that ``fits`` without further steps."""
    serializer = make_serializer(schema, level=level)
    for row in rows:
        for _ in range(20):
            serializer(copy.deepcopy(row))
        for other in rows:
            if serializer.fits(other):
                try:
                    body = serializer.encode(other)
                except UnicodeEncodeError:
                    continue
                assert body == encode_step_by_step(copy.deepcopy(other), schema, SELECT_ALL, level)


@settings(deadline=None)
@given(records, schemas, st.sampled_from(LEVELS))
@example({"a": "\ud800"}, {"properties": {"a": {"type": "string"}}}, RECURSIVE)
def test_every_body_is_utf_8_json(row, schema, level):
    json.loads(make_serializer(schema, level=level)(row).decode(), parse_float=Decimal)


@pytest.mark.parametrize("value", UNUSUAL_VALUES, ids=repr)
@pytest.mark.parametrize("level", LEVELS)
def test_every_python_value_can_be_serialized(value, level):
    for schema in ({}, {"type": "object", "properties": {}}, {"type": "array", "items": {}}):
        serializer = make_serializer(
            {"properties": {"a": schema, "b": {"type": "string"}}}, level=level
        )
        body = serializer({"a": value, "b": "x"})
        assert json.loads(body, parse_float=Decimal)["b"] == "x"


@pytest.mark.parametrize("level", LEVELS)
def test_record_that_is_nested_too_deeply_is_an_error_with_a_reason(level):
    cyclic = {"id": 1}
    cyclic["parent"] = cyclic
    serializer = make_serializer({"properties": {"id": {}, "parent": {}}}, level=level)
    for encode in (serializer, lambda record: encode_record(record, encode_body)):
        with pytest.raises(DataError, match="nested too deeply, or contains itself"):
            encode(cyclic)


def test_plain_records_with_the_same_properties_take_the_fast_path():
    serializer = make_serializer(
        {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
    )
    for _ in range(20):
        serializer({"a": 1, "b": "x"})
    assert serializer.fits({"a": None, "b": "x"})


def test_records_that_need_conversion_do_not_take_the_fast_path():
    serializer = make_serializer(
        {"properties": {"a": {"type": "boolean"}, "b": {"type": "object"}}}
    )
    for row in ({"a": 1}, {"b": {1: 2}}, {"c": 1}):
        for _ in range(20):
            serializer(row)
        assert not serializer.fits(row)


def test_order_of_keys_in_the_record_is_kept():
    serializer = make_serializer({"properties": {"a": {}, "b": {}}})
    assert [serializer({"b": 1, "a": 2}), serializer({"a": 1, "b": 2})] == [
        b'{"b":1,"a":2}',
        b'{"a":1,"b":2}',
    ]


def test_records_of_many_layouts_have_the_same_bytes():
    names = [f"n{number}" for number in range(300)]
    serializer = make_serializer({"properties": {name: {"type": "integer"} for name in names}})
    for name in names * 2:
        assert serializer({name: 1}) == b'{"%s":1}' % name.encode()


def test_unknown_properties_are_reported_for_each_record():
    reported = []
    serializer = make_serializer(
        {"properties": {"a": {"properties": {}, "type": "object"}}}, unmapped=reported.append
    )
    for _ in range(2):
        assert serializer({"a": {"x": 1}, "b": 2}) == b'{"a":{}}'
    assert reported == [("a.x", "b")] * 2


def test_deselected_property_is_removed_from_the_record_in_place():
    mask = SelectionMask({(): True, ("properties", "b"): False})
    serializer = make_serializer({"properties": {"a": {}, "b": {}}}, mask)
    rows = [{"a": 1, "b": 2}, {"b": 2, "a": [1]}, {"a": 1}]
    assert [serializer(row) for row in rows] == [b'{"a":1}', b'{"a":[1]}', b'{"a":1}']
    assert rows == [{"a": 1}, {"a": [1]}, {"a": 1}]


def test_deselected_property_of_an_object_is_removed():
    mask = SelectionMask({(): True, ("properties", "a", "properties", "b"): False})
    definition = {"type": "object", "properties": {"b": {}, "c": {}}}
    serializer = make_serializer({"properties": {"a": definition}}, mask)
    row = {"a": {"b": 1, "c": 2}}
    assert serializer(row) == b'{"a":{"c":2}}'
    assert row == {"a": {"c": 2}}


@pytest.mark.parametrize(
    "value", [{None: 1}, {True: 1}, {"x": {None: 1}}, {"x": [{1.5: 1}]}], ids=str
)
def test_non_string_keys_are_written_as_json_libraries_do(value):
    """The object allows additional properties besides a declared one."""
    definition = {"type": "object", "properties": {"a": {}}, "additionalProperties": True}
    schema = {"properties": {"o": definition}}
    body = make_serializer(schema)({"o": value})
    assert body == encode_step_by_step({"o": value}, schema, SELECT_ALL, RECURSIVE)
    assert b"None" not in body
    assert b"True" not in body
