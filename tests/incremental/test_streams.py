"""Incremental streams with a date-time cursor: requests, emitted records and bookmarks."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tap_core.exceptions import ConfigurationError, FatalAPIError
from tap_core.incremental.request_options import RequestOption
from tap_core.sync.connection_test import read_one_record
from tests.http.server import Reply, Server, serving
from tests.incremental.apis import (
    START_DATE_OPTION,
    Api,
    get_bookmark,
    make_dated_records,
    make_stream_class,
)
from tests.sync.syncing import (
    INTEGER,
    Output,
    make,
    schema,
    stream,
    sync,
    sync_until_error,
    with_hook,
)

ARTICLES = make_dated_records(
    "2023-01-02T00:00:00Z",
    "2023-01-15T07:30:58Z",
    "2023-01-12T00:00:00Z",
    "2023-01-31T00:00:00Z",
    "2023-03-01T00:00:00Z",
)
TEN_DAY_STEPS = {"step": "P10D", "cursor_granularity": "PT1S"}
WITHOUT_DATES = {"start_time_option": None, "end_time_option": None}
WINDOWS = [
    "2023-01-01T00:00:00Z..2023-01-10T23:59:59Z",
    "2023-01-11T00:00:00Z..2023-01-20T23:59:59Z",
    "2023-01-21T00:00:00Z..2023-01-30T23:59:59Z",
    "2023-01-31T00:00:00Z..2023-02-05T00:00:00Z",
]


@pytest.fixture
def server():
    with serving() as running_server:
        yield running_server


@pytest.fixture(params=["compiled", "hooked"])
def on_path(request: pytest.FixtureRequest) -> Any:
    """Return a function that makes a stream class take the compiled or the hook path of records.

    Both must give the same output.
    """
    return (lambda kind: kind) if request.param == "compiled" else with_hook


def make_state(value: Any, **fields: Any) -> dict[str, Any]:
    entry = {"replication_key": "at", "replication_key_value": value, **fields}
    return {"bookmarks": {"articles": entry}}


def read(server: Server, stream_class: type, state: Any = None, **config: Any) -> Output:
    return sync(stream_class, config={"url": server.url, **config}, state=state or {})


def get_ids(output: Output, name: str | None = None) -> list[Any]:
    return [record["id"] for record in output.records(name)]


# Requests


def test_requests_equal_those_of_airbytes_guide(server: Server, on_path: Any) -> None:
    """The requests of the example in Airbyte's guide to incremental sync.

    The first sync reads from start to end, the second from the last article, and the third from
    two days before it.
    """
    api = Api(server, make_dated_records("2023-04-12T00:00:00Z", "2023-04-15T07:30:58Z"))
    options = {"start_datetime": "2023-04-09T00:00:00Z", "end_datetime": "2023-04-16T00:00:00Z"}
    first = read(server, on_path(make_stream_class(**options)))
    assert get_ids(first) == [1, 2]
    later_options = {**options, "end_datetime": "2023-04-17T00:00:00Z"}
    second = read(server, on_path(make_stream_class(**later_options)), first.states[-1])
    # The last record is read again: others of the same second may have been added later.
    assert get_ids(second) == [2]
    read(
        server,
        on_path(make_stream_class(**later_options, lookback_window="P2D")),
        second.states[-1],
    )
    assert api.requests == [
        "2023-04-09T00:00:00Z..2023-04-16T00:00:00Z",
        "2023-04-15T07:30:58Z..2023-04-17T00:00:00Z",
        "2023-04-13T07:30:58Z..2023-04-17T00:00:00Z",
    ]


def test_window_ends_one_granularity_before_the_next_and_updates_the_bookmark(
    server: Server, on_path: Any
) -> None:
    """Steps of ten days with granularity of a second; each window ends with a state."""
    api = Api(server, ARTICLES)
    output = read(server, on_path(make_stream_class(**TEN_DAY_STEPS)))
    assert api.requests == WINDOWS
    assert get_ids(output) == [1, 2, 3, 4]
    assert [get_bookmark(state) for state in output.states] == WINDOW_BOOKMARKS
    assert "progress_markers" not in str(output.states[-1])


WINDOW_BOOKMARKS = ["2023-01-02T00:00:00Z", "2023-01-15T07:30:58Z", "2023-01-31T00:00:00Z"]


def test_sync_can_resume_from_every_state(server: Server, on_path: Any) -> None:
    """The records before a state and those of a sync from it are together complete."""
    Api(server, ARTICLES)
    for options in (TEN_DAY_STEPS, {}, {**TEN_DAY_STEPS, "cutoff": "interval_end"}):
        stream_class = on_path(make_stream_class(**options))
        output = read(server, stream_class)
        for number, message in enumerate(output.messages):
            if message["type"] == "STATE":
                before = {m["record"]["id"] for m in output.messages[:number] if "record" in m}
                after = set(get_ids(read(server, stream_class, message["value"])))
                assert before | after == {1, 2, 3, 4}


def test_failed_sync_resumes_from_the_last_completed_window(server: Server, on_path: Any) -> None:
    api = Api(server, ARTICLES)
    api.fails_at = "2023-01-21T00:00:00Z"
    stream_class = on_path(make_stream_class(**TEN_DAY_STEPS))
    config = {"url": server.url}
    failed, _ = sync_until_error(FatalAPIError, stream_class, config=config)
    assert get_bookmark(failed.states[-1]) == "2023-01-15T07:30:58Z"
    api.fails_at = None
    api.server.requests.clear()
    assert get_ids(read(server, stream_class, failed.states[-1])) == [2, 4]
    assert api.requests[0] == "2023-01-15T07:30:58Z..2023-01-25T07:30:57Z"


def test_full_table_stream_reads_all_windows_and_keeps_its_bookmark(server: Server) -> None:
    api = Api(server, ARTICLES)
    stream_class = make_stream_class(**TEN_DAY_STEPS, replication_method="FULL_TABLE")
    output = read(server, stream_class, make_state("2023-01-31T00:00:00Z"))
    assert api.requests == WINDOWS
    assert get_ids(output) == [1, 2, 3, 4]
    assert get_bookmark(output.states[-1]) == "2023-01-31T00:00:00Z"


@pytest.mark.parametrize(
    "options, state, requests",
    [
        ({}, "2023-02-05T00:00:00Z", []),
        (TEN_DAY_STEPS, "2023-02-05T00:00:00Z", ["2023-02-05T00:00:00Z..2023-02-05T00:00:00Z"]),
        ({**TEN_DAY_STEPS, "is_compare_strictly": True}, "2023-02-05T00:00:00Z", []),
        (TEN_DAY_STEPS, "2023-02-06T00:00:00Z", []),
        ({}, "2022-12-01T00:00:00Z", ["2023-01-01T00:00:00Z..2023-02-05T00:00:00Z"]),
        ({}, "2023-02-04T00:00:00+00:00", ["2023-02-04T00:00:00Z..2023-02-05T00:00:00Z"]),
        ({}, "who knows", ["2023-01-01T00:00:00Z..2023-02-05T00:00:00Z"]),
        ({"start_datetime": "2023-03-01T00:00:00Z"}, None, []),
    ],
)
def test_bookmark_outside_of_the_interval_is_handled(
    server: Server, options: dict, state: str | None, requests: list[str]
) -> None:
    """Bookmarks at or after the end, before the start, in another format, or unreadable."""
    api = Api(server, [])
    read(server, make_stream_class(**options), None if state is None else make_state(state))
    assert api.requests == requests


def test_start_after_the_end_sends_no_request_and_is_logged(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    api = Api(server, ARTICLES)
    output = read(server, make_stream_class(start_datetime="2023-06-01T00:00:00Z"))
    assert (api.requests, get_ids(output)) == ([], [])
    assert "'articles': nothing to read" in caplog.text


def test_invalid_start_date_is_an_error_that_names_the_stream(server: Server) -> None:
    stream_class = make_stream_class(start_datetime=lambda config: config["start_date"])
    config = {"url": server.url, "start_date": "soon"}
    _, error = sync_until_error(ConfigurationError, stream_class, config=config)
    assert "'articles'" in str(error)
    assert "start_datetime" in str(error)
    assert str(error).endswith(" It comes from the setting 'start_date'.")
    _, error = sync_until_error(ConfigurationError, stream_class, config={"url": server.url})
    assert "start_date" in str(error)


def test_stream_interval_is_available_in_request_hooks(server: Server) -> None:
    """The window is used in a query parameter, in the path and in a body."""

    def get_url_params(self: Any, _context: Any, _token: Any) -> dict[str, str]:
        window = self.stream_interval
        return {"query": f'BETWEEN "{window.start_time}" AND "{window.end_time}"'}

    server.answers(Reply({"data": []}))
    options = {"end_datetime": "2023-01-02T00:00:00Z", "step": "P1D", "cursor_granularity": "P1D"}
    read(
        server,
        make_stream_class(
            **options,
            **WITHOUT_DATES | {"start_time_option": RequestOption("path", "day")},
            datetime_format="%Y-%m-%d",
            path="/rates/{day}",
            get_url_params=get_url_params,
        ),
    )
    assert [(request.path, request.query["query"][0]) for request in server.requests] == [
        ("/rates/2023-01-01", 'BETWEEN "2023-01-01" AND "2023-01-01"'),
        ("/rates/2023-01-02", 'BETWEEN "2023-01-02" AND "2023-01-02"'),
    ]
    server.requests.clear()
    body = {"start_time_option": RequestOption("body_json", field_path=["where", "from"])}
    read(server, make_stream_class(**WITHOUT_DATES | body, http_method="POST"))
    assert server.requests[0].json == {"where": {"from": "2023-01-01T00:00:00Z"}}


# Bookmarks


def test_interval_end_is_the_bookmark_if_cutoff_is_interval_end(
    server: Server, on_path: Any
) -> None:
    """As in Airbyte's guide, where the last record is earlier than the end of the interval."""
    api = Api(server, ARTICLES)
    output = read(server, on_path(make_stream_class(**TEN_DAY_STEPS, cutoff="interval_end")))
    assert [get_bookmark(state) for state in output.states] == [
        window.split("..")[1] for window in WINDOWS
    ]
    api.server.requests.clear()
    read(server, on_path(make_stream_class(end_datetime="2023-02-06T00:00:00Z")), output.states[-1])
    assert api.requests == ["2023-02-05T00:00:00Z..2023-02-06T00:00:00Z"]


