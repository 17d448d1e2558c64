"""Addresses in BATCH messages that the loader follows, and those that it refuses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tap_core.events import BatchFiles, StreamId
from target_spark.config.settings import load_options
from target_spark.errors import FilesError
from target_spark.loader.batch_files import batch_files

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
def test_addresses_of_other_hosts_are_not_followed(address: str) -> None:
    """SEC16: target-spark follows no address of another host in a BATCH message."""
    files = BatchFiles(StreamId("a"), [address], JSONL)
    with pytest.raises(FilesError, match=r"address.*Nothing of its batch is committed"):
        batch_files(files, 1, {})


def test_an_address_at_the_host_of_the_tables_is_followed() -> None:
    files = BatchFiles(StreamId("a"), ["hdfs://name:8020/in/a.jsonl"], JSONL)
    assert batch_files(files, 1, {}, roots=["hdfs://name:8020/tables"])


def test_what_is_no_regular_file_is_refused_in_words(tmp_path: Path) -> None:
    """SEC16: target-spark refuses a pipe or a device in a BATCH message."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    for name in ("pipe.jsonl", "zero.jsonl"):
        with pytest.raises(FilesError, match="it is not a regular file"):
            batch_files(BatchFiles(StreamId("a"), [str(tmp_path / name)], JSONL), 1, {})


def test_the_setting_allows_more_schemes() -> None:
    files = BatchFiles(StreamId("a"), ["sftp://host/a.jsonl"], JSONL)
    options = load_options({"path": "/tables", "batch_schemes": ["sftp"]})
    assert batch_files(files, 1, {}, options.batch_limits)


@pytest.mark.parametrize(
    ("schema", "more"),
    [
        ({"properties": {"a": {"type": ["null", "string"]}, "b": {"type": "integer"}}}, {"b"}),
        ({"anyOf": [{"properties": {"a": {"type": "string"}, "b": {}}}]}, {"b"}),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}, set()),
        ({"properties": {"a": {"type": 5}, "b": {"anyOf": 5}, "c": "x"}}, {"a", "b", "c"}),
        *(({"type": "object", "properties": odd}, set()) for odd in ("object", ["a"], 5, None)),
    ],
)
def test_properties_that_are_more_than_text_are_known(
    schema: dict[str, Any], more: set[str]
) -> None:
    """SEC21: also where the schema is an odd one; it declares no properties then."""
    files = BatchFiles(StreamId("a"), ["hdfs://name/a.parquet"], {"format": "parquet"})
    (found,) = batch_files(files, 1, schema, roots=["hdfs://name/tables"])
    assert found.in_json == more


def test_a_message_of_too_many_files_is_refused_before_one_is_looked_at(tmp_path: Path) -> None:
    """SEC13: target-spark refuses a manifest of very many files in words."""
    missing = BatchFiles(StreamId("a"), [str(tmp_path / "missing.jsonl")] * 20, JSONL)
    limits = load_options({"path": "/tables", "batch_max_files": 19}).batch_limits
    with pytest.raises(FilesError) as error:
        batch_files(missing, 1, {}, limits)
    assert str(error.value) == (
        "Stream a: a BATCH message names 20 files, more than 19; raise the setting"
        " batch_max_files, or let the tap name fewer in one message. Nothing of its batch is"
        " committed, and no state after it is emitted."
    )
    with pytest.raises(FilesError, match="it does not exist"):
        batch_files(missing, 1, {})
