"""Errors in a stream: messages, valid output before the error, and aborted syncs."""

from __future__ import annotations

import logging

import pytest

from tap_core import Stream
from tap_core.exceptions import (
    AbortedSyncFailedException,
    AbortedSyncPausedException,
    DiscoveryError,
    FatalSyncError,
    InvalidReplicationKeyException,
    InvalidStreamSortException,
)
from tests.sync.syncing import (
    DATETIME,
    INTEGER,
    Output,
    make,
    schema,
    stream,
    sync,
    sync_until_error,
    with_hook,
)

SORTED = {"replication_key": "id", "is_sorted": True}

both_paths = pytest.mark.parametrize(
    "on_path", [lambda kind: kind, with_hook], ids=["compiled", "hooked"]
)


def record_reads(rows, **members):
    """Return a stream and the list of ids that were pulled from it."""
    pulled = []

    def get_records(self, context):
        for row in rows:
            pulled.append(row["id"])
            yield row

    return stream("a", get_records, **members), pulled


@both_paths
def test_record_out_of_order_is_the_last_written_record(on_path, caplog):
    kind, pulled = record_reads([{"id": n} for n in (1, 2, 5, 3, 6, 7)], **SORTED)
    output, error = sync_until_error(InvalidStreamSortException, on_path(kind))
    assert [record["id"] for record in output.records("a")] == [1, 2, 5, 3]
    assert pulled == [1, 2, 5, 3]
    assert output.states[-1]["bookmarks"]["a"]["replication_key_value"] == 5
    assert "'3' came after '5'" in str(error)
    assert "on record #4" in caplog.text


@both_paths
def test_partition_out_of_order_is_named_in_the_log(on_path, caplog):
    rows = [{"id": 1}, {"id": 2}]

    def get_records(self, context):
        return rows if context["p"] == 1 else rows[::-1]

    kind = stream(
        "a",
        get_records,
        **SORTED,
        partitions=[{"p": 1}, {"p": 2}],
        schema=schema(id=INTEGER, p=INTEGER),
    )
    sync_until_error(InvalidStreamSortException, on_path(kind))
    assert "on record #4, partition record #2 of {'p': 2}" in caplog.text


@both_paths
def test_error_of_the_author_leaves_valid_output_and_state(on_path, caplog):
    def rows(self, context):
        yield {"id": 1}
        yield {"id": 2}
        raise RuntimeError("the source is on fire")

    output, error = sync_until_error(
        RuntimeError, on_path(stream("a", rows, **SORTED)), stream("b", [{}])
    )
    assert str(error) == "the source is on fire"
    assert [record["id"] for record in output.records("a")] == [1, 2]
    assert output.states[-1] == {
        "bookmarks": {
            "a": {
                "starting_replication_value": None,
                "replication_key": "id",
                "replication_key_value": 2,
            }
        },
        "currently_syncing": "a",
    }
    assert output.select("SCHEMA", "b") == []
    assert "An unhandled error occurred while syncing 'a'" in caplog.text


@both_paths
@pytest.mark.parametrize("hook_name", ["post_process", "get_child_context", "partitions"])
def test_key_error_in_a_hook_is_raised_unchanged(on_path, hook_name):
    """A KeyError of the author is not mistaken for a missing replication key."""

    def fail(self, *args, **kwargs):
        raise KeyError("author's own")

    member = property(fail) if hook_name == "partitions" else fail
    kind = stream("a", [{"id": 1}], **SORTED, **{hook_name: member})
    _, error = sync_until_error(KeyError, on_path(kind))
    assert error.args == ("author's own",)


@both_paths
def test_failed_stream_is_currently_syncing_in_the_state(on_path):
    def rows(self, context):
        raise RuntimeError

    output, _ = sync_until_error(
        RuntimeError, stream("a", [{"id": 1}], **SORTED), on_path(stream("b", rows))
    )
    assert output.states[-1]["currently_syncing"] == "b"


# Replication keys


@both_paths
@pytest.mark.parametrize("members", [SORTED, {"replication_key": "id"}], ids=["sorted", "unsorted"])
def test_record_without_the_replication_key_is_an_error(on_path, members):
    kind = on_path(stream("a", [{"id": 1}, {"n": 2}, {"id": 3}], **members))
    output, error = sync_until_error(InvalidReplicationKeyException, kind)
    assert "has no replication key 'id'; it has 'n'" in str(error)
    assert len(output.records("a")) == 2
    entry = output.states[-1]["bookmarks"]["a"]
    assert entry.get("progress_markers", entry)["replication_key_value"] == 1


