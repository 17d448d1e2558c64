"""Instants as text."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone

import pytest

from tap_core.helpers._compat import (
    date_fromisoformat,
    datetime_fromisoformat,
    time_fromisoformat,
)
from tap_core.helpers._util import utc_now
from tap_core.singerlib.utils import NonUTCDatetimeError, strftime, strptime_to_utc

UTC = timezone.utc


def test_now_is_aware():
    assert utc_now().tzinfo is UTC
    assert utc_now() >= utc_now() - timedelta(seconds=1)


@pytest.mark.parametrize(
    "text, moment",
    [
        ("2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02T03:04:05", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02T03:04:05.5+02:00", datetime(2024, 1, 2, 1, 4, 5, 500000, tzinfo=UTC)),
        ("2024-01-02T03:04:05.123456Z", datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)),
        ("2024-01-02", datetime(2024, 1, 2, tzinfo=UTC)),
    ],
)
def test_a_text_is_read_as_an_instant_of_utc(text, moment):
    assert strptime_to_utc(text) == moment
    assert strptime_to_utc(text).tzinfo is UTC


def test_a_date_time_without_an_offset_may_stay_naive():
    naive = datetime(2024, 1, 2, 3, 4, 5, 500000)  # noqa: DTZ001
    assert datetime_fromisoformat("2024-01-02T03:04:05.5") == naive
    assert datetime_fromisoformat("2024-01-02T03:04:05.5Z") == naive.replace(tzinfo=UTC)


def test_dates_and_times_of_day_are_read_by_the_old_names():
    assert date_fromisoformat("2024-01-02") == date(2024, 1, 2)
    assert time_fromisoformat("03:04:05.5") == time(3, 4, 5, 500000)
    assert time_fromisoformat("03:04:05Z") == time(3, 4, 5, tzinfo=UTC)


def test_a_text_that_is_none_is_refused():
    with pytest.raises(ValueError, match="yesterday"):
        strptime_to_utc("yesterday")


def test_an_instant_is_written_with_six_digits_and_a_z():
    assert strftime(datetime(2024, 1, 2, tzinfo=UTC)) == "2024-01-02T00:00:00.000000Z"
    assert strftime(datetime(7, 1, 2, tzinfo=UTC), "%04Y-%m-%d") == "0007-01-02"


def test_only_utc_is_written():
    for moment in (datetime(2024, 1, 2, tzinfo=timezone(timedelta(hours=1))), datetime(2024, 1, 2)):  # noqa: DTZ001
        with pytest.raises(NonUTCDatetimeError):
            strftime(moment)
