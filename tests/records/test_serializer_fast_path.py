"""The compiled layout check: it changes only the speed, not the bytes."""

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


def new_serializer(level=TypeConformanceLevel.RECURSIVE):
    return compile_serializer(
        schema=SCHEMA,
        effective_schema=SCHEMA,
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
@given(changes=RECORDS, without=st.sets(st.sampled_from(sorted(USUAL)), max_size=2))
def test_fast_path_writes_the_bytes_of_a_new_serializer(level, changes, without) -> None:
    record = {k: v for k, v in {**USUAL, **changes}.items() if k not in without}
    serializer = warm_serializer(level)
    one, other = copy.deepcopy(record), copy.deepcopy(record)
    quick = encode_or_serialize(serializer, one)
    assert quick == new_serializer(level)(other)
    assert "gone" not in one


def encode_or_serialize(serializer, record):
    """Encode a record as the sync engine does."""
    if serializer.fits(record):
        try:
            return serializer.encode(record)
        except (UnicodeEncodeError, TypeError, ValueError, OverflowError):
            return serializer(record)
    return serializer(record)


def test_each_layout_has_its_own_check() -> None:
    serializer = warm_serializer()
    first = serializer.fits
    for _ in range(100):
        serializer({"id": 1})
    assert serializer.fits({"id": 2})
    assert not first({"id": 2})
    serializer(copy.deepcopy(USUAL))
    assert serializer.fits is first


@pytest.mark.parametrize("name, value", [("flag", 1), ("id", [{1}]), ("place", {"city": [b"1"]})])
def test_record_that_needs_conversion_does_not_fit(name, value) -> None:
    assert not warm_serializer().fits({**copy.deepcopy(USUAL), name: value})