@both_paths
def test_null_replication_key_is_logged_as_a_warning(on_path, caplog):
    rows = [{"id": 1}, {"id": None}, {"id": 3}, {"id": None}]
    output = sync(on_path(stream("a", rows, **SORTED)))
    assert len(output.records("a")) == 4
    assert output.states[-1]["bookmarks"]["a"]["replication_key_value"] == 3
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert warnings
    assert all("null" in record.getMessage() for record in warnings)


@both_paths
def test_replication_key_missing_in_the_schema_is_an_error(on_path):
    kind = on_path(stream("a", [{"id": 1}], replication_key="changed"))
    output, error = sync_until_error(InvalidReplicationKeyException, kind)
    assert "'changed' is not in schema for stream 'a'" in str(error)
    assert output.records("a") == []


@both_paths
def test_forced_incremental_stream_requires_a_replication_key(on_path):
    kind = on_path(stream("a", [{"id": 1}], forced_replication_method="INCREMENTAL"))
    kind.__init__ = forcing(kind.__init__)
    _, error = sync_until_error(ValueError, kind)
    assert "Could not detect replication key for 'a' stream" in str(error)
    assert str(error).endswith("in the catalog or in the class, or use the method FULL_TABLE.")


def forcing(init):
    def forced(self, tap):
        init(self, tap)
        self.forced_replication_method = "INCREMENTAL"

    return forced


# Schemas


@both_paths
def test_schema_without_properties_is_an_error_at_the_first_record(on_path):
    kind = on_path(stream("a", [{"id": 1}], schema={"type": "object"}))
    output, error = sync_until_error(DiscoveryError, kind)
    assert "The schema of stream 'a' has no 'properties'" in str(error)
    assert output.records("a") == []
    assert sync(on_path(stream("a", [], schema={"type": "object"}))).select("SCHEMA", "a")


@both_paths
def test_missing_schema_is_an_error(on_path):
    kind = on_path(stream("a", [{"id": 1}], schema=None))
    del kind.__mro__[1 if on_path is with_hook else 0].schema
    with pytest.raises(DiscoveryError, match="schema for stream 'a' was not provided"):
        sync(kind)


@both_paths
def test_undeclared_properties_are_dropped_and_logged_once(on_path, caplog):
    rows = [{"id": 1, "x": 1}, {"id": 2, "x": 2}]
    assert sync(on_path(stream("a", rows))).records("a") == [{"id": 1}, {"id": 2}]
    assert caplog.text.count("Properties ('x',) were present in the 'a' stream") == 1


# Parents and children


def create_child_class(kind, **members):
    return stream("c", [{"id": 1}], parent_stream_type=kind, **members)


def test_child_stream_without_its_parent_is_an_error():
    parent = stream("parent", [])
    _, error = sync_until_error(DiscoveryError, create_child_class(parent))
    assert "'c' is a child of Parent, which discover_streams() did not return" in str(error)


@both_paths
def test_parent_without_get_child_context_is_an_error(on_path):
    parent = stream("parent", [{"id": 1}])
    child = create_child_class(parent)
    parent_class = on_path(parent)
    child.parent_stream_type = parent_class
    _, error = sync_until_error(NotImplementedError, parent_class, child)
    assert "'parent' has the child stream 'c'" in str(error)
    assert "get_child_context()" in str(error)
    child.state_partitioning_keys = []
    assert sync(parent_class, child).records("c") == [{"id": 1}]


@both_paths
@pytest.mark.parametrize("partitions", [[1], "ab", {"p": 1}])
def test_partition_that_is_no_dict_is_an_error_that_names_the_stream(on_path, partitions):
    kind = stream("a", [{"id": 1}], partitions=partitions)
    _, error = sync_until_error(FatalSyncError, on_path(kind))
    assert "Stream 'a': a context must be a dict, but partitions returned" in str(error)


@both_paths
@pytest.mark.parametrize("context", [1, "ab", [{"p": 1}]])
def test_child_context_that_is_no_dict_is_an_error_that_names_the_child(on_path, context):
    returned = context
    parent = on_path(
        stream("p", [{"id": 1}], get_child_context=lambda self, record, context: returned)
    )
    child = stream("c", [{"id": 2}], parent_stream_type=parent)
    _, error = sync_until_error(FatalSyncError, parent, child)
    assert "Stream 'c': a context must be a dict, but get_child_context of its" in str(error)


@both_paths
def test_children_may_be_synced_by_an_override_once_for_each_item_of_a_context(on_path):
    def sync_each(self, contexts):
        for context in contexts:
            Stream._sync_children(self, context)

    parent = on_path(
        stream(
            "p",
            [{"id": 1}],
            get_child_context=lambda self, record, context: [{"x": 1}, {"x": 11}],
            _sync_children=sync_each,
        )
    )
    child = stream("c", [{"id": 2}], parent_stream_type=parent)
    assert len(sync(parent, child).records("c")) == 2