def test_record_later_than_the_end_does_not_move_the_bookmark_beyond_the_end(
    server: Server, on_path: Any
) -> None:
    """The record is emitted; the next sync starts at the end of this one."""
    Api(server, make_dated_records("2023-01-04T00:00:00Z", "2024-01-01T00:00:00Z"))
    output = read(server, on_path(make_stream_class(end_time_option=None)))
    assert get_ids(output) == [1, 2]
    assert get_bookmark(output.states[-1]) == "2023-02-05T00:00:00Z"


def test_lookback_without_new_records_does_not_lower_the_bookmark(
    server: Server, on_path: Any
) -> None:
    """Records that are read again do not lower it, also if several contexts share it."""
    Api(server, make_dated_records("2023-01-30T00:00:00Z"))
    partitions = [{"shop": 1}, {"shop": 2}]
    for members in ({}, {"partitions": partitions, "state_partitioning_keys": []}):
        stream_class = on_path(make_stream_class(lookback_window="P2D", **members))
        output = read(server, stream_class, make_state("2023-01-31T00:00:00Z"))
        assert get_ids(output) == [1] * (2 if members else 1)
        assert get_bookmark(output.states[-1]) == "2023-01-31T00:00:00Z"


def test_cursor_values_are_compared_by_time_and_kept_in_datetime_format(
    server: Server, on_path: Any
) -> None:
    """The formats are tried in order; values of other time zones are stored in UTC."""
    records = make_dated_records("05/01/2023 01:00 +0200", "2023-01-04", "04/01/2023 23:30 +0000")
    server.answers(Reply({"data": records}))
    formats = ["%Y-%m-%d", "%d/%m/%Y %H:%M %z"]
    output = read(server, on_path(make_stream_class(cursor_datetime_formats=formats)))
    assert get_bookmark(output.states[-1]) == "2023-01-04T23:30:00Z"


