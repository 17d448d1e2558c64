"""Code of authors that changes yielded records, states and other streams."""

from __future__ import annotations

from collections import OrderedDict, UserDict
from types import MappingProxyType, SimpleNamespace

import pytest

from tap_core.singerlib.messages import (
    ActivateVersionMessage,
    RecordMessage,
    SchemaMessage,
    StateMessage,
)
from tests.sync.syncing import (
    INTEGER,
    STRING,
    Output,
    bookmarks_with_records,
    make,
    schema,
    stream,
    sync,
    with_hook,
)

COUNT = 2_500
"""The number of rows: more than two chunks."""

SORTED = {"replication_key": "id", "is_sorted": True}

both_paths = pytest.mark.parametrize(
    "on_path", [lambda kind: kind, with_hook], ids=["compiled", "hooked"]
)


def ids(output, name="a"):
    return [record["id"] for record in output.records(name)]


# Reuse of dicts


@both_paths
def test_generator_may_yield_the_same_dict_for_all_rows(on_path):
    def rows(self, context):
        row = {}
        for number in range(COUNT):
            row["id"] = number
            yield row

    assert ids(sync(on_path(stream("a", rows, **SORTED)))) == list(range(COUNT))


@both_paths
def test_generator_may_reuse_nested_objects_and_lists(on_path):
    nested = {"type": "object", "properties": {"x": INTEGER}}
    members = {"schema": schema(o=nested, l={"type": "array", "items": nested}, f={})}

    def rows(self, context):
        row = {"o": {"x": 0}, "l": [{"x": 0}], "f": {"deep": [0]}}
        for number in range(50):
            row["o"]["x"] = row["l"][0]["x"] = row["f"]["deep"][0] = number
            yield row
            row["o"]["x"] = row["l"][0]["x"] = row["f"]["deep"][0] = -1

    records = sync(on_path(stream("a", rows, **members))).records("a")
    assert records == [{"o": {"x": n}, "l": [{"x": n}], "f": {"deep": [n]}} for n in range(50)]


@both_paths
def test_record_may_be_cleared_after_it_was_yielded(on_path):
    def rows(self, context):
        for number in range(COUNT):
            row = {"id": number}
            yield row
            row.clear()

    assert ids(sync(on_path(stream("a", rows, **SORTED)))) == list(range(COUNT))


# Reading the state


def observe_state(look):
    """Return a stream that records, per row, the result of ``look``, and the list of results."""
    results = []

    def post_process(self, row, context=None):
        results.append((row["id"], look(self, context)))
        return row

    kind = stream("a", [{"id": n} for n in range(1, 31)], **SORTED, post_process=post_process)
    return kind, results


STATE_GETTERS = {
    "get_context_state": lambda self, context: self.get_context_state(context),
    "stream_state": lambda self, context: self.stream_state,
    "tap_state": lambda self, context: self.tap_state["bookmarks"]["a"],
    "tap.state": lambda self, context: self._tap.state["bookmarks"]["a"],
    "_tap_state": lambda self, context: self._tap_state["bookmarks"]["a"],
    "state_manager": lambda self, context: self.state_manager.get_context_state(context),
}


@both_paths
@pytest.mark.parametrize("name", sorted(set(STATE_GETTERS) - {"state_manager"}))
def test_state_shows_the_bookmark_of_the_previous_record(on_path, name):
    kind, results = observe_state(
        lambda *args: STATE_GETTERS[name](*args).get("replication_key_value")
    )
    sync(on_path(kind))
    assert results == [(n, n - 1 if n > 1 else None) for n in range(1, 31)]


@both_paths
def test_starting_value_does_not_change_during_a_sync(on_path):
    kind, results = observe_state(
        lambda self, context: self.get_starting_replication_key_value(context)
    )
    state = {"bookmarks": {"a": {"replication_key": "id", "replication_key_value": 1}}}
    sync(on_path(kind), state=state)
    assert results == [(n, 1) for n in range(1, 31)]


@both_paths
@pytest.mark.parametrize("name", sorted(set(STATE_GETTERS) - {"state_manager"}))
def test_records_of_a_visible_bookmark_have_been_written(on_path, name):
    """An author may act on a bookmark, so its rows must be written first."""
    out = []

    def look(self, context):
        value = STATE_GETTERS[name](self, context).get("replication_key_value")
        written = b"".join(self._tap.run.protocol_writer._write.__self__)
        out.append(value is None or b'"id":%d}' % value in written)

    kind, _ = observe_state(look)
    sync(on_path(kind))
    assert out == [True] * 30


