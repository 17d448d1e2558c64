"""Reads of Delta tables of other writers by `target_spark.open_warehouse`, without Spark."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import target_spark
from target_spark.errors import TableError

READS = 10


def test_table_is_read_at_one_version_while_its_columns_change(tmp_path: Path) -> None:
    wide = pa.table({"id": [1, 2], "name": ["a", "b"]})
    write_deltalake(tmp_path / "orders", wide)
    orders, is_done = target_spark.open_warehouse(tmp_path)["orders"], threading.Event()

    def drop_and_add_a_column() -> None:
        for table in (wide.select(["id"]), wide) * READS:
            if is_done.is_set():
                return
            write_deltalake(tmp_path / "orders", table, mode="overwrite", schema_mode="overwrite")

    writer = threading.Thread(target=drop_and_add_a_column)
    writer.start()
    try:
        read = [orders.to_arrow() for _ in range(READS)]
    finally:
        is_done.set()
        writer.join()
    assert all(table in (wide, wide.select(["id"])) for table in read)


def test_value_of_another_type_is_an_error_that_names_column_file_and_way_out(
    tmp_path: Path,
) -> None:
    make_widened_table(tmp_path / "orders", {"n": pa.array(["1", "two"])})
    orders = target_spark.open_warehouse(tmp_path)["orders"]
    with pytest.raises(TableError) as caught:
        orders.to_arrow()
    message = str(caught.value)
    assert message.startswith(
        f"Column n of {tmp_path / 'orders'} cannot be read without Spark, because file"
        " part-0.parquet has values that are no int32 ("
    )
    assert message.endswith("Read it with spark.read.format('delta').")
    assert "\n" not in message


def test_folder_that_deltalake_takes_for_another_is_an_error(tmp_path: Path) -> None:
    """Deltalake would read the table in ``a b``."""
    for name in ("a b", "a%20b"):
        written = tmp_path / f"made of {len(name)}"
        write_deltalake(written, pa.table({"from": [name]}))
        shutil.copytree(written, tmp_path / name / "orders")
    orders = target_spark.open_warehouse(tmp_path / "a%20b")["orders"]
    with pytest.raises(TableError, match="a%20b/orders cannot be read without Spark, because its"):
        orders.to_arrow()


def make_widened_table(folder: Path, values: dict[str, pa.Array]) -> None:
    """Make a table of the integer ``n`` with the feature typeWidening, which only Spark creates."""
    (folder / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table(values), folder / "part-0.parquet")
    fields = [{"name": "n", "type": "integer", "nullable": True, "metadata": {}}]
    actions: list[dict[str, Any]] = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["typeWidening"],
                "writerFeatures": ["typeWidening"],
            }
        },
        {
            "metaData": {
                "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [],
                "configuration": {"delta.enableTypeWidening": "true"},
                "createdTime": 0,
            }
        },
        {
            "add": {
                "path": "part-0.parquet",
                "partitionValues": {},
                "size": (folder / "part-0.parquet").stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
            }
        },
    ]
    log = folder / "_delta_log" / f"{0:020}.json"
    log.write_text("\n".join(map(json.dumps, actions)))
