"""The functions of `tap_core.state.bookmarks` change one state dict like those of singer_sdk."""

from __future__ import annotations

import datetime as dt
import logging
import uuid

import pytest

from tap_core.exceptions import InvalidStreamSortException
from tap_core.helpers import _state as state_helpers
from tap_core.state import bookmarks
from tap_core.state.replication_key_comparator import make_comparator

MOMENT = make_comparator({"type": "string", "format": "date-time"})


def increment(state: dict, value: object, **kwargs) -> dict:
    settings = {"is_sorted": False, "check_sorted": True, **kwargs}
    bookmarks.increment_state(state, latest_record={"id": value}, replication_key="id", **settings)
    return state


def test_state_helpers_module_exports_the_bookmark_functions() -> None:
    assert state_helpers.PROGRESS_MARKERS == "progress_markers"
    assert state_helpers.PROGRESS_MARKER_NOTE == "Note"
    assert state_helpers.SIGNPOST_MARKER == "replication_key_signpost"
    assert state_helpers.STARTING_MARKER == "starting_replication_value"
    for name in dir(state_helpers):
        if name.islower() and not name.startswith("_") and name != "annotations":
            assert getattr(state_helpers, name) is getattr(bookmarks, name)


def test_state_dicts_are_found_and_created() -> None:
    state: dict = {}
    assert bookmarks.get_state_if_exists(state, "s") is None
    assert bookmarks.get_state_partitions_list(state, "s") is None
    created = bookmarks.get_writeable_state_dict(state, "s", {"id": 1})
    assert state == {"bookmarks": {"s": {"partitions": [{"context": {"id": 1}}]}}}
    assert bookmarks.get_writeable_state_dict(state, "s", {"id": 1}) is created
    bookmarks.write_stream_state(state, "s", "k", 5)
    bookmarks.write_stream_state(state, "s", "k", 6, state_partition_context={"id": 1})
    assert bookmarks.get_state_if_exists(state, "s", key="k") == 5
    assert bookmarks.get_state_if_exists(state, "s", {"id": 1}, "k") == 6
    assert bookmarks.get_state_if_exists(state, "s", {"id": 1}, "other") is None
    assert bookmarks.get_state_if_exists(state, "s", {"id": 2}) is None
    assert bookmarks.get_state_if_exists(state, "s", {"id": 1}) is created
    assert bookmarks.get_state_partitions_list(state, "s") == [{"context": {"id": 1}, "k": 6}]


def test_writing_without_a_state_document_is_an_error() -> None:
    with pytest.raises(ValueError, match="no state document"):
        bookmarks.get_writeable_state_dict(None, "s")


def test_unsorted_stream_keeps_its_highest_value_in_progress_markers(caplog) -> None:
    state = {"replication_key": "id", "replication_key_value": 3}
    for value in (5, 9, 7):
        increment(state, value)
    assert state == {
        "replication_key": "id",
        "replication_key_value": 3,
        "progress_markers": {
            "Note": "Progress is not resumable if interrupted.",
            "replication_key": "id",
            "replication_key_value": 9,
        },
    }
    assert caplog.messages == [
        "The stream is treated as unsorted: an interrupted sync starts again from its beginning."
    ]
    assert bookmarks.is_state_non_resumable(state)


def test_last_value_is_kept_without_check_sorted() -> None:
    state: dict = {}
    for value in (5, 9, 7):
        increment(state, value, check_sorted=False)
    assert state["progress_markers"]["replication_key_value"] == 7
    state = {}
    for value in (5, 9, 7):
        increment(state, value, check_sorted=False, is_sorted=True)
    assert state == {"replication_key": "id", "replication_key_value": 7}


def test_sorted_stream_advances_its_bookmark_and_rejects_smaller_values() -> None:
    state = increment(increment({}, 5, is_sorted=True), 5, is_sorted=True)
    with pytest.raises(
        InvalidStreamSortException, match=r"'4' came after '5'.*before the bookmark"
    ):
        increment(state, 4, is_sorted=True)
    assert state == {"replication_key": "id", "replication_key_value": 5}


def test_null_replication_value_is_logged_and_a_missing_key_is_an_error(caplog) -> None:
    assert increment({}, None, is_sorted=True) == {}
    assert "replication key of a record is null" in caplog.text
    with pytest.raises(KeyError):
        bookmarks.increment_state(
            {}, latest_record={}, replication_key="id", is_sorted=True, check_sorted=True
        )


def test_bookmark_of_another_replication_key_is_ignored() -> None:
    state = {"replication_key": "updated", "replication_key_value": "2024-01-01"}
    assert increment(state, 1, is_sorted=True)["replication_key_value"] == 1


