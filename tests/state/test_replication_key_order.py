"""Comparison of replication key values by the type in the schema."""

from __future__ import annotations

import datetime as dt
import logging
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.state.replication_key_comparator import (
    ValueKind,
    is_missing,
    make_comparator,
    parse_number,
)

INSTANT = {"type": ["string", "null"], "format": "date-time"}
NUMBER = {"type": ["integer", "null"]}
TEXT = {"type": "string"}

NAIVE = dt.datetime.fromisoformat("2024-05-01")

OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda n: dt.timezone(dt.timedelta(minutes=n)))
MOMENTS = st.datetimes(
    min_value=dt.datetime.fromisoformat("1000-01-03"),
    max_value=dt.datetime.fromisoformat("9999-12-29"),
    timezones=OFFSETS,
)


@st.composite
def write_instant(draw, moment: dt.datetime) -> object:
    """Return one of the ways in which a source may write an instant."""
    text = moment.isoformat(sep=draw(st.sampled_from("T ")), timespec="microseconds")
    form = draw(st.sampled_from(["object", "iso", "utc", "compact", "unpadded", "long", "naive"]))
    utc = moment.astimezone(dt.timezone.utc)
    return {
        "object": moment,
        "iso": text,
        "utc": utc.isoformat().replace("+00:00", "Z"),
        "compact": text[:-3] + text[-2:],
        "unpadded": utc.strftime("%Y-%m-%dT") + f"{utc.hour}:{utc:%M:%S.%f}Z",
        "long": text[:26] + "000" + text[26:],
        "naive": utc.replace(tzinfo=None).isoformat(" "),
    }[form]


@given(st.data(), MOMENTS, MOMENTS)
def test_datetimes_are_compared_as_instants_in_any_format(data, first, other) -> None:
    order = make_comparator(INSTANT)
    left, right = data.draw(write_instant(first)), data.draw(write_instant(other))
    assert order.newer_or_equal(left, right) == (first >= other)
    assert order.minimum(left, right) is (left if first <= other else right)


@pytest.mark.parametrize(
    "earlier, later",
    [
        ("2021-01-02T0:00:00Z", "2021-01-02T00:00:01Z"),
        ("2021-01-01T23:59:59Z", "2021-01-02T0:00:00Z"),
        ("2024-05-01T01:00:00+02:00", "2024-05-01T00:00:00Z"),
        ("2024-05-01", dt.date(2024, 5, 2)),
        (dt.date(2024, 5, 1), "2024-05-01T00:00:01Z"),
        ("2024-05-01", "2024-05-01 10:00:00"),
        ("2024-05-01T00:00:00.123456788Z", "2024-05-01T00:00:00.123456789Z"),
        ("2024-05-01T00:00:00.1Z", "2024-05-01T00:00:00.1000001Z"),
        ("20240501T000000Z", "2024-05-01T00:00:01Z"),
        ("20240501T000000.1234567Z", "20240501T000000.1234568Z"),
        ("20240501T020000.1234567+0200", "2024-05-01T00:00:00.12345671Z"),
        ("2024-05-01T00:00:00,9999998Z", "20240501T000000,99999980001Z"),
        ("2024-05-01T00:00Z", "2024-05-01T00:00:01z"),
        ("1850-01-01T00:19:31+00:19:32", "1850-01-01T00:00:00Z"),
        ("1849-12-31T18:00:00-05:53:28", dt.datetime(1850, 1, 1, tzinfo=ZoneInfo("UTC"))),
        (1_700_000_000, 1_700_000_000.5),
        (NAIVE, dt.datetime(2024, 5, 1, 1, tzinfo=dt.timezone.utc)),
    ],
)
def test_dates_and_datetimes_of_different_formats_are_compared(earlier, later, caplog) -> None:
    order = make_comparator(INSTANT)
    assert order.newer_or_equal(later, earlier)
    assert not order.newer_or_equal(earlier, later)
    assert caplog.records == []


def test_repeated_hour_at_the_end_of_summer_time_is_ordered() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    summer = dt.datetime(2024, 10, 27, 2, 30, tzinfo=berlin)
    winter = dt.datetime(2024, 10, 27, 2, 10, tzinfo=berlin, fold=1)
    assert make_comparator(INSTANT).newer_or_equal(winter, summer)
    assert not make_comparator(INSTANT).newer_or_equal(summer, winter)


