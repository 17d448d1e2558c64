"""Streams that are read by date: exact requests, what is sent, and what is kept."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tap_core.exceptions import ConfigurationError, FatalAPIError
from tap_core.incremental.request_options import RequestOption
from tap_core.sync.connection_test import read_one_record
from tests.http.server import Reply, Server, serving
from tests.incremental.apis import FROM, Api, at, bookmark_of, dated
from tests.sync.syncing import INTEGER, Output, failed, hooked, make, schema, stream, sync

ARTICLES = at(
    "2023-01-02T00:00:00Z",
    "2023-01-15T07:30:58Z",
    "2023-01-12T00:00:00Z",
    "2023-01-31T00:00:00Z",
    "2023-03-01T00:00:00Z",
)
STEPS = {"step": "P10D", "cursor_granularity": "PT1S"}
UNASKED = {"start_time_option": None, "end_time_option": None}
WINDOWS = [
    "2023-01-01T00:00:00Z..2023-01-10T23:59:59Z",
    "2023-01-11T00:00:00Z..2023-01-20T23:59:59Z",
    "2023-01-21T00:00:00Z..2023-01-30T23:59:59Z",
    "2023-01-31T00:00:00Z..2023-02-05T00:00:00Z",
]


@pytest.fixture
def server():
    with serving() as found:
        yield found


@pytest.fixture(params=["compiled", "hooked"])
def on_path(request: pytest.FixtureRequest) -> Any:
    """The two ways on which records go out; both must give the same."""
    return (lambda kind: kind) if request.param == "compiled" else hooked


def stored(value: Any, **more: Any) -> dict[str, Any]:
    entry = {"replication_key": "at", "replication_key_value": value, **more}
    return {"bookmarks": {"articles": entry}}


def read(server: Server, kind: type, state: Any = None, **config: Any) -> Output:
    return sync(kind, config={"url": server.url, **config}, state=state or {})


def ids(output: Output, name: str | None = None) -> list[Any]:
    return [record["id"] for record in output.records(name)]


# What is asked for


def test_the_guides_requests_are_made(server: Server, on_path: Any) -> None:
    """From the start to the end; the next day from the last article; with a lookback before it.

    Airbyte's guide to incremental sync, its worked requests.
    """
    api = Api(server, at("2023-04-12T00:00:00Z", "2023-04-15T07:30:58Z"))
    guide = {"start_datetime": "2023-04-09T00:00:00Z", "end_datetime": "2023-04-16T00:00:00Z"}
    first = read(server, on_path(dated(**guide)))
    assert ids(first) == [1, 2]
    later = {**guide, "end_datetime": "2023-04-17T00:00:00Z"}
    second = read(server, on_path(dated(**later)), first.states[-1])
    assert ids(second) == [2]  # it comes once more: others of its second may have come later
    read(server, on_path(dated(**later, lookback_window="P2D")), second.states[-1])
    assert api.asked == [
        "2023-04-09T00:00:00Z..2023-04-16T00:00:00Z",
        "2023-04-15T07:30:58Z..2023-04-17T00:00:00Z",
        "2023-04-13T07:30:58Z..2023-04-17T00:00:00Z",
    ]


def test_a_window_ends_a_granule_before_the_next_and_each_is_kept(
    server: Server, on_path: Any
) -> None:
    """Ten days by the second; after each window a state with the last record of it."""
    api = Api(server, ARTICLES)
    output = read(server, on_path(dated(**STEPS)))
    assert api.asked == WINDOWS
    assert ids(output) == [1, 2, 3, 4]
    assert [bookmark_of(state) for state in output.states] == ARTICLES_KEPT
    assert "progress_markers" not in str(output.states[-1])


ARTICLES_KEPT = ["2023-01-02T00:00:00Z", "2023-01-15T07:30:58Z", "2023-01-31T00:00:00Z"]


def test_every_state_is_enough_to_go_on_from(server: Server, on_path: Any) -> None:
    """What came before a state and what comes after it is everything."""
    Api(server, ARTICLES)
    for options in (STEPS, {}, {**STEPS, "cutoff": "interval_end"}):
        kind = on_path(dated(**options))
        output = read(server, kind)
        for number, message in enumerate(output.messages):
            if message["type"] == "STATE":
                before = {m["record"]["id"] for m in output.messages[:number] if "record" in m}
                after = set(ids(read(server, kind, message["value"])))
                assert before | after == {1, 2, 3, 4}


def test_a_sync_that_fails_inside_a_window_goes_on_from_the_last_closed_one(
    server: Server, on_path: Any
) -> None:
    api = Api(server, ARTICLES)
    api.fails_at = "2023-01-21T00:00:00Z"
    kind = on_path(dated(**STEPS))
    config = {"url": server.url}
    broken, _ = failed(FatalAPIError, kind, config=config)
    assert bookmark_of(broken.states[-1]) == "2023-01-15T07:30:58Z"
    api.fails_at = None
    api.server.asked.clear()
    assert ids(read(server, kind, broken.states[-1])) == [2, 4]
    assert api.asked[0] == "2023-01-15T07:30:58Z..2023-01-25T07:30:57Z"


def test_a_full_table_reads_all_windows_and_keeps_nothing(server: Server) -> None:
    api = Api(server, ARTICLES)
    kind = dated(**STEPS, replication_method="FULL_TABLE")
    output = read(server, kind, stored("2023-01-31T00:00:00Z"))
    assert api.asked == WINDOWS
    assert ids(output) == [1, 2, 3, 4]
    assert bookmark_of(output.states[-1]) == "2023-01-31T00:00:00Z"


@pytest.mark.parametrize(
    "options, state, asked",
    [
        ({}, "2023-02-05T00:00:00Z", []),
        (STEPS, "2023-02-05T00:00:00Z", ["2023-02-05T00:00:00Z..2023-02-05T00:00:00Z"]),
        ({**STEPS, "is_compare_strictly": True}, "2023-02-05T00:00:00Z", []),
        (STEPS, "2023-02-06T00:00:00Z", []),
        ({}, "2022-12-01T00:00:00Z", ["2023-01-01T00:00:00Z..2023-02-05T00:00:00Z"]),
        ({}, "2023-02-04T00:00:00+00:00", ["2023-02-04T00:00:00Z..2023-02-05T00:00:00Z"]),
        ({}, "who knows", ["2023-01-01T00:00:00Z..2023-02-05T00:00:00Z"]),
        ({"start_datetime": "2023-03-01T00:00:00Z"}, None, []),
    ],
)
def test_states_at_the_edges(
    server: Server, options: dict, state: str | None, asked: list[str]
) -> None:
    """At the end, beyond it, before the start, of another form, unreadable; a start too late."""
    api = Api(server, [])
    read(server, dated(**options), None if state is None else stored(state))
    assert api.asked == asked


def test_a_start_after_the_end_asks_for_nothing_and_says_so(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    api = Api(server, ARTICLES)
    output = read(server, dated(start_datetime="2023-06-01T00:00:00Z"))
    assert (api.asked, ids(output)) == ([], [])
    assert "'articles': nothing to read" in caplog.text


def test_a_start_that_is_no_date_is_an_error_that_names_the_stream(server: Server) -> None:
    kind = dated(start_datetime=lambda config: config["start_date"])
    _, error = failed(ConfigurationError, kind, config={"url": server.url, "start_date": "soon"})
    assert "'articles'" in str(error)
    assert "start_datetime" in str(error)
    _, error = failed(ConfigurationError, kind, config={"url": server.url})
    assert "start_date" in str(error)


def test_the_window_can_be_used_wherever_an_author_builds_a_request(server: Server) -> None:
    """A prefix and a suffix in one parameter, a day in the path, a field of a body."""

    def get_url_params(self: Any, _context: Any, _token: Any) -> dict[str, str]:
        window = self.stream_interval
        return {"query": f'BETWEEN "{window.start_time}" AND "{window.end_time}"'}

    server.answers(Reply({"data": []}))
    options = {"end_datetime": "2023-01-02T00:00:00Z", "step": "P1D", "cursor_granularity": "P1D"}
    read(
        server,
        dated(
            **options,
            **UNASKED | {"start_time_option": RequestOption("path", "day")},
            datetime_format="%Y-%m-%d",
            path="/rates/{day}",
            get_url_params=get_url_params,
        ),
    )
    assert [(one.path, one.query["query"][0]) for one in server.asked] == [
        ("/rates/2023-01-01", 'BETWEEN "2023-01-01" AND "2023-01-01"'),
        ("/rates/2023-01-02", 'BETWEEN "2023-01-02" AND "2023-01-02"'),
    ]
    server.asked.clear()
    body = {"start_time_option": RequestOption("body_json", field_path=["where", "from"])}
    read(server, dated(**UNASKED | body, http_method="POST"))
    assert server.asked[0].json == {"where": {"from": "2023-01-01T00:00:00Z"}}


# What is kept


def test_the_end_of_an_interval_is_kept_where_that_is_asked_for(
    server: Server, on_path: Any
) -> None:
    """Airbyte's guide to incremental sync: the last record is earlier than the interval's end."""
    api = Api(server, ARTICLES)
    output = read(server, on_path(dated(**STEPS, cutoff="interval_end")))
    assert [bookmark_of(state) for state in output.states] == [
        window.split("..")[1] for window in WINDOWS
    ]
    api.server.asked.clear()
    read(server, on_path(dated(end_datetime="2023-02-06T00:00:00Z")), output.states[-1])
    assert api.asked == ["2023-02-05T00:00:00Z..2023-02-06T00:00:00Z"]


def test_an_api_whose_clock_is_ahead_moves_nothing_beyond_the_end(
    server: Server, on_path: Any
) -> None:
    """A record of a later date is sent; the next sync asks from the end of this one."""
    Api(server, at("2023-01-04T00:00:00Z", "2024-01-01T00:00:00Z"))
    output = read(server, on_path(dated(end_time_option=None)))
    assert ids(output) == [1, 2]
    assert bookmark_of(output.states[-1]) == "2023-02-05T00:00:00Z"


def test_a_lookback_that_brings_nothing_new_leaves_the_bookmark(
    server: Server, on_path: Any
) -> None:
    """Not lowered by what was read again; nor where several contexts share it."""
    Api(server, at("2023-01-30T00:00:00Z"))
    partitions = [{"shop": 1}, {"shop": 2}]
    for members in ({}, {"partitions": partitions, "state_partitioning_keys": []}):
        kind = on_path(dated(lookback_window="P2D", **members))
        output = read(server, kind, stored("2023-01-31T00:00:00Z"))
        assert ids(output) == [1] * (2 if members else 1)
        assert bookmark_of(output.states[-1]) == "2023-01-31T00:00:00Z"


def test_values_are_compared_by_their_formats_and_kept_in_the_requests(
    server: Server, on_path: Any
) -> None:
    """Tried in order, then ``datetime_format``; of another zone they are kept in UTC."""
    records = at("05/01/2023 01:00 +0200", "2023-01-04", "04/01/2023 23:30 +0000")
    server.answers(Reply({"data": records}))
    formats = ["%Y-%m-%d", "%d/%m/%Y %H:%M %z"]
    output = read(server, on_path(dated(cursor_datetime_formats=formats)))
    assert bookmark_of(output.states[-1]) == "2023-01-04T23:30:00Z"


def test_counts_since_1970_are_kept_as_text(server: Server, on_path: Any) -> None:
    server.answers(
        Reply({"data": [{"id": 1, "at": 1_672_617_600}, {"id": 2, "at": 1_672_531_200}]})
    )
    epoch = {"datetime_format": "%s", "start_datetime": "1672531200", "end_datetime": "1675555200"}
    kind = dated(**epoch, schema=schema(id=INTEGER, at=INTEGER))
    output = read(server, on_path(kind))
    assert server.asked[0].query["from-date"] == ["1672531200"]
    assert bookmark_of(output.states[-1]) == "1672617600"


def test_records_without_a_usable_cursor_are_sent_and_told_of_once(
    server: Server, on_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Missing, null, of no format, no date at all; the bookmark is that of the others."""
    dates = ("2023-01-03T00:00:00Z", None, "soon", "2023-01-02T00:00:00Z", "2023-99-99T00:00:00Z")
    records = [{"id": 0}, *at(*dates)]
    server.answers(Reply({"data": records}))
    output = read(server, on_path(dated()))
    assert ids(output) == [0, 1, 2, 3, 4, 5]
    assert bookmark_of(output.states[-1]) == "2023-01-03T00:00:00Z"
    assert caplog.text.count("does not move the bookmark") == 1