@both_paths
def test_values_that_the_author_adds_to_the_state_are_emitted(on_path):
    """This includes changes that are made later through the same dict."""

    def rows(self, context):
        state = self.get_context_state(context)
        for number in range(5):
            state["cursor"] = f"page {number}"
            yield {"id": number}

    kind = on_path(stream("a", rows, **SORTED, STATE_MSG_FREQUENCY=1))
    pages = [state["bookmarks"]["a"].get("cursor") for state in sync(kind).states]
    assert pages[:5] == [f"page {number}" for number in range(5)]


@both_paths
@pytest.mark.parametrize("partitions", [None, [{"p": 1}]])
def test_state_held_by_the_author_may_change_at_any_time(on_path, partitions):
    """Full-table streams included, whose state only the author changes."""

    def rows(self, context):
        state = self.get_context_state(context)
        for number in range(4):
            state["cursor"] = number
            self._write_state_message()
            yield {"id": number}

    states = sync(on_path(stream("a", rows, partitions=partitions))).states
    entries = [state["bookmarks"]["a"] for state in states]
    cursors = [entry.get("partitions", [entry])[0]["cursor"] for entry in entries]
    assert cursors[:4] == [0, 1, 2, 3]


@both_paths
def test_state_obtained_before_the_sync_may_change_during_it(on_path):

    def rows(self, context):
        yield {"id": 1}
        self.mine["note"] = "changed"

    class Keeps(stream("a", rows)):
        def __init__(self, tap):
            super().__init__(tap)
            self.mine = self.stream_state

    assert sync(on_path(Keeps)).states[-1]["bookmarks"]["a"] == {"note": "changed"}


@both_paths
def test_stream_may_assign_the_state_of_its_tap(on_path):
    """A stream whose ``__init__`` is a copy of singer_sdk's assigns it."""

    class Copies(stream("a", [{"id": 1}], **SORTED)):
        def __init__(self, tap):
            super().__init__(tap)
            self._tap_state = tap.state

    output = sync(on_path(Copies), state={"bookmarks": {"b": {"x": 1}}})
    assert output.states[-1]["bookmarks"]["a"]["replication_key_value"] == 1
    assert output.states[-1]["bookmarks"]["b"] == {"x": 1}


def test_stream_cannot_have_another_state_than_its_tap():
    class Differs(stream("a", [])):
        def __init__(self, tap):
            super().__init__(tap)
            self._tap_state = {}

    with pytest.raises(ValueError, match="_tap_state of stream 'a' can only be the tap's state"):
        sync(Differs)


# Syncing and writing from authors' code


@both_paths
def test_post_process_may_sync_another_stream(on_path):
    def post_process(self, row, context=None):
        if row["id"] % 10 == 0:
            self._tap.streams["b"].sync({"of": row["id"]})
        return row

    a = stream("a", [{"id": n} for n in range(40)], **SORTED, post_process=post_process)
    b = stream("b", lambda self, context: [{"id": 1_000 + context["of"]}], selected=False)
    b.selected = True
    output = sync(on_path(a), on_path(b))
    assert ids(output, "a") == list(range(40))
    assert ids(output, "b")[:4] == [1_000, 1_010, 1_020, 1_030]
    assert all(
        last == bookmark for last, bookmark in bookmarks_with_records(output.messages, "a", "id")
    )


@both_paths
def test_generator_may_sync_another_stream(on_path):
    def rows(self, context):
        for number in range(20):
            yield {"id": number}
            if number % 5 == 0:
                self._tap.streams["b"].sync({"of": number})

    a = stream("a", rows, **SORTED)
    b = stream("b", lambda self, context: [{"id": 1_000}])
    output = sync(on_path(a), on_path(b))
    assert ids(output, "a") == list(range(20))


@both_paths
def test_stream_may_write_records_of_any_stream(on_path):
    def post_process(self, row, context=None):
        self._write_record_message({"id": row["id"] * 10})
        self._tap.streams["b"]._write_record_message({"id": row["id"] + 500})
        return row

    a = stream("a", [{"id": n} for n in range(1, 6)], post_process=post_process)
    b = stream("b", [])
    output = sync(on_path(a), on_path(b))
    assert ids(output, "a") == [10, 1, 20, 2, 30, 3, 40, 4, 50, 5]
    assert ids(output, "b") == [501, 502, 503, 504, 505]


