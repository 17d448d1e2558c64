"""Overridable hooks of streams: each override is called and takes effect."""

from __future__ import annotations

import logging
from types import MappingProxyType

import pytest

from tap_core import metrics
from tap_core.singerlib.messages import RecordMessage, SchemaMessage
from tap_core.streams.core import Stream
from tap_core.sync.override_detection import OVERRIDABLE_HOOKS, is_overridden
from tap_core.sync.plan import get_plan
from tests.sync.syncing import INTEGER, Output, make, schema, stream, sync, with_hook

ROWS = [{"id": 1}, {"id": 2}, {"id": 3}]

both_paths = pytest.mark.parametrize(
    "on_path", [lambda kind: kind, with_hook], ids=["compiled", "hooked"]
)


def override_hook(name, method, rows=ROWS, **members):
    """Return a stream whose hook calls ``method(stream, the base's hook, *args)``."""

    def hook(self, *args, **kwargs):
        def base(*arguments, **named):
            return getattr(super(kind, self), name)(*arguments, **named)

        return method(self, base, *args, **kwargs)

    kind = type("Over", (stream("a", rows, **members),), {name: hook})
    return kind


def ids(output, name="a"):
    return [record["id"] for record in output.records(name)]


def test_overridable_hooks_are_members_of_stream():
    assert [name for name in OVERRIDABLE_HOOKS if not hasattr(Stream, name)] == []


def test_a_stream_without_hooks_is_compiled():
    def is_compiled(kind):
        [instance] = make(kind).streams.values()
        return get_plan(instance).uses_fast_path

    assert is_compiled(stream("a", ROWS, post_process=lambda self, row, context=None: row))
    for name in ("_finalize_state", "_sync_children", "_write_state_message"):
        assert is_compiled(override_hook(name, lambda self, base: None)), name
    for name in OVERRIDABLE_HOOKS:
        assert not is_compiled(override_hook(name, lambda self, base: None)), name


def test_hook_can_be_overridden_on_an_instance():
    tap = make(stream("a", ROWS))
    [instance] = tap.streams.values()
    assert not is_overridden(instance, *OVERRIDABLE_HOOKS)
    instance._write_record_message = lambda record: None
    assert is_overridden(instance, *OVERRIDABLE_HOOKS)


def test_generate_record_messages_may_yield_two_messages():
    def messages(self, base, record):
        for message in base(record):
            yield message
            yield RecordMessage("copies", {"id": message.record["id"] * 10})

    output = sync(override_hook("_generate_record_messages", messages, replication_key="id"))
    assert (ids(output), ids(output, "copies")) == ([1, 2, 3], [10, 20, 30])
    assert output.states[-1]["bookmarks"]["a"]["replication_key_value"] == 3
    assert all(message["time_extracted"] for message in output.select("RECORD", "a"))


def test_write_record_message_may_skip_a_record():
    def write(self, base, record):
        if record["id"] != 2:
            base(record)

    assert ids(sync(override_hook("_write_record_message", write))) == [1, 3]


def test_increment_stream_state_may_use_another_value():
    def increment(self, base, latest_record, *, context=None):
        base({"id": latest_record["id"] * 100}, context=context)

    output = sync(override_hook("_increment_stream_state", increment, replication_key="id"))
    assert output.states[-1]["bookmarks"]["a"]["replication_key_value"] == 300


def test_log_based_stream_may_write_its_own_bookmark():
    """The SDK does not advance it, but provides it as the starting value of the next sync."""
    starts = []

    def increment(self, base, latest_record, *, context=None):
        base(latest_record, context=context)
        self.get_context_state(context).update(
            replication_key="id", replication_key_value=latest_record["id"]
        )

    def rows(self, context):
        starts.append(self.get_starting_replication_key_value(context))
        return ROWS

    class LogBased(override_hook("_increment_stream_state", increment, rows, replication_key="id")):
        replication_method = "LOG_BASED"

    state = sync(LogBased).states[-1]
    assert state["bookmarks"]["a"]["replication_key_value"] == 3
    sync(LogBased, state=state)
    assert starts == [None, 3]


