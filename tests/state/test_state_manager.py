"""StreamStateManager: starting values, signposts, partitioning keys and finalization."""

from __future__ import annotations

import copy
import datetime as dt
import json
import logging
import threading

import pytest

from tap_core.exceptions import InvalidStreamSortException
from tap_core.state import StateDocument, StreamStateManager, make_comparator, read_state
from tests.state.contexts import end_context

MOMENT = {"type": "string", "format": "date-time"}

# The example in the documentation of stream state.
EXAMPLE = """
{
  "bookmarks": {
    "orders": {
      "partitions": [
        {
          "context": {
            "storeId": 1
          },
          "replication_key": "updatedAt",
          "replication_key_value": "2021-01-02T0:00:00Z"
        },
        {
          "context": {
            "storeId": 2
          },
          "replication_key": "updatedAt",
          "replication_key_value": "2021-01-01T00:00:00Z"
        }
      ]
    }
  }
}
"""


def make_manager(state: dict | None = None, *, schema=MOMENT, **kwargs) -> StreamStateManager:
    return StreamStateManager(
        stream_name="orders",
        tap_state={} if state is None else state,
        order=make_comparator(schema, "orders"),
        **kwargs,
    )


def start(manager: StreamStateManager, context=None, **config) -> object:
    manager.write_starting_replication_value(context, "INCREMENTAL", "updatedAt", config, max)
    return manager.get_starting_replication_value(context, "INCREMENTAL")


def records(manager: StreamStateManager, context, *values) -> None:
    cursor = manager.cursor(context, replication_key="updatedAt")
    for value in values:
        cursor.advance(value)
    if cursor.settle():
        manager.touch(context)


def test_documented_example_is_resumed_exactly(caplog) -> None:
    state = read_state(EXAMPLE, "state.json")
    manager = make_manager(state, is_sorted=True)
    assert json.loads(manager.document.encode()) == json.loads(EXAMPLE)
    assert start(manager, {"storeId": 1}) == "2021-01-02T0:00:00Z"
    assert start(manager, {"storeId": 2}) == "2021-01-01T00:00:00Z"
    with pytest.raises(InvalidStreamSortException):
        records(manager, {"storeId": 1}, "2021-01-01T23:59:59Z")
    records(manager, {"storeId": 1}, "2021-01-02T00:00:00Z", "2021-01-02T09:00:00Z")
    records(manager, {"storeId": 3}, "2020-01-01T00:00:00Z")
    for store in (1, 2, 3):
        assert end_context(manager, {"storeId": store})
    expected = json.loads(EXAMPLE)
    partitions = expected["bookmarks"]["orders"]["partitions"]
    partitions[0]["replication_key_value"] = "2021-01-02T09:00:00Z"
    partitions.append(
        {
            "context": {"storeId": 3},
            "replication_key": "updatedAt",
            "replication_key_value": "2020-01-01T00:00:00Z",
        }
    )
    assert json.loads(manager.document.encode()) == expected
    assert state == expected
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_unsorted_stream_resumes_the_documented_example() -> None:
    manager = make_manager(read_state(EXAMPLE, "state.json"))
    context = {"storeId": 1}
    start(manager, context)
    manager.write_replication_key_signpost("2021-03-01T00:00:00+00:00", context=context)
    records(manager, context, "2021-02-02T00:00:00Z", "2021-02-01T00:00:00Z", "2021-01-02T0:00:01Z")
    entry = manager.get_context_state(context)
    assert entry["replication_key_value"] == "2021-01-02T0:00:00Z"
    assert entry["progress_markers"]["replication_key_value"] == "2021-02-02T00:00:00Z"
    assert manager.is_state_non_resumable(context)
    end_context(manager, context)
    assert entry["replication_key_value"] == "2021-02-02T00:00:00Z"


# Starting values


@pytest.mark.parametrize(
    "bookmark, start_date, starts",
    [
        (None, None, None),
        (None, "2024-01-01", "2024-01-01"),
        ("2024-02-01", None, "2024-02-01"),
        ("2024-02-01", "2024-01-01", "2024-02-01"),
        ("2024-02-01", "2024-03-01", "2024-03-01"),
        ("", "2024-03-01", "2024-03-01"),
        ("", None, None),
    ],
)
def test_starting_value_is_the_later_of_bookmark_and_start_date(
    bookmark, start_date, starts
) -> None:
    stored = {"replication_key": "updatedAt", "replication_key_value": bookmark}
    manager = make_manager({"bookmarks": {"orders": stored}})
    assert start(manager, None, start_date=start_date) == starts
    assert manager.stream_state["starting_replication_value"] == starts


