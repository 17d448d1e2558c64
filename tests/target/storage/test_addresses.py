"""Addresses: a path without a scheme is a local folder, also for Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tap_core.exceptions import ConfigurationError
from target_spark.storage.uris import (
    resolve_address,
    to_local_folder,
    to_spark_scheme,
    to_spark_uri,
)


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
def test_local_paths_and_file_uris_are_local_folders(address, folder):
    assert to_local_folder(address) == Path(folder)
    assert to_spark_uri(address) == f"file://{folder}"


def test_home_folder_of_an_unknown_user_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="no home folder for '~nobody-with-this-name'"):
        to_local_folder("~nobody-with-this-name/x")


@pytest.mark.parametrize("address", ["s3a://b/k", "hdfs:///x", "abfss://c@a/x", "gs://b"])
def test_other_addresses_are_passed_to_spark_unchanged(address):
    assert to_local_folder(address) is None
    assert to_spark_uri(address) == address


def test_every_spelling_of_a_folder_resolves_to_one_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Symbolic links, ``..``, relative paths, doubled and trailing slashes, and URIs."""
    folder = tmp_path / "real" / "tables"
    (tmp_path / "link").symlink_to(tmp_path / "real")
    folder.mkdir(parents=True)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    monkeypatch.chdir(tmp_path / "link")
    spellings = [
        f"{folder}",
        f"{folder}/",
        f"{tmp_path}/link/tables",
        f"{tmp_path}/link//tables/./",
        f"{folder}/../../link/tables",
        "tables",
        "../link/tables",
        f"file:{tmp_path}/link/tables",
        f"FILE://{folder}/",
    ]
    assert {resolve_address(spelling) for spelling in spellings} == {f"file://{folder}"}
    assert resolve_address(f"{tmp_path}/link/new") == f"file://{tmp_path}/real/new"
    assert resolve_address(f"{tmp_path}/loop/x") == f"file://{tmp_path}/loop/x"


@pytest.mark.parametrize(
    "address, expected",
    [
        ("s3://b/k", "s3a://b/k"),
        ("S3N://b/s3://k", "s3a://b/s3://k"),
        ("az://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x"),
        ("gcs://b/k", "gs://b/k"),
        ("HDFS://n/x", "hdfs://n/x"),
        ("/s3://b", "/s3://b"),
        ("", ""),
    ],
)
def test_schemes_of_other_tools_become_those_of_spark(address: str, expected: str) -> None:
    assert to_spark_scheme(address) == expected


@pytest.mark.parametrize(
    "address, expected",
    [
        ("s3a://b/k", "s3a://b/k"),
        ("S3A://b//k/./x/../y/", "s3a://b/k/y"),
        ("s3a://b/", "s3a://b"),
        ("hdfs:///x/", "hdfs:///x"),
        ("catalog:a.b", "catalog:a.b"),
        ("", f"file://{Path.cwd()}"),
    ],
)
def test_other_addresses_are_normalized_by_their_text_only(address: str, expected: str) -> None:
    assert resolve_address(address) == expected
