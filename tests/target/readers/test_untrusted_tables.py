"""Reads of tables that come from others by `target_spark.open_warehouse`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import target_spark
from target_spark.errors import TableError

OUTSIDE = "cannot be read without Spark, because its metadata names the file .* not in this folder"
FIELD = {"name": "id", "type": "long", "nullable": True, "metadata": {}}


class CalledFileIO:
    """A class that a table names, and that keeps the arguments of its calls."""

    calls: ClassVar[list[object]] = []

    def __init__(self, properties: object) -> None:
        self.calls.append(properties)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return an empty folder of tables, beside a file that belongs to no table."""
    (tmp_path / "lake").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "private.parquet")
    return tmp_path / "lake"


def test_class_that_an_iceberg_table_names_is_not_called(lake: Path) -> None:
    """SEC24: the property py-io-impl of a table, which may be subprocess.Popen, has no effect."""
    make_iceberg_table(lake / "a", {"py-io-impl": f"{__name__}.{CalledFileIO.__name__}"})
    a = target_spark.open_warehouse(lake)["a"]
    assert a.schema.names == ["id"]
    assert a.to_arrow().num_rows == 0
    assert CalledFileIO.calls == []


@pytest.mark.parametrize(
    "address",
    [
        "{private}",
        "file://{private}",
        "file:{private}?/../../../../../../../../../..{table}/a",
        "{table}/../../private.parquet",
        "file://tmp/private.parquet",
        " s3://bucket/a",
        "http://127.0.0.1:1/a",
    ],
)
def test_files_of_an_iceberg_table_are_in_its_folder(lake: Path, address: str) -> None:
    """SEC24: the metadata of an Iceberg table leads to no other file and to no URL."""
    address = address.format(private=lake.parent / "private.parquet", table=lake / "a")
    make_iceberg_table(lake / "a", {}, manifests=address)
    with pytest.raises(TableError, match=OUTSIDE):
        target_spark.open_warehouse(lake)["a"].to_arrow()


@pytest.mark.parametrize("features", [[], ["typeWidening"]])
@pytest.mark.parametrize(
    "address",
    [
        "../../private.parquet",
        "%2e%2e/..%2fprivate.parquet",
        "..\\..\\private.parquet",
        ".\t./.\t./private.parquet",
        "{private}",
        " {private}",
        "file://{private}",
        "{private}?/../../../../../../../../../..{table}/a",
        "{private}#/../../../../../../../../../..{table}/a",
        "link.parquet",
        "s3://bucket/a",
    ],
)
def test_files_of_a_delta_table_are_in_its_folder(
    lake: Path, address: str, features: list[str]
) -> None:
    """SEC24: the log of a Delta table leads to no other file and to no URL."""
    private = lake.parent / "private.parquet"
    make_delta_table(lake / "a", address.format(private=private, table=lake / "a"), features)
    (lake / "a" / "link.parquet").symlink_to(private)
    with pytest.raises(TableError, match=OUTSIDE):
        target_spark.open_warehouse(lake)["a"].to_arrow()


@pytest.mark.parametrize(
    "kind, address",
    [
        ("p", "file://{private}"),
        ("p", "http://127.0.0.1:1/a"),
        ("p", "../private.parquet"),
        ("u", "../../private"),
        ("u", "%2e%2e/private"),
        ("u", "file:"),
        ("u", "/"),
        ("u", "inner"),
    ],
)
@pytest.mark.parametrize("is_checkpoint", [False, True])
def test_deletion_vectors_of_a_delta_table_are_in_its_folder(
    lake: Path, kind: str, address: str, *, is_checkpoint: bool
) -> None:
    """SEC24: a deletion vector that the log of a Delta table names is no other file and no URL."""
    path = address.format(private=lake.parent / "private.parquet")
    vector = {
        "storageType": kind,
        "pathOrInlineDv": path + "ab^-aqEH.-t@S}K{vb[*k^"[:20] if kind == "u" else path,
        "offset": 1,
        "sizeInBytes": 36,
        "cardinality": 1,
    }
    pq.write_table(pa.table({"id": [1]}), lake / "part.parquet")
    make_delta_table(lake / "a", "part.parquet", ["deletionVectors"], deletionVector=vector)
    (lake / "a" / "inner").mkdir()
    (lake / "a" / "inner" / "deletion_vector_1.bin").symlink_to(lake.parent / "private.parquet")
    if is_checkpoint:
        log = lake / "a" / "_delta_log"
        pq.write_table(
            pa.table({"add": [{"path": "part.parquet", "deletionVector": vector}]}),
            log / f"{0:020}.checkpoint.parquet",
        )
        make_delta_table(lake / "b", "part.parquet", [])
        (lake / "b" / "_delta_log" / f"{0:020}.json").replace(log / f"{0:020}.json")
    with pytest.raises(TableError, match=OUTSIDE):
        target_spark.open_warehouse(lake)["a"].to_arrow()