@both_paths
def test_messages_written_by_the_author_keep_their_position(on_path):
    def post_process(self, row, context=None):
        write = self._tap.write_message
        if row["id"] == 3:
            write(SchemaMessage("extra", {"properties": {"x": {}}}, ["x"]))
            write(RecordMessage("extra", {"x": 1.5}))
            write(StateMessage({"mine": True}))
            write(ActivateVersionMessage("extra", 7))
        return row

    a = stream("a", [{"id": n} for n in range(1, 6)], **SORTED, post_process=post_process)
    messages = sync(on_path(a)).messages
    position = next(n for n, m in enumerate(messages) if m.get("stream") == "extra")
    types = [m["type"] for m in messages[position : position + 4]]
    assert types == ["SCHEMA", "RECORD", "STATE", "ACTIVATE_VERSION"]
    before = [m["record"]["id"] for m in messages[:position] if m["type"] == "RECORD"]
    after = [m["record"]["id"] for m in messages[position + 4 :] if m["type"] == "RECORD"]
    assert (before, after) == ([1, 2], [3, 4, 5])


@both_paths
def test_state_written_by_the_author_covers_the_previous_records(on_path):
    def post_process(self, row, context=None):
        if row["id"] % 3 == 0:
            self._write_state_message()
        return row

    a = stream("a", [{"id": n} for n in range(1, 11)], **SORTED, post_process=post_process)
    pairs = bookmarks_with_records(sync(on_path(a)).messages, "a", "id")
    assert pairs[:3] == [(2, 2), (5, 5), (8, 8)]
    assert pairs[-1] == (10, 10)


@both_paths
def test_author_may_advance_the_bookmark(on_path):
    def post_process(self, row, context=None):
        if row["id"] == 3:
            self._increment_stream_state({"id": 100}, context=context)
        return row

    a = stream("a", [{"id": n} for n in (1, 2, 3, 100, 101)], **SORTED, post_process=post_process)
    with pytest.raises(Exception, match="100"):
        sync(on_path(a))
    a = stream(
        "a", [{"id": n} for n in (1, 2, 3, 4)], replication_key="id", post_process=post_process
    )
    assert sync(on_path(a)).states[-1]["bookmarks"]["a"]["replication_key_value"] == 100


@both_paths
def test_bookmark_changed_by_the_author_keeps_the_maximum_of_records(on_path):
    def post_process(self, row, context=None):
        if row["id"] == 2:
            self._increment_stream_state({"id": 0}, context=context)
        return row

    a = stream("a", [{"id": n} for n in (1, 5, 2)], replication_key="id", post_process=post_process)
    assert sync(on_path(a)).states[-1]["bookmarks"]["a"]["replication_key_value"] == 5


@both_paths
def test_schema_message_is_written_once_per_run(on_path):
    def rows(self, context):
        for number in range(3):
            self._write_schema_message()
            yield {"id": number}

    output = sync(on_path(stream("a", rows)))
    assert [m["type"] for m in output.messages if m["type"] != "STATE"] == ["SCHEMA"] + 3 * [
        "RECORD"
    ]


def test_records_written_outside_of_a_sync_are_written_immediately():
    output = Output()
    tap = make(stream("a", []), stream("b", []), output=output)
    for number in range(3):
        for instance in tap.streams.values():
            instance._write_record_message({"id": number})
    assert ids(output, "a") == ids(output, "b") == [0, 1, 2]


@both_paths
def test_state_writer_writes_equal_states_once(on_path):
    def rows(self, context):
        yield {"id": 1}
        for value in (1, 1, 2):
            self._tap.state_writer.write_state({"bookmarks": {"x": {"y": value}}})

    states = sync(on_path(stream("a", rows))).states
    assert [s for s in states if "x" in s["bookmarks"]] == [
        {"bookmarks": {"x": {"y": 1}}},
        {"bookmarks": {"x": {"y": 2}}},
    ]


@both_paths
@pytest.mark.parametrize("method", ["message", "writer"])
def test_state_is_written_again_after_another_state(on_path, method):
    def rows(self, context):
        tap, other = self._tap, {"bookmarks": {"x": {"y": 1}}}
        yield {"id": 1}
        for state in (tap.state, other, tap.state, tap.state, other):
            if method == "message" and state is other:
                tap.write_message(StateMessage(other))
            else:
                tap.state_writer.write_state(state)

    states = sync(on_path(stream("a", rows))).states
    is_other = ["x" in state.get("bookmarks", {}) for state in states]
    assert is_other[-5:] == [False, True, False, True, False]


def test_tap_may_assign_its_state_writer():
    written = []
    tap = make(stream("a", []))
    tap._state_writer = SimpleNamespace(write_state=written.append)
    tap.state_writer.write_state({"bookmarks": {}})
    assert written == [{"bookmarks": {}}]


@both_paths
def test_values_that_the_author_adds_to_the_context_are_in_the_records(on_path):
    def rows(self, context):
        for number in (1, 2):
            context["n"] = number
            yield {"id": number}

    output = sync(on_path(stream("a", rows, partitions=[{"at": "x"}])))
    assert output.records("a") == [{"id": n, "at": "x", "n": n} for n in (1, 2)]


