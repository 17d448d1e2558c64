"""The Update call: a tap's sync as responses."""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
from typing import Any, ClassVar

import pytest

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.batch.encodings import BaseBatchFileEncoding
from tap_core.exceptions import (
    ConfigValidationError,
    DataError,
    FatalSyncError,
    RecordsWithoutSchemaException,
    StateFileError,
    UnsupportedFeatureError,
)
from tap_core.protocols.fivetran import update_writer
from tap_core.protocols.fivetran.bounded_queue import BoundedByteQueue, CallEndedError
from tap_core.singerlib.messages import (
    RecordMessage,
    SchemaMessage,
    SDKBatchMessage,
    StateMessage,
)
from tests.fivetran.calls import Caller, Connector, group_by_table, list_states, make_selection
from tests.fivetran.shop import PEOPLE, TapShop

SHOP = Connector(TapShop)
KEYS = {"people": ("id",), "orders": ("person", "number"), "wide": ("id",)}


class Numbers(Stream):
    """A stream of as many rows as the setting ``rows``."""

    name = "numbers"
    primary_keys = ("n",)
    schema = th.PropertiesList(
        th.Property("n", th.IntegerType), th.Property("text", th.StringType)
    ).to_dict()

    def get_records(self, context: Any):
        yield from ({"n": n, "text": "x" * self.config["size"]} for n in range(self.config["rows"]))


class TapNumbers(Tap):
    name = "tap-numbers"
    stream_class: type[Stream] = Numbers
    config_jsonschema = th.PropertiesList(
        th.Property("rows", th.IntegerType, default=3),
        th.Property("size", th.IntegerType, default=1),
        th.Property("emit_activate_version_messages", th.BooleanType),
    ).to_dict()

    def discover_streams(self):
        return [self.stream_class(self)]


def create_tap(stream: type[Stream]) -> type[Tap]:
    class TapOf(TapNumbers):
        stream_class = stream

    return TapOf


def kinds(responses: Any) -> list[str]:
    return [response.WhichOneof("operation") for response in responses]


def apply_upserts(*parts: Any) -> dict[str, dict[Any, Any]]:
    """Return the tables of a destination after these responses."""
    result: dict[str, dict[Any, Any]] = {}
    for responses in parts:
        for table, rows in group_by_table(responses).items():
            for kind, row in rows:
                assert kind == "UPSERT"
                keys = KEYS.get(table)
                key = tuple(row[k] for k in keys) if keys else json.dumps(row, sort_keys=True)
                result.setdefault(table, {})[key] = row
    return result


def collect_until_error(responses: Any) -> tuple[list[Any], Exception]:
    """Return the responses before an error, and the error."""
    collected: list[Any] = []
    try:
        for response in responses:
            collected.append(response)  # noqa: PERF402  keeps the responses before an error
    except Exception as error:  # noqa: BLE001  it is returned
        return collected, error
    raise AssertionError("There was no error.")


# Responses of a sync


def test_first_sync_sends_every_table_and_ends_with_a_checkpoint():
    """F12, F15, F18: also without a previous call of Schema."""
    caller = Caller()
    responses = list(SHOP.update(caller=caller))
    sent = apply_upserts(responses)
    assert {name: len(rows) for name, rows in sent.items()} == {
        "people": PEOPLE,
        "orders": 2 * PEOPLE,
        "visits": 2,
        "wide": 1,
    }
    assert sent["people"][0,] == {
        "id": 0,
        "name": "p0",
        "seen_at": (1704067200, 0),
        "is_new": True,
    }
    assert sent["orders"][5, 1] == {"person": 5, "number": 1, "lines": '["a","b"]'}
    assert len(sent["wide"][1,]) == 41  # rule 14: every column, null for missing values
    assert kinds(responses)[-1] == "checkpoint"
    assert caller.last_note == "4 tables, 21 rows"


@pytest.mark.parametrize("state", [None, "", "{}", "null", " "])
def test_missing_empty_or_null_state_is_a_first_sync(state):
    """F17."""
    assert len(group_by_table(SHOP.update(state))["people"]) == PEOPLE


