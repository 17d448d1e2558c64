"""A schema that its policy refuses: rows and states before it are committed and emitted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tap_core.events import Checkpoint, Event, Rows, SchemaEvent, StreamId
from target_spark.columns import OnSchemaChange
from target_spark.config.options import LoadOptions, StreamOptions
from target_spark.errors import SchemaChangeError
from target_spark.loader.commit_request import CommitRequest, CommitResult
from target_spark.loader.loader import Loader
from target_spark.loader.report import Report
from target_spark.storage.spool import SpoolFolder
from tests.target.columns.widening_of_all_types import diff_with_table
from tests.target.loader.test_state_order import MemoryTables, StubEngine

A, B = StreamId("a"), StreamId("b")
INT, TEXT = {"type": "integer"}, {"type": "string"}


@dataclass
class TypedTables(MemoryTables):
    """Tables in memory that have columns and compare them with the schema of each commit."""

    types: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def write(self, request: CommitRequest) -> CommitResult:
        name, schema = request.table.name, request.table_schema
        adapted = diff_with_table(schema, self.types[name])[0] if name in self.types else schema
        self.types[name] = adapted.types
        return super().write(request)


def schema_event(stream: StreamId, **properties: Any) -> SchemaEvent:
    return SchemaEvent(stream, {"properties": properties})


def rows(stream: StreamId, *records: Any) -> Rows:
    return Rows(stream, [json.dumps(record).encode() for record in records])


def load(
    folder: Path,
    tables: TypedTables,
    policy: OnSchemaChange,
    *events: Event,
    flush_rows: int = 100,
) -> tuple[list[bytes], Report, SchemaChangeError | None]:
    """Load events as a run does; return the emitted states, the report, and the last error."""
    states, report = list[bytes](), Report()
    options = LoadOptions(
        str(folder), every=StreamOptions(on_schema_change=policy), writers=2, flush_rows=flush_rows
    )
    engine: Any = StubEngine()
    writer: Any = tables
    with closing(SpoolFolder(folder)) as spool:
        loader = Loader(options, engine, spool, lambda: writer, report, states.append)
        with closing(loader):
            error = None
            try:
                for event in events:
                    loader.process_event(event)
                    loader.poll()
            except SchemaChangeError as change_error:
                error = change_error
            try:
                loader.finish(whole=error is None)
            except SchemaChangeError as change_error:
                error = change_error
    return states, report, error


@pytest.mark.parametrize("policy", [OnSchemaChange.FAIL, OnSchemaChange.WIDEN])
def test_rows_and_states_before_a_refused_schema_are_committed(
    tmp_path: Path, policy: OnSchemaChange
) -> None:
    tables = TypedTables()
    states, report, error = load(
        tmp_path,
        tables,
        policy,
        *(schema_event(A, id=INT), schema_event(B, id=INT)),
        *(rows(A, {"id": 1}), rows(B, {"id": 1}), Checkpoint(b"1")),
        *(schema_event(A, id=TEXT), rows(A, {"id": "2"}), rows(B, {"id": 2}), Checkpoint(b"2")),
    )
    assert error is not None
    assert error.refused == (("id", "string", "bigint"),)
    assert states == [b"1"]
    assert len(tables.rows["a"]) == 1
    assert len(tables.rows["b"]) == 2
    assert report.streams()["a"].changes == [
        {"column": "id", "type": "string", "kind": "refuse", "beside": None, "old": "bigint"}
    ]


@pytest.mark.parametrize("flush_rows", [1, 100])
def test_rows_of_other_streams_are_committed_after_a_refused_schema(
    tmp_path: Path, flush_rows: int
) -> None:
    tables = TypedTables(types={"a": {"id": "bigint"}})
    states, _, error = load(
        tmp_path,
        tables,
        OnSchemaChange.FAIL,
        *(schema_event(B, id=INT), *(rows(B, {"id": number}) for number in range(20))),
        *(Checkpoint(b"1"), schema_event(A, id=TEXT), rows(A, {"id": "1"}), rows(A, {"id": "2"})),
        Checkpoint(b"2"),
        flush_rows=flush_rows,
    )
    assert error is not None
    assert states == [b"1"]
    assert len(tables.rows["b"]) == 20
    assert "a" not in tables.rows


@pytest.mark.parametrize("policy", OnSchemaChange)
def test_columns_of_a_new_table_do_not_depend_on_batch_boundaries(
    tmp_path: Path, policy: OnSchemaChange
) -> None:
    """The first schema with rows creates the table; one without rows does not count."""
    tables = TypedTables()
    states, _report, error = load(
        tmp_path,
        tables,
        policy,
        *(schema_event(A, other=TEXT), schema_event(A, id=INT), rows(A, {"id": 1})),
        *(schema_event(A, id=INT, more=TEXT), rows(A, {"id": 2, "more": "x"}), Checkpoint(b"1")),
    )
    evolves = policy is OnSchemaChange.EVOLVE
    grows = evolves or policy is OnSchemaChange.WIDEN
    expected = {**({"other": "string"} if evolves else {}), "id": "bigint"}
    assert tables.types["a"] == {**expected, **({"more": "string"} if grows else {})}
    assert (error is not None) == (policy is OnSchemaChange.FAIL)
    assert states == ([] if error else [b"1"])


def test_alternating_schemas_do_not_split_batches(tmp_path: Path) -> None:
    tables = TypedTables()
    narrow, wide = schema_event(A, id=INT), schema_event(A, id=INT, more=TEXT)
    events = [event for _ in range(5) for event in (narrow, rows(A, {"id": 1}), wide)]
    states, report, error = load(tmp_path, tables, OnSchemaChange.WIDEN, *events, Checkpoint(b"1"))
    assert error is None
    assert states == [b"1"]
    assert report.streams()["a"].commits == 2
