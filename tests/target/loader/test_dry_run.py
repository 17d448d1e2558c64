"""A dry run: it tells what would become of each table, and leaves everything as it was."""

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


def tried(warehouse: Warehouse, *messages: dict[str, Any], **config: Any) -> dict[str, Any]:
    """Return what a dry run says of stream a, having held every file against it."""
    before = everything(warehouse.folder)
    assert warehouse.load(*messages, dry_run=True, **config) == []
    assert everything(warehouse.folder) == before
    assert not list((warehouse.folder.parent / "spool").iterdir())
    return warehouse.counts("a")


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
def test_nothing_is_written_and_what_would_be_is_reported(
    make: Callable[[str], Warehouse], format: str
) -> None:
    warehouse = make(format)
    described = schema("a", ID_AND_NAME)
    rows = record("a", id=1, name="x"), record("a", id=2, name="y"), record("a", id="no")
    said = tried(warehouse, described, *rows, state(1))
    assert said["notes"] == ["table a would be created: `id` bigint, `name` string"]
    assert (said["received"], said["written"], said["quarantined"]) == (3, 2, 1)
    assert not warehouse.folder.exists()
    warehouse.load(described, *rows[:2], state(1))
    grown = schema("a", {**ID_AND_NAME, "on": DAY, "id": {"type": "string"}})
    said = tried(warehouse, described, *rows[:2], grown, record("a", id="3", on="2024-01-01"))
    assert said["written"] == 3
    told = "; ".join(said["notes"])
    assert "column on is now date" in told
    assert "column id__string is now string, beside id" in told
    assert {change["column"] for change in said["changes"]} == {"on", "id__string"}
    # And the run itself does what was said of it.
    warehouse.load(described, *rows[:2], grown, record("a", id="3", on="2024-01-01"))
    assert {"id", "name", "on", "id__string"} == set(warehouse.read("a").columns)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_an_upsert_tells_new_rows_from_those_that_are_there(
    make: Callable[[str], Warehouse], format: str
) -> None:
    warehouse = make(format)
    described = schema("a", ID_AND_NAME, "id")
    rows = [record("a", id=n % 5, name=str(n)) for n in range(7)]
    said = tried(warehouse, described, *rows)
    assert (said["written"], said["inserted"], said["updated"]) == (7, 5, 0)
    warehouse.load(described, *rows, state(1))
    said = tried(warehouse, described, record("a", id=4, name="x"), record("a", id=5, name="y"))
    assert (said["inserted"], said["updated"]) == (1, 1)


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
def test_an_overwrite_and_a_full_refresh_leave_the_table(
    make: Callable[[str], Warehouse], format: str
) -> None:
    warehouse = make(format)
    warehouse.load(schema("a", ID), record("a", id=1), state(1))
    for wish in ({"write_mode": "overwrite"}, {"full_refresh": ["a"]}):
        said = tried(warehouse, schema("a", ID), record("a", id=2), state(2), **wish)
        assert said["written"] == 1
    said = tried(warehouse, schema("a", ID), state(2), full_refresh=["a"])
    assert said["written"] == 0
    assert warehouse.rows("a") == [(1,)]
    with pytest.raises(IncompleteError):
        tried(warehouse, schema("a", ID), record("a", id=2), full_refresh=["a"])


def test_rows_of_other_versions_that_would_end_are_counted(delta: Warehouse) -> None:
    new = schema("a", ID, "id")
    said = tried(delta, new, versioned("a", 1, id=1), activate("a", 1), state(1))
    assert said["deleted"] == 0
    delta.load(new, record("a", id=7), state(1))
    said = tried(delta, new, versioned("a", 1, id=1), activate("a", 1), state(1))
    assert said["deleted"] == 1
    both = versioned("a", 1, id=1), versioned("a", 1, id=2)
    delta.load(new, *both, activate("a", 1), state(1), hard_delete=True)
    for hard in (True, False):
        again = new, versioned("a", 2, id=1), activate("a", 2), state(2)
        assert tried(delta, *again, hard_delete=hard)["deleted"] == 2


def test_a_dry_writer_can_what_its_format_can() -> None:
    delta, parquet = (get_writer(name, dry=True) for name in ("delta", "parquet"))
    assert (delta.can_widen("int", "bigint"), parquet.can_widen("int", "bigint")) == (True, False)


def test_history_is_rehearsed_too(delta: Warehouse) -> None:
    described = schema("a", ID_AND_NAME, "id")
    for _ in range(2):
        said = tried(delta, described, record("a", id=1, name="x"), write_mode="scd2")
        assert said["written"] == 1
        delta.load(described, record("a", id=1, name="w"), state(1), write_mode="scd2")


def test_the_next_batch_finds_what_the_last_one_would_have_made(delta: Warehouse) -> None:
    said = tried(
        delta,
        schema("a", ID),
        record("a", id=1),
        record("a", id=2),
        schema("a", {**ID, "n": {"type": "integer"}}),
        record("a", id=3, n=1),
        flush_rows=1,
    )
    assert said["commits"] == 3
    assert [change["column"] for change in said["changes"]] == ["n"]
    assert len(said["notes"]) == 2


def test_what_stops_a_run_stops_its_rehearsal(delta: Warehouse) -> None:
    with pytest.raises(QuarantineError):
        tried(delta, schema("a", ID), record("a", id="no"), max_quarantined=0)


def test_a_catalog_is_told_nothing(delta: Warehouse) -> None:
    delta.load(schema("a", ID), record("a", id=1), state(1))
    config = {"database": "dry_lake"}
    said = tried(delta, schema("a", ID_AND_NAME), record("a", id=2), **config)
    assert said["notes"] == ["column name is now string"]
    assert not delta.spark.catalog.databaseExists("dry_lake")


def test_care_and_layout_are_left_out(delta: Warehouse) -> None:
    for number in range(2):
        delta.load(schema("a", ID), record("a", id=number), state(number))
    care = {"compact": True, "retain_days": 7, "partition_by": ["id"]}
    said = tried(delta, schema("a", ID_AND_NAME), record("a", id=2), **care)
    assert "neither partitioned nor clustered, which is not changed" in "; ".join(said["notes"])


def test_a_replay_has_no_dry_run(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="dry_run"):
        replay({"path": str(tmp_path), "dry_run": True}, None, overwrite=False)  # type: ignore[arg-type]


def test_the_command_leaves_no_trace_and_puts_out_no_state(tmp_path: Path) -> None:
    messages = schema("a", ID), record("a", id=1), state(1)
    done = run(
        tmp_path,
        "".join(json.dumps(message) + "\n" for message in messages).encode(),
        dry_run=True,
        report=str(tmp_path / "report.json"),
        streams={"elsewhere": {"write_mode": "append"}},
    )
    said = done.stderr.decode()
    assert done.returncode == 0, said
    assert done.stdout == b""
    assert not (tmp_path / "tables").exists()
    assert "dry run: nothing was written" in said
    told = json.loads((tmp_path / "report.json").read_text())
    assert told["dry_run"] is True
    assert told["complete"] is True
    assert told["states"] == 0
    assert told["streams"]["a"]["written"] == 1
    assert told["remarks"] == ["The settings name a stream elsewhere, which is not in the input"]
    assert told["remarks"][0] in said