def test_epoch_seconds_are_stored_as_text(server: Server, on_path: Any) -> None:
    server.answers(
        Reply({"data": [{"id": 1, "at": 1_672_617_600}, {"id": 2, "at": 1_672_531_200}]})
    )
    epoch = {"datetime_format": "%s", "start_datetime": "1672531200", "end_datetime": "1675555200"}
    stream_class = make_stream_class(**epoch, schema=schema(id=INTEGER, at=INTEGER))
    output = read(server, on_path(stream_class))
    assert server.requests[0].query["from-date"] == ["1672531200"]
    assert get_bookmark(output.states[-1]) == "1672617600"


def test_records_without_a_valid_cursor_value_are_emitted_with_one_warning(
    server: Server, on_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The value may be missing, null or invalid; the other records set the bookmark."""
    dates = ("2023-01-03T00:00:00Z", None, "soon", "2023-01-02T00:00:00Z", "2023-99-99T00:00:00Z")
    records = [{"id": 0}, *make_dated_records(*dates)]
    server.answers(Reply({"data": records}))
    output = read(server, on_path(make_stream_class()))
    assert get_ids(output) == [0, 1, 2, 3, 4, 5]
    assert get_bookmark(output.states[-1]) == "2023-01-03T00:00:00Z"
    assert caplog.text.count("does not move the bookmark") == 1


def test_cursor_value_is_read_after_post_process(server: Server, on_path: Any) -> None:
    """A nested field that `post_process` moves to the top is the cursor of bookmark and filter."""

    def post_process(self: Any, row: dict, _context: Any = None) -> dict:
        assert self.stream_interval.start_time == "2023-01-01T00:00:00Z"
        return {"id": row["id"], "at": row["meta"]["at"]}

    nested = [{"id": article["id"], "meta": {"at": article["at"]}} for article in ARTICLES]
    server.answers(Reply({"data": nested}))
    options = {"is_client_side_incremental": True, **WITHOUT_DATES}
    output = read(server, on_path(make_stream_class(post_process=post_process, **options)))
    assert get_ids(output) == [1, 2, 3, 4]
    assert get_bookmark(output.states[-1]) == "2023-01-31T00:00:00Z"


# Emitted records


FEED = {"is_data_feed": True, **WITHOUT_DATES}


def test_data_feed_stops_after_the_page_that_reaches_the_bookmark(
    server: Server, on_path: Any
) -> None:
    """Older records of that page are dropped; a record equal to the bookmark is emitted again."""
    dates = ("2023-03-01", "2023-02-04", "2023-02-03", "2023-01-20", "2023-01-20", "2023-01-19")
    api = Api(
        server,
        make_dated_records(*(f"{date}T00:00:00Z" for date in (*dates, "2023-01-18"))),
        size=2,
    )
    state = make_state("2023-01-20T00:00:00Z")
    output = read(server, on_path(make_stream_class(**FEED)), state)
    assert get_ids(output) == [2, 3, 4, 5]  # the first is later than the end
    assert api.requests == ["", " p1", " p2"]
    assert get_bookmark(output.states[-1]) == "2023-02-04T00:00:00Z"
    api.server.requests.clear()
    output = read(server, on_path(make_stream_class(**FEED, boundary="drop")), state)
    assert get_ids(output) == [2, 3]
    assert api.requests == ["", " p1"]


def test_last_record_of_a_page_decides_if_a_data_feed_continues(
    server: Server, on_path: Any
) -> None:
    """As in airbyte-cdk: an older record before the last one does not end the feed."""
    dates = ("2023-01-19", "2023-02-03", "2023-01-22", "2023-01-17", "2023-02-04")
    api = Api(server, make_dated_records(*(f"{date}T00:00:00Z" for date in dates)), size=2)
    output = read(server, on_path(make_stream_class(**FEED)), make_state("2023-01-20T00:00:00Z"))
    assert get_ids(output) == [2, 3]
    assert api.requests == ["", " p1"]


def test_unsorted_data_feed_is_warned_about_once_and_summarized(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    dates = ("2023-02-01", "2023-02-03", "2023-02-02", "2023-02-04")
    Api(server, make_dated_records(*(f"{date}T00:00:00Z" for date in dates)))
    assert get_ids(read(server, make_stream_class(**FEED))) == [1, 2, 3, 4]
    assert caplog.text.count("should come newest first") == 1
    assert "Summary of 'articles': 2 records" in caplog.text


def test_client_side_incremental_drops_records_outside_of_the_interval(
    server: Server, on_path: Any
) -> None:
    """Both ends are included; ``boundary="drop"`` drops the record equal to the bookmark."""
    Api(server, ARTICLES)
    state = make_state("2023-01-12T00:00:00Z")
    options = {"is_client_side_incremental": True, **WITHOUT_DATES}
    assert get_ids(read(server, on_path(make_stream_class(**options)), state)) == [2, 3, 4]
    assert get_ids(read(server, on_path(make_stream_class(**options, boundary="drop")), state)) == [
        2,
        4,
    ]
    assert get_ids(read(server, on_path(make_stream_class(boundary="drop")), state)) == [2, 4]


@pytest.mark.parametrize("state", [None, make_state("2023-01-02")])
def test_client_side_incremental_keeps_the_records_that_a_request_would_return(
    server: Server, state: Any
) -> None:
    """A format of whole days requests the start's whole day, as after a lookback of hours."""
    Api(server, make_dated_records("2022-12-31", "2023-01-01", "2023-01-02"))
    options = {
        "datetime_format": "%Y-%m-%d",
        "start_datetime": "2023-01-01T10:00:00Z",
        "lookback_window": "PT12H",
    }
    assert get_ids(read(server, make_stream_class(**options), state)) == [2, 3]
    filtered = make_stream_class(**options, is_client_side_incremental=True, **WITHOUT_DATES)
    assert get_ids(read(server, filtered, state)) == [2, 3]


def test_records_without_a_valid_cursor_value_are_not_filtered(
    server: Server, on_path: Any
) -> None:
    server.answers(
        Reply(
            {
                "data": [
                    {"id": 1},
                    {"id": 2, "at": "soon"},
                    *make_dated_records("2022-01-01T00:00:00Z"),
                ]
            }
        )
    )
    stream_class = make_stream_class(is_client_side_incremental=True, **WITHOUT_DATES)
    assert get_ids(read(server, on_path(stream_class))) == [1, 2]


def test_records_outside_of_the_interval_have_no_child_records(server: Server) -> None:
    child = stream(
        "remarks",
        lambda _self, context: [{"id": context["article"]}],
        parent_stream_type=None,
    )
    options = {"is_client_side_incremental": True, **WITHOUT_DATES}

    def get_child_context(_self: Any, record: dict, context: Any) -> dict:
        return {"article": record["id"]}

    parent = make_stream_class(**options, get_child_context=get_child_context)
    child.parent_stream_type = parent
    Api(server, ARTICLES)
    output = sync(parent, child, config={"url": server.url})
    assert get_ids(output, "remarks") == [1, 2, 3, 4]


# Contexts, children, threads


def test_each_partition_has_its_own_bookmark(server: Server, on_path: Any) -> None:
    """A completed window of a partition updates its bookmark independently of the others."""
    api = Api(server, ARTICLES)
    stream_class = on_path(
        make_stream_class(**TEN_DAY_STEPS, partitions=[{"shop": 1}, {"shop": 2}])
    )
    output = read(server, stream_class)
    assert api.requests == WINDOWS * 2
    entries = output.states[-1]["bookmarks"]["articles"]["partitions"]
    assert [entry["replication_key_value"] for entry in entries] == ["2023-01-31T00:00:00Z"] * 2
    api.server.requests.clear()
    read(server, stream_class, output.states[-1])
    assert api.requests == ["2023-01-31T00:00:00Z..2023-02-05T00:00:00Z"] * 2


def test_parallel_partitions_read_their_windows_sequentially(server: Server) -> None:
    """``max_parallel_windows`` has no effect within parallel partitions."""
    api = Api(server, ARTICLES)
    shops = [{"shop": number} for number in range(6)]
    threads = {"max_parallel_partitions": 3, "max_parallel_windows": 3}
    output = read(server, make_stream_class(**TEN_DAY_STEPS, **threads, partitions=shops))
    assert sorted(api.requests) == sorted(WINDOWS * 6)
    assert sorted(get_ids(output)) == sorted([1, 2, 3, 4] * 6)
    entries = output.states[-1]["bookmarks"]["articles"]["partitions"]
    assert entries == [
        {
            "context": shop,
            "replication_key": "at",
            "replication_key_value": "2023-01-31T00:00:00Z",
        }
        for shop in shops
    ]


@pytest.mark.parametrize("cutoff", ["last_record", "interval_end"])
def test_shared_bookmark_advances_when_all_contexts_are_complete(
    server: Server, on_path: Any, cutoff: str
) -> None:
    """With a global cursor the windows of one context do not cover those of the others."""
    api = Api(server, ARTICLES)
    api.fails_at = "2023-01-21T00:00:00Z"
    shops = {"partitions": [{"shop": 1}, {"shop": 2}], "global_substream_cursor": True}
    stream_class = on_path(make_stream_class(**TEN_DAY_STEPS, **shops, cutoff=cutoff))
    failed, _ = sync_until_error(FatalAPIError, stream_class, config={"url": server.url})
    assert all(get_bookmark(state) is None for state in failed.states)
    api.fails_at = None
    output = read(server, stream_class)
    last = "2023-01-31T00:00:00Z" if cutoff == "last_record" else "2023-02-05T00:00:00Z"
    assert get_bookmark(output.states[-1]) == last


def test_window_is_complete_when_the_children_of_its_records_are(server: Server) -> None:
    """With child threads too, the parent's bookmark never covers child records still to come."""
    Api(server, ARTICLES)

    def get_child_context(_self: Any, record: dict, context: Any) -> dict:
        return {"article": record["id"]}

    parent = make_stream_class(**TEN_DAY_STEPS, get_child_context=get_child_context)
    child = stream(
        "remarks",
        lambda _self, context: [{"id": context["article"]}],
        parent_stream_type=parent,
        state_partitioning_keys=[],
        max_parallel_partitions=2,
    )
    output = sync(parent, child, config={"url": server.url, "max_parallel_partitions": 2})
    assert sorted(get_ids(output, "remarks")) == [1, 2, 3, 4]
    child_ids: set[int] = set()
    for message in output.messages:
        if message["type"] == "RECORD" and message["stream"] == "remarks":
            child_ids.add(message["record"]["id"])
        elif message["type"] == "STATE" and (value := get_bookmark(message["value"])):
            assert {
                article["id"] for article in ARTICLES[:4] if article["at"] <= value
            } <= child_ids
    assert get_bookmark(output.states[-1]) == "2023-01-31T00:00:00Z"


def test_parallel_windows_are_emitted_in_order(server: Server, on_path: Any) -> None:
    """The messages equal those of one thread, and every window is requested."""
    api = Api(server, [article for article in ARTICLES[:4] for _ in range(60)], size=50)
    serial = read(server, on_path(make_stream_class(**TEN_DAY_STEPS)))
    requests = sorted(api.requests)
    api.server.requests.clear()
    parallel = read(server, on_path(make_stream_class(**TEN_DAY_STEPS, max_parallel_windows=3)))
    assert parallel.messages == serial.messages
    assert sorted(api.requests) == requests


def test_error_of_a_parallel_window_is_raised_after_the_earlier_windows(
    server: Server, on_path: Any
) -> None:
    """No thread is left after the stream has failed."""
    import threading

    api = Api(server, ARTICLES)
    api.fails_at = "2023-01-21T00:00:00Z"
    stream_class = on_path(make_stream_class(**TEN_DAY_STEPS, max_parallel_windows=4))
    failed, error = sync_until_error(FatalAPIError, stream_class, config={"url": server.url})
    assert get_ids(failed) == [1, 2, 3]
    assert "2023-01-21" in str(error) or "400" in str(error)
    assert get_bookmark(failed.states[-1]) == "2023-01-15T07:30:58Z"
    assert not [thread for thread in threading.enumerate() if "worker-articles" in thread.name]


def test_window_threads_end_when_a_record_fails(server: Server, on_path: Any) -> None:
    import threading

    def post_process(_self: Any, row: dict, _context: Any = None) -> dict:
        if row["id"] == 2:
            raise RuntimeError("no more")
        return row

    Api(server, [article for article in ARTICLES[:4] for _ in range(2_000)], size=500)
    stream_class = on_path(
        make_stream_class(**TEN_DAY_STEPS, max_parallel_windows=3, post_process=post_process)
    )
    failed, _ = sync_until_error(RuntimeError, stream_class, config={"url": server.url})
    assert get_bookmark(failed.states[-1]) == "2023-01-02T00:00:00Z"
    assert not [thread for thread in threading.enumerate() if "worker-articles" in thread.name]


# Other options of authors


@pytest.mark.parametrize(
    "options",
    [
        {"lookback_window": "P2D"},
        {**TEN_DAY_STEPS, "clamping": {"target": "MONTH"}},
        {"boundary": "drop"},
    ],
)
def test_sorted_stream_refuses_cursors_that_read_older_or_drop_equal_records(
    server: Server, options: dict[str, Any]
) -> None:
    """A sync that resumes within a month, or within equal values, would not read the rest."""
    stream_class = make_stream_class(**options, is_sorted=True)
    _, error = sync_until_error(ConfigurationError, stream_class, config={"url": server.url})
    assert "is_sorted" in str(error)


def test_sorted_stream_advances_its_bookmark_with_each_record(server: Server) -> None:
    Api(server, [ARTICLES[0], ARTICLES[2], ARTICLES[1], ARTICLES[3]])
    output = read(server, make_stream_class(**TEN_DAY_STEPS, is_sorted=True, STATE_MSG_FREQUENCY=1))
    bookmarks = [get_bookmark(state) for state in output.states]
    assert bookmarks[0] == "2023-01-02T00:00:00Z"
    assert bookmarks[-1] == "2023-01-31T00:00:00Z"


def test_sorted_stream_that_was_interrupted_at_its_end_datetime_reads_the_rest(
    server: Server, on_path: Any
) -> None:
    """The bookmark of an interrupted sync may be the end, before all records with that value."""
    end = "2023-02-05T00:00:00Z"
    records = [
        {"id": number, "at": time}
        for number, time in enumerate(("2023-01-02T00:00:00Z", end, end, end))
    ]
    Api(server, records)
    stream_class = on_path(make_stream_class(is_sorted=True, STATE_MSG_FREQUENCY=1))
    output = read(server, stream_class)
    for number, message in enumerate(output.messages):
        if message["type"] == "STATE":
            before = {m["record"]["id"] for m in output.messages[:number] if "record" in m}
            after = set(get_ids(read(server, stream_class, message["value"])))
            assert before | after == {0, 1, 2, 3}


def test_get_records_works_outside_of_a_sync(server: Server) -> None:
    """Outside of a sync, no state is written and no threads are started."""
    api, output = Api(server, ARTICLES), Output()
    stream_class = make_stream_class(**TEN_DAY_STEPS, max_parallel_windows=3)
    [stream] = make(stream_class, output=output, config={"url": server.url}).streams.values()
    assert [record["id"] for record in stream.get_records(None)] == [1, 2, 3, 4]
    assert api.requests == WINDOWS
    assert not output
    assert stream.replication_key == "at"
    assert stream.get_starting_timestamp(None) is None
    stream.replication_key = "other"
    stream.state_partitioning_keys = ["shop"]
    assert (stream.replication_key, stream.state_partitioning_keys) == ("other", ["shop"])


def test_connection_test_requests_only_one_window(server: Server) -> None:
    """The connection test does not search later windows if the first one is empty."""
    api, output = Api(server, []), Output()
    tap = make(make_stream_class(**TEN_DAY_STEPS), output=output, config={"url": server.url})
    read_one_record(tap.streams["articles"])
    assert api.requests == WINDOWS[:1]
    assert not output


def test_start_value_is_the_later_of_bookmark_and_start_date(server: Server) -> None:
    """``get_starting_replication_key_value`` returns it in the format of the cursor."""
    Api(server, [])
    start_values: list[Any] = []

    def get_url_params(self: Any, context: Any, _token: Any) -> dict[str, str]:
        start_values.append(self.get_starting_replication_key_value(context))
        start_values.append(self.get_starting_timestamp(context).isoformat())
        return {}

    stream_class = make_stream_class(get_url_params=get_url_params)
    read(
        server, stream_class, make_state("2023-02-01T00:00:00Z"), start_date="2023-01-03T00:00:00Z"
    )
    assert start_values == ["2023-02-01T00:00:00Z", "2023-02-01T00:00:00+00:00"]


def test_sync_costs_of_all_windows_are_summed(server: Server, caplog: Any) -> None:
    """This includes the windows that are read in threads."""
    caplog.set_level(logging.INFO)
    Api(server, ARTICLES)
    for threads in (1, 2):
        stream_class = make_stream_class(
            **TEN_DAY_STEPS,
            max_parallel_windows=threads,
            calculate_sync_cost=lambda _self, *_args, **_kwargs: {"calls": 1},
        )
        tap = make(stream_class, config={"url": server.url})
        tap.sync_all()
        assert tap.streams["articles"]._sync_costs == {"calls": 4}


def test_prepare_request_hook_gets_the_window_parameters(server: Server) -> None:
    api = Api(server, ARTICLES)

    def prepare_request(self: Any, context: Any, token: Any) -> Any:
        return super(stream_class, self).prepare_request(context, token)

    stream_class = make_stream_class(
        start_time_option=START_DATE_OPTION, prepare_request=prepare_request
    )
    with pytest.warns(DeprecationWarning, match="prepare_request"):
        read(server, stream_class)
    assert api.requests == ["2023-01-01T00:00:00Z..2023-02-05T00:00:00Z"]
