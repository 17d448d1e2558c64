"""The rows of a run's tables, read without target-spark.

A Delta table is read by its log, a Parquet table by its manifest. Only Iceberg and buckets need
Spark, which runs in its own process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq

__all__ = ["read_by_spark", "read_tables"]

_PATIENCE: Final = 1200
_READ: Final = "from tests.cluster.tables import print_rows; print_rows()"
_ROOT: Final = Path(__file__).parents[2]


def read_tables(tables: Path, form: str, *names: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of tables in a folder; none of a missing table."""
    if form == "iceberg":
        return read_by_spark({"path": str(tables), "format": form, "small_runs": True}, *names)
    files = _delta_files if form == "delta" else _parquet_files
    return {name: [row for file in files(tables / name) for row in _rows(file)] for name in names}


def _rows(file: Path) -> list[dict[str, Any]]:
    table_rows: list[dict[str, Any]] = pq.ParquetFile(file).read().to_pylist()
    return table_rows


def _delta_files(folder: Path) -> Iterator[Path]:
    files: set[str] = set()
    for log in sorted((folder / "_delta_log").glob("*.json")):
        for action in map(json.loads, log.read_text().splitlines()):
            if "remove" in action:
                files.discard(action["remove"]["path"])
            if "add" in action:
                assert not action["add"].get("deletionVector"), "rows that are not there"
                files.add(action["add"]["path"])
    return (folder / unquote(name) for name in sorted(files))


def _parquet_files(folder: Path) -> Iterator[Path]:
    manifest = folder / "_manifest.json"
    parts = json.loads(manifest.read_text())["parts"] if manifest.exists() else []
    return (folder / name for name in parts)


def read_by_spark(config: Mapping[str, Any], *names: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of tables, read by another Spark with these settings of the target."""
    process = subprocess.run(
        [sys.executable, "-c", _READ, json.dumps({**config, "master": "local[1]"}), *names],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        timeout=_PATIENCE,
    )
    rows_by_table: dict[str, list[dict[str, Any]]] = json.loads(process.stdout)
    return rows_by_table


def print_rows() -> None:
    """Print the rows of the tables named on the command line after the settings."""
    from target_spark.config import settings
    from target_spark.spark.session import Session
    from target_spark.tables.table import Table
    from target_spark.writers import get_writer

    config = json.loads(sys.argv[1])
    session = Session(settings.spark_settings(config)).start()
    try:
        spark, writer, rows_by_table = session.spark(), get_writer(config["format"]), {}
        for name in sys.argv[2:]:
            table = Table(f"{config['path']}/{name}", name)
            known = writer.get_column_types(spark, table) is not None
            rows = writer.rows(spark, table).collect() if known else []
            rows_by_table[name] = [row.asDict(recursive=True) for row in rows]
        print(json.dumps(rows_by_table, default=str))
    finally:
        session.stop()
