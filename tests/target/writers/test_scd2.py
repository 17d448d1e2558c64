"""History tables (scd2): every version of a row is kept, with begin and end, on real tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.config import settings
from target_spark.errors import UnsupportedError
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.table import Table
from target_spark.writers import MergeKeys
from target_spark.writers.parquet import ParquetWriter
from target_spark.writers.registry import get_writer
from tests.target.warehouse import ID, ID_AND_NAME, Warehouse, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = pytest.mark.spark

SCD2 = {"write_mode": "scd2"}
VERSION = ("id", "name", "_sdc_valid_from", "_sdc_valid_to", "_sdc_is_current")


@pytest.fixture(params=["delta", "iceberg"])
def warehouse(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables", request.param)


def at(second: int, stream: str = "a", **values: Any) -> dict[str, Any]:
    return {**record(stream, **values), "time_extracted": f"2024-01-01T00:00:{second:02}Z"}


def versions(warehouse: Warehouse, *columns: str) -> list[tuple[Any, ...]]:
    """Return each version: its values, the seconds of its begin and end, whether it is current."""
    times = (f"unix_micros(_sdc_valid_{end}) - 1704067200000000" for end in ("from", "to"))
    table_rows = warehouse.read("a").selectExpr("id", *columns, *times, "_sdc_is_current").collect()
    return sorted((tuple(row) for row in table_rows), key=lambda row: (row[0], row[-3] or 0))


SECOND = 1_000_000


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["s", "t"])
def test_history_works_for_tables_named_like_sql_aliases(warehouse: Warehouse, name: str) -> None:
    schema_message = schema(name, ID_AND_NAME, "id")
    warehouse.load(schema_message, at(1, name, id=1, name="a"), **SCD2)
    warehouse.load(schema_message, at(2, name, id=1, name="b"), **SCD2)
    assert warehouse.rows(name, "id", "name", "_sdc_is_current") == [
        (1, "a", False),
        (1, "b", True),
    ]


def test_change_ends_a_version_and_begins_another(warehouse: Warehouse) -> None:
    schema_message = schema("a", ID_AND_NAME, "id")
    states = warehouse.load(
        schema_message, at(1, id=1, name="a"), at(2, id=1, name="b"), at(3, id=2), state(1), **SCD2
    )
    assert states == [1]
    warehouse.load(
        schema_message,
        at(5, id=1, name="b"),  # equal: no new version
        at(6, id=2, name="two"),
        at(7, id=2, name="two"),
        at(8, id=1, name=None),
        at(9, id=3, name="three"),
        {**at(9, id=3), "record": {"id": 3, "_sdc_deleted_at": "2024-01-01T00:00:30Z"}},
        {**at(9, id=4), "record": {"id": 4, "_sdc_deleted_at": "2024-01-01T00:00:30Z"}},
        **SCD2,
    )
    assert versions(warehouse, "name", "_sdc_deleted_at IS NOT NULL") == [
        (1, "a", False, 1 * SECOND, 2 * SECOND, False),
        (1, "b", False, 2 * SECOND, 8 * SECOND, False),
        (1, None, False, 8 * SECOND, None, True),
        (2, None, False, 3 * SECOND, 6 * SECOND, False),
        (2, "two", False, 6 * SECOND, None, True),
        (3, "three", True, 9 * SECOND, 9 * SECOND + 1, False),
    ]
    counts = warehouse.counts("a")
    assert (counts["written"], counts["inserted"], counts["updated"]) == (7, 3, 2)
    marker = warehouse.marker("a")
    assert marker is not None
    assert (marker.batch, marker.run, marker.state) == (1, "run2", '{"at": 1}')


def test_resent_rows_add_no_versions(warehouse: Warehouse) -> None:
    schema_message = schema("a", ID_AND_NAME, "id")
    sent = [at(n, id=1, name=name) for n, name in enumerate("abcb", 1)]
    deletion = {**at(9, id=2), "record": {"id": 2, "_sdc_deleted_at": "2024-01-01T00:00:30Z"}}
    sent += [at(5, id=2, name="x"), at(6, id=2, name="y"), deletion, at(7, id=3)]
    warehouse.load(schema_message, *sent, **SCD2)
    first = versions(warehouse, "name")
    assert len(first) == 4 + 2 + 1
    warehouse.load(schema_message, *sent[1:], **SCD2)
    assert versions(warehouse, "name") == first
    warehouse.load(schema_message, *sent[2:], at(20, id=1, name="new"), **SCD2)
    assert len(versions(warehouse, "name")) == len(first) + 1


def test_version_is_kept_if_its_deletion_is_not_later_than_the_last_one(
    warehouse: Warehouse,
) -> None:
    """Some taps give all messages of a run the same time. The batches end between these records."""
    schema_message = schema("a", ID_AND_NAME, "id")
    sent: list[dict[str, Any]] = []
    for name, second in (("x", 10), ("y", 20), ("z", 30)):
        deletion = {"id": 1, "_sdc_deleted_at": f"2024-01-01T00:00:{second}Z"}
        sent += [at(1, id=1, name=name), {**at(1), "record": deletion}, state(second)]
    for _ in range(2):
        warehouse.load(schema_message, *sent, **SCD2, flush_rows=2)
        history = versions(warehouse, "name", "unix_seconds(_sdc_deleted_at) % 60")
        assert [row[1:3] for row in history] == [("x", 10), ("y", 20), ("z", 30)]


@pytest.mark.thorough
def test_new_column_adds_versions_only_with_a_value(warehouse: Warehouse) -> None:
    nested = {"o": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    grown = {"o": {"type": "object", "properties": {**nested["o"]["properties"], "y.z": {}}}}
    rows = [at(1, id=1, name="a", o={"x": 1}), at(1, id=2, name="b", o=None)]
    warehouse.load(schema("a", {**ID_AND_NAME, **nested}, "id"), *rows, **SCD2)
    wide = {**ID_AND_NAME, **grown, "more": {"type": "string"}}
    warehouse.load(schema("a", wide, "id"), *rows, at(2, id=2, name="b", more="new"), **SCD2)
    assert versions(warehouse, "more") == [
        (1, None, 1 * SECOND, None, True),
        (2, None, 1 * SECOND, 2 * SECOND, False),
        (2, "new", 2 * SECOND, None, True),
    ]
    # A column removed from the schema adds none either.
    warehouse.load(schema("a", ID_AND_NAME, "id"), at(3, id=2, name="b"), **SCD2)
    assert len(versions(warehouse)) == 3


@pytest.mark.thorough
def test_table_of_another_write_mode_becomes_a_history(warehouse: Warehouse) -> None:
    schema_message = schema("a", ID_AND_NAME, "id")
    warehouse.load(schema_message, *(record("a", id=n, name="old") for n in (1, 2, 3)), state(1))
    warehouse.load(schema_message, record("a", id=3, _sdc_deleted_at="2024-01-01T00:00:00Z"))
    warehouse.load(schema_message, at(1, id=1, name="new"), at(2, id=2, name="old"), **SCD2)
    rows = warehouse.rows("a", "id", "name", "_sdc_is_current")
    assert rows == [(1, "new", True), (1, "old", False), (2, "old", True), (3, "old", False)]
    starts = {row[0] for row in warehouse.rows("a", "_sdc_valid_from", "name") if row[1] == "old"}
    assert len(starts) == 1  # the start of the run, which tests count from 1970
    marker = warehouse.marker("a")
    assert marker is not None
    assert marker.state == '{"at": 1}'
    for mode in ("upsert", "append"):
        with pytest.raises(UnsupportedError, match=f"which {mode} would corrupt"):
            warehouse.load(schema_message, record("a", id=1, name="x"), write_mode=mode)
    warehouse.load(schema_message, record("a", id=1, name="x"), state(1), write_mode="overwrite")
    assert warehouse.rows("a", *VERSION) == [(1, "x", None, None, None)]
    warehouse.load(schema_message, at(1, id=1, name="y"), **SCD2)
    assert warehouse.rows("a", "name", "_sdc_is_current") == [("x", False), ("y", True)]


def test_versions_without_a_time_begin_at_their_receipt(warehouse: Warehouse) -> None:
    warehouse.load(schema("a", ID, "id"), {**record("a", id=1), "time_extracted": "x"}, **SCD2)
    warehouse.load(schema("a", ID, "id"), record("a", id=2), add_record_metadata=True, **SCD2)
    rows = warehouse.rows("a", "id", "_sdc_valid_from", "_sdc_received_at")
    assert rows[0][1] is not None
    assert rows[1][1] == rows[1][2]


@pytest.mark.thorough
def test_special_characters_in_key_and_value_names_are_supported(warehouse: Warehouse) -> None:
    properties = {name: {"type": "string"} for name in ("a.b", "q`t", "select", "_sdc_valid_from")}
    schema_message = schema("a", properties, "a.b", "q`t")
    for word in ("one", "two"):
        values = {name: "key" if name in {"a.b", "q`t"} else word for name in properties}
        warehouse.load(schema_message, record("a", **values), **SCD2)
    rows = warehouse.rows("a", "select", "_sdc_valid_from_2", "_sdc_is_current")
    assert rows == [("one", "one", False), ("two", "two", True)]


def test_repeated_batch_is_recognized_and_not_written_again(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    """The second writer has no result of the first try, as after a lost response."""
    warehouse.load(schema("a", ID_AND_NAME, "id"), at(1, id=1, name="a"), **SCD2)
    table = Table(f"{warehouse.folder}/a", "a")
    keys = MergeKeys(("id",), "at", compared=("name",))
    batch = spark.sql(
        "SELECT 1L AS id, 'b' AS name, timestamp'2025-01-01' AS _sdc_valid_from,"
        " CAST(NULL AS TIMESTAMP) AS _sdc_valid_to, true AS _sdc_is_current, 1L AS at"
    )
    marker = CommitMetadata("job", "other", 2, 1, 0)
    writers = (get_writer(warehouse.format) for _ in range(2))
    first, repeated = (writer.history(table, batch, keys, marker) for writer in writers)
    assert (first.inserted, first.updated) == (1, 1)
    assert repeated == first
    assert len(versions(warehouse)) == 2


def test_streams_without_keys_are_appended_unless_scd2_is_set_for_them(
    warehouse: Warehouse,
) -> None:
    warehouse.load(schema("a", ID), record("a", id=1), record("a", id=1), **SCD2)
    assert warehouse.rows("a") == [(1,), (1,)]
    with pytest.raises(UnsupportedError, match="Stream a cannot be written by scd2"):
        warehouse.load(schema("a", ID), streams={"a": SCD2})


def test_format_without_history_rejects_scd2_at_start() -> None:
    config = {"path": "x", "format": "parquet"}
    for options in (SCD2, {"streams": {"a": SCD2}}):
        (fault,) = settings.find_faults({**config, **options})
        assert "format to delta" in fault


def test_parquet_writer_rejects_history(spark: SparkSession, tmp_path: Path) -> None:
    writer, table = ParquetWriter(), Table(str(tmp_path), "t")
    marker = CommitMetadata("job", "r", 1, 1, 0)
    with pytest.raises(UnsupportedError, match="Set format to delta"):
        writer.history(table, spark.range(1), MergeKeys(("id",), "at"), marker)
