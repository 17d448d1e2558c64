"""Layout and maintenance of tables, checked on their files."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from target_spark.errors import IncompleteError, UnsupportedError
from target_spark.storage.uris import to_local_folder, to_spark_uri
from target_spark.tables.table import MaintenanceOptions, Table
from target_spark.writers.delta.log_reader import commits, delta_ref
from target_spark.writers.delta.writer import DeltaWriter
from tests.one_spark import COMPILED, ConfiguredSession
from tests.target.warehouse import Warehouse, feed, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

TEXT = {"type": ["null", "string"]}
INSTANT = {"type": ["null", "string"], "format": "date-time"}
DAY = {"type": ["null", "string"], "format": "date"}
SALES = {"id": {"type": "integer"}, "region": TEXT, "at": INSTANT, "on": DAY}
MIDNIGHT = "2024-01-01T23:59:59.999999Z"


@pytest.fixture
def make(spark_session: Session, spark: SparkSession, tmp_path: Path) -> Callable[[str], Warehouse]:
    """Return a function that makes a warehouse, in which Spark plans as it does by default."""
    session = cast("Session", ConfiguredSession(spark_session, COMPILED))
    return partial(Warehouse, session, spark, tmp_path / "tables")


@pytest.fixture
def delta(make: Callable[[str], Warehouse]) -> Warehouse:
    return make("delta")


def get_table(warehouse: Warehouse, name: str) -> Table:
    return Table(f"{warehouse.folder}/{name}", name)


def describe_detail(warehouse: Warehouse, name: str) -> Any:
    return warehouse.spark.sql(f"DESCRIBE DETAIL {delta_ref(get_table(warehouse, name))}").first()


def sale(
    number: int, region: str | None, time_of_sale: str | None, on: str | None = None
) -> dict[str, Any]:
    return record("sales", id=number, region=region, at=time_of_sale, on=on)


def notes(warehouse: Warehouse, stream: str) -> str:
    return "; ".join(warehouse.counts(stream)["notes"])


def live_files(warehouse: Warehouse, name: str) -> list[Path]:
    if warehouse.format == "iceberg":
        files = warehouse.spark.read.format("iceberg").load(f"{warehouse.folder}/{name}#files")
        addresses = [row.file_path for row in files.select("file_path").collect()]
    else:
        addresses = warehouse.read(name).inputFiles()
    return [file for file in map(to_local_folder, addresses) if file is not None]


# Partitions


def test_date_time_partitions_are_generated_columns(delta: Warehouse) -> None:
    layout = {"partition_by": ["region", "year(at)", "month(at)", "day(at)", "hour(at)"]}
    schema_message = schema("sales", SALES, "id")
    delta.load(schema_message, sale(1, "n", MIDNIGHT), sale(2, None, None), state(1), **layout)
    parts = ("_part_year_at", "_part_month_at", "_part_day_at", "_part_hour_at")
    assert describe_detail(delta, "sales").partitionColumns == ["region", *parts]
    assert {tuple(map(str, row)) for row in delta.rows("sales", *parts)} == {
        ("2024", "2024-01", "2024-01-01", "2024-01-01-23"),
        ("None", "None", "None", "None"),
    }
    # A merge moves rows between partitions; schema changes and overwrites keep the columns.
    extended = schema("sales", {**SALES, "n": {"type": "integer"}}, "id")
    moved = {**sale(2, "s", "0001-01-01T00:00:00Z")["record"], "n": 5}
    delta.load(extended, record("sales", **moved), state(2), **layout)
    days = {str(day) for (day,) in delta.rows("sales", "_part_day_at")}
    assert days == {"2024-01-01", "0001-01-01"}
    assert not any("_part" in note for note in delta.counts("sales")["notes"])
    delta.load(extended, record("sales", **moved), state(3), **layout, full_refresh=["sales"])
    assert delta.rows("sales", "id", "n", "_part_year_at") == [(2, 5, 1)]
    assert len(delta.read("sales").columns) == len(SALES) + 1 + len(parts)


def test_date_column_partitions_by_day_month_or_year(delta: Warehouse) -> None:
    schema_message = schema("sales", SALES)
    layout = {"partition_by": ["day(on)", "month(on)", "year(on)"]}
    delta.load(schema_message, sale(1, None, None, "1582-10-14"), sale(2, None, None), **layout)
    assert describe_detail(delta, "sales").partitionColumns == [
        "on",
        "_part_month_on",
        "_part_year_on",
    ]
    assert sorted(delta.rows("sales", "_part_month_on", "_part_year_on"), key=str) == [
        ("1582-10", 1582),
        (None, None),
    ]


def test_empty_text_in_a_partition_column_is_quarantined(delta: Warehouse) -> None:
    rows = sale(1, "", MIDNIGHT), sale(2, None, MIDNIGHT), sale(3, " ", MIDNIGHT)
    delta.load(schema("sales", SALES), *rows, partition_by=["region"])
    assert set(delta.rows("sales", "id", "region")) == {(2, None), (3, " ")}
    (row,) = delta.read("sales__quarantine").collect()
    assert row.reasons == ["region: an empty string, which a partition stores as null"]
    assert json.loads(row.raw)["id"] == 1


def test_reader_in_another_time_zone_finds_all_rows_of_a_partition(delta: Warehouse) -> None:
    delta.load(
        schema("sales", SALES), sale(1, None, "2024-01-02T00:30:00Z"), partition_by=["day(at)"]
    )
    delta.spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    rows = delta.read("sales")
    assert rows.where("at <= timestamp'2024-01-01 17:00:00'").count() == 1
    assert rows.where("at > timestamp'2024-01-01 17:00:00'").count() == 0


def test_special_characters_in_partition_and_clustering_columns_are_supported(
    delta: Warehouse,
) -> None:
    properties = {"a.b": INSTANT, "x y": TEXT, "id": {"type": "integer"}}
    values = {"a.b": MIDNIGHT, "x y": "v", "id": 1}
    delta.load(schema("odd", properties), record("odd", **values), partition_by=["day(a.b)", "x y"])
    assert describe_detail(delta, "odd").partitionColumns == ["_part_day_a.b", "x_y"]
    delta.load(schema("two", properties), record("two", **values), cluster_by=["a.b", "x y"])
    assert describe_detail(delta, "two").clusteringColumns == ["`a.b`", "x_y"]
    assert delta.rows("two", "id") == [(1,)]


def test_clustering_column_beyond_the_indexed_columns_is_supported(delta: Warehouse) -> None:
    wide = {f"c{n}": {"type": "boolean"} for n in range(40)} | {"last": TEXT, "first": TEXT}
    delta.load(schema("wide", wide), record("wide", last="z"), cluster_by=["last"])
    assert describe_detail(delta, "wide").clusteringColumns == ["last"]
    delta.load(schema("wide", wide), record("wide", last="y"), cluster_by=["last"], compact=True)
    assert sorted(delta.rows("wide", "last")) == [("y",), ("z",)]


def test_iceberg_table_is_partitioned_by_day(make: Callable[[str], Warehouse]) -> None:
    iceberg = make("iceberg")
    schema_message = schema("sales", SALES, "id")
    for number in (1, 2):
        iceberg.load(
            schema_message, sale(number, "n", MIDNIGHT), state(number), partition_by=["day(at)"]
        )
    folders = {file.parent.name for file in iceberg.folder.rglob("*.parquet")}
    assert folders == {"at_day=2024-01-01"}
    assert not iceberg.counts("sales")["notes"]
    iceberg.load(schema_message, sale(3, "n", MIDNIGHT), state(3), partition_by=["region"])
    assert "partitioned by days(at), which is not changed" in notes(iceberg, "sales")


# Inapplicable layouts


def test_layout_for_all_streams_applies_where_possible(delta: Warehouse) -> None:
    delta.load(
        schema("sales", SALES),
        schema("people", {"name": TEXT, "tags": {"type": "array", "items": TEXT}}),
        sale(1, "n", MIDNIGHT),
        record("people", name="Ann", tags=["x"]),
        partition_by=["region", "hour(at)", "hour(on)"],
        sort_by=["id", "tags"],
    )
    assert describe_detail(delta, "sales").partitionColumns == ["region", "_part_hour_at"]
    assert describe_detail(delta, "people").partitionColumns == []
    assert "hour(on): 'on' is of type date, which is not supported for it" in notes(delta, "sales")
    before = notes(delta, "people")
    assert "partition_by is not applied: the stream has no property 'region'" in before
    assert "sort_by is not applied: 'tags' is of type array<string>" in before
    assert delta.rows("people", "name") == [("Ann",)]


@pytest.mark.parametrize(
    "options,properties,word",
    [
        ({"partition_by": ["nation"]}, SALES, "no property 'nation'"),
        ({"partition_by": ["week(at)"]}, SALES, "no property 'week(at)'"),
        ({"partition_by": ["day(region)"]}, SALES, "'region' is of type string"),
        ({"partition_by": ["region"]}, {"region": TEXT}, "the only property"),
        ({"partition_by": ["day(at)"]}, {**SALES, "_part_day_at": TEXT}, "_part_day_at is a"),
        ({"cluster_by": ["flag"]}, {"flag": {"type": "boolean"}}, "'flag' is of type boolean"),
        ({"sort_by": ["nation"]}, SALES, "no property 'nation'"),
    ],
)
def test_impossible_layout_of_one_stream_is_an_error(
    delta: Warehouse, options: dict[str, Any], properties: dict[str, Any], word: str
) -> None:
    (setting,) = options
    with pytest.raises(UnsupportedError, match=f"streams.sales.{setting}: ") as caught:
        delta.load(schema("sales", properties), streams={"sales": options})
    assert word in str(caught.value)
    assert not delta.folder.exists()


def test_layout_of_an_existing_table_is_not_changed(delta: Warehouse) -> None:
    schema_message = schema("sales", SALES, "id")
    delta.load(schema_message, sale(1, "n", MIDNIGHT), state(1))
    delta.load(schema_message, sale(2, "s", MIDNIGHT), state(2), partition_by=["region"])
    assert "neither partitioned nor clustered, which is not changed" in notes(delta, "sales")
    assert describe_detail(delta, "sales").partitionColumns == []
    delta.load(schema("b", SALES), record("b", id=1, region="n"), partition_by=["region"])
    delta.load(schema("b", SALES), record("b", id=2, region="n"), cluster_by=["id"])
    assert "the table is partitioned by region, which is not changed" in notes(delta, "b")
    delta.load(schema("b", SALES), record("b", id=3, region="n"), partition_by=["region"])
    assert not delta.counts("b")["notes"]
    assert len(delta.rows("b")) == 3


# Order and size


def shuffled_records(count: int) -> list[dict[str, Any]]:
    return [record("a", id=n * 7919 % count, text=f"{n:>40}") for n in range(count)]


def incompressible(count: int) -> list[dict[str, Any]]:
    """Return rows of about a kilobyte each that cannot be compressed."""
    generator = random.Random(1)
    return [record("a", id=n, text=generator.randbytes(700).hex()) for n in range(count)]


NUMBERED = {"id": {"type": "integer"}, "text": TEXT}


def orders(warehouse: Warehouse, name: str) -> list[list[int]]:
    """Return the ids of each file in their order in the file."""
    spark = warehouse.spark
    return [
        [row.id for row in spark.read.parquet(to_spark_uri(str(file))).select("id").collect()]
        for file in live_files(warehouse, name)
    ]


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
@pytest.mark.parametrize("keys", [(), ("text",)])
def test_rows_of_each_file_are_sorted(
    make: Callable[[str], Warehouse], format: str, keys: tuple[str, ...]
) -> None:
    warehouse = make(format)
    schema_message = schema("a", NUMBERED, *keys)
    warehouse.load(schema_message, *shuffled_records(300), state(1), sort_by=["id"])
    warehouse.load(
        schema_message, *shuffled_records(200), state(1), sort_by=["id"], write_mode="overwrite"
    )
    file_ids = orders(warehouse, "a")
    assert sorted(chain.from_iterable(file_ids)) == list(range(200))
    assert file_ids == [sorted(ids) for ids in file_ids]


def test_rows_are_sorted_within_partitions(delta: Warehouse) -> None:
    rows = [record("a", id=n * 7919 % 300, text=str(n % 3)) for n in range(300)]
    delta.load(schema("a", NUMBERED), *rows, partition_by=["text"], sort_by=["id"])
    file_ids = orders(delta, "a")
    assert len(file_ids) == 3
    assert file_ids == [sorted(ids) for ids in file_ids]


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_files_are_at_most_slightly_larger_than_target_file_size(
    make: Callable[[str], Warehouse], format: str
) -> None:
    warehouse, size = make(format), 1 << 20
    rows = incompressible(3000)
    before = warehouse.spark.conf.get("spark.sql.files.maxPartitionBytes")
    warehouse.load(schema("a", NUMBERED), *rows, target_file_size=size)
    sizes = [file.stat().st_size for file in live_files(warehouse, "a")]
    assert len(sizes) >= 3
    assert max(sizes) <= 1.2 * size
    assert warehouse.spark.conf.get("spark.sql.files.maxPartitionBytes") == before


# Maintenance


def test_compaction_merges_files_and_keeps_the_metadata(delta: Warehouse) -> None:
    schema_message = schema("a", NUMBERED, "id")
    for number in range(3):
        delta.load(schema_message, record("a", id=number, text="x"), state(number))
    assert len(live_files(delta, "a")) == 3
    before = delta.marker("a")
    delta.load(schema_message, state(9), compact=True, retain_days=7)
    assert len(live_files(delta, "a")) == 3  # the run wrote no rows
    delta.load(
        schema_message, record("a", id=9, text="x"), state(10), compact=True, retain_days=7.5
    )
    assert len(live_files(delta, "a")) == 1
    marker = delta.marker("a")
    assert before is not None
    assert marker is not None
    assert (marker.state, marker.run) == ('{"at": 10}', "run5")
    newest = next(iter(commits(delta.spark, get_table(delta, "a"))))
    assert newest.marker == marker
    assert sorted(delta.rows("a", "id")) == [(0,), (1,), (2,), (9,)]
    # The next run is not affected by the maintenance.
    delta.load(schema_message, record("a", id=9, text="y"), state(11))
    assert delta.rows("a", "text").count(("y",)) == 1


def test_compaction_respects_target_file_size(delta: Warehouse) -> None:
    rows = incompressible(3000)
    options = {"target_file_size": 1 << 20, "compact": True}
    delta.load(schema("a", NUMBERED), *rows, **options)
    assert len(live_files(delta, "a")) > 1
    delta.load(schema("a", NUMBERED), rows[0], compact=True)
    assert len(live_files(delta, "a")) == 1


def test_only_files_older_than_retain_days_are_removed(delta: Warehouse) -> None:
    schema_message = schema("a", NUMBERED)
    delta.load(schema_message, record("a", id=1, text="old"), state(1))
    (old,) = live_files(delta, "a")
    delta.load(schema_message, record("a", id=2, text="new"), state(2), full_refresh=["a"])
    delta.load(schema_message, record("a", id=3, text="new"), state(3), retain_days=7)
    assert old.exists()
    # The same eight days later, by the timestamps of the remove actions.
    for file in sorted((delta.folder / "a" / "_delta_log").glob("*.json")):
        aged = [_aged(json.loads(line)) for line in file.read_text().splitlines()]
        file.write_text("\n".join(map(json.dumps, aged)) + "\n")
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    for file in (delta.folder / "a" / "_delta_log").glob("*.crc"):
        file.unlink()
    eight_days_ago = time.time() - 8 * 86400
    os.utime(old, (eight_days_ago, eight_days_ago))
    delta.spark.sql(f"DESCRIBE DETAIL {delta_ref(get_table(delta, 'a'))}").collect()
    delta.load(schema_message, record("a", id=4, text="new"), state(4), retain_days=7)
    assert not old.exists()
    assert sorted(delta.rows("a", "id")) == [(2,), (3,), (4,)]


def _aged(action: dict[str, Any]) -> dict[str, Any]:
    removed = action.get("remove")
    if removed:
        removed["deletionTimestamp"] -= 8 * 86400 * 1000
    return action


class FailingMaintenance(DeltaWriter):
    """A writer whose maintenance conflicts with another writer."""

    def maintain(self, _spark: SparkSession, _table: Table, _care: MaintenanceOptions) -> None:
        raise RuntimeError("ConcurrentDeleteReadException: another writer was faster")


def test_maintenance_failure_is_a_warning(
    delta: Warehouse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        "target_spark.loader.batch_commit.get_writer", lambda *_, **__: FailingMaintenance()
    )
    states = delta.load(schema("a", NUMBERED), record("a", id=1), state(1), compact=True)
    assert states == [1]
    assert "maintenance failed, the data is intact: ConcurrentDelete" in notes(delta, "a")
    assert "Maintenance of table" in caplog.text


def test_incomplete_run_does_no_maintenance(
    delta: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintained: list[str] = []

    class RecordingWriter(DeltaWriter):
        def maintain(self, _spark: SparkSession, table: Table, _care: MaintenanceOptions) -> None:
            maintained.append(table.name)

    monkeypatch.setattr(
        "target_spark.loader.batch_commit.get_writer", lambda *_, **__: RecordingWriter()
    )
    two = schema("a", NUMBERED), schema("b", NUMBERED), record("a", id=1), record("b", id=1)
    delta.load(*two, state(1), whole=False, compact=True)
    with pytest.raises(IncompleteError):
        delta.load(*two, compact=True, streams={"b": {"write_mode": "overwrite"}})
    loader, spool = delta.open(compact=True)
    feed(loader, *two)
    loader.stop()
    loader.close()
    spool.close()
    assert maintained == []
    delta.load(*two, state(1), compact=True)
    assert sorted(maintained) == ["a", "b"]
