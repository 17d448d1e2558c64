"""Iceberg tables in a catalog configured by settings: an SQLite database, through the command."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.events import StreamId
from target_spark.config import settings
from target_spark.tables.table import RUNS, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
TARGET = "from target_spark.target import TargetSpark; TargetSpark.cli()"
DRIVER = "org.xerial:sqlite-jdbc:3.50.3.0"


def in_catalog(folder: Path) -> dict[str, Any]:
    catalog = "spark.sql.catalog.lake"
    return {
        "format": "iceberg",
        "path": "warehouse",
        "catalog": "lake",
        "database": "sales",
        "small_runs": True,
        "master": "local[2]",
        "spark": {
            "spark.jars.packages": DRIVER,
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "jdbc",
            f"{catalog}.uri": f"jdbc:sqlite:{folder}/lake.db",
            f"{catalog}.warehouse": f"{folder}/warehouse",
        },
    }


def load(folder: Path, *messages: dict[str, Any]) -> list[str]:
    """Run the target; return the emitted states."""
    (folder / "target.json").write_text(json.dumps(in_catalog(folder)), encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "-c", TARGET, "--config", "target.json"],
        input="".join(json.dumps(message) + "\n" for message in messages),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


def order(**values: Any) -> dict[str, Any]:
    return {"type": "RECORD", "stream": "Orders-1", "record": values}


def schema_message(**properties: Any) -> dict[str, Any]:
    schema = {"properties": {"id": {"type": "integer"}, **properties}}
    return {"type": "SCHEMA", "stream": "Orders-1", "schema": schema, "key_properties": ["id"]}


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
def test_tables_in_a_jdbc_catalog_are_created_upserted_and_altered(
    spark: SparkSession, tmp_path: Path
) -> None:
    state = {"type": "STATE", "value": {"at": 1}}
    name = {"name": {"type": "string"}}
    assert load(tmp_path, schema_message(), order(id=1), order(id="x"), order(id=2), state)
    load(tmp_path, schema_message(**name), order(id=2, name="b"), order(id=3, name="c"), state)
    with closing(sqlite3.connect(tmp_path / "lake.db")) as catalog:
        entries = catalog.execute(
            "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
        ).fetchall()
    tables = {table: location for database, table, location in entries if database == "sales"}
    orders = next(table for table in tables if table.startswith("orders_"))
    assert set(tables) == {orders, f"{orders}__quarantine", RUNS}
    rows = spark.read.format("iceberg").load(tables[orders]).collect()
    assert sorted(tuple(row) for row in rows) == [(1, None), (2, "b"), (3, "c")]
    assert (tmp_path / "warehouse" / "sales" / orders / "metadata").is_dir()


# ------------------------------------------------------------------ settings, without Spark


def create_table(**config: Any) -> Table:
    options = settings.load_options({"path": "/lake/", "format": "iceberg", **config})
    return options.table(StreamId("orders"))


def test_table_path_contains_the_database_as_a_folder() -> None:
    assert create_table() == Table("/lake/orders", "orders")
    assert create_table(table_prefix="x_") == Table("/lake/x_orders", "x_orders")
    assert create_table(database="crm") == Table("/lake/crm/orders", "orders")
    streams = {"orders": {"database": "a.b", "table": "Own"}}
    assert create_table(database="crm", streams=streams) == Table("/lake/a/b/Own", "Own")
    assert create_table(catalog="c", database="crm").identifier == ("c", "crm", "orders")
    assert create_table(catalog="c").identifier == ("c", "default", "orders")


@pytest.mark.parametrize(
    "config, expected",
    [
        ({"database": "a/b"}, "database: 'a/b' cannot be the name of a folder"),
        ({"streams": {"a": {"table": "_x"}}}, "streams.a.table: '_x' cannot be the name"),
        ({"cluster_by": ["a"]}, "cluster_by: iceberg does not support clustering"),
        ({"catalog": "nowhere"}, "catalog: Spark knows no catalog 'nowhere'"),
    ],
)
def test_unsupported_iceberg_settings_are_rejected_at_start(
    config: dict[str, Any], expected: str
) -> None:
    faults = settings.find_faults({"path": "/lake", "format": "iceberg", **config})
    assert any(expected in fault for fault in faults), faults


def test_supported_iceberg_settings_are_accepted(tmp_path: Path) -> None:
    fine = {"partition_by": ["day(at)"], "sort_by": ["at"], "database": "crm", "compact": True}
    assert settings.find_faults({"path": "/lake", "format": "iceberg", **fine}) == []
    assert settings.find_faults(in_catalog(tmp_path)) == []


def test_reserved_iceberg_names_are_not_used_for_columns() -> None:
    from target_spark.columns import schema_from_json_schema

    schema = {"properties": {"_file": {"type": "string"}, "_DELETED": {}, "_pos": {}, "pos": {}}}
    options = settings.load_options({"path": "/lake", "format": "iceberg"})
    names = list(schema_from_json_schema(schema, ["_pos"], options.columns).types)
    assert sorted(names) == ["_DELETED_2", "_file_2", "_pos_2", "pos"]
    delta = settings.load_options({"path": "/lake"})
    assert "_file" in schema_from_json_schema(schema, ["_pos"], delta.columns).types