@both_paths
def test_records_that_are_none_are_skipped(on_path):
    a = stream("a", [{"id": 1}, None, {"id": 2}, None], **SORTED)
    output = sync(on_path(a))
    assert ids(output) == [1, 2]
    assert output.states[-1]["bookmarks"]["a"]["replication_key_value"] == 2


@both_paths
@pytest.mark.filterwarnings("ignore:Yielding a tuple")
@pytest.mark.parametrize("members", [{}, SORTED, {"replication_key": "id"}])
def test_tuples_of_record_and_context_are_accepted(on_path, members):
    a = stream("a", [({"id": 1}, {"x": 1}), ({"id": 2}, None), (None, None)], **members)
    assert ids(sync(on_path(a))) == [1, 2]


@both_paths
@pytest.mark.parametrize("members", [{}, SORTED, {"replication_key": "id"}])
def test_records_may_be_any_mappings(on_path, members):
    kinds = (OrderedDict, UserDict, MappingProxyType, dict)
    a = stream("a", lambda self, context: [kind({"id": 1}) for kind in kinds], **members)
    assert sync(on_path(a)).records("a") == [{"id": 1}] * 4


@both_paths
def test_empty_record_is_written_without_advancing_the_bookmark(on_path):
    a = stream("a", [{"id": 1}, {}, {"id": 2}], **SORTED)
    assert sync(on_path(a)).records("a") == [{"id": 1}, {}, {"id": 2}]


# Times of STATE messages


@both_paths
@pytest.mark.parametrize("frequency", [1, 7, 1_000, 1_500])
def test_state_is_written_after_state_msg_frequency_records(on_path, frequency):
    """The count continues over the partitions of a stream."""

    def rows(self, context):
        return ({"id": n} for n in range(COUNT))

    a = stream(
        "a",
        rows,
        replication_key="id",
        is_sorted=True,
        STATE_MSG_FREQUENCY=frequency,
        partitions=[{"p": 1}, {"p": 2}, {"p": 3}],
        schema=schema(id=INTEGER, p=INTEGER),
    )
    written, after = 0, []
    for message in sync(on_path(a)).messages:
        written += message["type"] == "RECORD"
        if message["type"] == "STATE":
            after.append(written)
    assert set(range(frequency, 3 * COUNT + 1, frequency)) <= set(after)


@both_paths
def test_every_state_covers_exactly_the_records_before_it(on_path):
    a = stream("a", [{"id": n} for n in range(500)], **SORTED, STATE_MSG_FREQUENCY=3)
    b = stream("b", [{"id": n} for n in range(500)], replication_key="id", STATE_MSG_FREQUENCY=7)
    messages = sync(on_path(a), on_path(b)).messages
    for name in "ab":
        pairs = bookmarks_with_records(messages, name, "id")
        assert len(pairs) > 50
        assert [pair for pair in pairs if pair[0] != pair[1]] == []


def test_states_during_child_streams_cover_the_rows_of_the_parent():
    def rows(self, context):
        return [{"id": context["of"] * 10 + n} for n in range(3)]

    parent = stream(
        "p",
        [{"id": n} for n in range(1, 30)],
        **SORTED,
        get_child_context=lambda self, record, context: {"of": record["id"]},
    )
    child = stream(
        "c",
        rows,
        replication_key="id",
        parent_stream_type=parent,
        STATE_MSG_FREQUENCY=1,
        schema=schema(id=INTEGER, of=INTEGER),
    )
    output = sync(parent, child)
    assert ids(output, "p") == list(range(1, 30))
    assert ids(output, "c") == [n * 10 + m for n in range(1, 30) for m in range(3)]
    pairs = bookmarks_with_records(output.messages, "p", "id")
    assert [pair for pair in pairs if pair[0] != pair[1]] == []
    assert len(pairs) >= 29 * 3


def test_unusual_strings_are_written_unchanged():
    a = stream("a", [{"s": "é\u2028\x00\U0001f600"}], schema=schema(s=STRING))
    assert sync(a).records("a") == [{"s": "é\u2028\x00\U0001f600"}]


def test_second_sync_of_a_tap_continues_from_the_first():
    starts = []

    def rows(self, context):
        starts.append(self.get_starting_replication_key_value(context))
        return [{"id": 5}]

    output = Output()
    tap = make(stream("a", rows, **SORTED), output=output)
    tap.sync_all()
    tap.sync_all()
    assert starts == [None, 5]
    assert len(output.select("SCHEMA")) == 2
