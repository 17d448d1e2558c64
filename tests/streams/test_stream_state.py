"""State of a stream: starting values, signpost, contexts and partitions."""

from __future__ import annotations

import datetime as dt

import pytest

from tap_core.exceptions import ConfigurationError
from tests.streams.test_stream_declarations import make_only_stream
from tests.sync.syncing import DATETIME, INTEGER, STARTED, schema, stream, sync, sync_until_error

UTC = dt.timezone.utc
AT = {"replication_key": "at", "schema": schema(at=DATETIME, p=INTEGER)}
ID = {"replication_key": "id", "schema": schema(id=INTEGER, p=INTEGER)}


def start(members, bookmark=None, start_date=None, look="get_starting_replication_key_value"):
    """Return the starting value that a stream sees in a sync."""
    start_values = []

    def rows(self, context):
        start_values.append(getattr(self, look)(context))
        return []

    entry = {"replication_key": members["replication_key"], "replication_key_value": bookmark}
    sync(
        stream("a", rows, **members),
        state={"bookmarks": {"a": entry}},
        config={"start_date": start_date} if start_date else {},
    )
    return start_values[0]


@pytest.mark.parametrize(
    "bookmark, start_date, expected",
    [
        (None, None, None),
        ("2024-02-01T00:00:00Z", None, "2024-02-01T00:00:00Z"),
        (None, "2024-01-01", "2024-01-01"),
        ("2024-02-01T00:00:00Z", "2024-01-01", "2024-02-01T00:00:00Z"),
        ("2024-02-01T00:00:00Z", "2024-03-01", "2024-03-01"),
        ("2024-02-01T00:00:00-08:00", "2024-02-01T01:00:00Z", "2024-02-01T00:00:00-08:00"),
        ("2024-02-01T0:00:00Z", "2024-02-01T00:00:01Z", "2024-02-01T00:00:01Z"),
    ],
)
def test_starting_value_is_the_later_of_bookmark_and_start_date(bookmark, start_date, expected):
    assert start(AT, bookmark, start_date) == expected


def test_bookmark_that_is_not_a_timestamp_ignores_start_date():
    assert start(ID, 7, "2024-01-01") == 7


def test_compare_start_date_can_be_overridden():
    members = {**ID, "compare_start_date": lambda self, value, start_date: f"{value}/{start_date}"}
    assert start(members, 7, "2024") == "7/2024"


@pytest.mark.parametrize(
    "bookmark, expected",
    [
        (None, None),
        ("2024-02-01T01:00:00+02:00", dt.datetime(2024, 1, 31, 23, tzinfo=UTC)),
        ("2024-02-01T01:00:00", dt.datetime(2024, 2, 1, 1, tzinfo=UTC)),
        ("2021-01-02T0:00:00Z", dt.datetime(2021, 1, 2, tzinfo=UTC)),
    ],
)
def test_starting_timestamp_is_an_aware_datetime(bookmark, expected):
    declared = start(AT, bookmark, look="get_starting_timestamp")
    assert declared == expected
    assert declared is None or declared.tzinfo is not None


def test_starting_timestamp_requires_a_timestamp_replication_key():
    with pytest.raises(ValueError, match="not of timestamp type"):
        start(ID, 7, look="get_starting_timestamp")
    assert start(ID, None, look="get_starting_timestamp") is None


def test_invalid_timestamp_bookmark_is_named_in_the_error():
    with pytest.raises(ValueError, match="'soon' is not a date or date-time"):
        start(AT, "soon", look="get_starting_timestamp")


def test_invalid_start_date_is_named_as_a_setting_with_the_accepted_forms():
    """Its value is shown unless it is secret."""

    def read(stream, context):
        stream.get_starting_timestamp(context)
        yield {"id": 1}

    def fail(**options):
        kind = stream("a", read, schema=schema(id=INTEGER, at=DATETIME), replication_key="at")
        return str(sync_until_error(ConfigurationError, kind, validate_config=False, **options)[1])

    bookmark = {"replication_key": "at", "replication_key_value": "2024-01-01"}
    for state in ({}, {"bookmarks": {"a": bookmark}}):
        assert fail(config={"start_date": "yesterday"}, state=state) == (
            "start_date: stream 'a' needs a date or date-time in ISO 8601, such as 2024-01-31 or"
            " 2024-01-31T08:00:00Z (it is 'yesterday')."
        )
    assert "x" * 50 not in fail(config={"start_date": "x" * 50})
    bookmark["replication_key_value"] = "foo"
    assert fail(config={}, state={"bookmarks": {"a": bookmark}}) == (
        "Stream 'a': the bookmark in the state is not valid: 'foo' is not a date or"
        " date-time in ISO 8601, such as 2024-01-31 or 2024-01-31T08:00:00Z. Correct it, or"
        " remove it to read the stream in full."
    )


def test_full_table_stream_has_no_starting_value():
    members = {"replication_key": None, "schema": schema(id=INTEGER)}
    assert start(members, 7, "2024-01-01") is None


# Signposts, contexts and partitions


def test_signpost_of_a_timestamp_key_is_the_start_of_the_tap():
    moment = dt.datetime.fromtimestamp(STARTED / 1000, tz=UTC)
    assert make_only_stream(stream("a", [], **AT)).get_replication_key_signpost() == moment
    assert make_only_stream(stream("a", [], **ID)).get_replication_key_signpost(None) is None


def test_partitions_default_to_the_contexts_of_the_state():
    entries = [{"context": {"p": 1}}, {"context": {"p": 2}}, {"odd": 1}]
    declared = make_only_stream(
        stream("a", [], **ID), state={"bookmarks": {"a": {"partitions": entries}}}
    )
    assert declared.partitions == [{"p": 1}, {"p": 2}]
    assert make_only_stream(stream("a", [], **ID)).partitions is None


@pytest.mark.parametrize(
    "keys, context, expected",
    [
        (None, {"p": 1, "q": 2}, {"context": {"p": 1, "q": 2}}),
        (["p"], {"p": 1, "q": 2}, {"context": {"p": 1}}),
        ([], {"p": 1}, None),
        (["z"], {"p": 1}, None),
        (None, None, None),
    ],
)
def test_state_partitioning_keys_select_the_bookmark_of_a_context(keys, context, expected):
    declared = make_only_stream(stream("a", [], **ID, state_partitioning_keys=keys))
    state = declared.get_context_state(context)
    if expected is None:
        assert state is declared.stream_state
    else:
        assert state == expected
        assert declared.stream_state["partitions"] == [expected]


def test_state_partitioning_keys_can_be_set_later():
    declared = make_only_stream(stream("a", [], **ID, is_sorted=True))
    assert declared.state_manager.is_sorted
    declared.state_partitioning_keys = ["p"]
    assert declared.state_partitioning_keys == ["p"]
    assert not declared.state_manager.is_sorted


def test_get_context_state_creates_the_state_of_the_context():
    declared = make_only_stream(stream("a", [], **ID))
    declared.get_context_state({"p": 1})["x"] = 1
    assert declared.tap_state == {
        "bookmarks": {"a": {"partitions": [{"context": {"p": 1}, "x": 1}]}}
    }
    assert declared.get_context_state({"p": 1}) is declared.get_context_state({"p": 1.0})
