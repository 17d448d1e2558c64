"""LOG_BASED streams with a log in memory: order, states and confirmed positions."""

from __future__ import annotations

from typing import Any

import pytest

from tap_core.exceptions import ConfigurationError
from tap_core.sync.change_log import Change, ChangeLog, LogEntry, Position, SchemaUpdate
from tests.sync.syncing import (
    INTEGER,
    STRING,
    Output,
    make,
    schema,
    stream,
    sync_until_error,
    with_hook,
)

PATHS = pytest.mark.parametrize(
    "on_path", [lambda kind: kind, with_hook], ids=["compiled", "hooked"]
)


class MemoryLog(ChangeLog):
    """A log of (position, entry) pairs; reads from 0 and records what is confirmed."""

    def __init__(self, *entries: tuple[int, Any], end: int = 100) -> None:
        self.entries = entries
        self.end = end
        self.starts: dict[str, int | None] = {}
        self.confirmed: list[int] = []

    def begin(self, starts: Any) -> int:
        self.starts = dict(starts)
        return self.end

    def confirm(self, position: int) -> None:
        self.confirmed.append(position)

    def read(self, starts: Any, end: int) -> Any:
        for position, entry in self.entries:
            yield Position(position)
            if isinstance(entry, Change) and position < starts[entry.stream]:
                continue
            if callable(entry):
                yield entry()
            else:
                yield entry


def logged(log: ChangeLog, name: str, snapshot: Any = (), **members: Any) -> Any:
    """Return a LOG_BASED stream class of a log."""
    return stream(
        name,
        list(snapshot),
        schema=schema(id=INTEGER, lsn=INTEGER),
        primary_keys=("id",),
        replication_key="lsn",
        replication_method="LOG_BASED",
        change_log=log,
        **members,
    )


def change(name: str, number: int) -> LogEntry:
    return Change(name, {"id": number, "lsn": number})


def run(*kinds: Any, state: dict[str, Any] | None = None, **options: Any) -> Output:
    output = Output()
    make(*kinds, output=output, state=state, **options).sync_all()
    return output


def state_at(name: str, position: int, **fields: Any) -> dict[str, Any]:
    """Return the state of one stream at a position."""
    entry = {"replication_key": "lsn", "replication_key_value": position, **fields}
    return {"bookmarks": {name: entry}}


@PATHS
def test_new_stream_is_read_by_its_snapshot_and_stands_at_the_end_of_the_log(on_path: Any) -> None:
    log = MemoryLog((5, change("a", 5)))
    output = run(on_path(logged(log, "a", [{"id": 1, "lsn": None}])))
    assert [record["id"] for record in output.records("a")] == [1]
    assert log.starts == {"a": None}
    assert log.confirmed == []
    assert output.states[0] == state_at("a", 100, snapshot_pending=True)
    assert output.states[-1] == state_at("a", 100)
    kinds = [message["type"] for message in output.messages]
    assert kinds.index("STATE") < kinds.index("RECORD")


@PATHS
def test_known_streams_are_read_together_in_the_order_of_the_log(on_path: Any) -> None:
    log = MemoryLog((3, change("a", 3)), (4, change("b", 4)), (9, change("a", 9)))
    kinds = [on_path(logged(log, name, [{"id": 0, "lsn": 0}])) for name in ("a", "b")]
    state = {"bookmarks": {**state_at("a", 4)["bookmarks"], **state_at("b", 2)["bookmarks"]}}
    output = run(*kinds, state=state)
    assert [record["id"] for record in output.records()] == [4, 9]
    assert log.confirmed == [2], "the oldest position of the state with which the run started"
    assert output.states[-1]["bookmarks"] == {
        **state_at("a", 100)["bookmarks"],
        **state_at("b", 100)["bookmarks"],
    }


def test_states_follow_their_records_and_only_move_forward() -> None:
    log = MemoryLog(*((number, change("a", number)) for number in range(10, 60)))
    output = run(logged(log, "a", STATE_MSG_FREQUENCY=7), state=state_at("a", 10))
    last, bookmarks = 0, []
    for message in output.messages:
        if message["type"] == "RECORD":
            last = message["record"]["id"]
        elif message["type"] == "STATE":
            bookmarks.append(message["value"]["bookmarks"]["a"]["replication_key_value"])
            assert bookmarks[-1] <= last + 1 or bookmarks[-1] in {10, 100}
    assert bookmarks == sorted(bookmarks)
    assert len(bookmarks) > 50 // 7
    assert [record["id"] for record in output.records()] == list(range(10, 60))


def test_interrupted_snapshot_is_repeated_from_its_first_position() -> None:
    log = MemoryLog((40, change("a", 40)))
    pending = state_at("a", 30, snapshot_pending=True)
    output = run(logged(log, "a", [{"id": 1, "lsn": None}]), state=pending)
    assert [record["id"] for record in output.records()] == [1, 40]
    assert output.states[-1] == state_at("a", 100)


def test_failed_snapshot_leaves_its_position_in_the_state() -> None:
    def fail(_stream: Any, _context: Any) -> Any:
        yield {"id": 1, "lsn": None}
        raise ZeroDivisionError

    kind = stream(
        "a",
        fail,
        schema=schema(id=INTEGER, lsn=INTEGER),
        replication_key="lsn",
        replication_method="LOG_BASED",
        change_log=MemoryLog(),
    )
    output, _ = sync_until_error(ZeroDivisionError, kind)
    bookmark = output.states[-1]["bookmarks"]["a"]
    assert (bookmark["replication_key_value"], bookmark["snapshot_pending"]) == (100, True)


def test_changed_schema_is_written_between_the_records() -> None:
    class Growing(MemoryLog):
        kind: Any = None

    log = Growing()
    kind = logged(log, "a")

    def grow() -> LogEntry:
        kind.schema["properties"]["word"] = STRING
        return SchemaUpdate("a")

    new = Change("a", {"id": 6, "lsn": 6, "word": "w"})
    log.entries = ((5, change("a", 5)), (6, grow), (6, new))
    output = run(kind, state=state_at("a", 1))
    written = [message for message in output.messages if message["type"] != "STATE"]
    assert [message["type"] for message in written] == ["SCHEMA", "RECORD", "SCHEMA", "RECORD"]
    assert "word" in written[2]["schema"]["properties"]
    assert written[3]["record"]["word"] == "w"


def test_post_process_and_stream_maps_apply_to_changes() -> None:
    def double(_stream: Any, row: dict[str, Any], _context: Any = None) -> Any:
        return None if row["id"] == 5 else {**row, "id": row["id"] * 2}

    log = MemoryLog((5, change("a", 5)), (6, change("a", 6)))
    maps = {"stream_maps": {"a": {"word": "str(id)"}}}
    output = run(logged(log, "a", post_process=double), state=state_at("a", 1), config=maps)
    assert output.records() == [{"id": 12, "lsn": 6, "word": "12"}]


def test_stream_without_a_log_is_read_as_before() -> None:
    kind = stream("a", [{"id": 1}], replication_key="id", replication_method="LOG_BASED")
    assert [record["id"] for record in run(kind).records()] == [1]


def test_bookmark_of_another_key_is_ignored_and_another_value_refused() -> None:
    log = MemoryLog()
    other = {"bookmarks": {"a": {"replication_key": "id", "replication_key_value": 7}}}
    run(logged(log, "a"), state=other)
    assert log.starts == {"a": None}
    wrong = {"bookmarks": {"a": {"replication_key": "lsn", "replication_key_value": "0/16"}}}
    _, error = sync_until_error(ConfigurationError, logged(log, "a"), state=wrong)
    assert "not a position in the log" in str(error)
