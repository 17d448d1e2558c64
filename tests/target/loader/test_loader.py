"""Loads into real tables: data before state, quarantine, schema changes, overwrites."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.exceptions import RecordsWithoutSchemaException
from tap_core.protocols.singer.reader import SingerReader
from target_spark.errors import (
    IncompleteError,
    QuarantineError,
    StateOutputError,
    UnsupportedError,
)
from tests.target.warehouse import (
    ID,
    ID_AND_NAME,
    Warehouse,
    activate,
    feed,
    record,
    schema,
    state,
    versioned,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = pytest.mark.spark


# Rows and states


def test_rows_are_committed_and_then_the_last_state_emitted(warehouse: Warehouse) -> None:
    states = warehouse.load(
        schema("a", ID_AND_NAME),
        record("a", id=1, name="one"),
        state(1),
        record("a", id=2, name=None),
        state(2),
    )
    assert states == [2]
    assert warehouse.rows("a") == [(1, "one"), (2, None)]
    counts = warehouse.counts("a")
    assert (counts["received"], counts["written"], counts["quarantined"]) == (2, 2, 0)
    marker = warehouse.marker("a")
    assert marker is not None
    assert marker.state == '{"at": 2}'
    assert not list((warehouse.folder.parent / "spool").iterdir())


def test_each_commit_releases_the_state_that_it_covers(delta: Warehouse) -> None:
    rows_seen: list[tuple[Any, int]] = []

    def emit(text: bytes) -> None:
        rows_seen.append((json.loads(text)["at"], delta.read("a").count()))

    loader, spool = delta.open(flush_rows=2, emit=emit)
    feed(loader, schema("a", ID))
    for number in range(1, 7):
        feed(loader, record("a", id=number), state(number))
        while number % 2 == 0 and len(rows_seen) < number // 2:
            loader.poll()
            time.sleep(0.05)
    loader.finish(whole=True)
    loader.close()
    spool.close()
    # A state that follows a batch is emitted with that batch, after its rows are written.
    assert rows_seen == [(2, 2), (4, 4), (6, 6)]


def test_stream_with_keys_is_upserted_within_and_across_runs(delta: Warehouse) -> None:
    schema_message = schema("a", ID_AND_NAME, "id")
    delta.load(schema_message, record("a", id=1, name="old"), record("a", id=2, name="two"))
    delta.load(
        schema_message,
        record("a", id=1, name="newer"),
        record("a", id=3, name="three"),
        record("a", id=1, name="newest"),
        flush_rows=1,
    )
    assert delta.rows("a") == [(1, "newest"), (2, "two"), (3, "three")]


def test_parquet_appends_streams_with_keys_and_says_so_once_in_log_and_report(
    spark_session: Session,
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    parquet = Warehouse(spark_session, spark, tmp_path / "tables", "parquet")
    schema_message = schema("a", ID, "id")
    for _ in range(2):
        caplog.clear()
        with caplog.at_level("INFO"):
            parquet.load(schema_message, record("a", id=1), schema_message, record("a", id=2))
        lines = [*caplog.messages, *parquet.report.lines()]
        assert len([line for line in lines if "cannot upsert" in line]) == 1
        assert len([note for note in parquet.counts("a")["notes"] if "cannot upsert" in note]) == 1
    assert parquet.rows("a") == [(1,), (1,), (2,), (2,)]


def test_state_waits_for_the_rows_of_all_streams(warehouse: Warehouse) -> None:
    loader, spool = warehouse.open(flush_rows=3)
    feed(loader, schema("a", ID), schema("b", ID), record("b", id=0), state("early"))
    for number in range(3):
        feed(loader, record("a", id=number))
    feed(loader, state("between"))
    loader._pipeline.wait()  # a's batch is committed, b's row is not
    loader.poll()
    assert warehouse.rows("a") == [(0,), (1,), (2,)]
    assert warehouse.states == []
    marker = warehouse.marker("a")
    assert marker is not None
    assert marker.state is None
    feed(loader, record("b", id=1), record("b", id=2), state("late"))
    loader._pipeline.wait()
    loader.poll()
    assert warehouse.states == ["late"]
    loader.finish(whole=True)
    loader.close()
    spool.close()
    # The state came after b's commit, so a commit without rows carries it at the end.
    markers = [warehouse.marker(table) for table in "ab"]
    assert '{"at": "late"}' in {metadata.state for metadata in markers if metadata is not None}
    assert warehouse.rows("b") == [(0,), (1,), (2,)]


def test_rows_are_committed_after_flush_seconds_without_further_input(delta: Warehouse) -> None:
    loader, spool = delta.open(flush_seconds=0.01)
    feed(loader, schema("a", ID), record("a", id=1), state(1))
    time.sleep(0.02)
    loader.poll()
    loader._pipeline.wait()
    assert delta.states == [1]
    loader.finish(whole=True)
    loader.close()
    spool.close()
    assert delta.rows("a") == [(1,)]


def test_input_without_rows_emits_states_and_starts_no_spark(delta: Warehouse) -> None:
    states = delta.load(schema("a", ID, "id"), state(1), state(2))
    assert states == [2]
    assert not delta.engine.started
    assert not delta.folder.exists()


def test_empty_state_does_not_replace_a_state(delta: Warehouse) -> None:
    empty = {"type": "STATE", "value": {}}
    assert delta.load(state(1), empty, {"type": "STATE", "value": None}) == [1]


def test_table_of_a_stream_without_rows_is_created_if_spark_runs(
    warehouse: Warehouse,
) -> None:
    warehouse.load(schema("a", ID), schema("b", ID_AND_NAME), record("a", id=1))
    assert warehouse.read("b").columns == ["id", "name"]
    assert warehouse.rows("b") == []


def test_last_state_without_rows_is_committed_alone(
    warehouse: Warehouse,
) -> None:
    loader, spool = warehouse.open(flush_rows=1)
    feed(loader, schema("a", ID), record("a", id=1), state("first"))
    loader._pipeline.wait()
    loader.poll()
    feed(loader, state("promoted"))
    loader.finish(whole=True)
    loader.close()
    spool.close()
    assert warehouse.states[-1] == "promoted"
    marker = warehouse.marker("a")
    assert marker is not None
    assert marker.state == '{"at": "promoted"}'
    assert warehouse.rows("a") == [(1,)]


# Quarantined rows

TYPED = {
    "i": {"type": "integer"},
    "n": {"type": "number", "multipleOf": 0.01},
    "t": {"type": "string", "format": "date-time"},
    "d": {"type": "string", "format": "date"},
    "b": {"type": "boolean"},
    "o": {"type": "object", "properties": {"x": {"type": "integer"}}},
    "l": {"type": "array", "items": {"type": "integer"}},
}
GOOD = {
    "i": 1,
    "n": 1.25,
    "t": "2024-01-01T00:00:00Z",
    "d": "2024-01-01",
    "b": True,
    "o": {"x": 1},
    "l": [1],
}
BAD = {
    "i": 1.5,
    "n": 1.255,
    "t": "12:30",
    "d": "2024-01-01T06:00:00Z",
    "b": 1,
    "o": {"x": "y"},
    "l": ["z"],
}


def test_row_with_an_invalid_value_is_quarantined_and_no_other(warehouse: Warehouse) -> None:
    keyed = {"id": {"type": "integer"}, **TYPED}
    bad = [record("a", id=n, **{**GOOD, name: BAD[name]}) for n, name in enumerate(BAD)]
    good = [record("a", id=n, **GOOD) for n in range(100, 103)]
    states = warehouse.load(schema("a", keyed), good[0], *bad, *good[1:], state(1))
    assert states == [1]
    assert warehouse.rows("a", "id") == [(100,), (101,), (102,)]
    quarantined = warehouse.rows("a__quarantine", "ordinal", "raw", "reasons", "batch", "run")
    assert [json.loads(row[1]) for row in quarantined] == [message["record"] for message in bad]
    assert [row[0] for row in quarantined] == list(range(2, 2 + len(bad)))
    assert [row[2][0].split(":")[0].split("[")[0].split(".")[0] for row in quarantined] == list(BAD)
    assert {row[3:] for row in quarantined} == {(1, "run1")}
    counts = warehouse.counts("a")
    assert (counts["written"], counts["quarantined"]) == (3, len(bad))


def test_batches_after_a_bad_row_are_written_completely(warehouse: Warehouse) -> None:
    warehouse.load(
        schema("a", ID),
        *(record("a", id=number if number % 4 else f"x{number}") for number in range(12)),
        flush_rows=3,
    )
    assert [row[0] for row in warehouse.rows("a")] == sorted(
        [1, 10, 11, 2, 3, 5, 6, 7, 9], key=repr
    )
    assert len(warehouse.rows("a__quarantine")) == 3
    assert warehouse.counts("a")["quarantined"] == 3


def test_batch_of_only_bad_rows_carries_the_state(warehouse: Warehouse) -> None:
    """The state is stored if other rows of the stream were written in the run."""
    messages = [record("a", id=1), record("a", id=2), record("a", id="x"), state(1)]
    assert warehouse.load(schema("a", ID), *messages, flush_rows=2) == [1]
    assert warehouse.rows("a") == [(1,), (2,)]
    marker = warehouse.marker("a")
    assert marker is not None
    assert marker.state == '{"at": 1}'


def test_record_without_its_key_is_quarantined(delta: Warehouse) -> None:
    delta.load(
        schema("a", ID_AND_NAME, "id"),
        record("a", id=1, name="a"),
        record("a", name="no key"),
        record("a", id=None, name="null key"),
    )
    assert delta.rows("a") == [(1, "a")]
    assert len(delta.rows("a__quarantine")) == 2


def test_exceeded_max_quarantined_stops_the_run_without_the_batch(warehouse: Warehouse) -> None:
    loader, spool = warehouse.open(flush_rows=2, max_quarantined=1)
    feed(loader, schema("a", ID), record("a", id=1), record("a", id="x"), state(1))
    loader._pipeline.wait()
    loader.poll()
    feed(loader, record("a", id="y"), record("a", id=2), state(2))
    with pytest.raises(QuarantineError, match=r"max_quarantined is 1; nothing of this batch"):
        loader.finish(whole=True)
    loader.close()
    spool.close()
    assert warehouse.states == [1]
    assert warehouse.rows("a") == [(1,)]
    assert len(warehouse.rows("a__quarantine")) == 1


def test_quarantine_keeps_the_raw_record_byte_by_byte(delta: Warehouse) -> None:
    loader, spool = delta.open()
    raw = '{"id" : "é", "n": 1.50, "big": 123456789012345678901234567890}'
    decoder = SingerReader()
    feed(loader, schema("a", ID), record("a", id=1))
    line = b'{"type":"RECORD","stream":"a","record":' + raw.encode() + b"}\n"
    for event in decoder.feed(line):
        loader.process_event(event)
    loader.finish(whole=True)
    loader.close()
    spool.close()
    assert delta.rows("a__quarantine", "raw") == [(raw,)]


def test_lone_surrogate_is_quarantined_and_not_replaced(delta: Warehouse) -> None:
    delta.load(schema("a", ID_AND_NAME), record("a", id=1, name="\ud83d"), record("a", id=2))
    assert delta.rows("a") == [(2, None)]
    assert delta.rows("a__quarantine", "raw") == [('{"id": 1, "name": "\\ud83d"}',)]


# Schema changes


def test_new_column_and_nullable_type_do_not_end_the_batch(warehouse: Warehouse) -> None:
    looser = {"id": {"type": ["null", "integer"]}, "more": {"type": "string"}}
    warehouse.load(
        schema("a", ID),
        record("a", id=1),
        schema("a", looser),
        record("a", id=None, more="x"),
        schema("a", ID),
        record("a", id=3, more="y"),
    )
    assert warehouse.rows("a") == sorted([(1, None), (None, "x"), (3, "y")], key=repr)
    assert warehouse.counts("a")["commits"] == 1


def test_incompatible_type_gets_another_column(warehouse: Warehouse) -> None:
    warehouse.load(
        schema("a", ID),
        record("a", id=1),
        schema("a", {"id": {"type": "string"}}),
        record("a", id="x"),
        schema("a", ID),
        record("a", id=2),
    )
    assert warehouse.read("a").columns == ["id", "id__string"]
    assert warehouse.rows("a") == sorted([(1, None), (None, "x"), (None, "2")], key=repr)
    assert any("id__string" in note for note in warehouse.counts("a")["notes"])


def test_columns_are_added_between_runs(warehouse: Warehouse) -> None:
    warehouse.load(schema("a", ID), record("a", id=1))
    warehouse.load(schema("a", ID_AND_NAME), record("a", id=2, name="b"))
    warehouse.load(schema("a", ID), record("a", id=3))
    assert warehouse.rows("a") == [(1, None), (2, "b"), (3, None)]


def test_changed_keys_end_the_batch(delta: Warehouse) -> None:
    delta.load(
        schema("a", ID_AND_NAME, "id"),
        record("a", id=1, name="a"),
        record("a", id=1, name="b"),
        schema("a", ID_AND_NAME, "id", "name"),
        record("a", id=1, name="c"),
    )
    assert delta.rows("a") == [(1, "b"), (1, "c")]
    assert delta.counts("a")["commits"] == 2


def test_repeated_schemas_do_not_end_the_batch(delta: Warehouse) -> None:
    other_order = schema("a", dict(reversed(list(ID_AND_NAME.items()))))
    other_order["schema"]["required"] = []
    messages = [
        message
        for number in range(50)
        for message in (
            schema("a", ID_AND_NAME) if number % 2 else other_order,
            record("a", id=number),
        )
    ]
    delta.load(*messages)
    assert len(delta.rows("a")) == 50
    assert delta.counts("a")["commits"] == 1


def test_schema_without_properties_stores_whole_records(warehouse: Warehouse) -> None:
    bare = {"type": "SCHEMA", "stream": "a", "schema": {"type": "object"}, "key_properties": []}
    warehouse.load(bare, record("a", x=1, y={"z": 2}))
    ((text,),) = warehouse.rows("a")
    assert json.loads(text) == {"x": 1, "y": {"z": 2}}


def test_special_characters_in_stream_and_property_names_are_loaded(delta: Warehouse) -> None:
    names = ["a.b", "A.B", "with space", "select", "😀", "q`t"]
    properties = {name: {"type": "string"} for name in names}
    nested = {"type": "object", "properties": properties}
    schema_message = schema("odd.stream 😀", {**properties, "o": nested}, "a.b")
    values = {name: name for name in names}
    for _ in range(2):
        delta.load(schema_message, record("odd.stream 😀", **values, o=values))
    (table,) = (path for path in delta.folder.iterdir() if path.name.startswith("odd"))
    ((*flat, fields),) = delta.rows(table.name)
    assert sorted(flat) == sorted(names)
    assert sorted(fields) == sorted(names)


def test_references_within_a_schema_are_resolved(delta: Warehouse) -> None:
    schema_message = schema("a", {"id": {"$ref": "#/definitions/number"}})
    schema_message["schema"]["definitions"] = {"number": {"type": "integer"}}
    delta.load(schema_message, record("a", id=1))
    assert delta.rows("a") == [(1,)]


# Deletions, versions and metadata


def test_delete_record_sets_only_the_deletion_time(delta: Warehouse) -> None:
    schema_message = schema("a", ID_AND_NAME, "id")
    delta.load(schema_message, record("a", id=1, name="one"), record("a", id=2, name="two"))
    deleted_at = "2024-05-01T00:00:00Z"
    delta.load(schema_message, record("a", id=1, _sdc_deleted_at=deleted_at))
    rows = delta.rows("a", "id", "name", "_sdc_deleted_at")
    assert [(row[0], row[1], row[2] is not None) for row in rows] == [
        (1, "one", True),
        (2, "two", False),
    ]


def test_metadata_columns_are_filled(warehouse: Warehouse) -> None:
    message = {**versioned("a", 7, id=1), "time_extracted": "2024-01-01T00:00:00Z"}
    warehouse.load(schema("a", ID), message, record("a", id=2), add_record_metadata=True)
    read = warehouse.read("a").selectExpr("*", "unix_seconds(_sdc_extracted_at) extracted")
    rows = {row["id"]: row for row in read.collect()}
    assert rows[1]["extracted"] == 1_704_067_200  # 2024-01-01T00:00:00Z
    assert rows[1]["_sdc_table_version"] == 7
    assert rows[2]["_sdc_table_version"] is None
    assert rows[1]["_sdc_sequence"] < rows[2]["_sdc_sequence"]
    assert rows[1]["_sdc_sync_started_at"] == 1
    assert rows[1]["_sdc_received_at"] <= rows[1]["_sdc_batched_at"]


# Overwrites


@pytest.fixture
def filled(warehouse: Warehouse) -> Warehouse:
    """Return a warehouse with a table of one row."""
    warehouse.load(schema("a", ID), record("a", id=0))
    return warehouse


def test_overwrite_is_committed_if_the_input_ends_with_a_final_state(filled: Warehouse) -> None:
    states = filled.load(
        schema("a", ID),
        record("a", id=1),
        state(1),
        record("a", id=2),
        state(2),
        write_mode="overwrite",
        flush_rows=1,
    )
    assert states == [2]
    assert filled.rows("a") == [(1,), (2,)]
    marker = filled.marker("a")
    assert marker is not None
    assert marker.state == '{"at": 2}'


MARKERS = {"bookmarks": {"a": {"partitions": [{"progress_markers": {"x": 1}}]}}}
NOT_FINAL = {
    "no state": [],
    "markers": [{"type": "STATE", "value": MARKERS}],
    "currently syncing": [{"type": "STATE", "value": {"currently_syncing": "a"}}],
    "rows after the state": [state(1), record("a", id=2)],
    "activation before the rows": [],
}


@pytest.mark.parametrize("ending", NOT_FINAL)
def test_possibly_incomplete_overwrite_leaves_the_old_table(filled: Warehouse, ending: str) -> None:
    first = [activate("a", 3)] if ending.startswith("activation") else []
    with pytest.raises(IncompleteError, match="tables of a were not overwritten"):
        filled.load(
            schema("a", ID),
            *first,
            versioned("a", 3, id=1),
            *NOT_FINAL[ending],
            write_mode="overwrite",
        )
    assert filled.states == []
    assert filled.rows("a", "id") == [(0,)]
    assert any("may be incomplete" in note for note in filled.counts("a")["notes"])


def test_truncated_input_leaves_the_old_table(filled: Warehouse) -> None:
    with pytest.raises(IncompleteError):
        filled.load(
            schema("a", ID), record("a", id=1), state(1), whole=False, write_mode="overwrite"
        )
    assert filled.rows("a") == [(0,)]


def test_activate_version_completes_the_overwrite_of_its_stream_only(filled: Warehouse) -> None:
    filled.load(schema("b", ID), record("b", id=0))
    with pytest.raises(IncompleteError, match="tables of b were"):
        filled.load(
            schema("a", ID),
            schema("b", ID),
            versioned("a", 3, id=1),
            versioned("a", 4, id=2),
            activate("a", 4),
            record("b", id=1),
            write_mode="overwrite",
        )
    assert filled.rows("a", "id") == [(2,)]
    assert filled.rows("b", "id") == [(0,)]


def test_complete_overwrite_without_rows_empties_the_table(filled: Warehouse) -> None:
    assert filled.load(schema("a", ID), state(1), write_mode="overwrite") == [1]
    assert filled.engine.started
    assert filled.rows("a") == []


def test_overwrite_on_eof_always_commits_without_a_final_state(filled: Warehouse) -> None:
    filled.load(
        schema("a", ID), record("a", id=1), write_mode="overwrite", overwrite_on_eof="always"
    )
    assert filled.rows("a") == [(1,)]


@pytest.mark.thorough
def test_overwrite_deduplicates_keys_and_quarantines_bad_rows(filled: Warehouse) -> None:
    filled.load(
        schema("a", ID_AND_NAME, "id"),
        record("a", id=1, name="old"),
        record("a", id="x"),
        record("a", id=1, name="new"),
        state(1),
        streams={"a": {"write_mode": "overwrite"}},
    )
    assert filled.rows("a") == [(1, "new")]
    assert len(filled.rows("a__quarantine")) == 1


def test_pending_overwrite_holds_states_but_not_rows_of_other_streams(
    filled: Warehouse,
) -> None:
    loader, spool = filled.open(streams={"a": {"write_mode": "overwrite"}}, flush_rows=1)
    feed(loader, schema("a", ID), schema("b", ID), record("b", id=1), state(1))
    loader._pipeline.wait()
    loader.poll()
    assert filled.rows("b") == [(1,)]
    assert filled.states == []
    loader.finish(whole=True)
    loader.close()
    spool.close()
    assert filled.states == [1]
    assert filled.rows("a") == []


# Errors


def test_record_before_its_schema_is_an_error_after_earlier_rows(
    delta: Warehouse,
) -> None:
    loader, spool = delta.open()
    feed(loader, schema("a", ID), record("a", id=1), state(1))
    with pytest.raises(
        RecordsWithoutSchemaException, match="stream b came before the SCHEMA message"
    ):
        feed(loader, record("b", id=1))
    loader.finish(whole=False)
    loader.close()
    spool.close()
    assert delta.states == [1]
    assert delta.rows("a") == [(1,)]


def test_failed_state_output_is_an_error_after_the_commit(delta: Warehouse) -> None:
    def emit(text: bytes) -> None:
        raise StateOutputError(f"gone before {text.decode()}")

    loader, spool = delta.open(emit=emit)
    feed(loader, schema("a", ID), record("a", id=1), state(1))
    with pytest.raises(StateOutputError, match="gone before"):
        loader.finish(whole=True)
    loader.close()
    spool.close()
    assert delta.rows("a") == [(1,)]


def test_no_batch_is_committed_after_stop(delta: Warehouse) -> None:
    loader, spool = delta.open(flush_rows=1)
    feed(loader, schema("a", ID), record("a", id=1), state(1))
    loader._pipeline.wait()
    loader.poll()
    feed(loader, schema("b", ID), state(2))
    loader._pipeline.stop()
    feed(loader, record("b", id=1), state(3))
    loader.stop()
    loader.close()
    spool.close()
    assert delta.states == [1, 2]
    assert not delta.exists("b")


def test_input_waits_at_max_spool_bytes_and_is_loaded_completely(warehouse: Warehouse) -> None:
    messages = [record(stream, id=number) for number in range(8) for stream in "ab"]
    states = warehouse.load(
        schema("a", ID), schema("b", ID), *messages, state(1), max_spool_bytes=300
    )
    assert states == [1]
    for stream in "ab":
        assert len(warehouse.rows(stream)) == 8
        assert 1 < warehouse.counts(stream)["commits"] < 8


def test_batch_message_without_encoding_is_rejected_with_a_remedy(delta: Warehouse) -> None:
    loader, spool = delta.open()
    batch = {"type": "BATCH", "stream": "a", "encoding": {}, "manifest": []}
    with pytest.raises(UnsupportedError, match="batch_config"):
        feed(loader, batch)
    loader.close()
    spool.close()


def test_upsert_set_for_a_stream_without_keys_is_rejected(
    delta: Warehouse,
) -> None:
    with pytest.raises(UnsupportedError, match="Stream a cannot be written by upsert"):
        delta.load(schema("a", ID), streams={"a": {"write_mode": "upsert"}})
    delta.load(schema("a", ID), record("a", id=1), write_mode="upsert")
    assert delta.rows("a") == [(1,)]


def test_failed_commit_is_an_error_and_no_state_is_emitted(
    warehouse: Warehouse,
) -> None:
    warehouse.folder.mkdir(parents=True)
    (warehouse.folder / "a").write_text("not a table")
    with pytest.raises(Exception, match="a"):
        warehouse.load(schema("a", ID), record("a", id=1), state(1))
    assert warehouse.states == []