@pytest.mark.parametrize("state", ["[1]", "5", '{"bookmarks":', "text"])
def test_state_that_is_not_a_json_object_is_refused(state):
    with pytest.raises(StateFileError, match="The state of the call"):
        list(SHOP.update(state))


@pytest.mark.parametrize("state", ['{"bookmarks": []}', '{"bookmarks": {"people": "x"}}'])
def test_state_with_bookmarks_of_a_wrong_type_is_refused(state):
    """Otherwise the tap would read everything again without notice."""
    with pytest.raises(StateFileError, match="State, bookmarks"):
        list(SHOP.update(state))


def test_warning_names_the_options_for_a_state_that_the_next_request_cannot_hold():
    """Else the next sync would be refused without a reason that its user can understand."""
    responses = list(SHOP.update(caller=Caller(request_limit=100)))
    [warning] = [response.warning.message for response in responses if response.HasField("warning")]
    assert "more than a request may have (100)" in warning
    assert "--max-request" in warning
    assert list_states(responses)[-1]["bookmarks"].keys() == {"people", "orders", "visits", "wide"}


def test_messages_have_at_most_a_hundred_records():
    """F12."""
    responses = list(Connector(TapNumbers, rows=2_345).update())
    sizes = [len(response.records.records) for response in responses]
    assert (sum(sizes), max(sizes), kinds(responses)[-1]) == (2_345, 100, "checkpoint")
    assert sizes[0] == 1  # the first message is sent at once


def test_messages_of_large_records_are_limited_to_a_few_megabytes():
    responses = list(Connector(TapNumbers, rows=9, size=1_500_000).update())
    sizes = [
        len(response.records.records) for response in responses if response.HasField("records")
    ]
    assert sum(sizes) == 9
    assert max(sizes) <= 2


def test_sync_can_be_resumed_from_every_checkpoint():
    """F16: the records before a checkpoint and a new sync from it are the complete tables."""
    responses = list(SHOP.update())
    expected = apply_upserts(responses)
    positions = [n for n, kind in enumerate(kinds(responses)) if kind == "checkpoint"]
    assert len(positions) >= PEOPLE
    for position in positions:
        resumed = Connector(TapShop).update(responses[position].checkpoint.state_json)
        assert apply_upserts(responses[:position], resumed) == expected


def test_last_state_does_not_repeat_old_records():
    last = json.dumps(list_states(SHOP.update())[-1])
    resumed = group_by_table(SHOP.update(last, make_selection({"people": True, "orders": True})))
    assert [row["id"] for _, row in resumed["people"]] == [PEOPLE - 1]


def test_checkpoint_follows_the_last_rows_although_the_state_is_unchanged():
    """F15: also for taps that only read in full."""
    first = list(Connector(TapNumbers).update())
    second = list(Connector(TapNumbers).update(json.dumps(list_states(first)[-1])))
    assert kinds(second)[-1] == "checkpoint"
    assert list_states(second)[-1] == list_states(first)[-1]


def test_checkpoints_are_sent_at_intervals_within_a_stream(monkeypatch):
    """F15: with the current bookmark, never ahead of the records sent."""
    monkeypatch.setattr(update_writer.UpdateWriter, "state_seconds", 0.0)
    selection = make_selection({"people": True})
    responses = list(Connector(TapShop, people=4, pause=0.3).update(selection=selection))
    bookmarks = [
        state.get("bookmarks", {}).get("people", {}).get("replication_key_value")
        for state in list_states(responses)
    ]
    assert "2024-01-01T00:00:01Z" in bookmarks[:-1]
    sent: list[str] = []
    for response in responses:
        sent += [f"2024-01-01T00:00:0{r.data['id'].long}Z" for r in response.records.records]
        if response.HasField("checkpoint"):
            [state] = list_states([response])
            bookmark = state.get("bookmarks", {}).get("people", {}).get("replication_key_value")
            assert bookmark is None or bookmark in sent


def test_full_table_stream_has_checkpoints_at_intervals(monkeypatch):
    monkeypatch.setattr(update_writer.UpdateWriter, "state_seconds", 0.0)
    responses = list(Connector(TapNumbers, rows=5_000).update())
    assert kinds(responses[:-1]).count("checkpoint") > 2