@pytest.mark.parametrize("address", ["file://{private}", "{private}", "../../../private.parquet"])
def test_sidecars_of_a_delta_table_are_in_its_folder(lake: Path, address: str) -> None:
    """SEC24: a checkpoint of a Delta table leads to no other file."""
    make_delta_table(lake / "a", "part.parquet", ["v2Checkpoint"])
    sidecar = {"path": address.format(private=lake.parent / "private.parquet"), "sizeInBytes": 1}
    name = f"{0:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    (lake / "a" / "_delta_log" / name).write_text(json.dumps({"sidecar": sidecar}))
    with pytest.raises(TableError, match=OUTSIDE):
        target_spark.open_warehouse(lake)["a"].to_arrow()


def test_log_of_a_delta_table_is_in_its_folder(lake: Path) -> None:
    """SEC24: the log of a table is not the log of another table."""
    make_delta_table(lake / "a", "part.parquet", [])
    (lake / "b").mkdir()
    (lake / "b" / "_delta_log").symlink_to(lake / "a" / "_delta_log")
    with pytest.raises(TableError, match=OUTSIDE):
        target_spark.open_warehouse(lake)["b"].to_arrow()


@pytest.mark.parametrize(
    "pipe",
    [
        "delta/part.parquet",
        "delta/_delta_log/_last_checkpoint",
        f"delta/_delta_log/{1:020}.json",
        "iceberg/metadata/v2.metadata.json",
        "iceberg/manifests",
    ],
)
def test_pipe_is_not_read_as_a_file_of_a_table(lake: Path, pipe: str) -> None:
    """SEC24: a read of a pipe would never end."""
    make_delta_table(lake / "delta", "part.parquet", [])
    make_iceberg_table(lake / "iceberg", {}, manifests=str(lake / "iceberg" / "manifests"))
    os.mkfifo(lake / pipe)
    with pytest.raises(TableError, match=r"which is not a regular file"):
        target_spark.open_warehouse(lake)[Path(pipe).parts[0]].to_arrow()


def test_runs_are_not_read_from_a_pipe(lake: Path) -> None:
    """SEC24: the same for the commits of an Iceberg table."""
    make_iceberg_table(lake / "a", {})
    os.mkfifo(lake / "a" / "metadata" / "v2.metadata.json")
    with pytest.raises(TableError, match=r"which is not a regular file"):
        assert target_spark.open_warehouse(lake)["a"].runs


@pytest.mark.parametrize("address", ["../../private.parquet", "{private}"])
def test_files_of_a_parquet_table_are_in_its_folder(lake: Path, address: str) -> None:
    """SEC24: the manifest of a Parquet table leads to no other file."""
    (lake / "a").mkdir()
    parts = [address.format(private=lake.parent / "private.parquet")]
    manifest = {"commit": 1, "marker": None, "parts": parts, "schema": {}}
    (lake / "a" / "_manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(TableError, match=OUTSIDE):
        target_spark.open_warehouse(lake)["a"].to_arrow()


def test_tables_below_a_link_and_with_absolute_paths_are_read(lake: Path, tmp_path: Path) -> None:
    make_delta_table(lake / "a", f"{lake}/a/part%20%C3%A9.parquet", [])
    pq.write_table(pa.table({"id": [1]}), lake / "a" / "part é.parquet")
    (tmp_path / "link").symlink_to(lake)
    for folder in (lake, tmp_path / "link"):
        assert target_spark.open_warehouse(folder)["a"].to_arrow().to_pylist() == [{"id": 1}]


def make_iceberg_table(
    folder: Path, properties: dict[str, str], manifests: str | None = None
) -> None:
    """Make an Iceberg table of the integer ``id`` with a snapshot, if it has a manifest list."""
    summary = {"operation": "append"}
    snapshot = {"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1, "summary": summary}
    snapshots = [] if manifests is None else [{**snapshot, "manifest-list": manifests}]
    columns = [{"id": 1, "name": "id", "required": False, "type": "long"}]
    metadata: dict[str, Any] = {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": f"file://{folder}",
        "last-sequence-number": 1,
        "last-updated-ms": 1,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": columns}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": properties,
        "current-snapshot-id": 1 if snapshots else -1,
        "snapshots": snapshots,
    }
    (folder / "metadata").mkdir(parents=True)
    (folder / "metadata" / "v1.metadata.json").write_text(json.dumps(metadata))


def make_delta_table(folder: Path, file: str, features: list[str], **kwargs: object) -> None:
    """Make a Delta table of the integer ``id`` whose log names a file, with ``kwargs`` fields."""
    schema = json.dumps({"type": "struct", "fields": [FIELD]})
    size = (folder.parents[1] / "private.parquet").stat().st_size
    actions: list[dict[str, Any]] = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        },
        {
            "metaData": {
                "id": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": {},
            }
        },
        {
            "add": {
                "path": file,
                "partitionValues": {},
                "size": size,
                "modificationTime": 1,
                "dataChange": True,
                **kwargs,
            }
        },
    ]
    (folder / "_delta_log").mkdir(parents=True)
    log = folder / "_delta_log" / f"{0:020}.json"
    log.write_text("\n".join(map(json.dumps, actions)))
