"""Airbyte's streams in tables: newest row by cursor, deletions, nested keys and generations."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.events import ActivateVersion, Checkpoint, Event, Rows, SchemaEvent, StreamId
from target_spark.columns import OnSchemaChange
from target_spark.config import settings
from target_spark.config.options import LoadOptions, RunInfo, StreamOptions, WriteMode
from target_spark.errors import QuarantineError, UnsupportedError
from target_spark.loader.batch_commit import BatchWriter
from target_spark.loader.loader import Loader
from target_spark.loader.report import Report
from target_spark.storage.spool import SpoolFolder
from tests.target.warehouse import SharedEngine, Warehouse, make_warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = pytest.mark.spark

S = StreamId("s")
ID = {"type": "integer"}
TEXT = {"type": ["null", "string"]}
TIME = {"type": ["null", "string"], "format": "date-time"}
FORMATS = ["delta", "delta-rs", "iceberg"]


def schema_event(
    keys: tuple[str, ...] = ("id",), cursor: str | None = "at", **fields: Any
) -> SchemaEvent:
    """Return the schema event of a stream with a key, a cursor and a value."""
    nested = fields.pop("nested", {})
    properties = {"id": ID, "at": TIME, "x": TEXT, **fields}
    return SchemaEvent(S, {"type": "object", "properties": properties}, keys, cursor, nested)


def rows(*records: dict[str, Any], **fields: Any) -> Rows:
    return Rows(S, [json.dumps(record).encode() for record in records], **fields)


def row(number: Any, cursor: Any, x: Any, **fields: Any) -> dict[str, Any]:
    return {"id": number, "at": cursor, "x": x, **fields}


def day(number: int) -> str:
    return f"2024-01-{number:02}T00:00:00Z"


@dataclass
class AirbyteWarehouse:
    """A warehouse that is loaded with the options of an Airbyte destination."""

    tables: Warehouse

    def options(self, columns: dict[str, Any], batch: int, **stream_options: Any) -> LoadOptions:
        load_options = settings.load_options(
            {
                "path": str(self.tables.folder),
                "format": self.tables.format,
                "small_batches": self.tables.small_batches,
            }
        )
        every = {"hard_delete": True, "by_cursor": True, **stream_options}
        return replace(
            load_options,
            flush_rows=batch,
            every=StreamOptions(**every),
            columns=replace(load_options.columns, airbyte=True, **columns),
        )

    def load(
        self,
        *events: Event,
        columns: dict[str, Any] | None = None,
        batch: int = 1000,
        **stream_options: Any,
    ) -> Report:
        """Load events to their end, in batches of ``batch`` rows."""
        self.tables.runs += 1
        engine, report = SharedEngine(self.tables.session), Report()
        options = self.options(columns or {}, batch, **stream_options)
        run = RunInfo("job", f"run{self.tables.runs}", self.tables.runs)
        with closing(SpoolFolder(self.tables.folder.parent / "spool")) as spool:
            commits = partial(BatchWriter, engine, options, run, spool)
            loader = Loader(options, engine, spool, commits, report, lambda _state: None)
            with closing(loader):
                for event in events:
                    loader.process_event(event)
                loader.process_event(Checkpoint(b"{}"))
                loader.finish(whole=True)
        self.tables.report = report
        return report

    def x(self) -> dict[Any, Any]:
        """Return the value of column x by key."""
        return dict(self.tables.rows("s", "id", "x"))


@pytest.fixture(params=FORMATS)
def warehouse(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> AirbyteWarehouse:
    return AirbyteWarehouse(make_warehouse(request.param, spark_session, spark, tmp_path))


# ------------------------------------------------------------- the newest by cursor


def test_row_with_the_greatest_cursor_is_kept_in_any_order(warehouse: AirbyteWarehouse):
    """D3: the newest row of a key is that of the greatest cursor.

    That holds in a batch, in a later batch and in a later sync; of equal cursors, and of rows
    without a cursor, the last row is the newest.
    """
    warehouse.load(
        schema_event(),
        rows(
            *(row(1, day(2), "new"), row(1, day(1), "old")),
            *(row(2, day(1), "first"), row(2, "2024-01-01T01:00:00+01:00", "same instant")),
            *(row(3, day(1), "known"), row(3, None, "unknown")),
            *(row(4, None, "first"), row(4, None, "last")),
            *(row(5, "2024-01-01T23:00:00-05:00", "later"), row(5, day(2), "earlier")),
        ),
    )
    assert warehouse.x() == {1: "new", 2: "same instant", 3: "known", 4: "last", 5: "later"}
    warehouse.load(
        schema_event(),
        rows(row(1, day(1), "old"), row(2, day(1), "again"), row(3, None, "unknown")),
        rows(row(4, None, "again"), row(5, day(9), "newer"), row(6, day(1), "other")),
    )
    second = {1: "new", 2: "again", 3: "known", 4: "again", 5: "newer", 6: "other"}
    assert warehouse.x() == second


@pytest.mark.thorough
def test_cursors_are_compared_across_batches_of_one_sync(warehouse: AirbyteWarehouse):
    warehouse.load(
        schema_event(),
        rows(row(1, day(2), "new"), row(2, day(1), "old")),
        rows(row(1, day(1), "old"), row(2, day(2), "new")),
        batch=2,
    )
    assert warehouse.x() == {1: "new", 2: "new"}
    warehouse.load(schema_event(), rows(row(1, day(1), "old")), by_cursor=False)
    assert warehouse.x() == {1: "old", 2: "new"}


@pytest.mark.parametrize(
    ("schema", "low", "high"),
    [
        ({"type": "integer"}, 9, 10),
        ({"type": "number"}, 9.5, 1e2),
        ({"type": "string"}, "10", "9"),
        ({"type": "string", "format": "date"}, "0999-12-31", "2024-01-01"),
    ],
)
@pytest.mark.thorough
def test_cursors_are_compared_by_their_type(
    warehouse: AirbyteWarehouse, schema: Any, low: Any, high: Any
):
    stream = schema_event(at=schema)
    warehouse.load(stream, rows(row(1, high, "high"), row(1, low, "low"), row(2, low, "low")))
    warehouse.load(stream, rows(row(1, low, "low"), row(2, high, "high")))
    assert warehouse.x() == {1: "high", 2: "high"}


@pytest.mark.thorough
def test_cursor_without_a_column_falls_back_to_arrival_order(warehouse: AirbyteWarehouse):
    report = warehouse.load(
        schema_event(cursor="gone"), rows(row(1, day(2), "a"), row(1, day(1), "b"))
    )
    assert warehouse.x() == {1: "b"}
    (note,) = report.as_dict()["streams"]["s"]["notes"]
    assert "no column for its cursor gone" in note


@pytest.mark.thorough
def test_row_with_a_cdc_deletion_time_deletes_its_key(warehouse: AirbyteWarehouse):
    """Change data capture: the table's row with the same key is deleted, unless it is newer."""
    stream = schema_event(_ab_cdc_deleted_at=TEXT)
    deleted = {"_ab_cdc_deleted_at": day(3)}
    undeleted = {"_ab_cdc_deleted_at": None}
    warehouse.load(
        stream,
        rows(
            row(1, day(1), "a"),
            *(row(2, day(1), "a"), row(2, day(2), "gone", **deleted)),
            *(row(3, day(3), "back", **undeleted), row(3, day(2), "gone", **deleted)),
            row(4, day(5), "a"),
            row(5, day(1), "never", **deleted),
        ),
    )
    assert warehouse.x() == {1: "a", 3: "back", 4: "a"}
    warehouse.load(
        stream,
        rows(
            row(1, day(2), "gone", **deleted),
            row(4, day(2), "late", **deleted),
            row(6, day(2), "never", **deleted),
        ),
    )
    assert warehouse.x() == {3: "back", 4: "a"}
    warehouse.load(stream, rows(row(1, day(1), "a", **deleted)), write_mode=WriteMode.APPEND)
    assert warehouse.tables.rows("s", "id", "_ab_cdc_deleted_at")[0] == (1, day(3))