# Changed tables


def test_table_is_truncated_only_before_its_rows():
    """F14: a truncate has no data."""
    responses = list(Connector(TapNumbers, emit_activate_version_messages="true").update())
    rows = group_by_table(responses)["numbers"]
    assert [kind for kind, _ in rows] == ["TRUNCATE", "UPSERT", "UPSERT", "UPSERT"]
    assert rows[0][1] == {}


def test_activate_version_after_the_rows_sends_a_warning():
    class Late(Numbers):
        def get_records(self, context: Any):
            yield from super().get_records(context)
            self._write_activate_version_message(5)

    responses = list(Connector(create_tap(Late)).update())
    assert [kind for kind, _ in group_by_table(responses)["numbers"]] == ["UPSERT"] * 3
    [warning] = [response.warning.message for response in responses if response.HasField("warning")]
    assert warning.startswith("Table numbers: ")


def test_deleted_rows_are_sent_as_deletes_by_key():
    class Gone(Numbers):
        schema = th.PropertiesList(
            *(th.Property(name, th.IntegerType) for name in "nm"),
            th.Property("_sdc_deleted_at", th.DateTimeType),
        ).to_dict()

        def get_records(self, context: Any):
            yield {"n": 1, "m": 2, "_sdc_deleted_at": None}
            yield {"n": 1, "m": 2, "_sdc_deleted_at": "2024-01-01T00:00:00Z"}

    sent = group_by_table(Connector(create_tap(Gone)).update())["numbers"]
    assert sent == [("UPSERT", {"n": 1, "m": 2}), ("DELETE", {"n": 1})]


def test_schema_change_is_sent_before_the_rows():
    class Growing(Numbers):
        grown = False

        @property
        def schema(self):
            added = {"extra": {"type": "integer"}} if Growing.grown else {}
            return {"properties": {"n": {"type": "integer"}, **added}}

        def get_records(self, context: Any):
            yield {"n": 1, "extra": 5}

    connector = Connector(create_tap(Growing))
    connector.call("Schema")
    assert "schema_change" not in kinds(connector.update())
    Growing.grown = True
    responses = list(connector.update())
    assert kinds(responses)[0] == "schema_change"
    [table] = responses[0].schema_change.without_schema.tables
    assert [column.name for column in table.columns] == ["n", "extra"]
    assert group_by_table(responses)["numbers"] == [("UPSERT", {"n": 1, "extra": 5})]
    assert "schema_change" not in kinds(Connector(create_tap(Growing)).update())


def test_bytes_are_unchanged_with_and_without_a_stream_map():
    class Pictures(Numbers):
        schema = {"properties": {"n": {}, "data": {"type": "string", "contentEncoding": "base64"}}}

        def get_records(self, context: Any):
            yield {"n": 1, "data": bytes(range(256))}

    for maps in ({}, {"stream_maps": {"numbers": {"n": "2"}}}):
        [(_, row)] = group_by_table(Connector(create_tap(Pictures), **maps).update())["numbers"]
        assert row["data"] == bytes(range(256))


def test_messages_written_by_the_author_are_sent():
    class ByHand(Numbers):
        def get_records(self, context: Any):
            write = self._tap.write_message
            schema = {"properties": {"at": {"type": "string", "format": "date"}}}
            write(SchemaMessage("extra", schema, []))
            write(RecordMessage("extra", {"at": "1970-01-02"}))
            write(StateMessage({"bookmarks": {"hand": {}}}))
            yield {"n": 8}

    responses = list(Connector(create_tap(ByHand)).update())
    sent = group_by_table(responses)
    assert sent["extra"] == [("UPSERT", {"at": (86_400, 0)})]
    assert sent["numbers"] == [("UPSERT", {"n": 8, "text": None})]
    assert {"bookmarks": {"hand": {}}} in list_states(responses)
    assert kinds(responses)[0] == "schema_change"


