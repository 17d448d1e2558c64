"""Small batches committed by deltalake: the tables, metadata and states that Spark would make."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from target_spark.columns import ColumnOptions, schema_from_json_schema
from target_spark.config import settings
from target_spark.config.options import WriteMode
from target_spark.errors import DiskFullError
from target_spark.frames.arrow_conversion import ArrowConverter, arrow_schema
from target_spark.loader import batch_commit
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.table import Table, TableLayout
from target_spark.writers.delta import writer as delta_writer
from target_spark.writers.delta.small_batches import SmallBatch
from target_spark.writers.delta.writer import DeltaWriter
from tests.extract.sample_taps import KINDS, KINDS_SCHEMA
from tests.target.cli.test_target_cli import environment, run
from tests.target.loader.table_counts import count_rows
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
from tests.target.writers.sample_rows import KEYS, marker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

PROPERTIES = {**ID_AND_NAME, "Odd `näme`.x": {"type": ["null", "integer"]}}
KINDS_AS_JSON = json.loads(json.dumps(KINDS, default=float))
DELETION = {"_sdc_deleted_at": "2024-05-01T00:00:00Z"}


def load_without_java(tmp_path: Path, *messages: dict[str, Any], **config: Any) -> dict[str, Any]:
    """Load messages in a process that has no Java; return its report, with its log as `log`."""
    report = tmp_path / "report.json"
    process = run(
        tmp_path,
        b"".join(json.dumps(message).encode() + b"\n" for message in messages),
        env=environment(JAVA_HOME=str(tmp_path / "no-java")),
        format="delta",
        small_batches="delta-rs",
        report=str(report),
        **config,
    )
    assert process.returncode == 0, process.stderr.decode()
    return {**json.loads(report.read_bytes()), "log": process.stderr.decode()}


def test_small_load_needs_no_java(tmp_path: Path) -> None:
    """Appends, upserts, overwrites, new columns and versions are committed without a JVM."""
    messages = [
        schema("keyed", PROPERTIES, "id"),
        *(record("keyed", id=number % 3, name=str(number)) for number in range(5)),
        schema("plain", ID),
        record("plain", id=1),
        schema("versioned", ID, "id"),
        versioned("versioned", 7, id=1),
        activate("versioned", 7),
        state(1),
    ]
    load_without_java(tmp_path, *messages)
    report = load_without_java(
        tmp_path,
        schema("keyed", {**PROPERTIES, "extra": {"type": "integer", "description": "More."}}, "id"),
        record("keyed", id=1, name="new", extra=5),
        schema("plain", ID),
        record("plain", id=2),
        schema("versioned", ID, "id"),
        versioned("versioned", 8, id=2),
        activate("versioned", 8),
        state(2),
        streams={"plain": {"write_mode": "overwrite"}, "versioned": {"hard_delete": True}},
    )
    assert report["complete"]
    assert "application" not in report
    assert report["streams"]["keyed"]["updated"] == 1
    assert report["streams"]["keyed"]["changes"][0]["column"] == "extra"
    assert "Stream keyed: new column extra (bigint)" in report["log"]
    counts = count_rows(tmp_path / "tables")
    assert counts == {"keyed": 3, "plain": 1, "versioned": 1}


@pytest.mark.thorough
def test_second_job_on_the_tables_is_rejected_without_java(tmp_path: Path) -> None:
    load_without_java(tmp_path, schema("a", ID), record("a", id=1))
    process = run(
        tmp_path,
        json.dumps(schema("a", ID)).encode() + b"\n" + json.dumps(record("a", id=1)).encode(),
        env=environment(JAVA_HOME=str(tmp_path / "no-java")),
        format="delta",
        small_batches="delta-rs",
        job="another",
    )
    assert process.returncode == 1
    assert b"is loaded by job" in process.stderr


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"format": "iceberg"}, "delta-rs writes Delta tables only"),
        ({"spark": {"spark.databricks.delta.x": 1}}, "does not read spark.databricks.delta.x"),
    ],
)
def test_setting_that_delta_rs_ignores_is_rejected(config: dict[str, Any], message: str) -> None:
    faults = settings.find_faults({"path": "tables", "small_batches": "delta-rs", **config})
    assert len(faults) == 1
    assert message in faults[0]


@pytest.mark.parametrize("mode", [WriteMode.UPSERT, WriteMode.OVERWRITE, WriteMode.APPEND])
@pytest.mark.parametrize(
    "key", [{"type": "object", "properties": ID}, {"type": "array", "items": ID["id"]}]
)
def test_rows_with_nested_keys_are_compared_by_spark(
    tmp_path: Path, mode: WriteMode, key: dict[str, Any]
) -> None:
    table_schema = schema_from_json_schema({"properties": {"k": key}}, ["k"], ColumnOptions())
    table, writer = Table(str(tmp_path / "t"), "t"), DeltaWriter(avoids_spark=True)
    no_spark: Any = None
    writer.create(no_spark, table, table_schema, TableLayout())
    batch = SmallBatch.of(arrow_schema(table_schema).empty_table(), table_schema)
    accepted = writer.takes_small_batch(no_spark, table, batch, mode)
    assert accepted == (mode is WriteMode.APPEND)


@pytest.mark.parametrize(
    ("price", "is_exact"),
    [
        ("0.10", True),
        ("1234567890123.45", True),
        ("-1e30", True),
        ("12345678901234567.89", False),
        ("9007199254740993", False),
    ],
)
@pytest.mark.parametrize("long_price_in", ["batch", "table"])
@pytest.mark.parametrize("nested", [False, True])
def test_decimals_with_rounded_bounds_are_rewritten_by_spark(
    tmp_path: Path, price: str, is_exact: bool, long_price_in: str, nested: bool
) -> None:
    """Deltalake writes bounds as doubles; Spark skips files by them."""
    money: dict[str, Any] = {"type": "number", "multipleOf": 0.01}
    properties = {**ID, "x": {"type": "object", "properties": {"y": money}} if nested else money}
    table_schema = schema_from_json_schema({"properties": properties}, ["id"], ColumnOptions())
    table, writer = Table(str(tmp_path / "t"), "t"), DeltaWriter(avoids_spark=True)
    no_spark: Any = None
    writer.create(no_spark, table, table_schema, TableLayout())
    batches = {}
    for name, value in (("long", price), ("short", "1.50")):
        row = f'{{"id":1,"x":{{"y":{value}}}}}' if nested else f'{{"id":1,"x":{value}}}'
        rows = pa.Table.from_batches([ArrowConverter(table_schema).batch([row.encode()])])
        rows = rows.append_column(KEYS.order, pa.array([0]))
        batches[name] = SmallBatch.of(rows, table_schema)
    first, second = ("short", "long") if long_price_in == "batch" else ("long", "short")
    writer.write_small_batch(no_spark, table, batches[first], WriteMode.APPEND, KEYS, marker(1))
    accepted = writer.takes_small_batch(no_spark, table, batches[second], WriteMode.UPSERT)
    assert accepted == is_exact
    assert writer.takes_small_batch(no_spark, table, batches[second], WriteMode.APPEND)
    if accepted:
        writer.write_small_batch(
            no_spark, table, batches[second], WriteMode.UPSERT, KEYS, marker(2)
        )
        assert DeltaTable(tmp_path / "t").to_pyarrow_table().num_rows == 1


# Written by Spark and by deltalake


@pytest.fixture
def warehouses(spark_session: Session, spark: SparkSession, tmp_path: Path) -> list[Warehouse]:
    """One warehouse that Spark writes, and one that deltalake writes."""
    return [
        Warehouse(spark_session, spark, tmp_path / kind / "tables", small_batches=kind)
        for kind in ("spark", "delta-rs")
    ]


@pytest.fixture
def delta_rs_warehouse(warehouses: list[Warehouse]) -> Warehouse:
    return warehouses[1]


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every read of spooled rows by Spark fail."""

    def fail(*_: object) -> None:
        raise AssertionError("Spark was used.")

    monkeypatch.setattr(batch_commit, "SpoolFrame", fail)


