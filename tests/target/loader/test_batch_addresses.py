"""Addresses in BATCH messages: those that the loader reads, and those that it rejects."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tap_core.batch.limits import FileLimits
from tap_core.batch.parquet import ParquetEncoder
from tap_core.events import BatchFiles, StreamId
from target_spark.config.settings import load_options
from target_spark.errors import FilesError
from target_spark.loader.batch_file_checks import check_batch_files
from target_spark.loader.batch_file_download import downloaded_files
from target_spark.storage.spool import SpoolFolder

JSONL = {"format": "jsonl"}


@pytest.mark.parametrize(
    "address",
    [
        *("http://127.0.0.1:9/a.jsonl", "HTTPS://h/a.jsonl", "ftp://h/a.jsonl", "sftp://h/a.jsonl"),
        *("hdfs://h/a.jsonl", "webhdfs://h/a.jsonl", "har://hdfs-h/a.jsonl", "viewfs://h/a.jsonl"),
        *("zip://a::http://h/a.jsonl", "s3://b/a::http://h/a.jsonl", "FILE:///etc/a.jsonl"),
        "abfss://c@127.0.0.1:9/a.jsonl",
    ],
)
def test_address_of_another_host_is_rejected(address: str) -> None:
    """SEC16: target-spark follows no address of another host in a BATCH message."""
    files = BatchFiles(StreamId("a"), [address], JSONL)
    with pytest.raises(FilesError, match=r"address.*Nothing of its batch is committed"):
        check_batch_files(files, 1, {})


def test_address_on_the_host_of_the_tables_is_accepted() -> None:
    files = BatchFiles(StreamId("a"), ["hdfs://name:8020/in/a.jsonl"], JSONL)
    assert check_batch_files(files, 1, {}, roots=["hdfs://name:8020/tables"])


def test_file_that_is_not_regular_is_rejected(tmp_path: Path) -> None:
    """SEC16: target-spark rejects a pipe or a device in a BATCH message."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    for name in ("pipe.jsonl", "zero.jsonl"):
        with pytest.raises(FilesError, match="it is not a regular file"):
            check_batch_files(BatchFiles(StreamId("a"), [str(tmp_path / name)], JSONL), 1, {})


def test_batch_schemes_setting_allows_more_schemes() -> None:
    files = BatchFiles(StreamId("a"), ["sftp://host/a.jsonl"], JSONL)
    options = load_options({"path": "/tables", "batch_schemes": ["sftp"]})
    assert check_batch_files(files, 1, {}, options.batch_limits)


@pytest.mark.parametrize(
    ("schema", "json_properties"),
    [
        ({"properties": {"a": {"type": ["null", "string"]}, "b": {"type": "integer"}}}, {"b"}),
        ({"anyOf": [{"properties": {"a": {"type": "string"}, "b": {}}}]}, {"b"}),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}, set()),
        ({"properties": {"a": {"type": 5}, "b": {"anyOf": 5}, "c": "x"}}, {"a", "b", "c"}),
        *(({"type": "object", "properties": odd}, set()) for odd in ("object", ["a"], 5, None)),
    ],
)
def test_properties_of_parquet_files_other_than_text_are_in_json(
    schema: dict[str, Any], json_properties: set[str]
) -> None:
    """SEC21: also if the schema is invalid; then it declares no properties."""
    files = BatchFiles(StreamId("a"), ["hdfs://name/a.parquet"], {"format": "parquet"})
    (file,) = check_batch_files(files, 1, schema, roots=["hdfs://name/tables"])
    assert file.json_properties == json_properties


def test_columns_that_a_parquet_file_marks_as_json_are_read_as_json(tmp_path: Path) -> None:
    """A number in a column of strings lets a tap write all its values as JSON, also the strings."""
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    contents = {"mixed": [b'{"a":"x","b":"y"}', b'{"a":5,"b":null}'], "plain": [b'{"a":"x"}']}
    for name, rows in contents.items():
        with (tmp_path / f"{name}.parquet").open("wb") as file:
            encoder = ParquetEncoder(file, schema, None)
            encoder.write(rows)
            encoder.finish()
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "other.parquet", store_schema=False)
    paths = [str(tmp_path / f"{name}.parquet") for name in (*contents, "other", "mixed")]
    event = BatchFiles(StreamId("a"), paths, {"format": "parquet"})
    files = check_batch_files(event, 1, schema)
    no_spark: Any = None
    with (
        closing(SpoolFolder(tmp_path)) as folder,
        downloaded_files(no_spark, files, folder, FileLimits()) as checked,
    ):
        assert [file.json_properties for file in checked] == [{"a"}, set(), set(), {"a"}]
        assert [file.address for file in checked] == [file.address for file in files]


def test_message_with_too_many_files_is_rejected_before_any_is_opened(tmp_path: Path) -> None:
    """SEC13: target-spark rejects a manifest of very many files."""
    missing = BatchFiles(StreamId("a"), [str(tmp_path / "missing.jsonl")] * 20, JSONL)
    limits = load_options({"path": "/tables", "batch_max_files": 19}).batch_limits
    with pytest.raises(FilesError) as error:
        check_batch_files(missing, 1, {}, limits)
    assert str(error.value) == (
        "Stream a: a BATCH message names 20 files, more than 19; raise the setting"
        " batch_max_files, or let the tap name fewer in one message. Nothing of its batch is"
        " committed, and no state after it is emitted."
    )
    with pytest.raises(FilesError, match="it does not exist"):
        check_batch_files(missing, 1, {})


def test_address_that_the_system_refuses_is_named():
    """SEC15: a name that is too long ends in an error that names the stream."""
    files = BatchFiles(StreamId("a"), [f"/{'x' * 300}"], JSONL)
    with pytest.raises(FilesError, match=r"Stream a: batch file /x+ cannot be read: file name too"):
        check_batch_files(files, 1, {})
