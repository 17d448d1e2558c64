"""Column bounds in the log of a Delta table: equal to Delta's own, and never too narrow."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from target_spark.storage.uris import to_spark_uri
from target_spark.tables.table import Table
from target_spark.writers.delta.deltalake_commit import create_table
from target_spark.writers.delta.writer import DeltaWriter
from target_spark.writers.parquet_footers import delta_statistics
from tests.target.writers.sample_rows import marker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

UTC = timezone.utc
BOUNDED: dict[str, list[Any]] = {
    "BIGINT": [2**63 - 1, -(2**63), 0, None],
    "SMALLINT": [3, -7],
    "DATE": [date(1, 1, 1), date(9999, 12, 31), None],
    "DOUBLE": [1.5, -0.1, 1e300, None],
    "DECIMAL(38,9)": [Decimal("12345678901234567890123456789.123456789"), Decimal("-0.1")],
    "DECIMAL(5,0)": [Decimal(7), Decimal(-99999), None],
    "STRING": ["", "☃ snow", "z" * 32, None],
    "TIMESTAMP": [datetime(2020, 1, 1, 0, 0, 0, 5000, UTC), datetime(1969, 12, 31, 23, tzinfo=UTC)],
}
"""Values whose bounds do not depend on the implementation."""

LONG = [
    "a" * 33,
    "a" * 32,
    "b" * 31 + "\U0001f600" * 3,
    "c" * 32 + "\U0010ffff" + "d",
    "é" * 40,
    "z" * 31 + "\U0010ffff",
]
MOMENTS = [
    datetime(1, 1, 2, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime(2021, 5, 5, 5, 5, 5, 123_456, UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC),
]


def write_and_read_stats(
    spark: SparkSession, folder: Path, df: DataFrame, *, by_us: bool
) -> list[Any]:
    """Write a table through deltalake or Spark; return the file statistics in its log."""
    table, writer = Table(str(folder), folder.name), DeltaWriter()
    if by_us:
        columns = (f"`{field.name}` {field.dataType.simpleString()}" for field in df.schema.fields)
        create_table(folder, StructType.fromDDL(", ".join(columns)).json(), {})
        writer.append(table, df, marker(1))
    else:
        df.write.format("delta").save(to_spark_uri(str(folder)))
    logs = sorted((folder / "_delta_log").glob("*.json"))
    lines = [line for log in logs for line in log.read_text(encoding="utf-8").splitlines()]
    actions = [json.loads(line, parse_float=Decimal) for line in lines]
    infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
    assert all(info["engineInfo"].startswith("delta-rs") == by_us for info in infos)
    return [
        json.loads(action["add"]["stats"], parse_float=Decimal)
        for action in actions
        if "add" in action
    ]


def _micros(value: datetime) -> int:
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.every_nth_case(3)
@pytest.mark.parametrize("kind", BOUNDED)
def test_bounds_equal_those_of_delta(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    values = [(value,) for value in BOUNDED[kind]]
    df = spark.createDataFrame(values, f"x {kind}").coalesce(1)
    (ours,) = write_and_read_stats(spark, tmp_path / "ours", df, by_us=True)
    (theirs,) = write_and_read_stats(spark, tmp_path / "theirs", df, by_us=False)
    theirs.pop("tightBounds", None)
    assert ours == theirs
    assert "x" in ours["minValues"]


def test_binary_and_nested_columns_have_no_bounds(spark: SparkSession, tmp_path: Path) -> None:
    """Such columns have a null count, and nested fields have nothing. NaN has no bounds either."""
    df = spark.sql(
        "SELECT true AS b, 1.5D AS d, float('nan') AS f, double('inf') AS g, unhex('00') AS y,"
        " CAST(NULL AS BIGINT) AS n, named_struct('x', 1) AS s, array(1) AS a, 7 AS `s.i`"
    ).coalesce(1)
    (ours,) = write_and_read_stats(spark, tmp_path / "t", df, by_us=True)
    assert ours == {
        "numRecords": 1,
        "minValues": {"b": True, "d": Decimal("1.5"), "s.i": 7},
        "maxValues": {"b": True, "d": Decimal("1.5"), "s.i": 7},
        "nullCount": {"b": 0, "d": 0, "f": 0, "g": 0, "y": 0, "n": 1, "s.i": 0},
    }


def test_filters_of_deltalake_find_the_rows_of_each_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    """To deltalake, the values of a column without bounds match no filter."""
    values: dict[str, list[Any]] = {
        "DOUBLE": [1.5, -0.0, -1e300, 5e-324],
        "BOOLEAN": [True, False],
        "TIMESTAMP": [datetime.max.replace(tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)],
        "STRING": ["a", "b"],
        "DECIMAL(38,2)": [Decimal("0.01"), Decimal("123456789012345678901234567890.12")],
    }
    for number, (kind, listed) in enumerate(values.items()):
        folder = tmp_path / str(number)
        df = spark.createDataFrame([(value,) for value in listed], f"x {kind}").coalesce(1)
        write_and_read_stats(spark, folder, df, by_us=True)
        table = DeltaTable(folder)
        for value in listed:
            assert table.to_pyarrow_table(filters=[("x", "=", value)]).num_rows == 1, value
            matches = spark.table(f"delta.`{to_spark_uri(str(folder))}`").where(F.col("x") == value)
            assert matches.count() == 1, value


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "values"), [("STRING", LONG), ("TIMESTAMP", MOMENTS)])
def test_bounds_include_every_value(
    spark: SparkSession, tmp_path: Path, kind: str, values: list[Any]
) -> None:
    """Each value is found by a filter, in its own file and in a file with all others."""
    alone = spark.createDataFrame([(value,) for value in values], f"x {kind}")
    for name, df in (("alone", alone.repartition(len(values), "x")), ("all", alone.coalesce(1))):
        stats = write_and_read_stats(spark, tmp_path / name, df, by_us=True)
        assert sum(file_stats["numRecords"] for file_stats in stats) == len(values)
        assert any(file_stats["minValues"] for file_stats in stats)
        stored = spark.table(f"delta.`{to_spark_uri(str(tmp_path / name))}`")
        for value in values:
            same = (
                F.lit(value)
                if isinstance(value, str)
                else F.expr(f"timestamp_micros({_micros(value)})")
            )
            assert stored.where(stored.x == same).count() == 1
            assert stored.where(stored.x >= same).where(stored.x <= same).count() >= 1


def test_only_the_columns_that_delta_indexes_have_bounds(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = ", ".join(f"{number} AS c{number}" for number in range(40))
    df = spark.sql(f"SELECT {columns}").coalesce(1)
    (ours,) = write_and_read_stats(spark, tmp_path / "ours", df, by_us=True)
    (theirs,) = write_and_read_stats(spark, tmp_path / "theirs", df, by_us=False)
    assert ours["minValues"] == theirs["minValues"]


def test_file_without_rows_has_zero_records(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT 1 AS x WHERE false").write.parquet(str(tmp_path / "empty"))
    (file,) = (tmp_path / "empty").glob("*.parquet")
    assert json.loads(delta_statistics(file))["numRecords"] == 0