def test_first_and_last_dates_of_the_calendar_do_not_overflow() -> None:
    east = dt.timezone(dt.timedelta(hours=14))
    first = dt.datetime(1, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))
    assert make_comparator(INSTANT).newer_or_equal(
        "0001-01-01T00:00:00+14:00", first.replace(tzinfo=east)
    )
    assert make_comparator(INSTANT).newer_or_equal("2000-01-01T00:00:00Z", first)


@pytest.mark.parametrize(
    "smaller, greater",
    [
        (9, 10),
        ("9", "10"),
        (9, "10"),
        (Decimal("9.5"), 10),
        (1.5, Decimal("1.51")),
        ("1e2", 101),
        (-(2**70), 2**70),
        (2**63, 2**63 + 1),
    ],
)
def test_numbers_are_compared_numerically(smaller, greater) -> None:
    order = make_comparator(NUMBER)
    assert order.newer_or_equal(greater, smaller)
    assert not order.newer_or_equal(smaller, greater)


def test_string_keys_are_compared_as_text() -> None:
    order = make_comparator(TEXT)
    assert order.newer_or_equal("9", "10")
    assert order.newer_or_equal("2024-05-01T01:00:00+02:00", "2024-05-01T00:00:00Z")
    assert order.newer_or_equal(10, 9)
    assert order.newer_or_equal(dt.date(2024, 5, 2), dt.date(2024, 5, 1))
    assert order.newer_or_equal(NAIVE, "2024-05-01T00:00:00.000000+00:00")


@pytest.mark.parametrize(
    "schema, new, old",
    [
        (INSTANT, "soon", "2024-05-01T00:00:00Z"),
        (INSTANT, "infinity", "-infinity"),
        (INSTANT, "2024-02-30T00:00:00Z", "2024-02-29T00:00:00Z"),
        (INSTANT, "1700000001", "1700000000"),
        (INSTANT, "20240502", "20240501"),
        (INSTANT, "2024-05-01T00:00:00+99:00", "2024-05-01T00:00:00+00:00"),
        (INSTANT, "20240501x", "20240501T000000Z"),
        (INSTANT, dt.datetime(2024, 5, 1, tzinfo=dt.timezone.utc), ""),
        (NUMBER, "ten", "nine"),
        (NUMBER, Decimal("NaN"), "A"),
        (TEXT, "a", 10),
    ],
)
def test_invalid_value_is_compared_as_text_with_one_warning(schema, new, old, caplog) -> None:
    order = make_comparator(schema)
    with caplog.at_level(logging.WARNING):
        assert order.newer_or_equal(new, old) == (str(new) >= str(old))
        assert order.newer_or_equal(old, new) == (str(old) >= str(new))
    assert len(caplog.records) == 1
    assert "compared as text" in caplog.text
    assert "datetime" not in caplog.text


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.decimals()),
    lambda inner: st.lists(inner, max_size=2),
)


@given(st.sampled_from([INSTANT, NUMBER, TEXT]), JSON_VALUES, JSON_VALUES)
def test_comparison_of_any_values_never_raises(schema, new, old) -> None:
    order = make_comparator(schema)
    assert order.newer_or_equal(new, old) or order.newer_or_equal(old, new)


@pytest.mark.parametrize(
    "schema, kind",
    [
        (None, ValueKind.TEXT),
        ({}, ValueKind.TEXT),
        (True, ValueKind.TEXT),
        ({"type": "string"}, ValueKind.TEXT),
        ({"type": "string", "format": "time"}, ValueKind.TEXT),
        ({"type": "string", "format": "date"}, ValueKind.INSTANT),
        ({"anyOf": [{"type": "null"}, INSTANT]}, ValueKind.INSTANT),
        ({"oneOf": [{"type": "null"}, {"type": "number"}]}, ValueKind.NUMBER),
        ({"allOf": [{"type": "integer"}, {"minimum": 0}]}, ValueKind.NUMBER),
        ({"type": ["number", "null"]}, ValueKind.NUMBER),
        ({"type": ["string", "null"], "format": "x-singer.decimal"}, ValueKind.NUMBER),
        ({"type": ["number", "string"]}, ValueKind.TEXT),
    ],
)
def test_schema_determines_the_kind_of_comparison(schema, kind) -> None:
    assert make_comparator(schema).kind is kind


def test_missing_values_are_recognized() -> None:
    assert is_missing(None)
    assert is_missing(float("nan"))
    assert is_missing(Decimal("sNaN"))
    assert is_missing(float("-inf"))
    assert not is_missing(0)
    assert not is_missing("")
    assert parse_number([1]) is None
