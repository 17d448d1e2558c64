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


def list_windows(cursor: CdkDatetimeBasedCursor) -> list[tuple[str, ...]]:
    return [tuple(stream_slice.values()) for stream_slice in cursor.stream_slices()]


def test_windows_start_at_the_state_minus_the_lookback():
    cursor = make_cursor(
        start_datetime={"datetime": "2020-01-01", "min_datetime": "{{ config['first'] }}"},
        end_datetime={"datetime": "20240201", "datetime_format": "%Y%m%d"},
        lookback_window="P1D",
    )
    assert list_windows(cursor) == [("2024-01-01", "2024-02-01")]
    cursor.set_initial_state({"at": "2024-01-31"})
    assert list_windows(cursor) == [("2024-01-30", "2024-02-01")]
    assert cursor.select_state() == {"at": "2024-01-31"}
    cursor.set_initial_state({})
    assert cursor.get_stream_state() == {}
    early = {"datetime": "2030-01-01", "max_datetime": "2024-01-05"}
    assert list_windows(make_cursor(start_datetime=early, end_datetime="2024-01-05")) == [
        ("2024-01-05", "2024-01-05")
    ]
    strictly = make_cursor(
        start_datetime=early, end_datetime="2024-01-05", is_compare_strictly=True
    )
    assert list_windows(strictly) == []
    months = make_cursor(step="P1M", cursor_granularity="P1D", end_datetime="2024-02-15")
    assert list_windows(months) == [("2024-01-01", "2024-01-31"), ("2024-02-01", "2024-02-15")]


def test_lookback_of_months_is_possible_without_a_state():
    cursor = make_cursor(end_datetime="2024-02-01", lookback_window="P1M")
    assert list_windows(cursor) == [("2024-01-01", "2024-02-01")]
    with pytest.raises(ValueError, match="a month"):
        list_windows(make_cursor(lookback_window="a month"))


def test_end_defaults_to_now_and_closed_slices_set_the_state():
    cursor, start = make_cursor(), dt.datetime.now(dt.timezone.utc)
    [stream_slice] = cursor.stream_slices()
    ended = dt.datetime.now(dt.timezone.utc)
    assert f"{start:%Y-%m-%d}" <= stream_slice["end_time"] <= f"{ended:%Y-%m-%d}"
    for value in ("2024-01-03", "1704412800", "2023-01-01", None):
        cursor.observe(stream_slice, FaceRecord({"at": value}))
    assert cursor.get_stream_state() == {}
    cursor.close_slice(stream_slice)
    assert cursor.get_stream_state() == {"at": "1704412800"}
    fifth = dt.datetime(2024, 1, 5, tzinfo=dt.timezone.utc)
    assert cursor.get_cursor_datetime_from_state(cursor.get_stream_state()) == fifth
    assert cursor.get_cursor_datetime_from_state({"at": "soon"}) is None
    assert cursor.get_cursor_datetime_from_state({}) is None
    with pytest.raises(ValueError, match="has a partition"):
        cursor.close_slice(CdkStreamSlice(partition={"a": 1}, cursor_slice={}))
    with pytest.raises(ValueError, match="matches 'soon'"):
        cursor.parse_date("soon")


def test_records_are_filtered_by_the_interval_and_compared():
    cursor = make_cursor(end_datetime="2024-01-31")
    early, late, none = ({"at": record} for record in ("2024-01-02", "2024-02-02", None))
    assert [cursor.should_be_synced(record) for record in (early, late, none)] == [
        True,
        False,
        True,
    ]
    assert not cursor._is_within_daterange_boundaries(none, "2024-01-01", "2024-01-02")
    assert cursor.is_greater_than_or_equal(late, early)
    assert not cursor.is_greater_than_or_equal(early, late)
    assert not cursor.is_greater_than_or_equal(none, early)
    assert cursor.is_greater_than_or_equal(early, none)


def test_request_options_inject_the_bounds_of_a_window():
    cursor = make_cursor(
        start_time_option=FaceOption(RequestOptionType.header, {}, field_name="X-From"),
        end_time_option=FaceOption(RequestOptionType.body_json, {}, field_path=["to", "day"]),
        partition_field_start="first",
    )
    stream_slice = CdkStreamSlice(partition={}, cursor_slice={"first": "a", "end_time": "z"})
    assert cursor.get_request_params(stream_slice=stream_slice) == {}
    assert cursor.get_request_headers(stream_slice=stream_slice) == {"X-From": "a"}
    assert cursor.get_request_body_data(stream_slice=stream_slice) == {}
    assert cursor.get_request_body_json(stream_slice=stream_slice) == {"to": {"day": "z"}}
    assert cursor.get_request_headers(stream_slice=None) == {}
    with pytest.raises(ValueError, match="belong together"):
        make_cursor(step="P1D")