def test_bookmark_is_the_starting_value_without_a_comparison_function() -> None:
    stored = {"replication_key": "id", "replication_key_value": 5}
    manager = make_manager({"bookmarks": {"orders": stored}}, schema={"type": "integer"})
    config = {"start_date": "2024-01-01"}
    manager.write_starting_replication_value(None, "INCREMENTAL", "id", config)
    assert manager.get_starting_replication_value(None, "INCREMENTAL") == 5


def test_bookmark_of_another_replication_key_is_no_starting_value() -> None:
    stored = {"replication_key": "id", "replication_key_value": 5}
    assert start(make_manager({"bookmarks": {"orders": stored}})) is None


def test_full_table_stream_has_no_starting_value() -> None:
    manager = make_manager()
    manager.write_starting_replication_value(None, "FULL_TABLE", "k", {"start_date": "2024"}, max)
    assert manager.tap_state == {}
    manager.stream_state["starting_replication_value"] = 5
    assert manager.get_starting_replication_value(None, "FULL_TABLE") is None
    assert manager.get_starting_replication_value(None, "LOG_BASED") == 5


def test_stream_without_a_replication_key_has_starting_value_none() -> None:
    manager = make_manager()
    manager.write_starting_replication_value(None, "LOG_BASED", None, {"start_date": "2024"}, max)
    assert manager.stream_state == {"starting_replication_value": None}


def test_starting_value_is_logged_once_per_stream_and_per_context_at_debug_level(caplog) -> None:
    manager = make_manager(tap_name="tap-x")
    with caplog.at_level(logging.DEBUG):
        start(manager, {"storeId": 0})  # no starting value: nothing is logged
        for store in range(3):
            start(manager, {"storeId": store}, start_date="2024-01-01")
    assert [record.levelname for record in caplog.records] == ["INFO", "DEBUG", "DEBUG"]
    assert {record.name for record in caplog.records} == {"tap-x.orders"}


# Signposts


def test_signposts_are_written_only_for_unsorted_streams() -> None:
    moment = dt.datetime(2024, 5, 1, tzinfo=dt.timezone.utc)
    for settings, written in (
        ({}, True),
        ({"is_sorted": True}, False),
        ({"is_sorted": True, "state_partitioning_keys": []}, True),
        ({"is_sorted": True, "state_partitioning_keys": ["storeId"]}, True),
    ):
        manager = make_manager(**settings)
        manager.write_replication_key_signpost(moment, context={"storeId": 1})
        signpost = manager.get_context_state({"storeId": 1}).get("replication_key_signpost")
        assert signpost == ("2024-05-01T00:00:00.000000+00:00" if written else None)


@pytest.mark.parametrize("empty_value", [None, "", float("nan")])
def test_empty_signpost_is_not_written(empty_value) -> None:
    manager = make_manager()
    manager.write_replication_key_signpost(empty_value)
    assert manager.tap_state == {}


def test_bookmark_of_each_partition_is_limited_by_its_signpost() -> None:
    manager = make_manager()
    for store, value in ((1, "2099-01-01T00:00:00Z"), (2, "2024-05-01T01:59:59+02:00")):
        context = {"storeId": store}
        manager.write_replication_key_signpost("2024-05-01T00:00:00+00:00", context=context)
        records(manager, context, value)
        end_context(manager, context)
    assert [p["replication_key_value"] for p in manager.get_state_partitions()] == [
        "2024-05-01T00:00:00+00:00",
        "2024-05-01T01:59:59+02:00",
    ]


def test_signpost_limits_integer_bookmarks() -> None:
    manager = make_manager(schema={"type": "integer"})
    manager.write_replication_key_signpost(100)
    records(manager, None, 90, 9, 120)
    end_context(manager, None)
    assert manager.stream_state["replication_key_value"] == 100


# Partitioning keys


def test_shared_bookmarks_are_finalized_at_the_end_of_the_stream() -> None:
    manager = make_manager(is_sorted=True, state_partitioning_keys=["post"])
    assert not manager.is_sorted
    contexts = [{"post": 1, "comment": 1}, {"post": 1, "comment": 2}, {"post": 2, "comment": 1}]
    for context, value in zip(contexts, ("2024-03-01", "2024-01-01", "2024-02-01"), strict=True):
        start(manager, context)
        records(manager, context, value)
        assert not end_context(manager, context)
    assert [p["context"] for p in manager.get_state_partitions()] == [{"post": 1}, {"post": 2}]
    assert not any("replication_key_value" in p for p in manager.get_state_partitions())
    manager.finalize_progress_markers(partitions=contexts)
    assert manager.get_state_partitions() == [
        {
            "context": {"post": post},
            "replication_key": "updatedAt",
            "replication_key_value": value,
        }
        for post, value in ((1, "2024-03-01"), (2, "2024-02-01"))
    ]