def test_overridden_record_hook_is_used():
    class Hooked(Numbers):
        def _generate_record_messages(self, record: Any):
            yield RecordMessage(self.name, {**record, "text": "own"})

    sent = group_by_table(Connector(create_tap(Hooked), rows=1).update())
    assert sent["numbers"] == [("UPSERT", {"n": 0, "text": "own"})]


# Errors


def test_records_without_a_schema_are_refused():
    class Unknown(Numbers):
        def get_records(self, context: Any):
            self._tap.write_message(RecordMessage("unknown", {"a": 1}))
            yield {"n": 1}

    with pytest.raises(RecordsWithoutSchemaException, match="'unknown'"):
        list(Connector(create_tap(Unknown)).update())


def test_batch_messages_are_refused():
    class InFiles(Numbers):
        def get_records(self, context: Any):
            files = SDKBatchMessage(
                self.name, BaseBatchFileEncoding(format="jsonl"), ["file:///rows.jsonl"]
            )
            self._tap.write_message(files)
            yield {"n": 1}

    with pytest.raises(UnsupportedFeatureError, match="get_records"):
        list(Connector(create_tap(InFiles)).update())


def test_error_comes_after_the_records_and_a_checkpoint():
    """F4, F16: the next sync resumes there."""
    responses, error = collect_until_error(Connector(TapShop, fails_after=2).update())
    assert str(error) == "The source is broken for good."
    assert len(group_by_table(responses)["people"]) == 3
    assert kinds(responses)[-1] == "checkpoint"
    resumed = SHOP.update(json.dumps(list_states(responses)[-1]))
    assert apply_upserts(responses, resumed) == apply_upserts(SHOP.update())


def test_get_records_that_returns_none_is_named_with_its_stream():
    class Forgotten(Numbers):
        def get_records(self, context):
            [{"n": n} for n in range(3)]

    with pytest.raises(FatalSyncError, match="Stream 'numbers': get_records returned None: yield"):
        list(Connector(create_tap(Forgotten)).update())


def test_checkpoint_follows_rows_of_a_failed_full_table_stream():
    class Failing(Numbers):
        def get_records(self, context: Any):
            yield {"n": 1}
            raise RuntimeError

    responses, _ = collect_until_error(Connector(create_tap(Failing)).update())
    assert len(group_by_table(responses)["numbers"]) == 1
    assert kinds(responses)[-1] == "checkpoint"
    assert group_by_table(Connector(TapNumbers).update(json.dumps(list_states(responses)[-1])))


def test_failure_before_the_first_message_keeps_the_state():
    class Failing(TapNumbers):
        def _set_compatible_replication_methods(self):
            raise RuntimeError

    state = {"bookmarks": {"numbers": {"n": 5}}}
    responses, _ = collect_until_error(Connector(Failing).update(json.dumps(state)))
    assert list_states(responses) == [state]


def test_value_that_contains_itself_is_named_with_its_column():
    class Cyclic(Numbers):
        primary_keys = ()
        schema = th.PropertiesList(th.Property("tree", th.ObjectType())).to_dict()

        def get_records(self, context: Any):
            tree: dict[str, Any] = {}
            tree["parent"] = tree
            yield {"tree": tree}

    _, error = collect_until_error(Connector(create_tap(Cyclic)).update())
    assert isinstance(error, DataError)
    assert "'tree'" in str(error)


def test_invalid_value_ends_the_sync_after_the_previous_rows():
    class Misfit(Numbers):
        def get_records(self, context: Any):
            yield {"n": 1}
            yield {"n": "one"}

    responses, error = collect_until_error(Connector(create_tap(Misfit)).update())
    assert isinstance(error, DataError)
    assert all(word in str(error) for word in ("'numbers'", "'n'", "LONG"))
    assert group_by_table(responses)["numbers"] == [("UPSERT", {"n": 1, "text": None})]


def test_invalid_settings_are_refused():
    with pytest.raises(ConfigValidationError, match="people"):
        list(Connector(TapShop, people="many").update())


def test_system_exit_of_the_tap_ends_only_its_call():
    class Leaving(Numbers):
        def get_records(self, context: Any):
            raise SystemExit(3)
            yield {}

    with pytest.raises(SystemExit):
        list(Connector(create_tap(Leaving)).update())
    assert group_by_table(Connector(TapNumbers).update())