@both_paths
def test_record_with_null_child_context_has_no_children(on_path, caplog):
    parent = on_path(
        stream(
            "parent",
            [{"id": 1}, {"id": 2}],
            get_child_context=lambda self, record, context: (
                {"of": 2} if record["id"] == 2 else None
            ),
        )
    )
    output = sync(parent, create_child_class(parent, schema=schema(id=INTEGER, of=INTEGER)))
    assert output.records("c") == [{"id": 1, "of": 2}]
    assert len(output.records("parent")) == 2
    assert "Context for child streams of 'parent' is null" in caplog.text


@both_paths
def test_error_in_a_child_stream_ends_the_parent(on_path):
    def rows(self, context):
        raise RuntimeError("no such child")

    parent = stream(
        "parent",
        [{"id": 1}, {"id": 2}],
        **SORTED,
        get_child_context=lambda self, record, context: {"of": record["id"]},
    )
    parent_class = on_path(parent)
    child = stream("c", rows, parent_stream_type=parent_class)
    output, _ = sync_until_error(RuntimeError, parent_class, child)
    assert output.records("parent") == [], "a parent's record follows its children"
    assert output.states[-1]["currently_syncing"] == "parent"


# The limit of records


def with_record_limit(kind, limit):
    return type("Aborting", (kind,), {"ABORT_AT_RECORD_COUNT": limit})


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_record_limit_of_n_pulls_one_more_record(limit):
    kind, pulled = record_reads([{"id": n} for n in range(10)], **SORTED)
    output, _ = sync_until_error(AbortedSyncPausedException, with_record_limit(kind, limit))
    assert len(output.records("a")) == limit
    assert len(pulled) == limit + 1


def test_record_limit_that_is_not_reached_has_no_effect():
    kind, pulled = record_reads([{"id": n} for n in range(3)], **SORTED)
    assert sync(with_record_limit(kind, 3)).text == sync(kind).text
    assert len(pulled) == 6


def test_aborted_sync_raises_paused_or_failed_by_resumability():
    rows = [{"id": n} for n in range(5)]
    sync_until_error(AbortedSyncFailedException, with_record_limit(stream("a", rows), 2))
    unsorted = stream("a", rows, replication_key="id")
    sync_until_error(AbortedSyncFailedException, with_record_limit(unsorted, 2))
    silent = type("Quiet", (unsorted,), {"_write_state_message": lambda self: None})
    sync_until_error(AbortedSyncFailedException, with_record_limit(silent, 2))
    output, _ = sync_until_error(
        AbortedSyncPausedException, with_record_limit(stream("a", rows, **SORTED), 2)
    )
    assert output.states[-1]["bookmarks"]["a"]["replication_key_value"] == 1


def test_abort_sync_can_be_overridden():
    reasons = []

    def _abort_sync(self, abort_reason):
        reasons.append(str(abort_reason))
        raise AbortedSyncPausedException

    kind = with_record_limit(stream("a", [{"id": 1}], _abort_sync=_abort_sync), 0)
    sync_until_error(AbortedSyncPausedException, kind)
    assert "max dry run record limit (0)" in reasons[0]


def test_aborted_child_does_not_stop_other_children():
    parent = stream(
        "parent",
        [{"id": 1}, {"id": 2}],
        get_child_context=lambda self, record, context: {"of": record["id"]},
    )
    rows = [{"id": n} for n in range(5)]
    first = with_record_limit(stream("c", rows, parent_stream_type=parent), 2)
    second = stream("d", rows, parent_stream_type=parent)
    output = sync(parent, first, second)
    assert len(output.records("c")) == 4
    assert len(output.records("d")) == 10
    assert len(output.records("parent")) == 2


def test_connection_test_reads_one_record_per_stream():
    """The test includes deselected streams and children, and activates no table version."""
    kind, pulled = record_reads(
        [{"id": n} for n in range(10)],
        get_child_context=lambda self, record, context: {"of": record["id"]},
    )
    child = stream(
        "c",
        [{"id": n} for n in range(10)],
        parent_stream_type=kind,
        selected_by_default=False,
        replication_key="id",
    )
    output = Output()
    tap = make(kind, child, output=output, config={"emit_activate_version_messages": True})
    assert tap.run_connection_test() is True
    assert (len(output.records("a")), len(output.records("c"))) == (1, 1)
    assert pulled == [0, 1]
    types = [message["type"] for message in output.messages]
    assert types[-1] != "ACTIVATE_VERSION"


def test_invalid_date_time_key_is_compared_as_text(caplog):
    rows = [{"at": "2024-01-01T00:00:00Z"}, {"at": "soon"}]
    kind = stream("a", rows, replication_key="at", schema=schema(at=DATETIME))
    output = sync(kind)
    assert len(output.records("a")) == 2
    assert "compared as text" in caplog.text