@both_paths
def test_generate_schema_messages_may_change_messages(on_path):
    def messages(self, base):
        for message in base():
            message.key_properties = ["other"]
            yield message
        yield SchemaMessage("extra", {}, [])

    output = sync(on_path(override_hook("_generate_schema_messages", messages)))
    actual = [(m["stream"], m["key_properties"]) for m in output.select("SCHEMA")]
    assert actual == [("a", ["other"]), ("extra", [])]


@both_paths
def test_write_schema_message_may_write_more_messages(on_path):
    def write(self, base):
        base()
        self._tap.write_message(SchemaMessage("extra", {}, []))

    output = sync(on_path(override_hook("_write_schema_message", write)))
    assert [m["stream"] for m in output.select("SCHEMA")] == ["a", "extra"]


def test_sync_children_is_called_without_child_streams():
    contexts = []
    kind = override_hook(
        "_sync_children",
        lambda self, base, child_context: contexts.append(child_context),
        get_child_context=lambda self, record, context: {"of": record["id"]},
    )
    sync(kind)
    assert contexts == [{"of": 1}, {"of": 2}, {"of": 3}]
    contexts.clear()
    sync(
        override_hook(
            "_sync_children", lambda self, base, child_context: contexts.append(child_context)
        )
    )
    assert contexts == ROWS


def test_sync_records_may_sync_several_contexts():
    """The override calls the hook of the SDK in a loop."""

    def records(self, base, context=None, *, write_messages=True):
        for part in ({"part": 1}, {"part": 2}):
            yield from base(part, write_messages=write_messages)

    kind = override_hook(
        "_sync_records", records, replication_key="id", schema=schema(id=INTEGER, part=INTEGER)
    )
    output = sync(kind)
    assert [record["part"] for record in output.records("a")] == [1, 1, 1, 2, 2, 2]
    entries = output.states[-1]["bookmarks"]["a"]["partitions"]
    assert [entry["replication_key_value"] for entry in entries] == [3, 3]


def test_sync_records_may_pull_records_without_writing():
    output = Output()
    tap = make(stream("a", ROWS, replication_key="id"), output=output)
    [instance] = tap.streams.values()
    assert list(instance._sync_records(write_messages=False)) == ROWS
    assert output == []
    assert instance.stream_state["replication_key_value"] == 3


def test_state_partition_context_can_be_overridden():
    kind = override_hook(
        "_get_state_partition_context",
        lambda self, base, context: {key: context[key] for key in context if key != "page"},
        partitions=[{"p": 1, "page": 1}, {"p": 1, "page": 2}],
        schema=schema(id=INTEGER, p=INTEGER, page=INTEGER),
    )
    assert sync(kind).records("a")[0] == {"id": 1, "p": 1}


@both_paths
def test_finalize_state_may_add_values(on_path):
    def finalize(self, base, state=None):
        base(state)
        if state is not None:
            state["ended"] = True

    kind = on_path(override_hook("_finalize_state", finalize, replication_key="id"))
    assert sync(kind).states[-1]["bookmarks"]["a"] == {
        "replication_key": "id",
        "replication_key_value": 3,
        "ended": True,
    }


def test_generate_record_messages_may_change_objects_of_the_record():
    """The tap's own records, here two that share an object, stay unchanged."""
    address = {"zip": "1", "code": "x"}
    rows = [{"id": 1, "place": address}, {"id": 2, "place": address}]

    def messages(self, base, record):
        for message in base(record):
            message.record["place"]["zip"] += "!"
            del message.record["place"]["code"]
            yield message

    properties = {"zip": {"type": "string"}, "code": {"type": "string"}}
    declared = schema(id=INTEGER, place={"type": "object", "properties": properties})
    output = sync(override_hook("_generate_record_messages", messages, rows, schema=declared))
    assert [record["place"] for record in output.records("a")] == [{"zip": "1!"}, {"zip": "1!"}]
    assert address == {"zip": "1", "code": "x"}


@both_paths
def test_write_state_message_may_change_the_state(on_path):
    def write(self, base):
        self.tap_state["bookmarks"]["a"]["written"] = written.append(1) or len(written)
        base()

    written = []
    kind = on_path(
        override_hook("_write_state_message", write, replication_key="id", STATE_MSG_FREQUENCY=2)
    )
    output = sync(kind)
    order = [message["type"] for message in output.messages]
    assert order[:6] == ["SCHEMA", "RECORD", "RECORD", "STATE", "RECORD", "STATE"]
    entries = [state["bookmarks"]["a"] for state in output.states]
    assert [state["written"] for state in entries] == list(range(1, len(entries) + 1))
    assert entries[-1]["replication_key_value"] == 3