@pytest.mark.thorough
def test_delete_record_does_not_delete_a_newer_row(warehouse: AirbyteWarehouse):
    stream = schema_event(_sdc_deleted_at=TIME)
    mark = {"_sdc_deleted_at": day(9)}
    warehouse.load(
        stream,
        rows(row(1, day(2), "a"), {"id": 1, "at": day(1), **mark}, row(2, day(2), "a")),
        hard_delete=False,
    )
    warehouse.load(
        stream,
        rows({"id": 2, "at": day(1), **mark}, {"id": 1, "at": day(3), **mark}),
        hard_delete=False,
    )
    stored = warehouse.tables.read("s").selectExpr("id", "x", "_sdc_deleted_at IS NOT NULL AS gone")
    assert sorted(map(tuple, stored.collect())) == [(1, "a", True), (2, "a", False)]


# --------------------------------------------------------------- keys inside a property


@pytest.mark.thorough
def test_nested_keys_and_cursors_decide_the_newest_row(warehouse: AirbyteWarehouse):
    """Configured catalogs name keys and cursors by paths of any depth."""
    inner = {"type": "object", "properties": {"id": ID, "at": TIME}}
    paths = {"m.id": ("m", "id"), "m.at": ("m", "at")}
    stream = schema_event(("m.id", "id"), "m.at", m=inner, nested=paths)

    def of(key: int, cursor: str, x: str) -> dict[str, Any]:
        return {"id": 1, "m": {"id": key, "at": cursor}, "x": x}

    warehouse.load(stream, rows(of(1, day(2), "new"), of(1, day(1), "old"), of(2, day(1), "a")))
    warehouse.load(stream, rows(of(1, day(1), "old"), of(2, day(3), "b"), {"id": 1, "m": {}}))
    stored = warehouse.tables.read("s").selectExpr("m_id", "m.id AS inner", "x")
    assert sorted(map(tuple, stored.collect())) == [(1, 1, "new"), (2, 2, "b")]
    assert warehouse.tables.counts("s")["quarantined"] == 1


