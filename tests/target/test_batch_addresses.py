"""Addresses in BATCH messages that the loader follows, and those that it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tap_core.events import Files, StreamId
from target_spark.errors import FilesError
from target_spark.files import batch_files
from target_spark.settings import load_options

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
    files = Files(StreamId("a"), [address], JSONL)
    with pytest.raises(FilesError, match=r"address.*Nothing of its batch is committed"):
        batch_files(files, 1, {})


def test_an_address_at_the_host_of_the_tables_is_followed() -> None:
    files = Files(StreamId("a"), ["hdfs://name:8020/in/a.jsonl"], JSONL)
    assert batch_files(files, 1, {}, roots=["hdfs://name:8020/tables"])


def test_what_is_no_regular_file_is_refused_in_words(tmp_path: Path) -> None:
    """SEC16: target-spark refuses a pipe or a device in a BATCH message."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    for name in ("pipe.jsonl", "zero.jsonl"):
        with pytest.raises(FilesError, match="it is not a regular file"):
            batch_files(Files(StreamId("a"), [str(tmp_path / name)], JSONL), 1, {})


def test_the_setting_allows_more_schemes() -> None:
    files = Files(StreamId("a"), ["sftp://host/a.jsonl"], JSONL)
    options = load_options({"path": "/tables", "batch_schemes": ["sftp"]})
    assert batch_files(files, 1, {}, options.batch_schemes)