def test_disconnected_caller_ends_the_sync_and_the_next_one_starts():
    """F18."""
    ended = threading.Event()

    class Endless(Numbers):
        def get_records(self, context: Any):
            try:
                while True:
                    yield {"n": 1}
                    time.sleep(0.01)
            finally:
                ended.set()

    connector, caller = Connector(create_tap(Endless)), Caller()
    running = connector.update(caller=caller)
    assert next(running).records
    caller.disconnect()
    assert list(running) == []
    assert group_by_table(Connector(TapNumbers).update())
    assert ended.wait(60)


class TapClosed(TapNumbers):
    """A tap that records in ``events`` when its records have ended and when it is closed."""

    events: ClassVar[list[str]]

    def close(self) -> None:
        self.events.append("closed")
        raise OSError("The client of the source has no connection.")


def test_tap_is_closed_after_the_sync_that_a_disconnected_caller_has_left():
    """A connection that the sync returns to its pool later would stay open."""

    class Endless(Numbers):
        def get_records(self, context: Any):
            try:
                while True:
                    yield {"n": 1}
                    time.sleep(0.01)
            finally:
                time.sleep(0.1)
                TapClosed.events.append("records ended")

    class TapEndless(TapClosed):
        stream_class = Endless

    TapClosed.events = []
    caller = Caller()
    running = Connector(TapEndless).update(caller=caller)
    assert next(running).records
    caller.disconnect()
    assert list(running) == []
    assert TapClosed.events == ["records ended", "closed"]


def test_tap_that_cannot_be_closed_has_synced(caplog: pytest.LogCaptureFixture):
    TapClosed.events = []
    responses = list(Connector(TapClosed).update())
    assert len(group_by_table(responses)["numbers"]) == 3
    assert list_states(responses)
    assert TapClosed.events == ["closed"]
    assert "The tap cannot be closed (OSError)." in caplog.text


def test_disconnected_caller_ends_a_blocked_sync():
    backlog = BoundedByteQueue(limit=10)
    backlog.put(b"x" * 20)
    errors: list[Exception] = []

    def put() -> None:
        try:
            backlog.put(b"y")
        except CallEndedError as error:
            errors.append(error)

    waiting = threading.Thread(target=put)
    waiting.start()
    backlog.leave()
    waiting.join(60)
    assert len(errors) == 1
    assert list(backlog) == []


def test_queue_of_rows_is_bounded():
    backlog, received = BoundedByteQueue(limit=1_000), []

    def make() -> None:
        for number in range(50):
            backlog.put(bytes([number]) * 100)
        backlog.end()

    maker = threading.Thread(target=make)
    maker.start()
    for piece in backlog:
        assert len(backlog._pieces) <= 10
        received.append(piece[0])
    maker.join()
    assert received == list(range(50))


def test_concurrent_syncs_are_independent():
    connectors = [Connector(TapShop, people=count, pause=0.01) for count in (2, 9, 5, 7)]
    counts: dict[int, int] = {}

    def run(number: int) -> None:
        counts[number] = len(group_by_table(connectors[number].update())["people"])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {0: 2, 1: 9, 2: 5, 3: 7}


def test_log_has_one_line_per_table(caplog):
    """F2: with rows and seconds."""
    with caplog.at_level(logging.INFO, "fivetran"):
        list(SHOP.update(selection=make_selection({"visits": True, "wide": True})))
    messages = [record.getMessage().rpartition(" in ")[0] for record in caplog.records]
    assert [line for line in messages if line.startswith("Table")] == [
        "Table visits: 2 rows",
        "Table wide: 1 row",
    ]


def test_signal_handlers_of_the_main_thread_are_kept():
    from tap_core.protocols.fivetran.cli import _ignore_handlers_of_threads

    class WithHandler(Numbers):
        def get_records(self, context: Any):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            yield {"n": 1}

    before = signal.getsignal(signal.SIGTERM)
    with _ignore_handlers_of_threads():
        assert group_by_table(Connector(create_tap(WithHandler)).update())
    assert signal.getsignal(signal.SIGTERM) is before
