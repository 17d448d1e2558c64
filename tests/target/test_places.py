"""Addresses: what has no scheme is a folder of this machine, for Spark too."""

from __future__ import annotations

from pathlib import Path

import pytest

from target_spark.places import local_folder, spark_address


@pytest.mark.parametrize(
    "address, folder",
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("FILE:///a b%20", "/a b%20"),
        ("rel", f"{Path.cwd()}/rel"),
        ("./a:b", f"{Path.cwd()}/a:b"),
        ("~/x", f"{Path.home()}/x"),
    ],
)
def test_folders_of_this_machine(address, folder):
    assert local_folder(address) == Path(folder)
    assert spark_address(address) == f"file://{folder}"


@pytest.mark.parametrize("address", ["s3a://b/k", "hdfs:///x", "abfss://c@a/x", "gs://b"])
def test_all_other_addresses_are_left_to_spark(address):
    assert local_folder(address) is None
    assert spark_address(address) == address
