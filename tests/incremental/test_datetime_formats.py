"""Date-time formats: written values can be read again, invalid formats are rejected."""

# ruff: noqa: DTZ001, DTZ007 - hypothesis and strptime begin without a zone
from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.incremental.datetime_formats import get_format

UTC = dt.timezone.utc
MOMENT = dt.datetime(2024, 1, 5, 23, 59, 59, 999_000, tzinfo=UTC)

moments = st.datetimes(
    dt.datetime(1971, 1, 1),
    dt.datetime(2200, 1, 1),
    timezones=st.sampled_from([UTC, dt.timezone(dt.timedelta(hours=2)), dt.timezone.utc]),
)


@pytest.mark.parametrize(
    "form, text",
    [
        ("%s", "1704499199"),
        ("%ms", "1704499199999"),
        ("%epoch_microseconds", "1704499199999000"),
        ("%s_as_float", "1704499199.999"),
        ("%Y-%m-%dT%H:%M:%S.%_msZ", "2024-01-05T23:59:59.999Z"),
        ("%Y-%m-%dT%H:%M:%SZ", "2024-01-05T23:59:59Z"),
        ("%Y-%m-%dT%H:%M:%S.%f%z", "2024-01-05T23:59:59.999000+0000"),
        ("%Y-%m-%d %H:%M:%S.%f+00:00", "2024-01-05 23:59:59.999000+00:00"),
        ("%Y-%m-%d", "2024-01-05"),
        ("%d/%m/%Y %H:%M", "05/01/2024 23:59"),
        ("%Y%m%d", "20240105"),
        ("%Y-%m", "2024-01"),
    ],
)
def test_datetime_is_written_in_the_format(form: str, text: str) -> None:
    """All directives of Airbyte's YAML reference are supported: its own and Python's."""
    datetime_format = get_format(form)
    assert datetime_format.write(MOMENT) == text
    assert datetime_format.write(datetime_format.read(text)) == text


@pytest.mark.parametrize(
    "form",
    [
        "%s",
        "%ms",
        "%s_as_float",
        "%epoch_microseconds",
        "%Y-%m-%dT%H:%M:%S.%_msZ",
        "%Y-%m-%dT%H:%M:%SZ",
        "%Y-%m-%dT%H:%M:%S%z",
        "%Y-%m-%d %H:%M:%S.%f",
        "%Y-%m-%d",
        "%c",
    ],
)
@given(moment=moments)
def test_written_datetime_is_never_read_as_a_later_one(form: str, moment: dt.datetime) -> None:
    """A format may truncate a datetime; a stored bookmark is then earlier, never later."""
    datetime_format = get_format(form)
    text = datetime_format.write(moment)
    parsed = datetime_format.read(text)
    assert parsed <= moment
    assert datetime_format.write(parsed) == text


@given(moment=moments, form=st.sampled_from(["%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%d %H:%M:%S.%fZ"]))
def test_fast_parser_reads_what_strptime_reads(moment: dt.datetime, form: str) -> None:
    text = moment.strftime(form)
    slow = dt.datetime.strptime(text, form)
    assert get_format(form).read(text) == (slow if slow.tzinfo else slow.replace(tzinfo=UTC))


@pytest.mark.parametrize(
    "form, value, expected",
    [
        ("%s", 1_704_499_199, "2024-01-05T23:59:59+00:00"),
        ("%s", Decimal("1704499199.5"), "2024-01-05T23:59:59+00:00"),
        ("%s", 1.704499199e9, "2024-01-05T23:59:59+00:00"),
        ("%ms", "1704499199999", "2024-01-05T23:59:59.999000+00:00"),
        ("%Y%m%d", 20_240_105, "2024-01-05T00:00:00+00:00"),
        ("%Y-%m-%dT%H:%M:%S%z", "2024-01-05T01:02:03Z", "2024-01-05T01:02:03+00:00"),
        ("%Y-%m-%dT%H:%M:%S%z", "2024-01-05T01:02:03-0430", "2024-01-05T01:02:03-04:30"),
        ("%Y-%m-%dT%H:%M:%S.%fZ", "2024-01-05T01:02:03.5Z", "2024-01-05T01:02:03.500000+00:00"),
        ("%Y-%m-%d", "2024-1-5", "2024-01-05T00:00:00+00:00"),
        ("%Y-%m-%d", dt.date(2024, 1, 5), "2024-01-05T00:00:00+00:00"),
        ("%s", dt.datetime(2024, 1, 5), "2024-01-05T00:00:00+00:00"),
    ],
)
def test_cursor_values_of_records_are_parsed(form: str, value: object, expected: str) -> None:
    """A value without an offset is UTC."""
    assert get_format(form).read(value).isoformat() == expected


@pytest.mark.parametrize(
    "form, value",
    [
        ("%s", "x"),
        ("%s", True),
        ("%s", None),
        ("%s", "9" * 30),
        ("%s_as_float", "NaN"),
        ("%s_as_float", "3e11"),
        ("%s_as_float", "1e999990"),
        ("%s_as_float", "9e999999"),
        ("%Y-%m-%d", "2024-W01-5"),
        ("%Y-%m-%d", "2024-02-30"),
        ("%Y-%m-%d", ["2024-01-05"]),
        ("%Y-%m-%dT%H:%M:%SZ", "2024-01-05T01:02:03"),
        ("%Y-%m-%dT%H:%M:%S.%fZ", "2024-01-05T01:02:03.1234567Z"),
        ("%Y-%m-%dT%H:%M:%S.%f%z", "2024-01-05T01:02:03+0000"),
        ("%Y-%m-%dT%H:%M:%S000", "2024-01-05T01:02:03"),
        ("%Y-%m-%dT%H:%M:%S%z", "2024-01-05T01:02:03+9900"),
        ("%Y-%m-%dT%H:%M:%SZ", "2024-01-05T01:02.03Z"),
        ("%ms", "1704067200.5"),
        ("%Y-%m-%dT%H:%M:%S%z", "2024-01-05"),
    ],
)
def test_invalid_datetime_value_is_rejected(form: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        get_format(form).read(value)


@pytest.mark.parametrize(
    "form", ["%Y-%m-%Q", "%Y-%m-%d %s", "yyyy-mm-dd", "%H:%M", "%Y-%m-%d%", "%Y %Y", "%G-%m"]
)
def test_invalid_datetime_format_is_rejected(form: str) -> None:
    with pytest.raises(ValueError, match="date-time format"):
        get_format(form)


def test_format_without_an_offset_is_written_in_utc() -> None:
    """The value is converted to UTC; airbyte-cdk writes the local time of the other zone."""
    two = dt.datetime(2024, 1, 5, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert get_format("%Y-%m-%dT%H:%M:%SZ").write(two) == "2024-01-04T23:00:00Z"
    assert get_format("%Y-%m-%dT%H:%M:%S%z").write(two) == "2024-01-05T01:00:00+0200"
    assert get_format("%Y-%m-%d").write(dt.datetime(33, 1, 2, tzinfo=UTC)) == "0033-01-02"
