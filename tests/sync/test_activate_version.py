"""End of child streams, by ACTIVATE_VERSION or a status: a target then deletes all other rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.events import Event, Progress, StreamStatus
from tap_core.protocols.singer.writer import SingerWriter

PROPERTIES = th.PropertiesList(
    th.Property("id", th.IntegerType), th.Property("at", th.IntegerType)
).to_dict()
TOTAL = 3


class Parent(Stream):
    """Records 1 to 3, from the bookmark on."""

    name = "parents"
    primary_keys = ("id",)
    schema = PROPERTIES

    def get_records(self, context: Any) -> Any:
        start = self.get_starting_replication_key_value(context) or 1
        yield from ({"id": number, "at": number} for number in range(start, TOTAL + 1))

    def get_child_context(self, record: Any, context: Any) -> Any:
        return {"parent": record["id"]}


class IncrementalParent(Parent):
    replication_key = "at"
    is_sorted = True


class Child(Stream):
    name = "children"
    primary_keys = ("id",)
    state_partitioning_keys = ()
    schema = PROPERTIES

    def get_records(self, context: Any) -> Any:
        yield {"id": context["parent"] * 10}


def sync(
    kind: type[Stream], state: Any = None, *, names: tuple[str, ...] = ("parents",)
) -> list[dict[str, Any]]:
    """Sync streams of one class, which share a child stream; return the messages of the child."""

    class Family(Tap):
        name = "tap-family"
        config_jsonschema = th.PropertiesList().to_dict()

        def discover_streams(self) -> list[Stream]:
            return [*(kind(self, name=name) for name in names), child(self)]

    child = type("OwnChild", (Child,), {"parent_stream_type": kind})
    tap = Family(config={"emit_activate_version_messages": True}, state=state)
    lines: list[bytes] = []
    tap.protocol_writer = SingerWriter(lines.append)
    tap.sync_all()
    messages = [json.loads(line) for line in b"".join(lines).splitlines()]
    return [message for message in messages if message.get("stream", "children") == "children"]


def last_state(messages: list[dict[str, Any]]) -> Any:
    return [message["value"] for message in messages if message["type"] == "STATE"][-1]


@pytest.mark.parametrize("kind", [Parent, IncrementalParent])
def test_children_of_a_resumed_parent_delete_no_rows_of_the_others(kind: type[Stream]) -> None:
    """The second sync of an incremental parent reads the children of its last record only."""
    first = sync(kind)
    versions = [message["version"] for message in first if message["type"] == "ACTIVATE_VERSION"]
    assert len(versions) == 2
    second = sync(kind, last_state(first))
    rows = [message for message in second if message["type"] == "RECORD"]
    is_complete = len(rows) == TOTAL
    assert is_complete is (kind is Parent)
    activated = [message for message in second if message["type"] == "ACTIVATE_VERSION"]
    assert len(activated) == (2 if is_complete else 0)
    assert all(("version" in row) is is_complete for row in rows)


def test_children_of_several_streams_are_activated_after_the_last_one() -> None:
    messages = sync(Parent, names=("parents", "siblings"))
    kinds = [
        message["type"] for message in messages if message["type"] in {"RECORD", "ACTIVATE_VERSION"}
    ]
    assert kinds == ["ACTIVATE_VERSION", *["RECORD"] * (TOTAL * 2), "ACTIVATE_VERSION"]


class EndsWriter(SingerWriter):
    """Writer of a protocol that reports the end of each stream."""

    tells_ends = True

    def __init__(self) -> None:
        super().__init__(lambda _line: None)
        self.completed: list[str] = []

    def emit(self, event: Event) -> None:
        if isinstance(event, StreamStatus) and event.progress is Progress.COMPLETE:
            self.completed.append(event.stream.name)
        super().emit(event)


def test_child_stream_is_not_complete_if_one_of_its_parents_has_failed() -> None:
    class Failing(Parent):
        def get_records(self, context: Any) -> Any:
            if self.name == "parents":
                raise RuntimeError("the source is away")
            return super().get_records(context)

    class OwnChild(Child):
        parent_stream_type = Failing

    class Family(Tap):
        name = "tap-family"
        config_jsonschema = th.PropertiesList().to_dict()
        continue_on_stream_error = True

        def discover_streams(self) -> list[Stream]:
            return [Failing(self), Failing(self, name="siblings"), OwnChild(self)]

    tap = Family(config={})
    writer = tap.protocol_writer = EndsWriter()
    with pytest.raises(RuntimeError, match="the source is away"):
        tap.sync_all()
    assert writer.completed == ["siblings"]


def test_streams_that_are_mapped_to_one_name_delete_no_rows_of_each_other() -> None:
    class Pair(Tap):
        name = "tap-pair"
        config_jsonschema = th.PropertiesList().to_dict()

        def discover_streams(self) -> list[Stream]:
            return [IncrementalParent(self, name=name) for name in "ab"] + [
                Parent(self, name=name) for name in "cd"
            ]

    maps = {"a": {"__alias__": "m"}, "c": {"__alias__": "m"}, "b": None}
    tap = Pair(config={"emit_activate_version_messages": True, "stream_maps": maps})
    lines: list[bytes] = []
    tap.protocol_writer = SingerWriter(lines.append)
    tap.sync_all()
    messages = [json.loads(line) for line in b"".join(lines).splitlines()]
    versions = [message["stream"] for message in messages if message["type"] == "ACTIVATE_VERSION"]
    assert versions == ["d", "d"]
    rows = [message["stream"] for message in messages if message["type"] == "RECORD"]
    assert rows == ["m"] * TOTAL * 2 + ["d"] * TOTAL
