"""Parsing and writing of datetimes as text."""

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


def test_utc_now_is_timezone_aware():
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
def test_datetime_text_is_parsed_as_utc(text, moment):
    assert strptime_to_utc(text) == moment
    assert strptime_to_utc(text).tzinfo is UTC


def test_datetime_fromisoformat_without_an_offset_stays_naive():
    naive = datetime(2024, 1, 2, 3, 4, 5, 500000)  # noqa: DTZ001
    assert datetime_fromisoformat("2024-01-02T03:04:05.5") == naive
    assert datetime_fromisoformat("2024-01-02T03:04:05.5Z") == naive.replace(tzinfo=UTC)
    assert datetime_fromisoformat("2024-01-02T03:04:05.500000999") == naive


def test_deprecated_date_and_time_parsers_work():
    assert date_fromisoformat("2024-01-02") == date(2024, 1, 2)
    assert time_fromisoformat("03:04:05.5") == time(3, 4, 5, 500000)
    assert time_fromisoformat("03:04:05Z") == time(3, 4, 5, tzinfo=UTC)


def test_text_that_is_not_a_datetime_is_rejected():
    with pytest.raises(ValueError, match="yesterday"):
        strptime_to_utc("yesterday")


def test_datetime_is_written_with_microseconds_and_z():
    assert strftime(datetime(2024, 1, 2, tzinfo=UTC)) == "2024-01-02T00:00:00.000000Z"
    assert strftime(datetime(7, 1, 2, tzinfo=UTC), "%04Y-%m-%d") == "0007-01-02"


def test_datetime_that_is_not_utc_is_rejected():
    for moment in (datetime(2024, 1, 2, tzinfo=timezone(timedelta(hours=1))), datetime(2024, 1, 2)):  # noqa: DTZ001
        with pytest.raises(NonUTCDatetimeError):
            strftime(moment)