def test_nested_key_inside_a_list_is_rejected_naming_the_stream(warehouse: AirbyteWarehouse):
    inner = {"type": "array", "items": {"type": "object", "properties": {"id": ID}}}
    with pytest.raises(UnsupportedError, match=r"Stream s: m\.id cannot be a key.*not an object"):
        warehouse.load(schema_event(("m.id",), m=inner, nested={"m.id": ("m", "id")}))


# -------------------------------------------------------------------------- the columns


def test_invalid_value_is_null_and_recorded_in_the_meta_column(warehouse: AirbyteWarehouse):
    """D6: a type mismatch costs the value, not the row; the report counts such rows."""
    meta = [b'{"changes":[]}', None, None]
    report = warehouse.load(
        schema_event(),
        rows(row(1, day(1), "a"), row(2, "noon", "b"), {"at": day(1)}, meta=meta, version=7),
        sync_id=3,
    )
    stored = warehouse.tables.rows("s", "id", "at", "_airbyte_meta", "_airbyte_generation_id")
    change = '{"field":"at","change":"NULLED","reason":"DESTINATION_TYPECAST_ERROR"}'
    assert [stored_row[2] for stored_row in stored] == [
        '{"sync_id":3,"changes":[]}',
        f'{{"sync_id":3,"changes":[{change}]}}',
    ]
    assert stored[1][1] is None
    assert {stored_row[3] for stored_row in stored} == {7}
    counts = report.as_dict()["streams"]["s"]
    assert (counts["written"], counts["nulled"], counts["quarantined"]) == (2, 1, 1)
    assert len({stored_row[0] for stored_row in warehouse.tables.rows("s", "_airbyte_raw_id")}) == 2
    with pytest.raises(QuarantineError, match="none of its rows could be written"):
        warehouse.load(
            schema_event(), rows(row(2, "noon", "c")), columns={"quarantines_invalid_rows": True}
        )
    assert warehouse.tables.counts("s")["quarantined"] == 1


@pytest.mark.thorough
def test_append_accepts_rows_without_keys(warehouse: AirbyteWarehouse):
    """D1: append adds every row, duplicates and those without a key."""
    warehouse.load(
        schema_event(),
        rows(row(1, day(1), "a"), row(1, day(1), "a"), {"x": "b"}, row("x", day(1), "c")),
        write_mode=WriteMode.APPEND,
    )
    assert warehouse.tables.rows("s", "id", "x") == [(1, "a"), (1, "a"), (None, "b"), (None, "c")]


@pytest.mark.thorough
def test_refresh_deletes_older_generations_and_ignores_their_cursors(warehouse: AirbyteWarehouse):
    """A refresh sends all rows again; rows of the generation before are deleted."""
    old, new = partial(rows, version=1), partial(rows, version=2)
    warehouse.load(
        schema_event(), old(row(1, day(9), "old"), row(2, day(9), "old"), row(3, day(1), "old"))
    )
    warehouse.load(
        schema_event(),
        new(row(1, day(1), "new"), row(3, day(2), "new")),
        ActivateVersion(S, 2),
        least_version=2,
    )
    assert warehouse.x() == {1: "new", 3: "new"}
    assert warehouse.tables.rows("s", "_airbyte_generation_id") == [(2,), (2,)]
    assert "_sdc_table_version" not in warehouse.tables.read("s").columns
    warehouse.load(
        schema_event(), new(row(1, day(1), "again")), ActivateVersion(S, 2), least_version=2
    )
    assert warehouse.x() == {1: "again", 3: "new"}


