"""`Tap`: streams, catalog, state and messages."""

from __future__ import annotations

import json
import logging
from decimal import Decimal

import pytest

from tap_core.exceptions import SingerSDKDeprecationWarning
from tap_core.singerlib.catalog import Catalog
from tap_core.singerlib.messages import RecordMessage, StateMessage
from tap_core.tap_base import Tap
from tests.sync.syncing import INTEGER, FixedClockTap, Output, make, schema, stream, sync


def numbers(name, count=2, **members):
    return stream(name, [{"id": n} for n in range(count)], **members)


# Streams


def test_streams_are_discovered_once_by_the_constructor_and_sorted_by_name():
    calls = []

    class Counting(FixedClockTap):
        """A tap that counts its discoveries."""

        def discover_streams(self):
            calls.append(1)
            return [numbers(name)(self) for name in ("b", "a", "B")]

    tap = Counting()
    assert calls == [1]
    assert list(tap.streams) == ["B", "a", "b"]
    assert tap.streams["a"] is tap.streams["a"]
    assert calls == [1]


def test_streams_are_discovered_lazily_if_a_catalog_is_given():
    class Failing(FixedClockTap):
        """A tap whose discovery fails."""

        def discover_streams(self):
            raise ConnectionError("away")

    with pytest.raises(ConnectionError):
        Failing()
    assert Failing(setup_mapper=False).name
    with pytest.raises(ConnectionError):
        _ = Failing(catalog={"streams": []}).streams


def test_streams_are_discovered_again_after_an_error():
    errors = [ConnectionError("away")]

    class FailingOnce(FixedClockTap):
        """A tap whose first discovery fails."""

        def discover_streams(self):
            if errors:
                raise errors.pop()
            return [numbers("a")(self)]

    tap = FailingOnce(setup_mapper=False)
    with pytest.raises(ConnectionError):
        _ = tap.streams
    assert list(tap.streams) == ["a"]


def test_streams_with_the_same_name_cause_a_warning(caplog):
    tap = make(numbers("a"), numbers("b"), numbers("a"))
    assert list(tap.streams) == ["a", "b"]
    assert "several streams called 'a': only the last one is synced" in caplog.text


def test_children_are_linked_to_every_stream_of_the_parents_class(caplog):
    parent = numbers("p")

    class Two(FixedClockTap):
        """A tap with two parents of one class."""

        def discover_streams(self):
            return [parent(self, name="p"), parent(self, name="q"), child(self)]

    child = numbers("c", parent_stream_type=parent)
    grandchild = numbers("g", parent_stream_type=child)
    with caplog.at_level(logging.INFO):
        streams = Two().streams
    assert streams["p"].child_streams == streams["q"].child_streams == [streams["c"]]
    assert "Added 'c' as child stream to 'q'" in caplog.text
    streams = make(parent, child, grandchild).streams
    assert streams["p"].descendent_streams == [streams["c"], streams["g"]]
    assert streams["p"].has_selected_descendents
    for name in "cg":
        streams[name].selected = False
    assert not streams["p"].has_selected_descendents


def test_tap_without_discovery_raises_not_implemented():
    class Bare(Tap):
        """A tap without streams."""

        name = "tap-bare"

        def _setup_signal_handlers(self):
            pass

    with pytest.raises(
        NotImplementedError, match="the class Bare must define the method discover_str"
    ):
        _ = Bare().streams


def test_deselected_stream_without_children_is_skipped(caplog):
    with caplog.at_level(logging.INFO):
        output = sync(numbers("a", selected_by_default=False), numbers("b"))
    assert {message.get("stream") for message in output.messages} == {"b", None}
    assert "Skipping deselected stream 'a'." in caplog.text


# Catalogs


def test_catalog_is_the_input_catalog_or_the_discovered_one():
    tap = make(numbers("a"))
    assert tap.input_catalog is None
    assert list(tap.catalog) == ["a"]
    assert tap.catalog is tap.catalog
    assert json.loads(tap.catalog_json_text) == tap.catalog_dict
    input_catalog = Catalog.from_dict(tap.catalog_dict)
    assert make(numbers("a"), catalog=input_catalog).catalog is input_catalog


def test_catalog_can_be_a_file_path(tmp_path):
    path = tmp_path / "catalog.json"
    path.write_text(make(numbers("a")).catalog_json_text)
    with pytest.warns(SingerSDKDeprecationWarning, match="path to a catalog"):
        tap = make(numbers("a"), catalog=str(path))
    assert list(tap.input_catalog) == ["a"]