@pytest.mark.parametrize(
    "value, stored",
    [
        (dt.datetime.fromisoformat("2024-01-01"), "2024-01-01T00:00:00.000000+00:00"),
        (dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc), "2024-01-01T00:00:00.000000+00:00"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (dt.date(2024, 1, 1), dt.date(2024, 1, 1)),
    ],
)
def test_datetimes_and_uuids_are_stored_as_text(value, stored) -> None:
    assert increment({}, value, is_sorted=True)["replication_key_value"] == stored
    state: dict = {}
    bookmarks.write_replication_key_signpost(state, value)
    bookmarks.write_starting_replication_value(state, value)
    assert state == {"replication_key_signpost": stored, "starting_replication_value": stored}
    assert bookmarks.get_starting_replication_value(state) == stored


@pytest.mark.parametrize(
    "marker, signpost, promoted",
    [
        ("2024-05-01T10:00:00Z", "2024-05-01T11:00:00+00:00", "2024-05-01T10:00:00Z"),
        ("2099-01-01T00:00:00Z", "2024-05-01T11:00:00+00:00", "2024-05-01T11:00:00+00:00"),
        # Compared as text, the order of the two values would be reversed.
        ("2024-05-01T12:00:00+02:00", "2024-05-01T11:00:00+00:00", "2024-05-01T12:00:00+02:00"),
        ("2024-05-01T10:30:00-01:00", "2024-05-01T11:00:00+00:00", "2024-05-01T11:00:00+00:00"),
        ("2024-05-01T10:00:00Z", None, "2024-05-01T10:00:00Z"),
    ],
)
def test_promoted_bookmark_is_limited_by_the_signpost(marker, signpost, promoted) -> None:
    state: dict = {
        "replication_key": "old",
        "replication_key_value": "x",
        "starting_replication_value": "2024-01-01",
        "progress_markers": {
            "Note": "…",
            "replication_key": "updated",
            "replication_key_value": marker,
            "more": 1,
        },
    }
    if signpost:
        state["replication_key_signpost"] = signpost
    remaining = bookmarks.finalize_state_progress_markers(state, order=MOMENT)
    assert remaining == {"more": 1}
    assert state == {"replication_key": "updated", "replication_key_value": promoted}


def test_signpost_of_zero_limits_the_bookmark() -> None:
    state = increment({"replication_key_signpost": 0}, 5)
    bookmarks.finalize_state_progress_markers(state)
    assert state == {"replication_key": "id", "replication_key_value": 0}


def test_incomparable_signpost_does_not_prevent_finalization(caplog) -> None:
    state = increment({"replication_key_signpost": "2024-05-01T11:00:00+00:00"}, 1_700_000_000)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        bookmarks.finalize_state_progress_markers(state, order=MOMENT)
    assert state["replication_key_value"] == 1_700_000_000
    assert "compared as text" in caplog.text


def test_finalization_without_markers_removes_only_values_of_the_run() -> None:
    state = {
        "replication_key": "id",
        "replication_key_value": 4,
        "replication_key_signpost": 2,
        "starting_replication_value": 3,
    }
    assert bookmarks.finalize_state_progress_markers(state) is None
    assert state == {"replication_key": "id", "replication_key_value": 4}


@pytest.mark.parametrize("name", ["progress_markers", "progress_tracking"])
def test_progress_tracking_is_read_as_progress_markers(name) -> None:
    def state() -> dict:
        return {name: {"Note": "n", "replication_key": "id", "replication_key_value": 7}}

    assert bookmarks.is_state_non_resumable(state())
    wiped = state()
    assert bookmarks.reset_state_progress_markers(wiped) == {
        "replication_key": "id",
        "replication_key_value": 7,
    }
    assert wiped == {}
    promoted = state()
    bookmarks.finalize_state_progress_markers(promoted)
    assert promoted == {"replication_key": "id", "replication_key_value": 7}
    assert increment(state(), 5)["progress_markers"]["replication_key_value"] == 7
    assert increment(state(), 8)["progress_markers"]["replication_key_value"] == 8


def test_invalid_progress_markers_are_removed() -> None:
    state = {"progress_tracking": "2024"}
    assert bookmarks.reset_state_progress_markers(state) is None
    assert state == {}


def test_sort_error_log_names_stream_record_and_context() -> None:
    logged: list[str] = []
    where = {"log_fn": logged.append, "stream_name": "s", "ex": ValueError("why")}
    bookmarks.log_sort_error(
        **where,
        current_context={"a": 1, "b": 2},
        state_partition_context={"a": 1},
        record_count=12,
        partition_record_count=3,
    )
    bookmarks.log_sort_error(
        **where,
        current_context=None,
        state_partition_context=None,
        record_count=3,
        partition_record_count=3,
    )
    assert logged == [
        (
            "Sorting error detected in 's' on record #12, partition record #3 of "
            "{'a': 1}, context {'a': 1, 'b': 2}: why"
        ),
        "Sorting error detected in 's' on record #3: why",
    ]
