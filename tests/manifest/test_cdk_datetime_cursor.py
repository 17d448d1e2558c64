"""airbyte-cdk's DatetimeBasedCursor, which custom cursors extend."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from tap_core.manifest.cdk_compat.cursors import CdkDatetimeBasedCursor
from tap_core.manifest.cdk_compat.models import CdkStreamSlice, RequestOptionType
from tap_core.manifest.cdk_compat.models import Record as FaceRecord
from tap_core.manifest.cdk_compat.requesters import CdkRequestOption as FaceOption


def make_cursor(**fields: Any) -> CdkDatetimeBasedCursor:
    arguments = {
        "start_datetime": "{{ config['first'] }}",
        "cursor_field": "{{ parameters['key'] }}",
        "datetime_format": "%Y-%m-%d",
        "cursor_datetime_formats": ["%s"],
        "config": {"first": "2024-01-01"},
        "parameters": {"key": "at"},
        **fields,
    }
    return CdkDatetimeBasedCursor(**arguments)


def windows(cursor: CdkDatetimeBasedCursor) -> list[tuple[str, ...]]:
    return [tuple(one.values()) for one in cursor.stream_slices()]


def test_windows_start_at_the_state_minus_the_lookback():
    made = make_cursor(
        start_datetime={"datetime": "2020-01-01", "min_datetime": "{{ config['first'] }}"},
        end_datetime={"datetime": "20240201", "datetime_format": "%Y%m%d"},
        lookback_window="P1D",
    )
    assert windows(made) == [("2024-01-01", "2024-02-01")]
    made.set_initial_state({"at": "2024-01-31"})
    assert windows(made) == [("2024-01-30", "2024-02-01")]
    assert made.select_state() == {"at": "2024-01-31"}
    made.set_initial_state({})
    assert made.get_stream_state() == {}
    early = {"datetime": "2030-01-01", "max_datetime": "2024-01-05"}
    assert windows(make_cursor(start_datetime=early, end_datetime="2024-01-05")) == [
        ("2024-01-05", "2024-01-05")
    ]
    strictly = make_cursor(
        start_datetime=early, end_datetime="2024-01-05", is_compare_strictly=True
    )
    assert windows(strictly) == []
    months = make_cursor(step="P1M", cursor_granularity="P1D", end_datetime="2024-02-15")
    assert windows(months) == [("2024-01-01", "2024-01-31"), ("2024-02-01", "2024-02-15")]


def test_lookback_of_months_is_possible_without_a_state():
    made = make_cursor(end_datetime="2024-02-01", lookback_window="P1M")
    assert windows(made) == [("2024-01-01", "2024-02-01")]
    with pytest.raises(ValueError, match="a month"):
        windows(make_cursor(lookback_window="a month"))


def test_end_defaults_to_now_and_closed_slices_set_the_state():
    made, begun = make_cursor(), dt.datetime.now(dt.timezone.utc)
    [one] = made.stream_slices()
    ended = dt.datetime.now(dt.timezone.utc)
    assert f"{begun:%Y-%m-%d}" <= one["end_time"] <= f"{ended:%Y-%m-%d}"
    for value in ("2024-01-03", "1704412800", "2023-01-01", None):
        made.observe(one, FaceRecord({"at": value}))
    assert made.get_stream_state() == {}
    made.close_slice(one)
    assert made.get_stream_state() == {"at": "1704412800"}
    fifth = dt.datetime(2024, 1, 5, tzinfo=dt.timezone.utc)
    assert made.get_cursor_datetime_from_state(made.get_stream_state()) == fifth
    assert made.get_cursor_datetime_from_state({"at": "soon"}) is None
    assert made.get_cursor_datetime_from_state({}) is None
    with pytest.raises(ValueError, match="has a partition"):
        made.close_slice(CdkStreamSlice(partition={"a": 1}, cursor_slice={}))
    with pytest.raises(ValueError, match="matches 'soon'"):
        made.parse_date("soon")


def test_records_are_filtered_by_the_interval_and_compared():
    made = make_cursor(end_datetime="2024-01-31")
    early, late, none = ({"at": one} for one in ("2024-01-02", "2024-02-02", None))
    assert [made.should_be_synced(one) for one in (early, late, none)] == [True, False, True]
    assert not made._is_within_daterange_boundaries(none, "2024-01-01", "2024-01-02")
    assert made.is_greater_than_or_equal(late, early)
    assert not made.is_greater_than_or_equal(early, late)
    assert not made.is_greater_than_or_equal(none, early)
    assert made.is_greater_than_or_equal(early, none)


def test_request_options_inject_the_bounds_of_a_window():
    made = make_cursor(
        start_time_option=FaceOption(RequestOptionType.header, {}, field_name="X-From"),
        end_time_option=FaceOption(RequestOptionType.body_json, {}, field_path=["to", "day"]),
        partition_field_start="first",
    )
    one = CdkStreamSlice(partition={}, cursor_slice={"first": "a", "end_time": "z"})
    assert made.get_request_params(stream_slice=one) == {}
    assert made.get_request_headers(stream_slice=one) == {"X-From": "a"}
    assert made.get_request_body_data(stream_slice=one) == {}
    assert made.get_request_body_json(stream_slice=one) == {"to": {"day": "z"}}
    assert made.get_request_headers(stream_slice=None) == {}
    with pytest.raises(ValueError, match="belong together"):
        make_cursor(step="P1D")