def test_discovery_prints_the_catalog(capsys):
    tap = make(numbers("a"))
    assert tap.run_discovery() + "\n" == capsys.readouterr().out
    assert '\n  "streams"' in tap.catalog_json_text


# State


def test_only_bookmarks_are_taken_from_the_input_state():
    """Other keys, such as `currently_syncing`, belong to the previous sync."""
    input_state = {"bookmarks": {"a": {"x": {"y": 1}}, "b": None}, "currently_syncing": "a"}
    tap = make(numbers("a"), state=input_state)
    assert tap.state == {"bookmarks": {"a": {"x": {"y": 1}}}}


def test_state_can_be_a_file_path(tmp_path):
    path = tmp_path / "state.json"
    path.write_text('{"bookmarks": {"a": {"x": 1}}}')
    with pytest.warns(SingerSDKDeprecationWarning, match="path to a state"):
        tap = make(numbers("a"), state=path)
    assert tap.state == {"bookmarks": {"a": {"x": 1}}}


def test_overridden_load_state_can_convert_an_old_state():
    class Translating(FixedClockTap):
        """A tap whose earlier versions wrote another state format."""

        kinds = (numbers("a", replication_key="id"),)

        def load_state(self, state):
            super().load_state(state)
            for name, value in state.get("positions", {}).items():
                bookmark = {"replication_key": "id", "replication_key_value": value}
                self.state.setdefault("bookmarks", {})[name] = bookmark

    tap = Translating(state={"positions": {"a": 5}})
    assert tap.streams["a"].get_context_state(None)["replication_key_value"] == 5


def test_input_state_is_written_before_other_messages():
    state = {"bookmarks": {"gone": {"replication_key": "x", "replication_key_value": 1}}}
    first = sync(numbers("a"), state=state).messages[0]
    assert first == {"type": "STATE", "value": state}
    assert sync(numbers("a")).messages[0]["type"] == "SCHEMA"


def test_state_dict_object_is_never_replaced():
    """Streams and tap authors keep references to it."""
    tap = make(numbers("a", replication_key="id"))
    before = tap.state
    tap.sync_all()
    assert tap.state is before
    assert before["bookmarks"]["a"]["replication_key_value"] == 1


# Parents that must be read in full


def test_child_can_force_full_table_replication_of_its_parent(caplog):
    members = {
        "replication_key": "id",
        "is_sorted": True,
        "get_child_context": lambda self, record, context: {"of": record["id"]},
    }
    starts = []

    def rows(self, context):
        starts.append((self.replication_method, self.get_starting_replication_key_value(context)))
        return [{"id": 1}]

    parent = stream("p", rows, **members)
    child = numbers(
        "c",
        parent_stream_type=parent,
        ignore_parent_replication_key=True,
        schema=schema(id=INTEGER, of=INTEGER),
    )
    state = {"bookmarks": {"p": {"replication_key": "id", "replication_key_value": 1}}}
    output = sync(parent, child, state=state)
    assert starts == [("FULL_TABLE", None)]
    assert "Forcing full table replication for 'p'" in caplog.text
    assert "bookmark_properties" not in output.select("SCHEMA", "p")[0]


# Versions


def test_full_table_sync_writes_activate_version_before_and_after_records():
    config = {"emit_activate_version_messages": True}
    messages = sync(numbers("a"), numbers("b", replication_key="id"), config=config).messages
    types = [m["type"] for m in messages if m.get("stream") == "a"]
    assert types == ["SCHEMA", "ACTIVATE_VERSION", "RECORD", "RECORD", "ACTIVATE_VERSION"]
    versions = {m["version"] for m in messages if "version" in m}
    assert len(versions) == 1
    assert all("version" not in m for m in messages if m.get("stream") == "b")


def test_failed_sync_writes_no_final_activate_version():
    def rows(self, context):
        yield {"id": 1}
        raise RuntimeError

    output = Output()
    tap = make(stream("a", rows), output=output, config={"emit_activate_version_messages": True})
    with pytest.raises(RuntimeError):
        tap.sync_all()
    assert [m["type"] for m in output.messages][1:3] == ["ACTIVATE_VERSION", "RECORD"]
    assert len(output.select("ACTIVATE_VERSION")) == 1


# Custom message writers


