"""Conversion of Python values to JSON values."""

from __future__ import annotations

import logging
from datetime import date, datetime, timedelta, timezone
from uuid import UUID

import pytest

from tap_core.typing.values import (
    DatetimeErrorTreatmentEnum,
    handle_invalid_timestamp_in_record,
    to_json_compatible,
)

LOGGER = logging.getLogger("tests.values")


@pytest.mark.parametrize(
    "value, expected",
    [
        (datetime(2021, 2, 3), "2021-02-03T00:00:00.000000+00:00"),  # noqa: DTZ001 - is UTC
        (datetime(2021, 2, 3, tzinfo=timezone.utc), "2021-02-03T00:00:00.000000+00:00"),
        (
            datetime(2021, 2, 3, 4, 5, 6, 7, timezone(timedelta(hours=2))),
            "2021-02-03T04:05:06.000007+02:00",
        ),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_datetimes_and_uuids_become_text(value, expected):
    assert to_json_compatible(value) == expected


@pytest.mark.parametrize("value", [None, 1, 1.5, "x", date(2021, 2, 3), [1], {"a": 1}])
def test_other_values_are_unchanged(value):
    assert to_json_compatible(value) is value


def treated(treatment, kind="date-time"):
    return handle_invalid_timestamp_in_record(
        {}, ["a", "b"], "nonsense", kind, ValueError("why"), treatment, LOGGER
    )


def test_invalid_datetime_is_replaced_and_logged(caplog):
    assert treated(DatetimeErrorTreatmentEnum.MAX) == "9999-12-31 23:59:59.999999"
    assert treated(DatetimeErrorTreatmentEnum.MAX, "time") == "23:59:59.999999"
    assert treated(DatetimeErrorTreatmentEnum.NULL) is None
    assert all("'nonsense' in 'a:b': why" in text for text in caplog.messages)
    replaced = ["Replacing with MAX value."] * 2 + ["Replacing with NULL."]
    assert [text.rpartition(": why. ")[2] for text in caplog.messages] == replaced


@pytest.mark.parametrize("treatment", [DatetimeErrorTreatmentEnum.ERROR, None])
def test_invalid_datetime_raises_by_default(treatment):
    with pytest.raises(ValueError, match="Could not parse value 'nonsense' of property 'a:b'"):
        treated(treatment)