RUN_TIME_COLUMNS = (
    *("_sdc_received_at", "_sdc_batched_at", "_sdc_extracted_at", "_sdc_deleted_at"),
    *("_sdc_sync_started_at", "_sdc_sequence"),
)


def read_table(warehouse: Warehouse, table: str) -> dict[str, Any]:
    """Return everything about a table that does not depend on the time of the run."""
    frame = warehouse.read(table)
    rows = [row.asDict() for row in frame.collect()]
    for row in rows:
        for name in RUN_TIME_COLUMNS:
            row[name] = row.get(name) is not None
    marker = warehouse.marker(table)
    assert marker is not None
    properties = warehouse.spark.sql(
        f"SHOW TBLPROPERTIES delta.`{to_spark_uri(f'{warehouse.folder}/{table}')}`"
    ).collect()
    return {
        "schema": frame.schema.json(),
        "rows": sorted(map(repr, rows)),
        "properties": {row.key: row.value for row in properties},
        "marker": replace(marker, run="", run_started=0),
    }


LOADS: dict[str, list[tuple[list[dict[str, Any]], dict[str, Any]]]] = {
    "append": [
        ([schema("a", KINDS_SCHEMA["properties"]), record("a", **KINDS_AS_JSON), state(1)], {}),
        ([schema("a", KINDS_SCHEMA["properties"]), record("a", id=2), state(2)], {}),
    ],
    "upsert": [
        (
            [
                schema("a", PROPERTIES, "id"),
                *(record("a", id=n % 4, name=f"{n}", **{"Odd `näme`.x": n}) for n in range(9)),
                state(1),
            ],
            {},
        ),
        (
            [
                schema("a", {**PROPERTIES, "o": {"type": "object", "properties": ID}}, "id"),
                record("a", id=1, name=None),
                record("a", id=9, name="nine", o={"id": 3}),
                record("a", id=2, **DELETION),
                record("a", id=77, **DELETION),
                state(2),
            ],
            {"add_record_metadata": True},
        ),
        (
            [
                schema("a", PROPERTIES, "id"),
                record("a", id=0, **DELETION),
                record("a", id=5),
                state(3),
            ],
            {"add_record_metadata": True, "hard_delete": True},
        ),
        (  # a batch that changes no row
            [schema("a", PROPERTIES, "id"), record("a", id=404, **DELETION), state(4)],
            {"hard_delete": True},
        ),
    ],
    "overwrite": [
        ([schema("a", ID_AND_NAME, "id"), record("a", id=1), record("a", id=2), state(1)], {}),
        (
            [
                schema("a", ID_AND_NAME, "id"),
                record("a", id=5, name="x"),
                record("a", id=5, name="y"),
                state(2),
            ],
            {},
        ),
        ([schema("a", ID_AND_NAME, "id"), state(3)], {}),
    ],
    "versions": [
        ([schema("a", ID, "id"), versioned("a", 1, id=1), activate("a", 1), state(1)], {}),
        ([schema("a", ID, "id"), versioned("a", 2, id=2), activate("a", 2), state(2)], {}),
        (
            [schema("a", ID, "id"), versioned("a", 3, id=3), activate("a", 3), state(3)],
            {"hard_delete": True},
        ),
    ],
    "scd2": [
        ([schema("a", ID_AND_NAME, "id"), record("a", id=1, name="x"), state(1)], {}),
        ([schema("a", ID_AND_NAME, "id"), record("a", id=1, name="y"), state(2)], {}),
    ],
    "quarantine": [
        ([schema("a", ID), record("a", id=1), record("a", id="no"), state(1)], {}),
        ([schema("a", ID), record("a", id=2), state(2)], {}),
    ],
}