@pytest.mark.parametrize("is_sorted", [True, False])
def test_bookmark_advances_before_each_hook_of_the_next_record(is_sorted):
    """The sync advances a bookmark without calls of `_increment_stream_state`."""
    states = []

    def process(self, base, record, **contexts):
        state = self.get_context_state(None)
        states.append((state if is_sorted else state.get("progress_markers", {})).copy())
        base(record, **contexts)

    sync(override_hook("_process_record", process, replication_key="id", is_sorted=is_sorted))
    assert [state.get("replication_key_value") for state in states] == [None, 1, 2]


# Contexts


@both_paths
def test_context_attribute_is_read_only_and_preprocessed(on_path):
    contexts = []

    def rows(self, context):
        contexts.append((type(self.context), dict(self.context), dict(context)))
        return []

    parent = stream(
        "p",
        [{"id": 1}],
        get_child_context=lambda self, record, context: {"of": record["id"], "large": "x" * 1_000},
    )
    child = stream(
        "c",
        rows,
        parent_stream_type=parent,
        preprocess_context=lambda self, context: {"of": context["of"]},
    )
    sync(parent, on_path(child))
    assert contexts == [(MappingProxyType, {"of": 1}, {"of": 1})]


@both_paths
def test_empty_context_is_none(on_path):
    contexts = []

    def rows(self, context):
        contexts.append((context, self.context))
        return [{"id": 1}]

    parent = stream("p", [{"id": 1}], get_child_context=lambda self, record, context: {"x": 1})
    child = stream(
        "c",
        rows,
        parent_stream_type=parent,
        replication_key="id",
        preprocess_context=lambda self, context: {},
    )
    output = sync(parent, on_path(child))
    assert contexts == [(None, None)]
    assert output.states[-1]["bookmarks"]["c"] == {
        "replication_key": "id",
        "replication_key_value": 1,
    }


@both_paths
def test_each_child_stream_gets_its_own_copy_of_the_context(on_path):
    contexts = []

    def rows(self, context):
        contexts.append((self.name, dict(context)))
        context["spoilt"] = True
        return []

    parent = stream(
        "p",
        [{"id": 1}, {"id": 2}],
        get_child_context=lambda self, record, context: {"of": record["id"]},
    )
    children = [stream(name, rows, parent_stream_type=parent) for name in "cd"]
    sync(parent, *map(on_path, children))
    assert [context for name, context in contexts if name == "c"] == [{"of": 1}, {"of": 2}]


@both_paths
def test_context_values_are_added_only_if_missing_in_the_record(on_path):
    kind = stream(
        "a",
        [{"id": 1}, {"id": 2, "p": 9}],
        partitions=[{"p": 1}],
        schema=schema(id=INTEGER, p=INTEGER),
    )
    assert sync(on_path(kind)).records("a") == [{"id": 1, "p": 1}, {"id": 2, "p": 9}]


# Changes after construction


def test_schema_message_reflects_later_changes_of_keys():
    output = Output()
    tap = make(stream("a", ROWS, schema=schema(id=INTEGER)), output=output)
    [instance] = tap.streams.values()
    instance._write_schema_message()
    instance.primary_keys = ["id"]
    instance._write_schema_message()
    instance.replication_key = "id"
    instance._write_schema_message()
    instance._write_schema_message()
    assert [
        (m["key_properties"], m.get("bookmark_properties")) for m in output.select("SCHEMA")
    ] == [
        ([], None),
        (["id"], None),
        (["id"], ["id"]),
    ]


# Metrics


@both_paths
def test_get_record_counter_can_be_overridden(on_path, caplog):
    counters = []

    class Counted(stream("a", ROWS)):
        def get_record_counter(self, **kwargs):
            counters.append(metrics.record_counter("mine", **kwargs))
            return counters[-1]

    with caplog.at_level(logging.INFO):
        sync(on_path(Counted))
    assert len(counters) == 1
    assert '"metric":"record_count","value":3,"tags":{"stream":"mine"' in caplog.text
    assert '"metric":"sync_duration"' in caplog.text
