"""The numbered rules of docs/airbyte.md that a destination keeps, in two syncs of many streams.

The program runs twice for all tests together: the first sync fills tables, the second has another
catalog. A test's docstring begins with the numbers of its rules.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from target_spark.tables.table import RUNS
from tests.airbyte.models import model_faults, needs_models
from tests.airbyte.rules import write_faults
from tests.airbyte.running import Run, airbyte

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TARGET = (sys.executable, "-m", "target_spark")
NOW = 1_700_000_000_000
JUNK = b'not a message\n{"a": 1}\n[]\n\n{"type": "NEWER", "newer": {}}\n'

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.thorough]

TEXT, INTEGER = {"type": ["null", "string"]}, {"type": ["null", "integer"]}
ROW = {"id": INTEGER, "name": TEXT}


class Syncs(NamedTuple):
    """Two syncs: their input, their results, and the folder of the tables."""

    folder: Path
    fed: tuple[bytes, bytes]
    runs: tuple[Run, Run]


def stream(name: str, mode: str, properties: Any = None, **fields: Any) -> dict[str, Any]:
    """Return a configured stream."""
    schema = {"type": "object", "properties": properties or ROW}
    description: dict[str, Any] = {"name": name, "json_schema": schema}
    description["supported_sync_modes"] = ["full_refresh", "incremental"]
    if "namespace" in fields:
        description["namespace"] = fields.pop("namespace")
    return {
        "stream": description,
        "sync_mode": "incremental",
        "destination_sync_mode": mode,
        **fields,
    }


def record(name: str, data: dict[str, Any], **fields: Any) -> dict[str, Any]:
    body = {"stream": name, "data": data, "emitted_at": NOW, **fields}
    return {"type": "RECORD", "record": body}


def state(name: str, position: int, **descriptor: Any) -> dict[str, Any]:
    stream_state = {
        "stream_descriptor": {"name": name, **descriptor},
        "stream_state": {"at": position, "é": [1.0]},
    }
    body = {
        "type": "STREAM",
        "stream": stream_state,
        "sourceStats": {"recordCount": 1.0},
        "newer": 1,
    }
    return {"type": "STATE", "state": body}


def complete(name: str, **descriptor: Any) -> list[dict[str, Any]]:
    messages = []
    for status in ("STARTED", "COMPLETE"):
        stream_status = {"stream_descriptor": {"name": name, **descriptor}, "status": status}
        trace = {"type": "STREAM_STATUS", "emitted_at": NOW, "stream_status": stream_status}
        messages.append({"type": "TRACE", "trace": trace})
    return messages


def lines(messages: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


NESTED = {"id": INTEGER, "key": {"type": "object", "properties": {"part": TEXT}}, "name": TEXT}
FIRST_CATALOG = [
    stream("added", "append"),
    stream("replaced", "overwrite"),
    stream("emptied", "overwrite"),
    stream("merged", "append_dedup", primary_key=[["id"], ["name"]], cursor_field=["at"])
    | {"stream": stream("merged", "append", {**ROW, "at": INTEGER})["stream"]},
    stream("deep", "append_dedup", NESTED, primary_key=[["key", "part"]]),
    stream("twin", "append", namespace="one"),
    stream("twin", "append", namespace="two"),
    stream("", "append"),
    stream("Grün / ☃; DROP", "append", {"id": INTEGER, "a.b ": TEXT, "": TEXT}),
]
STREAMS = [
    (entry["stream"]["name"], {"namespace": space} if space else {})
    for entry in FIRST_CATALOG
    for space in [entry["stream"].get("namespace")]
]
STATES = [state(name, at, **more) for at in (1, 2) for name, more in STREAMS]
ENDS = [status for name, more in STREAMS for status in complete(name, **more)]


def first_feed() -> bytes:
    return b"".join(
        [
            JUNK,
            lines(
                [
                    {"type": "LOG", "log": {"level": "INFO", "message": "hello"}},
                    record("added", {"id": 1, "name": "a"}),
                    record("added", {"id": 1, "name": "a"}),
                    record("added", {"id": 2, "surprise": True}),
                    record("added", {"id": "many", "name": "does not fit"}),
                    record("stranger", {"id": 1}),
                    record("replaced", {"id": 1}),
                    record("emptied", {"id": 1}),
                    record("merged", {"id": 1, "name": "a", "at": 5}),
                    record("merged", {"id": 1, "name": "b", "at": 5}),
                    record("merged", {"id": 1, "name": "a", "at": 4}),
                    record("deep", {"id": 1, "key": {"part": "x"}, "name": "old"}),
                    record("deep", {"id": 2, "key": {"part": "x"}, "name": "new"}),
                ]
            ),
            JUNK,
            lines(STATES[: len(STREAMS)]),
            lines(
                [
                    record("twin", {"id": 1}, namespace="one"),
                    record("twin", {"id": 2}, namespace="two"),
                    record("", {"id": 3}),
                    record("Grün / ☃; DROP", {"id": 4, "a.b ": "dots", "": "empty"}),
                ]
            ),
            lines([*STATES[len(STREAMS) :], *ENDS]),
        ]
    )


def second_feed() -> bytes:
    return lines(
        [
            record("added", {"id": 3, "more": "new field"}),
            record("replaced", {"id": 2}),
            record("merged", {"id": 1, "name": "a", "at": 1}),
            record("merged", {"id": 1, "name": "b", "at": 6}),
            *(state(name, 3, **descriptor) for name, descriptor in STREAMS),
            *ENDS,
        ]
    )


@pytest.fixture(scope="module")
def syncs(tmp_path_factory: pytest.TempPathFactory) -> Syncs:
    folder = tmp_path_factory.mktemp("syncs")
    config = {"path": str(folder / "warehouse")}
    changed = [stream("added", "append", {"id": INTEGER, "more": TEXT}), *FIRST_CATALOG[1:]]
    fed = (first_feed(), second_feed())
    runs = [
        airbyte(TARGET, "write", folder, feed=feed, config=config, catalog={"streams": catalog})
        for feed, catalog in zip(fed, (FIRST_CATALOG, changed), strict=True)
    ]
    for run in runs:
        assert run.code == 0, run.output.decode()[-3000:] + run.log
    return Syncs(folder, fed, (runs[0], runs[1]))


def table(spark: SparkSession, syncs: Syncs, name: str, version: int | None = None) -> DataFrame:
    reader = spark.read.format("delta")
    reader = reader if version is None else reader.option("versionAsOf", version)
    return reader.load(str(syncs.folder / "warehouse" / name))


def values(frame: DataFrame, *columns: str) -> list[Any]:
    selected = frame.select(*(f"`{column}`" for column in columns)).collect()
    return sorted((tuple(row) for row in selected), key=repr)


@needs_models
def test_output_conforms_to_the_published_message_models(syncs: Syncs) -> None:
    """E2, E3, E4, D4: each emitted state was received, and received in the same sync."""
    for fed, run in zip(syncs.fed, syncs.runs, strict=True):
        assert [fault for fault in model_faults(run.output) if "newer: no such" not in fault] == []
        assert write_faults(fed, run.output, run.code) == []


def test_states_are_emitted_unchanged(syncs: Syncs) -> None:
    """ST9, D4, D5: unknown properties and numbers are kept; the last of each stream is emitted."""
    for run, position in zip(syncs.runs, (2, 3), strict=True):
        last = {
            json.dumps(emitted["stream"]["stream_descriptor"]): emitted for emitted in run.states
        }
        assert len(last) == len(STREAMS)
        assert {emitted["stream"]["stream_state"]["at"] for emitted in last.values()} == {position}
        assert all(emitted["newer"] == 1 for emitted in last.values())
        assert run.output.count(b"1.0") >= len(STREAMS)


def test_append_keeps_duplicate_rows(spark: SparkSession, syncs: Syncs) -> None:
    """D1, D6: missing fields are null, others are dropped; a row with an invalid value is kept."""
    frame = table(spark, syncs, "added")
    assert values(frame, "id", "name") == [
        (1, "a"),
        (1, "a"),
        (2, None),
        (3, None),
        (None, "does not fit"),
    ]
    assert "surprise" not in frame.columns
    [meta] = [row["_airbyte_meta"] for row in frame.filter("id IS NULL").collect()]
    [change] = json.loads(meta)["changes"]
    assert (change["field"], change["change"]) == ("id", "NULLED")


def test_fields_can_be_added_and_removed_between_syncs(spark: SparkSession, syncs: Syncs) -> None:
    """D13: a new field is a new column; a removed one is null in new rows."""
    frame = table(spark, syncs, "added")
    assert values(frame.filter("id = 3"), "id", "name", "more") == [(3, None, "new field")]


def test_overwrite_leaves_only_the_rows_of_the_sync(spark: SparkSession, syncs: Syncs) -> None:
    """D2: a stream without rows empties its table."""
    assert values(table(spark, syncs, "replaced"), "id") == [(2,)]
    assert values(table(spark, syncs, "emptied"), "id") == []


def test_append_dedup_keeps_the_newest_row_of_each_key(spark: SparkSession, syncs: Syncs) -> None:
    """D3: newest by cursor, in one sync and over two; keys are composite or nested."""
    assert values(table(spark, syncs, "merged"), "id", "name", "at") == [(1, "a", 5), (1, "b", 6)]
    assert values(table(spark, syncs, "deep"), "id", "name") == [(2, "new")]


def test_unknown_lines_messages_and_streams_are_ignored(syncs: Syncs) -> None:
    """E6, D6, D7: invalid lines, logs, unknown types and streams are dropped without an error."""
    for run in syncs.runs:
        assert b"not a message" not in run.output.split(b'"type":"STATE"')[-1]
        assert {message["type"] for message in run.messages} <= {"STATE", "LOG", "TRACE"}
    assert not (syncs.folder / "warehouse" / "stranger").exists()


def test_streams_of_one_name_in_two_namespaces_have_two_tables(
    spark: SparkSession, syncs: Syncs
) -> None:
    """D8, ST13: each has its own table and its own states."""
    assert values(table(spark, syncs, "one__twin"), "id") == [(1,)]
    assert values(table(spark, syncs, "two__twin"), "id") == [(2,)]


def test_any_text_is_a_valid_stream_or_field_name(spark: SparkSession, syncs: Syncs) -> None:
    """E13, D9: the empty text too."""
    known = {"added", "replaced", "emptied", "merged", "deep", "one__twin", "two__twin"}
    logs = (syncs.folder / "warehouse").glob("*/_delta_log")
    tables = sorted({log.parent.name for log in logs} - {*known, RUNS})
    rows = sorted(row for name in tables for row in values(table(spark, syncs, name), "id"))
    assert rows == [(3,), (4,)], tables


@pytest.mark.parametrize(
    "wrong",
    [
        {"destination_sync_mode": "append_dedup"},
        {"destination_sync_mode": "soft_delete"},
        {"destination_sync_mode": "sideways"},
    ],
)
def test_unsupported_destination_sync_mode_is_rejected(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    """D14, D16: dedup without a key, and unknown modes; no state is emitted."""
    catalog = {"streams": [{**stream("t", "append"), **wrong}]}
    config = {"path": str(tmp_path / "warehouse")}
    feed = lines([record("t", {"id": 1}), state("t", 1), *complete("t")])
    run = airbyte(TARGET, "write", tmp_path, feed=feed, config=config, catalog=catalog)
    assert run.code != 0
    assert run.states == []
    assert run.traces("ERROR")[-1]["failure_type"] == "config_error"
    assert write_faults(feed, run.output, run.code) == []


def test_overwrite_of_an_incomplete_stream_leaves_the_old_table(
    tmp_path: Path, spark: SparkSession
) -> None:
    """D2, D16: the source ended without COMPLETE; the exit code is not 0."""
    config = {"path": str(tmp_path / "warehouse")}
    catalog = {"streams": [stream("t", "overwrite")]}
    complete_feed = lines([record("t", {"id": 1}), state("t", 1), *complete("t")])
    first = airbyte(TARGET, "write", tmp_path, feed=complete_feed, config=config, catalog=catalog)
    assert first.code == 0, first.output
    incomplete_feed = lines([complete("t")[0], record("t", {"id": 2}), state("t", 2)])
    run = airbyte(TARGET, "write", tmp_path, feed=incomplete_feed, config=config, catalog=catalog)
    assert run.code != 0
    assert run.states == []
    assert write_faults(incomplete_feed, run.output, run.code) == []
    stored = spark.read.format("delta").load(str(tmp_path / "warehouse" / "t"))
    assert values(stored, "id") == [(1,)]
