"""Windows: they cover what was asked for, without a gap and without an overlap."""

# ruff: noqa: DTZ001 - hypothesis begins without a zone
from __future__ import annotations

import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.incremental.durations import ISODuration, parse_duration
from tap_core.incremental.windows import parse_clamp, split_into_windows

UTC = dt.timezone.utc
DAY = dt.timedelta(days=1)


def day(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=UTC)


def days(start: str, end: str, **given: object) -> list[str]:
    spans = split_into_windows(day(start), day(end), **given)
    return [f"{first:%m-%d}..{last:%m-%d}" for first, last in spans]


@given(
    start=st.datetimes(dt.datetime(1999, 1, 1), dt.datetime(2030, 1, 1)),
    length=st.timedeltas(dt.timedelta(0), dt.timedelta(days=900)),
    months=st.integers(0, 14),
    rest=st.timedeltas(dt.timedelta(0), dt.timedelta(days=40)),
    granularity=st.sampled_from([dt.timedelta(microseconds=1), dt.timedelta(seconds=1), DAY]),
    joins_last=st.booleans(),
)
def test_windows_neither_overlap_nor_leave_a_gap(
    start: dt.datetime,
    length: dt.timedelta,
    months: int,
    rest: dt.timedelta,
    granularity: dt.timedelta,
    joins_last: bool,
) -> None:
    """Each begins a granule after the one before ends, across months and leap years."""
    step = ISODuration(
        months, max(rest, granularity, dt.timedelta(hours=30) if not months else rest)
    )
    first, end = start.replace(tzinfo=UTC), (start + length).replace(tzinfo=UTC)
    spans = list(
        split_into_windows(first, end, step=step, granularity=granularity, joins_last=joins_last)
    )
    if joins_last and first == end:
        assert not spans
        return
    assert spans[0][0] == first
    assert spans[-1][1] == end
    assert all(lower <= upper for lower, upper in spans)
    for (_, upper), (lower, _) in itertools.pairwise(spans):
        assert lower - upper == granularity


def test_each_step_begins_a_window() -> None:
    """Ten days by the second: airbyte-cdk's windows, but for the last day, which is one."""
    step = parse_duration("P10D")
    assert days("2024-01-01", "2024-01-21", step=step, granularity=DAY) == [
        "01-01..01-10",
        "01-11..01-20",
        "01-21..01-21",
    ]
    daily = days("2024-02-27", "2024-03-02", step=parse_duration("P1D"), granularity=DAY)
    assert daily == ["02-27..02-27", "02-28..02-28", "02-29..02-29", "03-01..03-01", "03-02..03-02"]


def test_the_last_day_of_a_month_is_not_lost_in_february() -> None:
    """A month is counted from the first lower bound; airbyte-cdk counts from the last."""
    assert days("2024-01-31", "2024-05-15", step=parse_duration("P1M"), granularity=DAY) == [
        "01-31..02-28",
        "02-29..03-30",
        "03-31..04-29",
        "04-30..05-15",
    ]


def test_without_granularity_windows_touch() -> None:
    step = parse_duration("P10D")
    assert days("2024-01-01", "2024-01-21", step=step) == ["01-01..01-11", "01-11..01-21"]


def test_nothing_is_asked_for_where_there_is_nothing() -> None:
    """At the end itself a granule is left, unless the API takes no interval of one instant."""
    assert days("2024-01-02", "2024-01-01") == []
    assert days("2024-01-01", "2024-01-01") == []
    assert days("2024-01-01", "2024-01-01", granularity=DAY) == ["01-01..01-01"]
    assert days("2024-01-01", "2024-01-01", granularity=DAY, joins_last=True) == []
    step = parse_duration("P10D")
    joined = days("2024-01-01", "2024-01-11", step=step, granularity=DAY, joins_last=True)
    assert joined == ["01-01..01-11"]


@pytest.mark.parametrize(
    "clamping, expected",
    [
        ({"target": "MONTH"}, ["02-01..02-29", "03-01..03-31"]),
        (
            {"target": "WEEK", "target_details": {"weekday": "MONDAY"}},
            ["01-22..02-25", "02-26..03-31", "04-01..04-07"],
        ),
        ({"target": "DAY"}, ["01-17..02-16", "02-17..03-16", "03-17..04-13"]),
    ],
)
def test_windows_are_clamped_to_whole_periods(clamping: dict, expected: list[str]) -> None:
    """A period that has begun before the start, or not ended, is left for another sync."""
    spans = split_into_windows(
        day("2024-01-16T10:00"),
        day("2024-04-14T10:00"),
        step=parse_duration("P1M"),
        granularity=DAY,
        clamp=parse_clamp(clamping),
    )
    assert [f"{first:%m-%d}..{last:%m-%d}" for first, last in spans] == expected


@pytest.mark.parametrize(
    "clamping",
    [{}, {"target": "YEAR"}, {"target": "WEEK"}, {"target": "WEEK", "target_details": {}}],
)
def test_a_clamp_that_is_none_is_refused(clamping: dict) -> None:
    with pytest.raises(ValueError, match=r"clamping|Clamping"):
        parse_clamp(clamping)


@pytest.mark.parametrize(
    "text, months, seconds",
    [
        ("P1Y2M", 14, 0),
        ("P1W", 0, 604800),
        ("PT0.001S", 0, 0.001),
        ("P1DT2H3M4S", 0, 93784),
        ("PT0,5M", 0, 30),
        ("P0D", 0, 0),
        ("P1.5D", 0, 129600),
    ],
)
def test_durations_of_iso_8601_are_read(text: str, months: int, seconds: float) -> None:
    found = parse_duration(text)
    assert found == ISODuration(months, dt.timedelta(seconds=seconds))
    assert found.is_nothing == (text == "P0D")


@pytest.mark.parametrize("text", ["", "P", "PT", "10 days", "P-1D", "P1H", "1D", "P9999999999D"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_an_instant_beyond_the_calendar_is_its_end() -> None:
    assert parse_duration("P9000Y").after(day("2024-01-01")).year == 9999
    assert parse_duration("P9000Y").before(day("2024-01-01")).year == 1
