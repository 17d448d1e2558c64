"""Table layouts: settings resolved against a stream's columns, and the DDL of each format."""

from __future__ import annotations

from typing import Any

import pytest

from tap_core.events import StreamId
from target_spark.columns import ColumnOptions, TableSchema, schema_from_json_schema
from target_spark.config import settings
from target_spark.errors import UnsupportedError
from target_spark.tables.layout_resolution import reject_empty_partition_values, resolve_layout
from target_spark.tables.table import PartitionField, TableLayout
from target_spark.writers.delta.layout import (
    build_generated_columns,
    build_layout_ddl,
    build_partition_specs,
    drop_generated_columns,
)
from target_spark.writers.iceberg.layout import describe_partition_mismatch

SALES = StreamId("sales")
LAYOUT = schema_from_json_schema(
    {
        "properties": {
            "id": {"type": "integer"},
            "region": {"type": "string"},
            "at": {"type": "string", "format": "date-time"},
            "on": {"type": "string", "format": "date"},
            "tags": {"type": "array", "items": {"type": "string"}},
        }
    },
    (),
    ColumnOptions(),
)


def resolve(**config: Any) -> tuple[TableLayout, tuple[str, ...]]:
    return resolve_layout(settings.load_options({"path": "/t", **config}), SALES, LAYOUT)


def test_layout_for_all_streams_applies_where_possible() -> None:
    layout, left_out = resolve(
        partition_by=["region", "region", "hour(on)", "day(at)", "gone", "tags"],
        sort_by=["id", "id", "gone"],
        target_file_size=1 << 20,
    )
    assert layout == TableLayout(
        (PartitionField("region"), PartitionField("at", "day")), (), ("id",), file_bytes=1 << 20
    )
    assert len(left_out) == 4
    assert left_out[0].startswith("partition_by is not applied: hour(on): 'on' is of type date")


def test_layout_of_one_stream_overrides_and_must_be_possible() -> None:
    settings_of_streams = {"sales": {"partition_by": ["year(on)"]}}
    layout, left_out = resolve(partition_by=["gone"], streams=settings_of_streams)
    assert layout.partition_by == (PartitionField("on", "year"),)
    assert left_out == ()
    with pytest.raises(UnsupportedError, match=r"streams\.sales\.cluster_by: .*'tags' is of type"):
        resolve(streams={"sales": {"cluster_by": ["tags"]}})


def test_text_partition_column_of_delta_must_not_be_empty() -> None:
    wish = {"path": "/t", "partition_by": ["region", "on", "day(at)", "gone"]}
    options = settings.load_options(wish)
    assert reject_empty_partition_values(options, SALES, LAYOUT).text_partitions == ("region",)
    iceberg = settings.load_options({**wish, "format": "iceberg"})
    assert reject_empty_partition_values(iceberg, SALES, LAYOUT) == LAYOUT


def test_delta_partitions_by_date_parts_with_generated_columns() -> None:
    wish = TableLayout(
        (PartitionField("region"), PartitionField("at", "hour"), PartitionField("gone"))
    )
    parts = build_partition_specs(LAYOUT, wish)
    assert [(part.name, part.ddl) for part in parts] == [
        ("region", "string"),
        ("_part_hour_at", "string"),
    ]
    assert build_generated_columns(parts).startswith(
        ", `_part_hour_at` string GENERATED ALWAYS AS (CONCAT("
    )
    assert build_layout_ddl(LAYOUT, wish) == (" PARTITIONED BY (`region`, `_part_hour_at`)", {})
    assert build_layout_ddl(LAYOUT, TableLayout()) == ("", {})


def test_clustering_columns_get_statistics() -> None:
    wish = TableLayout(cluster_by=("region", "gone"))
    assert LAYOUT.names_fed_by(wish.cluster_by) == ("region",)
    clause, properties = build_layout_ddl(LAYOUT, wish)
    assert clause == " CLUSTER BY (`region`)"
    assert properties == {"delta.dataSkippingStatsColumns": "`region`,`id`,`at`,`on`"}
    narrow = TableSchema(LAYOUT.columns[:2])
    assert build_layout_ddl(narrow, wish) == (clause, {})


def test_generated_partition_columns_are_left_out_of_the_types() -> None:
    types = {"at": "timestamp", "_part_day_at": "date", "_part_day_gone": "date"}
    other_columns = {"_part_hour_at": "bigint", "_part_week_at": "date"}
    expected = {"at": "timestamp", "_part_day_gone": "date", **other_columns}
    assert drop_generated_columns({**types, **other_columns}) == expected


def test_partitioning_of_an_iceberg_table_is_compared() -> None:
    wish = TableLayout((PartitionField("region"), PartitionField("at", "day")))
    ddl = "CREATE TABLE t (\n  id BIGINT)\nUSING iceberg\nPARTITIONED BY (region, days(at))\nX"
    assert describe_partition_mismatch(ddl, LAYOUT, wish) is None
    other = ddl.replace("days", "hours")
    assert describe_partition_mismatch(other, LAYOUT, wish) == "partitioned by region, hours(at)"
    assert (
        describe_partition_mismatch("CREATE TABLE t (id BIGINT)", LAYOUT, wish) == "not partitioned"
    )
