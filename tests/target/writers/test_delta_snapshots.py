"""Delta tables that may be written without Spark, created by deltalake and read without a JVM."""

from __future__ import annotations

import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import ArrayType, PrimitiveType

from target_spark.tables.table import Table
from target_spark.writers.delta import deltalake_commit
from target_spark.writers.delta.catalog import get_partition_columns
from target_spark.writers.delta.deltalake_snapshot import DeltaSnapshot, read_snapshot


def create_table(folder: Path, *fields: Field, **properties: str) -> DeltaSnapshot:
    schema = Schema([Field("id", "long"), *fields])
    DeltaTable.create(folder, schema, configuration=properties)
    snapshot = read_snapshot(folder)
    assert snapshot is not None
    return snapshot


def test_plain_table_may_be_written_and_rewritten(tmp_path: Path) -> None:
    snapshot = create_table(tmp_path / "t", Field("name", "string"))
    assert snapshot.takes_files
    assert snapshot.takes_rewrites
    assert [field.name for field in snapshot.fields] == ["id", "name"]


@pytest.mark.parametrize(
    "field",
    [
        Field(
            "codes",
            ArrayType(PrimitiveType("string"), contains_null=True),
            metadata={"__CHAR_VARCHAR_TYPE_STRING": "array<varchar(3)>"},
        ),
        Field("day", "date", metadata={"delta.generationExpression": "CAST(at AS DATE)"}),
        Field("name", "string", nullable=False),
        Field("codes", ArrayType(PrimitiveType("string"), contains_null=False)),
    ],
    ids=["varchar in an array", "generated", "not null", "array without nulls"],
)
def test_table_whose_values_spark_checks_is_left_to_spark(tmp_path: Path, field: Field) -> None:
    assert not create_table(tmp_path / "t", field).takes_files


@pytest.mark.parametrize("name", ["a%20b", "a%2520b", "a\\b"])
def test_table_whose_folder_deltalake_takes_for_another_is_left_to_spark(
    tmp_path: Path, name: str
) -> None:
    """Deltalake would read the log of the table in ``a b``, and write files into ``a%20b``."""
    for other in ("a b", "a/b"):
        create_table(tmp_path / other)
        shutil.copytree(tmp_path / other, tmp_path / name, dirs_exist_ok=True)
    assert read_snapshot(tmp_path / name) is None
    (tmp_path / "link").symlink_to(tmp_path / name)
    assert read_snapshot(tmp_path / "link") is None
    assert not deltalake_commit.create_table(tmp_path / "new" / name, '{"fields": []}', {})


@pytest.mark.parametrize("name", ["100%", "a%zz", "a b", "a#b?c", "ü"])
def test_table_in_a_folder_with_other_signs_is_read_without_spark(
    tmp_path: Path, name: str
) -> None:
    create_table(tmp_path / name)


def test_table_that_only_takes_appends_is_not_rewritten(tmp_path: Path) -> None:
    snapshot = create_table(tmp_path / "t", **{"delta.appendOnly": "true"})
    assert snapshot.takes_files
    assert not snapshot.takes_rewrites


def test_partition_columns_of_a_local_table_are_read_without_spark(tmp_path: Path) -> None:
    no_spark: Any = None
    fields = [Field(name, PrimitiveType("string")) for name in ("a", "b c", "d")]
    DeltaTable.create(tmp_path / "t", Schema(fields), partition_by=["b c", "a"])
    assert get_partition_columns(no_spark, Table(str(tmp_path / "t"), "t")) == ("b c", "a")


def test_folder_without_a_log_has_no_snapshot(tmp_path: Path) -> None:
    assert read_snapshot(tmp_path) is None


@pytest.mark.parametrize(("levels", "is_created"), [(41, True), (42, False)])
def test_table_with_structs_in_structs_is_created_by_spark_if_they_are_too_deep(
    tmp_path: Path, levels: int, is_created: bool
) -> None:
    inner: Any = "long"
    for _ in range(levels):
        field = {"name": "a", "type": inner, "nullable": True, "metadata": {}}
        inner = {"type": "struct", "fields": [field]}
    column = {"name": "tree", "type": inner, "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [column]})
    assert deltalake_commit.create_table(tmp_path / "t", schema, {}) is is_created
    assert (read_snapshot(tmp_path / "t") is not None) is is_created
    assert (tmp_path / "t").exists() is is_created


def test_table_created_at_the_same_time_by_another_writer_is_kept(tmp_path: Path) -> None:
    writers = 6
    with ThreadPoolExecutor(writers) as pool:
        for attempt in range(50):
            folder, barrier = tmp_path / f"t{attempt}", threading.Barrier(writers)

            def create(
                column: str, folder: Path = folder, wait: threading.Barrier = barrier
            ) -> str:
                schema = Schema([Field(column, "long")]).to_json()
                wait.wait()
                deltalake_commit.create_table(folder, schema, {})
                snapshot = read_snapshot(folder)
                assert snapshot is not None
                return snapshot.id

            assert len(set(pool.map(create, "abcdef"))) == 1
            assert [file.name for file in (folder / "_delta_log").glob("*.json")] == [
                f"{0:020}.json"
            ]