def test_the_cursor_is_read_after_the_record_was_changed(server: Server, on_path: Any) -> None:
    """A nested field that `post_process` lifts is the cursor, for bookmark and filter."""

    def post_process(self: Any, row: dict, _context: Any = None) -> dict:
        assert self.stream_interval.start_time == "2023-01-01T00:00:00Z"
        return {"id": row["id"], "at": row["meta"]["at"]}

    nested = [{"id": one["id"], "meta": {"at": one["at"]}} for one in ARTICLES]
    server.answers(Reply({"data": nested}))
    options = {"is_client_side_incremental": True, **UNASKED}
    output = read(server, on_path(dated(post_process=post_process, **options)))
    assert ids(output) == [1, 2, 3, 4]
    assert bookmark_of(output.states[-1]) == "2023-01-31T00:00:00Z"


# What is sent


FEED = {"is_data_feed": True, **UNASKED}


def test_a_feed_ends_behind_the_page_that_comes_to_what_was_sent(
    server: Server, on_path: Any
) -> None:
    """Older records of that page are dropped; the one at the cut-off comes once more."""
    dates = ("2023-03-01", "2023-02-04", "2023-02-03", "2023-01-20", "2023-01-20", "2023-01-19")
    api = Api(server, at(*(f"{date}T00:00:00Z" for date in (*dates, "2023-01-18"))), size=2)
    state = stored("2023-01-20T00:00:00Z")
    output = read(server, on_path(dated(**FEED)), state)
    assert ids(output) == [2, 3, 4, 5]  # the first is later than the end
    assert api.asked == ["", " p1", " p2"]
    assert bookmark_of(output.states[-1]) == "2023-02-04T00:00:00Z"
    api.server.asked.clear()
    output = read(server, on_path(dated(**FEED, boundary="drop")), state)
    assert ids(output) == [2, 3]
    assert api.asked == ["", " p1"]