@pytest.mark.parametrize(
    "generation, sync_id, keeps_rows",
    [(5, 7, True), (5, 8, False), (6, 7, False), (5, None, False), (1, 1, False)],
)
def test_second_attempt_without_rows_keeps_those_of_the_first(
    warehouse: AirbyteWarehouse, generation: int, sync_id: int | None, *, keeps_rows: bool
) -> None:
    """A source sends no rows again if its state says that a full refresh is complete.

    PyAirbyte sends the number 1 as generation and id of every sync.
    """
    first = 1 if generation == 1 else 5
    load = partial(warehouse.load, schema_event(()), write_mode=WriteMode.OVERWRITE)
    load(
        rows(row(1, None, "a"), version=first),
        least_version=first,
        sync_id=1 if generation == 1 else 7,
    )
    load(least_version=generation, sync_id=sync_id)
    assert warehouse.x() == ({1: "a"} if keeps_rows else {})
    load(rows(row(2, None, "b"), version=5), least_version=5, sync_id=7)
    assert warehouse.x() == {2: "b"}


@pytest.mark.parametrize("identity", [("id",), ()])
@pytest.mark.parametrize(
    "generation, sync_id, keeps_rows", [(5, 7, True), (5, 8, False), (6, 7, False)]
)
def test_second_attempt_of_a_resumable_stream_keeps_rows_of_the_first(
    warehouse: AirbyteWarehouse,
    generation: int,
    sync_id: int,
    identity: tuple[str, ...],
    *,
    keeps_rows: bool,
) -> None:
    """The source continues after the last state, or sends all rows again if it was held back."""
    load = partial(
        warehouse.load,
        schema_event(()),
        write_mode=WriteMode.OVERWRITE,
        is_resumable=True,
        row_identity=identity,
    )
    load(rows(row(1, None, "a"), version=4), least_version=4, sync_id=6)
    load(rows(row(2, None, "b"), row(3, None, "c"), version=5), least_version=5, sync_id=7)
    assert warehouse.x() == {2: "b", 3: "c"}
    resent = rows(row(3, None, "c"), row(4, None, "d"), version=generation)
    load(resent, least_version=generation, sync_id=sync_id)
    stored = warehouse.tables.rows("s", "id", "x")
    assert stored == ([(2, "b"), (3, "c"), (4, "d")] if keeps_rows else [(3, "c"), (4, "d")])
    if keeps_rows:
        load(rows(row(4, None, "new"), version=5), least_version=5, sync_id=7)
        newest = [(4, "new")] if identity else [(4, "d"), (4, "new")]
        assert warehouse.tables.rows("s", "id", "x") == [(2, "b"), (3, "c"), *newest]


@pytest.mark.thorough
def test_overwrite_keeps_the_newest_row_of_each_key(warehouse: AirbyteWarehouse):
    stream = schema_event(_ab_cdc_deleted_at=TEXT)
    warehouse.load(stream, rows(row(9, day(1), "before")))
    deleted = {"_ab_cdc_deleted_at": day(3)}
    warehouse.load(
        stream,
        rows(
            *(row(1, day(2), "new"), row(1, day(1), "old"), row(2, day(1), "a")),
            row(2, day(2), "gone", **deleted),
        ),
        write_mode=WriteMode.OVERWRITE,
    )
    assert warehouse.x() == {1: "new"}


@pytest.mark.thorough
def test_value_that_does_not_fit_a_kept_column_is_null_with_the_reason(
    warehouse: AirbyteWarehouse,
) -> None:
    warehouse.load(schema_event(n=ID), rows(row(1, day(1), "x", n=1)))
    report = warehouse.load(
        schema_event(n=TEXT, more=TEXT),
        rows(row(2, day(1), "y", n="many", more="left out"), row(3, day(1), "z", n="4")),
        on_schema_change=OnSchemaChange.IGNORE,
    )
    stored = warehouse.tables.rows("s", "id", "n", "_airbyte_meta")
    assert [item[:2] for item in stored] == [(1, 1), (2, None), (3, 4)]
    (change,) = json.loads(stored[1][2])["changes"]
    assert (change["field"], change["change"]) == ("n", "NULLED")
    counts = report.streams()["s"]
    assert [(item["kind"], item["column"]) for item in counts.changes] == [
        ("keep", "n"),
        ("omit", "more"),
    ]
    assert (counts.nulled, counts.quarantined) == (1, 0)
