"""Encoding of state values as JSON: compact, on one line, for any value."""

from __future__ import annotations

import datetime as dt
import json
import types
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.state.encoder import encode_members, encode_value

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=12,
)


@given(JSON.filter(lambda v: "Infinity" not in json.dumps(v)))
def test_plain_values_are_encoded_as_by_the_json_module(value) -> None:
    text = encode_value(value)
    assert text == json.dumps(value, separators=(",", ":")).encode()
    assert b"\n" not in text


@pytest.mark.parametrize(
    "value, text",
    [
        (Decimal("1.50"), b"1.50"),
        (Decimal("12345678901234567890.123"), b"12345678901234567890.123"),
        (Decimal("NaN"), b"null"),
        (Decimal("-Infinity"), b"null"),
        (float("nan"), b"null"),
        (float("inf"), b"null"),
        (2**100, b"1267650600228229401496703205376"),
        (dt.datetime.fromisoformat("2024-01-02T03:04:05"), b'"2024-01-02T03:04:05"'),
        (dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc), b'"2024-01-02T00:00:00+00:00"'),
        (dt.date(2024, 1, 2), b'"2024-01-02"'),
        (uuid.UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
        (types.MappingProxyType({"a": 1}), b'{"a":1}'),
        ((1, 2), b"[1,2]"),
        ("\u2028\ud800é", b'"\\u2028\\ud800\\u00e9"'),
        ({2: 0, None: 0, True: 0, 1.5: 0}, b'{"2":0,"null":0,"true":0,"1.5":0}'),
    ],
)
@pytest.mark.parametrize("other", [0, Decimal(2)])
def test_values_without_a_json_type_are_encoded(value, text, other) -> None:
    assert encode_value([value, other]) == b"[" + text + b",%d]" % other
    assert encode_value({"a": {"b": value}, "c": other}) == (
        b'{"a":{"b":' + text + b'},"c":%d}' % other
    )


def test_tuple_key_is_an_error() -> None:
    with pytest.raises(TypeError):
        encode_value({(1, 2): 3})


def test_members_are_the_text_of_an_object_without_its_braces() -> None:
    assert encode_members({"a": 1, "b": 2}) == b'"a":1,"b":2'
    assert encode_members({}) == b""
