"""Time windows: they cover an interval without gaps and overlaps."""

# ruff: noqa: DTZ001 - hypothesis begins without a zone
from __future__ import annotations

import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.incremental.durations import ISODuration, parse_duration
from tap_core.incremental.time_windows import parse_clamp, split_into_windows

UTC = dt.timezone.utc
DAY = dt.timedelta(days=1)


def day(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=UTC)


def days(start: str, end: str, **options: object) -> list[str]:
    spans = split_into_windows(day(start), day(end), **options)
    return [f"{first:%m-%d}..{last:%m-%d}" for first, last in spans]


@given(
    start=st.datetimes(dt.datetime(1999, 1, 1), dt.datetime(2030, 1, 1)),
    length=st.timedeltas(dt.timedelta(0), dt.timedelta(days=900)),
    months=st.integers(0, 14),
    duration=st.timedeltas(dt.timedelta(0), dt.timedelta(days=40)),
    granularity=st.sampled_from([dt.timedelta(microseconds=1), dt.timedelta(seconds=1), DAY]),
    joins_last=st.booleans(),
)
def test_windows_have_no_gaps_and_no_overlaps(
    start: dt.datetime,
    length: dt.timedelta,
    months: int,
    duration: dt.timedelta,
    granularity: dt.timedelta,
    joins_last: bool,
) -> None:
    """Each window starts one granularity after the end of the previous one, also in leap years."""
    step = ISODuration(
        months, max(duration, granularity, dt.timedelta(hours=30) if not months else duration)
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


def test_each_step_starts_a_window() -> None:
    """The windows equal those of airbyte-cdk, except that the last day is a window."""
    step = parse_duration("P10D")
    assert days("2024-01-01", "2024-01-21", step=step, granularity=DAY) == [
        "01-01..01-10",
        "01-11..01-20",
        "01-21..01-21",
    ]
    daily = days("2024-02-27", "2024-03-02", step=parse_duration("P1D"), granularity=DAY)
    assert daily == ["02-27..02-27", "02-28..02-28", "02-29..02-29", "03-01..03-01", "03-02..03-02"]


def test_monthly_windows_keep_the_day_of_the_start_after_february() -> None:
    """Months are counted from the first start; airbyte-cdk counts from the previous one."""
    assert days("2024-01-31", "2024-05-15", step=parse_duration("P1M"), granularity=DAY) == [
        "01-31..02-28",
        "02-29..03-30",
        "03-31..04-29",
        "04-30..05-15",
    ]


def test_windows_without_granularity_share_their_bounds() -> None:
    step = parse_duration("P10D")
    assert days("2024-01-01", "2024-01-21", step=step) == ["01-01..01-11", "01-11..01-21"]


def test_windows_end_at_the_last_moment_of_the_calendar() -> None:
    last, step = dt.datetime.max.replace(tzinfo=UTC), parse_duration("P4000Y")
    spans = split_into_windows(
        day("2020-01-01"), last, step=step, granularity=dt.datetime.resolution
    )
    years = [(first.year, until.year) for first, until in itertools.islice(spans, 9)]
    assert years == [(2020, 6019), (6020, 9999), (9999, 9999)]


def test_empty_interval_has_no_window() -> None:
    """If start equals end, one granularity is left, unless ``joins_last`` is set."""
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
def test_clamped_windows_cover_complete_periods(clamping: dict, expected: list[str]) -> None:
    """Periods that start before the interval or end after it are omitted."""
    spans = split_into_windows(
        day("2024-01-16T10:00"),
        day("2024-04-14T10:00"),
        step=parse_duration("P1M"),
        granularity=DAY,
        clamp=parse_clamp(clamping),
    )
    assert [f"{first:%m-%d}..{last:%m-%d}" for first, last in spans] == expected


@pytest.mark.parametrize(
    "target, near_year_1, near_year_9999",
    [
        ("MONTH", [], []),
        ("WEEK", ["0001-01-01..0001-01-14"], ["9999-12-20..9999-12-26"]),
        ("DAY", ["0001-01-01..0001-01-19"], ["9999-12-16..9999-12-30"]),
    ],
)
def test_clamping_at_the_limits_of_dates(
    target: str, near_year_1: list[str], near_year_9999: list[str]
) -> None:
    """Before, these intervals ended with an OverflowError."""
    clamp = parse_clamp({"target": target, "target_details": {"weekday": "MONDAY"}})

    def clamped(start: str, end: str) -> list[str]:
        spans = split_into_windows(
            day(start), day(end), step=parse_duration("P1M"), granularity=DAY, clamp=clamp
        )
        return [f"{first.date()}..{last.date()}" for first, last in spans]

    assert clamped("0001-01-01", "0001-01-20") == near_year_1
    assert clamped("9999-12-16", "9999-12-31") == near_year_9999


@pytest.mark.parametrize(
    "clamping",
    [{}, {"target": "YEAR"}, {"target": "WEEK"}, {"target": "WEEK", "target_details": {}}],
)
def test_invalid_clamping_is_rejected(clamping: dict) -> None:
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
def test_iso_8601_durations_are_parsed(text: str, months: int, seconds: float) -> None:
    duration = parse_duration(text)
    assert duration == ISODuration(months, dt.timedelta(seconds=seconds))
    assert duration.is_nothing == (text == "P0D")


@pytest.mark.parametrize("text", ["", "P", "PT", "10 days", "P-1D", "P1H", "1D", "P9999999999D"])
def test_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_duration_beyond_the_calendar_is_limited_to_its_bounds() -> None:
    assert parse_duration("P9000Y").after(day("2024-01-01")).year == 9999
    assert parse_duration("P9000Y").before(day("2024-01-01")).year == 1