def test_the_last_record_of_a_page_says_whether_a_feed_goes_on(
    server: Server, on_path: Any
) -> None:
    """As airbyte-cdk does it: an older one before it ends nothing."""
    dates = ("2023-01-19", "2023-02-03", "2023-01-22", "2023-01-17", "2023-02-04")
    api = Api(server, at(*(f"{date}T00:00:00Z" for date in dates)), size=2)
    output = read(server, on_path(dated(**FEED)), stored("2023-01-20T00:00:00Z"))
    assert ids(output) == [2, 3]
    assert api.asked == ["", " p1"]


def test_a_feed_in_disorder_is_told_of_once_and_named_at_the_end(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    dates = ("2023-02-01", "2023-02-03", "2023-02-02", "2023-02-04")
    Api(server, at(*(f"{date}T00:00:00Z" for date in dates)))
    assert ids(read(server, dated(**FEED))) == [1, 2, 3, 4]
    assert caplog.text.count("should come newest first") == 1
    assert "Summary of 'articles': 2 records" in caplog.text


def test_records_are_kept_to_the_interval_where_the_api_cannot(
    server: Server, on_path: Any
) -> None:
    """Both ends included; with ``boundary`` the one that was sent before is dropped."""
    Api(server, ARTICLES)
    state = stored("2023-01-12T00:00:00Z")
    options = {"is_client_side_incremental": True, **UNASKED}
    assert ids(read(server, on_path(dated(**options)), state)) == [2, 3, 4]
    assert ids(read(server, on_path(dated(**options, boundary="drop")), state)) == [2, 4]
    assert ids(read(server, on_path(dated(boundary="drop")), state)) == [2, 4]


def test_what_has_no_usable_cursor_passes_every_filter(server: Server, on_path: Any) -> None:
    server.answers(
        Reply({"data": [{"id": 1}, {"id": 2, "at": "soon"}, *at("2022-01-01T00:00:00Z")]})
    )
    kind = dated(is_client_side_incremental=True, **UNASKED)
    assert ids(read(server, on_path(kind))) == [1, 2]


def test_what_is_not_in_the_interval_has_no_children(server: Server) -> None:
    child = stream(
        "remarks",
        lambda _self, context: [{"id": context["article"]}],
        parent_stream_type=None,
    )
    options = {"is_client_side_incremental": True, **UNASKED}

    def get_child_context(_self: Any, record: dict, context: Any) -> dict:
        return {"article": record["id"]}

    parent = dated(**options, get_child_context=get_child_context)
    child.parent_stream_type = parent
    Api(server, ARTICLES)
    output = sync(parent, child, config={"url": server.url})
    assert ids(output, "remarks") == [1, 2, 3, 4]


# Contexts, children, threads


def test_each_partition_has_a_bookmark_of_its_own(server: Server, on_path: Any) -> None:
    """A window of a partition is final when it is closed, whatever becomes of the others."""
    api = Api(server, ARTICLES)
    kind = on_path(dated(**STEPS, partitions=[{"shop": 1}, {"shop": 2}]))
    output = read(server, kind)
    assert api.asked == WINDOWS * 2
    entries = output.states[-1]["bookmarks"]["articles"]["partitions"]
    assert [one["replication_key_value"] for one in entries] == ["2023-01-31T00:00:00Z"] * 2
    api.server.asked.clear()
    read(server, kind, output.states[-1])
    assert api.asked == ["2023-01-31T00:00:00Z..2023-02-05T00:00:00Z"] * 2


def test_partitions_in_threads_read_their_windows_one_by_one(server: Server) -> None:
    """Whatever is said of windows in threads: each thread has its partition."""
    api = Api(server, ARTICLES)
    shops = [{"shop": number} for number in range(6)]
    threads = {"max_parallel_partitions": 3, "max_parallel_windows": 3}
    output = read(server, dated(**STEPS, **threads, partitions=shops))
    assert sorted(api.asked) == sorted(WINDOWS * 6)
    assert sorted(ids(output)) == sorted([1, 2, 3, 4] * 6)
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
def test_a_bookmark_that_contexts_share_moves_when_all_have_ended(
    server: Server, on_path: Any, cutoff: str
) -> None:
    """A global cursor: no window of one context says anything of the others."""
    api = Api(server, ARTICLES)
    api.fails_at = "2023-01-21T00:00:00Z"
    shops = {"partitions": [{"shop": 1}, {"shop": 2}], "global_substream_cursor": True}
    kind = on_path(dated(**STEPS, **shops, cutoff=cutoff))
    broken, _ = failed(FatalAPIError, kind, config={"url": server.url})
    assert all(bookmark_of(state) is None for state in broken.states)
    api.fails_at = None
    output = read(server, kind)
    last = "2023-01-31T00:00:00Z" if cutoff == "last_record" else "2023-02-05T00:00:00Z"
    assert bookmark_of(output.states[-1]) == last


def test_a_window_is_closed_when_the_children_of_its_records_are_done(server: Server) -> None:
    """In threads of their own; the parent's bookmark never speaks of children still to come."""
    Api(server, ARTICLES)

    def get_child_context(_self: Any, record: dict, context: Any) -> dict:
        return {"article": record["id"]}

    parent = dated(**STEPS, get_child_context=get_child_context)
    child = stream(
        "remarks",
        lambda _self, context: [{"id": context["article"]}],
        parent_stream_type=parent,
        state_partitioning_keys=[],
        max_parallel_partitions=2,
    )
    output = sync(parent, child, config={"url": server.url, "max_parallel_partitions": 2})
    assert sorted(ids(output, "remarks")) == [1, 2, 3, 4]
    seen: set[int] = set()
    for message in output.messages:
        if message["type"] == "RECORD" and message["stream"] == "remarks":
            seen.add(message["record"]["id"])
        elif message["type"] == "STATE" and (value := bookmark_of(message["value"])):
            assert {one["id"] for one in ARTICLES[:4] if one["at"] <= value} <= seen
    assert bookmark_of(output.states[-1]) == "2023-01-31T00:00:00Z"


def test_windows_in_threads_come_out_in_their_order(server: Server, on_path: Any) -> None:
    """The same records and states as with one thread, byte by byte; all windows are asked for."""
    api = Api(server, [one for one in ARTICLES[:4] for _ in range(60)], size=50)
    one = read(server, on_path(dated(**STEPS)))
    asked = sorted(api.asked)
    api.server.asked.clear()
    several = read(server, on_path(dated(**STEPS, max_parallel_windows=3)))
    assert several.messages == one.messages
    assert sorted(api.asked) == asked


def test_an_error_in_a_thread_comes_behind_the_windows_before_it(
    server: Server, on_path: Any
) -> None:
    """And no thread outlives the stream."""
    import threading

    api = Api(server, ARTICLES)
    api.fails_at = "2023-01-21T00:00:00Z"
    kind = on_path(dated(**STEPS, max_parallel_windows=4))
    broken, error = failed(FatalAPIError, kind, config={"url": server.url})
    assert ids(broken) == [1, 2, 3]
    assert "2023-01-21" in str(error) or "400" in str(error)
    assert bookmark_of(broken.states[-1]) == "2023-01-15T07:30:58Z"
    assert not [one for one in threading.enumerate() if "worker-articles" in one.name]


def test_threads_end_when_a_record_cannot_be_taken(server: Server, on_path: Any) -> None:
    import threading

    def post_process(_self: Any, row: dict, _context: Any = None) -> dict:
        if row["id"] == 2:
            raise RuntimeError("no more")
        return row

    Api(server, [one for one in ARTICLES[:4] for _ in range(2_000)], size=500)
    kind = on_path(dated(**STEPS, max_parallel_windows=3, post_process=post_process))
    broken, _ = failed(RuntimeError, kind, config={"url": server.url})
    assert bookmark_of(broken.states[-1]) == "2023-01-02T00:00:00Z"
    assert not [one for one in threading.enumerate() if "worker-articles" in one.name]


# Whatever else an author may do


def test_a_sorted_stream_cannot_look_back(server: Server) -> None:
    kind = dated(lookback_window="P2D", is_sorted=True)
    _, error = failed(ConfigurationError, kind, config={"url": server.url})
    assert "is_sorted" in str(error)


def test_a_sorted_stream_moves_its_bookmark_with_each_record(server: Server) -> None:
    Api(server, [ARTICLES[0], ARTICLES[2], ARTICLES[1], ARTICLES[3]])
    output = read(server, dated(**STEPS, is_sorted=True, STATE_MSG_FREQUENCY=1))
    kept = [bookmark_of(state) for state in output.states]
    assert kept[0] == "2023-01-02T00:00:00Z"
    assert kept[-1] == "2023-01-31T00:00:00Z"


def test_records_can_be_read_outside_of_a_sync(server: Server) -> None:
    """Then no state is written, and nothing runs in threads."""
    api, output = Api(server, ARTICLES), Output()
    kind = dated(**STEPS, max_parallel_windows=3)
    [made] = make(kind, output=output, config={"url": server.url}).streams.values()
    assert [one["id"] for one in made.get_records(None)] == [1, 2, 3, 4]
    assert api.asked == WINDOWS
    assert not output
    assert made.replication_key == "at"
    assert made.get_starting_timestamp(None) is None
    made.replication_key = "other"
    made.state_partitioning_keys = ["shop"]
    assert (made.replication_key, made.state_partitioning_keys) == ("other", ["shop"])


def test_a_trial_asks_for_one_window_though_it_be_empty(server: Server) -> None:
    """A connection test is no search for the first record through years of days."""
    api, output = Api(server, []), Output()
    tap = make(dated(**STEPS), output=output, config={"url": server.url})
    read_one_record(tap.streams["articles"])
    assert api.asked == WINDOWS[:1]
    assert not output


def test_an_author_sees_where_a_sync_starts(server: Server) -> None:
    """In the formats of the cursor, the later of bookmark and ``start_date``."""
    Api(server, [])
    seen: list[Any] = []

    def get_url_params(self: Any, context: Any, _token: Any) -> dict[str, str]:
        seen.append(self.get_starting_replication_key_value(context))
        seen.append(self.get_starting_timestamp(context).isoformat())
        return {}

    kind = dated(get_url_params=get_url_params)
    read(server, kind, stored("2023-02-01T00:00:00Z"), start_date="2023-01-03T00:00:00Z")
    assert seen == ["2023-02-01T00:00:00Z", "2023-02-01T00:00:00+00:00"]


def test_costs_of_all_windows_are_summed(server: Server, caplog: Any) -> None:
    """Those of copies in threads, too."""
    caplog.set_level(logging.INFO)
    Api(server, ARTICLES)
    for threads in (1, 2):
        kind = dated(
            **STEPS,
            max_parallel_windows=threads,
            calculate_sync_cost=lambda _self, *_given, **_named: {"calls": 1},
        )
        tap = make(kind, config={"url": server.url})
        tap.sync_all()
        assert tap.streams["articles"]._sync_costs == {"calls": 4}


def test_an_older_way_to_prepare_requests_has_the_window_too(server: Server) -> None:
    api = Api(server, ARTICLES)

    def prepare_request(self: Any, context: Any, token: Any) -> Any:
        return super(kind, self).prepare_request(context, token)

    kind = dated(start_time_option=FROM, prepare_request=prepare_request)
    with pytest.warns(DeprecationWarning, match="prepare_request"):
        read(server, kind)
    assert api.asked == ["2023-01-01T00:00:00Z..2023-02-05T00:00:00Z"]
