"""DatetimeBasedCursor: validation, start and end, and the parameters it adds to requests."""

from __future__ import annotations

import datetime as dt
import warnings
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tap_core.exceptions import ConfigurationError
from tap_core.http.request import HTTPRequest
from tap_core.incremental.cursor import DatetimeBasedCursor, MinMaxDatetime
from tap_core.incremental.request_options import RequestOption
from tests.incremental.apis import END_DATE_OPTION, START_DATE_OPTION, cursor

NOW = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.timezone.utc)


def windows(date_cursor: DatetimeBasedCursor, config: dict | None = None) -> list[str]:
    options = config or {}
    time_windows = date_cursor.windows(
        date_cursor.start(options, NOW), date_cursor.end(options, NOW)
    )
    return [f"{window.start_time}..{window.end_time}" for window in time_windows]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"datetime_format": "yyyy-mm-dd"}, "yyyy-mm-dd"),
        ({"cursor_datetime_formats": ["%Y", "%Q"]}, "%Q"),
        ({"datetime_format": "%Y" * 501}, "may have 1,000 characters"),
        ({"step": "P1D"}, "step and cursor_granularity belong together"),
        ({"cursor_granularity": "P1D"}, "step and cursor_granularity belong together"),
        ({"step": "PT1S", "cursor_granularity": "P1D"}, "shorter than the cursor_granularity"),
        ({"step": "P0D", "cursor_granularity": "P0D"}, "is zero"),
        ({"step": "10 days", "cursor_granularity": "P1D"}, "not an ISO 8601 duration"),
        ({"step": "P1Y", "cursor_granularity": "P1M"}, "no fixed length"),
        ({"lookback_window": "2 days"}, "not an ISO 8601 duration"),
        ({"cursor_field": ""}, "needs a cursor_field"),
        ({"start_datetime": ""}, "needs a start_datetime"),
        ({"cutoff": "last"}, "last_record or interval_end"),
        ({"boundary": "keep"}, "send or drop"),
        ({"clamping": {"target": "YEAR"}}, "YEAR"),
    ],
)
def test_invalid_cursor_options_are_rejected_at_construction(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cursor(**changes)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"inject_into": "cookie", "field_name": "x"}, "cookie"),
        ({"inject_into": "header"}, "needs a field_name"),
        ({"inject_into": "body_json", "field_name": "x", "field_path": ["x"]}, "not both"),
        ({"inject_into": "header", "field_path": ["x"]}, "leads into a JSON body"),
    ],
)
def test_invalid_request_option_is_rejected(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RequestOption(**options)


def test_data_feed_warns_about_ignored_options() -> None:
    """A data feed cannot be filtered by time: it has no step and injects no parameters."""
    with pytest.warns(UserWarning, match="ignored"):
        date_cursor = cursor(is_data_feed=True, step="P10D", cursor_granularity="PT1S")
    assert len(windows(date_cursor)) == 1
    request = HTTPRequest("http://x/")
    [window] = date_cursor.windows(date_cursor.start({}), date_cursor.end({}))
    date_cursor.put(request, window)
    assert not request.params
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cursor(is_data_feed=True, start_time_option=None, end_time_option=None)


@pytest.mark.parametrize(
    "start",
    [
        "2024-01-02T00:00:00Z",
        "2024-01-02T00:00:00.000+0000",
        dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc),
        dt.datetime(2024, 1, 2, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        lambda config: config["since"],
        MinMaxDatetime("2024-01-02T00:00:00Z"),
        MinMaxDatetime("2024/01/02", "%Y/%m/%d"),
        MinMaxDatetime("2024/01/01", "%Y/%m/%d", min_datetime="2024/01/02"),
        MinMaxDatetime("2024/01/03", "%Y/%m/%d", max_datetime="2024/01/02"),
        MinMaxDatetime(lambda config: config["since"], min_datetime=lambda _config: ""),
    ],
)
def test_start_datetime_accepts_strings_datetimes_and_functions(start: object) -> None:
    date_cursor = cursor(start_datetime=start, end_datetime="2024-01-03T00:00:00Z")
    intervals = windows(date_cursor, {"since": "2024-01-02T00:00:00Z"})
    assert intervals == ["2024-01-02T00:00:00Z..2024-01-03T00:00:00Z"]


@pytest.mark.parametrize("end", [None, "now", MinMaxDatetime("now")])
def test_end_datetime_defaults_to_now(end: object) -> None:
    date_cursor = cursor(start_datetime="2024-01-02T00:00:00Z", end_datetime=end)
    assert windows(date_cursor) == ["2024-01-02T00:00:00Z..2024-05-06T07:08:09Z"]


def test_invalid_date_names_the_option_in_the_error() -> None:
    with pytest.raises(ValueError, match="start_datetime is not a date-time"):
        cursor(start_datetime="soon").start({})
    with pytest.raises(ValueError, match="end_datetime needs the setting 'until'"):
        cursor(end_datetime=lambda config: config["until"]).end({})


def test_lookback_window_is_subtracted_from_the_bookmark_but_not_below_the_start() -> None:
    """Without a bookmark the lookback has no effect (Airbyte's guide to incremental sync)."""
    date_cursor = cursor(lookback_window="P2D")
    start = date_cursor.start({})
    day = dt.timedelta(days=1)
    assert date_cursor.lower_bound(start, None) == start
    assert date_cursor.lower_bound(start, start + 9 * day) == start + 7 * day
    assert date_cursor.lower_bound(start, start + day) == start


def test_window_is_injected_into_body_header_and_context_fields() -> None:
    date_cursor = cursor(
        start_time_option=RequestOption("body_json", field_path=["where", "from"]),
        end_time_option=RequestOption("header", "X-Until"),
        partition_field_start="since",
    )
    [window] = date_cursor.windows(date_cursor.start({}), date_cursor.end({}))
    where = {"kind": "a"}
    request = HTTPRequest("http://x/", data={"where": where})
    date_cursor.put(request, window)
    assert request.data == {"where": {"kind": "a", "from": "2023-01-01T00:00:00Z"}}
    assert where == {"kind": "a"}
    assert request.as_json is True
    assert request.headers == {"X-Until": "2023-02-05T00:00:00Z"}
    assert date_cursor.fields(window) == {
        "since": "2023-01-01T00:00:00Z",
        "end_time": "2023-02-05T00:00:00Z",
    }


def test_request_option_injects_its_value_and_changes_nothing_else() -> None:
    form = HTTPRequest("http://x/{day}/rates?y=1", data={"a": 1}, params={"page": 2})
    RequestOption("body_data", "b").put(form, "2")
    RequestOption("path", "day").put(form, "2024-01-02 03")
    RequestOption("request_parameter", "from").put(form, "x")
    RequestOption("header", "H").put(form, None)
    assert (form.data, form.as_json) == ({"a": 1, "b": "2"}, False)
    assert form.url == "http://x/2024-01-02%2003/rates?y=1"
    assert form.params == {"page": 2, "from": "x"}
    assert not form.headers
    older = HTTPRequest("http://x/", params="a=1")
    START_DATE_OPTION.put(older, "2 3")
    END_DATE_OPTION.put(older, "4")
    assert older.params == "a=1&from-date=2+3&to-date=4"


@pytest.mark.parametrize(("body", "kind"), [(b"text", "text"), ([1], "list")])
def test_body_without_fields_is_an_error_of_the_configuration(body: Any, kind: str) -> None:
    option = RequestOption("body_json", field_path=["a", "b"])
    with pytest.raises(ConfigurationError, match=rf"'a\.b' cannot be added .* {kind} .* no fields"):
        option.put(HTTPRequest("http://x/", data=body), "2")


@pytest.mark.parametrize("month, day", [(3, 31), (10, 27)])
def test_windows_have_no_gap_and_no_overlap_when_clocks_change(month: int, day: int) -> None:
    start = dt.datetime(2024, month, day, tzinfo=ZoneInfo("Europe/Berlin"))
    end = dt.datetime(2024, month, day, 5, tzinfo=dt.timezone.utc)
    date_cursor = cursor(
        start_datetime=start, end_datetime=end, step="PT1H", cursor_granularity="PT1S"
    )
    time_windows = list(date_cursor.windows(date_cursor.start({}, NOW), date_cursor.end({}, NOW)))
    starts = [date_cursor.format.read(window.start_time) for window in time_windows]
    ends = [date_cursor.format.read(window.end_time) for window in time_windows]
    hours = (end - start.astimezone(dt.timezone.utc)) // dt.timedelta(hours=1)
    assert starts == [end - dt.timedelta(hours=hours_left) for hours_left in range(hours, -1, -1)]
    assert ends == [*(window - dt.timedelta(seconds=1) for window in starts[1:]), end]