FAST_CASES = {"append"}
"""The loads that `make test` compares; the others take several times as long."""


@pytest.mark.spark
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[] if case in FAST_CASES else pytest.mark.thorough)
        for case in LOADS
    ],
)
def test_tables_metadata_and_states_equal_those_of_spark(
    warehouses: list[Warehouse], case: str
) -> None:
    mode = {"write_mode": case} if case in {"append", "overwrite", "scd2"} else {}
    for messages, config in LOADS[case]:
        states, reports = [], []
        for warehouse in warehouses:
            states.append(warehouse.load(*messages, **mode, **config))
            counts = dict(warehouse.counts("a"))
            # Spark chooses the number of files.
            for name in ("seconds", "table_bytes", "place", "files"):
                counts.pop(name)
            if counts["quarantine"]:
                counts["quarantine"] = counts["quarantine"]["reasons"]
            reports.append(counts)
        assert states[0] == states[1]
        assert reports[0] == reports[1]
        if case != "scd2":  # its columns have times of the run
            assert read_table(warehouses[0], "a") == read_table(warehouses[1], "a")
        if case == "quarantine":
            assert (
                read_table(warehouses[0], "a__quarantine")["schema"]
                == (read_table(warehouses[1], "a__quarantine")["schema"])
            )


@pytest.mark.spark
def test_large_batch_in_the_middle_of_a_run_is_written_by_spark(
    delta_rs_warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A run begins with small batches, and no row or state is lost when a large one follows."""
    monkeypatch.setattr(batch_commit, "_SMALL_ROWS", 3)
    caplog.set_level("INFO", batch_commit.__name__)
    as_text = {"id": {"type": "integer"}, "name": {"type": "integer"}}
    states = delta_rs_warehouse.load(
        schema("a", ID_AND_NAME, "id"),
        *(record("a", id=number, name="small") for number in range(2)),
        state(1),
        schema("a", as_text, "id"),  # ends the batch
        *(record("a", id=number, name=number) for number in range(1, 6)),
        state(2),
        *(record("a", id=number, name=number) for number in range(5, 8)),
        state(3),
        flush_rows=5,
    )
    assert states[-1] == 3
    assert [row[0] for row in delta_rs_warehouse.rows("a", "id")] == list(range(8))
    assert [text for text in caplog.messages if "is large" in text]
    marker = delta_rs_warehouse.marker("a")
    assert marker is not None
    assert json.loads(marker.state or "") == {"at": 3}


@pytest.mark.every_nth_case(4)
@pytest.mark.spark
@pytest.mark.parametrize(
    "change",
    [
        "SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)",
        "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = true)",
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ADD CONSTRAINT positive CHECK (id >= 0)",
    ],
)
def test_table_with_a_feature_that_deltalake_lacks_is_written_by_spark(
    delta_rs_warehouse: Warehouse, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    schema_message = schema("a", ID_AND_NAME, "id")
    delta_rs_warehouse.load(schema_message, record("a", id=1, name="old"), state(1))
    ref = f"delta.`{to_spark_uri(f'{delta_rs_warehouse.folder}/a')}`"
    delta_rs_warehouse.spark.sql(f"ALTER TABLE {ref} {change}")
    caplog.set_level("INFO", batch_commit.__name__)
    loader, spool = delta_rs_warehouse.open()  # the tests' own count cannot read deletion vectors
    with closing(spool), closing(loader):
        feed(loader, schema_message, record("a", id=1, name="new"), state(2))
        loader.finish(whole=True)
    assert delta_rs_warehouse.states == [2]
    assert delta_rs_warehouse.rows("a", "id", "name") == [(1, "new")]
    assert any("needs Spark" in text for text in caplog.messages)


@pytest.mark.spark
def test_row_that_does_not_fit_is_quarantined_by_spark(
    delta_rs_warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", batch_commit.__name__)
    secret = "not-a-number-but-private"
    states = delta_rs_warehouse.load(
        schema("a", ID), record("a", id=1), record("a", id=secret), record("a", id="3"), state(1)
    )
    assert states == [1]
    assert delta_rs_warehouse.rows("a", "id") == [(1,), (3,)]
    assert delta_rs_warehouse.counts("a")["quarantined"] == 1
    messages = [text for text in caplog.messages if "committed by Spark" in text]
    assert messages
    assert secret not in messages[0]


@pytest.mark.spark
@pytest.mark.usefixtures("no_spark")
def test_spark_and_delta_rs_commit_to_one_table_at_once(
    delta_rs_warehouse: Warehouse, spark_session: Session
) -> None:
    """Rows of another writer that commits by Spark are kept, and no key is in the table twice."""
    schema_message = schema("a", ID_AND_NAME, "id")
    delta_rs_warehouse.load(schema_message, record("a", id=-1, name="first"))
    path = to_spark_uri(f"{delta_rs_warehouse.folder}/a")
    inserted_ids: list[int] = []
    has_ended = threading.Event()

    def insert_until_the_end() -> None:
        other = spark_session.spark().newSession()
        while not has_ended.is_set() or not inserted_ids:
            number = -100 - len(inserted_ids)
            rows = other.sql(f"SELECT {number}L AS id, 'theirs' AS name")
            rows.write.format("delta").mode("append").save(path)
            inserted_ids.append(number)

    thread = threading.Thread(target=insert_until_the_end)
    thread.start()
    try:
        for number in range(3):
            keys = [record("a", id=key, name=f"{number}") for key in range(40)]
            loader, spool = delta_rs_warehouse.open(flush_rows=5)
            with closing(spool), closing(loader):
                feed(loader, schema_message, *keys, state(number))
                loader.finish(whole=True)
            assert delta_rs_warehouse.states[-1] == number
    finally:
        has_ended.set()
        thread.join()
    rows = delta_rs_warehouse.rows("a", "id", "name")
    expected = {
        -1: "first",
        **dict.fromkeys(inserted_ids, "theirs"),
        **dict.fromkeys(range(40), "2"),
    }
    assert len(rows) == len(expected)
    assert dict(rows) == expected


@pytest.fixture(params=["merge_rows", "commit_files"])
def failing_commit(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Let the first commit of a kind succeed, and report an error to the writer."""
    real_commit, lost_responses = getattr(delta_writer, request.param), []

    def commit(*args: Any, **kwargs: Any) -> bool:
        is_committed: bool = real_commit(*args, **kwargs)
        if not lost_responses:
            lost_responses.append(request.param)
            raise DeltaError("The response was lost: Input/output error (os error 5)")
        return is_committed

    monkeypatch.setattr(delta_writer, request.param, commit)
    yield request.param
    assert lost_responses


@pytest.mark.spark
@pytest.mark.usefixtures("no_spark")
def test_commit_whose_response_was_lost_is_not_repeated(
    delta_rs_warehouse: Warehouse, failing_commit: str
) -> None:
    schema_message = schema("a", ID_AND_NAME, "id")
    mode = "upsert" if failing_commit == "merge_rows" else "append"
    for number in range(3):
        new, shared = record("a", id=number), record("a", id=7)
        assert delta_rs_warehouse.load(
            schema_message, new, shared, state(number), write_mode=mode
        ) == [number]
    assert len(delta_rs_warehouse.rows("a", "id")) == (4 if mode == "upsert" else 6)


@pytest.mark.spark
@pytest.mark.usefixtures("no_spark")
def test_disk_that_is_full_after_a_commit_leaves_the_commit_unconfirmed(
    delta_rs_warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is full when deltalake writes the checkpoint that follows the commit."""
    commit_files = delta_writer.commit_files

    def commit_and_fail(*args: Any, **kwargs: Any) -> bool:
        commit_files(*args, **kwargs)
        raise DeltaError("Unable to copy data to file: No space left on device (os error 28)")

    monkeypatch.setattr(delta_writer, "commit_files", commit_and_fail)
    with pytest.raises(DiskFullError, match=r"table a \(.*commit of this batch is not confirmed"):
        delta_rs_warehouse.load(schema("a", ID_AND_NAME), record("a", id=1), state(1))
    assert delta_rs_warehouse.states == []
    assert delta_rs_warehouse.rows("a", "id") == [(1,)]


@pytest.mark.every_nth_case(2)
@pytest.mark.spark
@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("schema_of_key", "values"),
    [
        ({"type": "string"}, ["", "a", "A", "ä", "a" * 200, "a" * 199 + "b", "'", '"', "\\", "`"]),
        (
            {"type": "string", "format": "date-time"},
            [f"2024-01-01T00:00:00.0000{n:02}Z" for n in range(10)],
        ),
        ({"type": "string", "format": "date"}, ["0001-01-01", "1969-12-31", "9999-12-31"]),
        ({"type": "number", "multipleOf": 1e-9}, [0.000000001, 1, -1, 1e20]),
        ({"type": "boolean"}, [True, False]),
        ({"type": "integer"}, [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1]),
    ],
)
def test_keys_of_every_type_are_matched_exactly(
    delta_rs_warehouse: Warehouse, schema_of_key: dict[str, Any], values: list[Any]
) -> None:
    schema_message = schema("a", {"k": schema_of_key, "n": {"type": "integer"}}, "k")
    for number in range(3):
        selected = values[number % 2 :: 2] if number else values
        delta_rs_warehouse.load(
            schema_message, *(record("a", k=value, n=number) for value in selected)
        )
    rows = delta_rs_warehouse.rows("a", "k", "n")
    assert len(rows) == len(values)
    assert sorted(n for _, n in rows) == sorted(
        [1] * (len(values) // 2) + [2] * -(-len(values) // 2)
    )
