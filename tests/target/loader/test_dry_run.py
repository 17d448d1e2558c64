"""Dry runs: they report what would happen to each table, and change nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.cli.replay import replay
from target_spark.errors import IncompleteError, QuarantineError, UnsupportedError
from target_spark.writers import get_writer
from tests.target.cli.test_target_cli import run
from tests.target.warehouse import (
    ID,
    ID_AND_NAME,
    Warehouse,
    activate,
    record,
    schema,
    state,
    versioned,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

DAY = {"type": ["null", "string"], "format": "date"}


@pytest.fixture
def make(spark_session: Session, spark: SparkSession, tmp_path: Path) -> Callable[[str], Warehouse]:
    return partial(Warehouse, spark_session, spark, tmp_path / "tables")


@pytest.fixture
def delta(make: Callable[[str], Warehouse]) -> Warehouse:
    return make("delta")


def everything(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def dry_run(warehouse: Warehouse, *messages: dict[str, Any], **config: Any) -> dict[str, Any]:
    """Return the counts of a dry run for stream a, after a check that no file has changed."""
    before = everything(warehouse.folder)
    assert warehouse.load(*messages, dry_run=True, **config) == []
    assert everything(warehouse.folder) == before
    assert not list((warehouse.folder.parent / "spool").iterdir())
    return warehouse.counts("a")


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
def test_dry_run_writes_nothing_and_reports_the_changes(
    make: Callable[[str], Warehouse], format: str, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse = make(format)
    schema_message = schema("a", ID_AND_NAME)
    rows = record("a", id=1, name="x"), record("a", id=2, name="y"), record("a", id="no")
    report = dry_run(warehouse, schema_message, *rows, state(1))
    assert report["notes"] == ["table a would be created: `id` bigint, `name` string"]
    assert (report["received"], report["written"], report["quarantined"]) == (3, 2, 1)
    assert not warehouse.folder.exists()
    assert "rows that would be quarantined in table a__quarantine: 1." in caplog.text
    warehouse.load(schema_message, *rows[:2], state(1))
    extended = schema("a", {**ID_AND_NAME, "on": DAY, "id": {"type": "string"}})
    report = dry_run(
        warehouse, schema_message, *rows[:2], extended, record("a", id="3", on="2024-01-01")
    )
    assert report["written"] == 3
    text = "; ".join(report["notes"])
    assert "new column on (date)" in text
    assert "new column id__string (string), because column id cannot be widened" in text
    assert {change["column"] for change in report["changes"]} == {"on", "id__string"}
    # The run itself makes the reported changes.
    warehouse.load(schema_message, *rows[:2], extended, record("a", id="3", on="2024-01-01"))
    assert {"id", "name", "on", "id__string"} == set(warehouse.read("a").columns)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_dry_upsert_counts_inserted_and_updated_rows(
    make: Callable[[str], Warehouse], format: str
) -> None:
    warehouse = make(format)
    schema_message = schema("a", ID_AND_NAME, "id")
    rows = [record("a", id=n % 5, name=str(n)) for n in range(7)]
    report = dry_run(warehouse, schema_message, *rows)
    assert (report["written"], report["inserted"], report["updated"]) == (7, 5, 0)
    warehouse.load(schema_message, *rows, state(1))
    report = dry_run(
        warehouse, schema_message, record("a", id=4, name="x"), record("a", id=5, name="y")
    )
    assert (report["inserted"], report["updated"]) == (1, 1)


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
def test_dry_overwrite_and_full_refresh_leave_the_table(
    make: Callable[[str], Warehouse], format: str
) -> None:
    warehouse = make(format)
    warehouse.load(schema("a", ID), record("a", id=1), state(1))
    for wish in ({"write_mode": "overwrite"}, {"full_refresh": ["a"]}):
        report = dry_run(warehouse, schema("a", ID), record("a", id=2), state(2), **wish)
        assert report["written"] == 1
    report = dry_run(warehouse, schema("a", ID), state(2), full_refresh=["a"])
    assert report["written"] == 0
    assert warehouse.rows("a") == [(1,)]
    with pytest.raises(IncompleteError):
        dry_run(warehouse, schema("a", ID), record("a", id=2), full_refresh=["a"])


def test_dry_run_counts_rows_of_old_versions_as_deleted(delta: Warehouse) -> None:
    new = schema("a", ID, "id")
    report = dry_run(delta, new, versioned("a", 1, id=1), activate("a", 1), state(1))
    assert report["deleted"] == 0
    delta.load(new, record("a", id=7), state(1))
    report = dry_run(delta, new, versioned("a", 1, id=1), activate("a", 1), state(1))
    assert report["deleted"] == 1
    rows = versioned("a", 1, id=1), versioned("a", 1, id=2)
    delta.load(new, *rows, activate("a", 1), state(1), hard_delete=True)
    for hard in (True, False):
        messages = new, versioned("a", 2, id=1), activate("a", 2), state(2)
        assert dry_run(delta, *messages, hard_delete=hard)["deleted"] == 2


def test_dry_writer_has_the_capabilities_of_its_format() -> None:
    delta, parquet = (get_writer(name, dry=True) for name in ("delta", "parquet"))
    assert (delta.can_widen("int", "bigint"), parquet.can_widen("int", "bigint")) == (True, False)


def test_scd2_has_a_dry_run(delta: Warehouse) -> None:
    schema_message = schema("a", ID_AND_NAME, "id")
    for _ in range(2):
        report = dry_run(delta, schema_message, record("a", id=1, name="x"), write_mode="scd2")
        assert report["written"] == 1
        delta.load(schema_message, record("a", id=1, name="w"), state(1), write_mode="scd2")


def test_dry_run_applies_schema_changes_to_later_batches(delta: Warehouse) -> None:
    report = dry_run(
        delta,
        schema("a", ID),
        record("a", id=1),
        record("a", id=2),
        schema("a", {**ID, "n": {"type": "integer"}}),
        record("a", id=3, n=1),
        flush_rows=1,
    )
    assert report["commits"] == 3
    assert [change["column"] for change in report["changes"]] == ["n"]
    assert len(report["notes"]) == 2


def test_dry_run_fails_if_the_run_would_fail(delta: Warehouse) -> None:
    with pytest.raises(QuarantineError):
        dry_run(delta, schema("a", ID), record("a", id="no"), max_quarantined=0)


def test_dry_run_creates_no_database(delta: Warehouse) -> None:
    delta.load(schema("a", ID), record("a", id=1), state(1))
    config = {"database": "dry_lake"}
    report = dry_run(delta, schema("a", ID_AND_NAME), record("a", id=2), **config)
    assert report["notes"] == ["new column name (string)"]
    assert not delta.spark.catalog.databaseExists("dry_lake")


def test_dry_run_skips_maintenance_and_layout_changes(delta: Warehouse) -> None:
    for number in range(2):
        delta.load(schema("a", ID), record("a", id=number), state(number))
    care = {"compact": True, "retain_days": 7, "partition_by": ["id"]}
    report = dry_run(delta, schema("a", ID_AND_NAME), record("a", id=2), **care)
    assert "neither partitioned nor clustered, which is not changed" in "; ".join(report["notes"])


def test_replay_rejects_dry_run(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="dry_run"):
        replay({"path": str(tmp_path), "dry_run": True}, None, overwrite=False)  # type: ignore[arg-type]


def test_dry_run_of_the_command_creates_no_files_and_emits_no_state(tmp_path: Path) -> None:
    messages = schema("a", ID), record("a", id=1), state(1)
    process = run(
        tmp_path,
        "".join(json.dumps(message) + "\n" for message in messages).encode(),
        dry_run=True,
        report=str(tmp_path / "report.json"),
        streams={"elsewhere": {"write_mode": "append"}},
    )
    errors = process.stderr.decode()
    assert process.returncode == 0, errors
    assert process.stdout == b""
    assert not (tmp_path / "tables").exists()
    assert "dry run: nothing was written" in errors
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["dry_run"] is True
    assert report["complete"] is True
    assert report["states"] == 0
    assert report["streams"]["a"]["written"] == 1
    assert report["remarks"] == ["The settings name a stream elsewhere, which is not in the input"]
    assert report["remarks"][0] in errors