def test_empty_partitioning_keys_mean_one_bookmark_per_stream() -> None:
    manager = make_manager(state_partitioning_keys=[])
    for store in (2, 1):
        start(manager, {"storeId": store})
        records(manager, {"storeId": store}, f"2024-01-0{store}")
        assert not end_context(manager, {"storeId": store})
    assert manager.get_state_partitions() is None
    manager.is_flushed = True
    manager.finalize_progress_markers(partitions=[{"storeId": 1}, {"storeId": 2}])
    assert not manager.is_flushed
    assert manager.tap_state == {
        "bookmarks": {
            "orders": {"replication_key": "updatedAt", "replication_key_value": "2024-01-02"}
        }
    }


def test_state_partition_context_has_only_the_partitioning_keys() -> None:
    context = {"a": 1, "b": 2}
    assert make_manager().get_state_partition_context(context) is context
    assert make_manager(state_partitioning_keys=["b", "c"]).get_state_partition_context(
        context
    ) == {"b": 2}
    assert make_manager(state_partitioning_keys=["a"]).get_state_partition_context(None) is None


def test_unsorted_stream_is_logged_once(caplog) -> None:
    manager = make_manager()
    for store in range(3):
        records(manager, {"storeId": store}, "2024-01-01")
        manager.increment_state(
            {"updatedAt": "2024-01-02"}, context={"other": store}, replication_key="updatedAt"
        )
    (logged,) = caplog.messages
    assert logged.startswith("Stream 'orders': The stream is treated as unsorted: an interrupted")


# Finalization


def test_completed_partitions_keep_their_bookmarks_after_an_interruption() -> None:
    first = make_manager()
    for store in (1, 2):
        start(first, {"storeId": store}, start_date="2024-01-01")
        records(first, {"storeId": store}, "2024-03-01", "2024-02-01")
        if store == 1:
            end_context(first, {"storeId": store})
    document = StateDocument(read_state(first.document.encode(), "state.json"))
    document.reset_progress_markers()
    second = make_manager(document.tap_state, document=document)
    assert start(second, {"storeId": 1}, start_date="2024-01-01") == "2024-03-01"
    assert start(second, {"storeId": 2}, start_date="2024-01-01") == "2024-01-01"


def test_single_state_dict_can_be_finalized() -> None:
    manager = make_manager()
    records(manager, {"storeId": 1}, "2024-01-01")
    records(manager, None, "2024-01-02")
    manager.document.encode()
    manager.finalize_progress_markers(manager.get_context_state({"storeId": 1}))
    manager.finalize_state()
    assert b"progress_markers" not in manager.document.encode()
    assert json.loads(manager.document.encode()) == manager.tap_state


@pytest.mark.parametrize(("days", "warnings"), [(0.9, 0), (1.1, 1)])
def test_bookmarks_more_than_a_day_in_the_future_are_one_warning(caplog, days, warnings) -> None:
    manager = make_manager(is_sorted=True)
    moment = dt.datetime.now(dt.timezone.utc) + dt.timedelta(days=days)
    for store in (1, 2):
        records(manager, {"storeId": store}, moment)
        end_context(manager, {"storeId": store})
    assert caplog.text.count("Stream 'orders': the bookmark of 'updatedAt' is in") == warnings


def test_sort_error_is_logged_with_its_partition(caplog) -> None:
    manager = make_manager(tap_name="tap-x", state_partitioning_keys=["a"])
    manager.log_sort_error(
        ex=ValueError("why"),
        current_context={"a": 1, "b": 2},
        record_count=5,
        partition_record_count=2,
    )
    assert "Sorting error detected in 'orders' on record #5" in caplog.text
    assert "partition record #2 of {'a': 1}" in caplog.text


def test_states_of_other_streams_are_not_changed() -> None:
    state = {"bookmarks": {"other": {"replication_key_value": 1}}, "global": 5}
    before = copy.deepcopy(state)
    manager = make_manager(state)
    records(manager, None, "2024-01-01")
    end_context(manager, None)
    del state["bookmarks"]["orders"]
    assert state == before


def test_cursor_creation_waits_for_the_lock_of_the_document() -> None:
    """Creating a cursor may remove invalid markers from the state, so it needs the lock."""
    manager, cursors = make_manager(), []
    own_state = {"progress_markers": "none"}

    def make() -> None:
        cursors.append(manager.cursor(None, replication_key="updatedAt", state=own_state))

    thread = threading.Thread(target=make)
    with manager.document.lock:
        thread.start()
        thread.join(0.05)
        assert own_state
        assert not cursors
    thread.join()
    assert len(cursors) == 1
    assert own_state == {}
