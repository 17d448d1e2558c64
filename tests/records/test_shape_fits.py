"""The compiled check of a layout: it only ever spares time."""

from __future__ import annotations

import copy
import logging
from datetime import datetime, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.protocols.singer.writer import encode_body
from tap_core.records.conform import warn_once
from tap_core.records.serializer import compile_serializer
from tap_core.singerlib.catalog import MetadataMapping
from tap_core.typing.inspect import TypeConformanceLevel

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


def new_shape(level=TypeConformanceLevel.RECURSIVE):
    return compile_serializer(
        schema=SCHEMA,
        effective_schema=SCHEMA,
        mask=MASK,
        level=level,
        encode=encode_body,
        unmapped=warn_once("s", logging.getLogger("test")),
    )


def warm_shape(level=TypeConformanceLevel.RECURSIVE):
    shape = new_shape(level)
    for _ in range(100):
        shape(copy.deepcopy(USUAL))
    assert shape.fits(copy.deepcopy(USUAL))
    return shape


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
@given(changes=RECORDS, without=st.sets(st.sampled_from(sorted(USUAL)), max_size=2))
def test_the_bytes_are_those_of_the_careful_way(level, changes, without) -> None:
    record = {k: v for k, v in {**USUAL, **changes}.items() if k not in without}
    shape = warm_shape(level)
    one, other = copy.deepcopy(record), copy.deepcopy(record)
    quick = encode_or_shape(shape, one)
    assert quick == new_shape(level)(other)
    assert "gone" not in one


def encode_or_shape(shape, record):
    """Do what the loop does."""
    if shape.fits(record):
        try:
            return shape.encode(record)
        except (UnicodeEncodeError, TypeError, ValueError, OverflowError):
            return shape(record)
    return shape(record)


def test_another_layout_brings_its_own_check_and_the_first_one_returns() -> None:
    shape = warm_shape()
    first = shape.fits
    for _ in range(100):
        shape({"id": 1})
    assert shape.fits({"id": 2})
    assert not first({"id": 2})
    shape(copy.deepcopy(USUAL))
    assert shape.fits is first


@pytest.mark.parametrize("name, value", [("flag", 1), ("id", [{1}]), ("place", {"city": [b"1"]})])
def test_what_needs_conforming_does_not_fit(name, value) -> None:
    assert not warm_shape().fits({**copy.deepcopy(USUAL), name: value})