class Writer:
    """A message writer that collects messages."""

    def __init__(self):
        self.messages = []

    def write_message(self, message):
        self.messages.append(message)


def test_custom_message_writer_gets_all_messages():
    rows = [{"id": 1, "x": float("nan")}, {"id": 2, "x": Decimal("1.10")}]
    writer = Writer()
    kind = stream("a", rows, replication_key="id", schema=schema(id=INTEGER, x={"type": "number"}))
    make_with(writer, kind).sync_all()
    types = [message.type.value for message in writer.messages]
    assert types[:3] == ["SCHEMA", "RECORD", "RECORD"]
    assert set(types[3:]) == {"STATE"}
    assert [m.record for m in writer.messages[1:3]] == [
        {"id": 1, "x": None},
        {"id": 2, "x": Decimal("1.10")},
    ]
    assert all(m.time_extracted.tzinfo for m in writer.messages[1:3])
    assert writer.messages[-1].value["bookmarks"]["a"]["replication_key_value"] == 2


def make_with(writer, *kinds):
    class Own(FixedClockTap):
        """A tap that keeps the given message writer."""

    Own.kinds = kinds
    return Own(message_writer=writer)


def test_custom_message_writer_gets_copies_of_records():
    def rows(self, context):
        row = {"id": 0, "o": {"x": 0}}
        for number in range(3):
            row["id"] = row["o"]["x"] = number
            yield row

    writer = Writer()
    make_with(writer, stream("a", rows, schema=schema(id=INTEGER, o={"type": "object"}))).sync_all()
    records = [m.record for m in writer.messages if isinstance(m, RecordMessage)]
    assert records == [{"id": n, "o": {"x": n}} for n in range(3)]


def test_write_message_passes_messages_to_a_custom_writer_unchanged():
    writer = Writer()
    tap = make_with(writer, numbers("a"))
    tap.write_message(RecordMessage("x", {"id": 1}))
    tap.write_message(StateMessage({"y": 1}))
    assert writer.messages == [RecordMessage("x", {"id": 1}), StateMessage({"y": 1})]


def test_failing_message_writer_gets_no_later_state():
    class Failing(Writer):
        """Fails at the second record."""

        def write_message(self, message):
            super().write_message(message)
            if isinstance(message, RecordMessage) and message.record["id"] == 1:
                raise OSError("full")

    writer = Failing()
    with pytest.raises(OSError, match="full"):
        make_with(writer, numbers("a", 5_000, replication_key="id")).sync_all()
    assert [m for m in writer.messages if isinstance(m, StateMessage)] == []


def test_overridden_write_message_gets_every_message():
    """All messages except states are passed to it."""

    class Renaming(FixedClockTap):
        """A tap that gives its streams other names."""

        kinds = (numbers("a", replication_key="id"),)

        def write_message(self, message):
            if hasattr(message, "stream"):
                message.stream = f"raw_{message.stream}"
            super().write_message(message)

    output = Output()
    tap = Renaming(config={"emit_activate_version_messages": True})
    tap.protocol_writer = type(tap.protocol_writer)(output.append)
    tap.sync_all()
    assert {m["stream"] for m in output.messages if "stream" in m} == {"raw_a"}
    assert len(output.records("raw_a")) == 2
    assert output.states[-1]["bookmarks"]["a"]["replication_key_value"] == 1


def test_write_schemas_writes_only_schema_messages():
    output = Output()
    make(numbers("a", selected_by_default=False), numbers("b"), output=output).write_schemas()
    assert [(m["type"], m["stream"]) for m in output.messages] == [("SCHEMA", "a"), ("SCHEMA", "b")]


def test_sync_costs_are_logged_at_the_end(caplog):
    def rows(self, context):
        self._sync_costs["calls"] = 3
        return []

    with caplog.at_level(logging.INFO):
        sync(stream("a", rows), numbers("b"))
    assert "Total Sync costs for stream a: {'calls': 3}" in caplog.text
    assert "costs for stream b" not in caplog.text


def test_records_are_counted_while_a_stream_runs_not_only_at_its_end():
    """A stream that runs for hours must report its progress."""
    values = []

    def rows(self, context):
        counter = self._tap.run.tallies["a"]._counter
        for number in range(2_500):
            if number % 500 == 0:
                values.append(counter.value)
            yield {"id": number}

    sync(stream("a", rows))
    assert values == sorted(values)
    assert values[-1] > 0
