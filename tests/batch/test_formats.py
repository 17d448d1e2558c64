"""The setting ``batch_config``, and its storage."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tap_core.batch.encodings import (
    BaseBatchFileEncoding,
    BatchConfig,
    BatchFileFormat,
    JSONLinesEncoding,
    ParquetEncoding,
)
from tap_core.batch.storage import StorageTarget, to_local_path
from tap_core.exceptions import ConfigurationError, SingerSDKDeprecationWarning
from tap_core.redaction import redact_url

JSONL = {"format": "jsonl", "compression": "gzip"}


def test_batch_config_survives_conversion_to_objects_and_back():
    document = {"encoding": JSONL, "storage": {"root": "s3://b", "prefix": "p", "params": {"k": 1}}}
    config = BatchConfig.from_dict(document)
    assert config.encoding == BaseBatchFileEncoding("jsonl", "gzip")
    assert config.storage == StorageTarget("s3://b", "p", {"k": 1})
    assert config.asdict() == {**document, "batch_size": 10_000}
    assert asdict(config.encoding) == JSONL
    assert config.storage.asdict() == document["storage"]


def test_batch_config_accepts_encoding_and_storage_objects():
    encoding, storage = BaseBatchFileEncoding("jsonl"), StorageTarget("r")
    config = BatchConfig(encoding, storage, 5)
    assert (config.encoding, config.storage, config.batch_size) == (encoding, storage, 5)


@pytest.mark.parametrize("fields, size", [({"batch_size": 3}, 3), ({"batch_size": None}, 10_000)])
def test_batch_size_has_a_default(fields, size):
    config = BatchConfig.from_dict({"encoding": JSONL, "storage": {"root": "r"}, **fields})
    assert config.batch_size == size


@pytest.mark.parametrize(
    "document, message",
    [
        ({}, "batch_config lacks 'encoding' and 'storage'"),
        ({"encoding": JSONL, "storage": {}}, "lacks 'storage'"),
        ({"encoding": JSONL, "storage": {"prefix": "p"}}, "'storage' lacks 'root'"),
        ({"encoding": {"compression": "gzip"}, "storage": {"root": "r"}}, "lacks 'format'"),
        ({"encoding": {**JSONL, "level": 3}, "storage": {"root": "r"}}, "unknown keys: level"),
        ({"encoding": JSONL, "storage": {"root": "r", "key": "k"}}, "unknown keys: key. Arguments"),
        ({"encoding": JSONL, "storage": {"root": "r"}, "size": 1}, "unknown keys: size"),
        ({"encoding": JSONL, "storage": {"root": "r"}, "batch_size": -1}, "at least 1"),
        ({"encoding": JSONL, "storage": {"root": "r"}, "batch_size": "10"}, "an integer"),
        ({"encoding": JSONL, "storage": {"root": "r"}, "batch_size": 2.5}, "an integer"),
        ({"encoding": JSONL, "storage": {"root": "r", "params": "k"}}, "must be an object"),
    ],
)
def test_missing_and_unknown_keys_are_named_in_the_error(document, message):
    with pytest.raises(ConfigurationError, match=message):
        BatchConfig.from_dict(document)


@pytest.mark.parametrize("kind", [JSONLinesEncoding, ParquetEncoding])
def test_format_specific_encoding_classes_are_deprecated(kind):
    with pytest.warns(SingerSDKDeprecationWarning, match="Use BaseBatchFileEncoding"):
        encoding = kind(compression="gzip")
    assert encoding.format in {member.value for member in BatchFileFormat}
    with pytest.warns(SingerSDKDeprecationWarning) as caught:
        kind.from_dict({"format": encoding.format})
    assert len(caught) == 1


# Storage


def test_storage_urls_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for root in ("a b", "./a b", "file://a b", "file://a%20b", (tmp_path / "a b").as_uri()):
        assert StorageTarget(root).get_url("x.json") == (tmp_path / "a b" / "x.json").as_uri()
    assert StorageTarget("s3://b/c/").get_url("d/x.json") == "s3://b/c/d/x.json"


def test_url_is_split_into_root_and_file_name():
    assert StorageTarget.split_url("s3://b/c/x.json") == ("s3://b/c", "x.json")
    assert StorageTarget.from_url("file:///a/b?x=1") == StorageTarget("file:///a/b")


@pytest.mark.parametrize(
    "address, path",
    [
        ("a/b", "a/b"),
        ("/a%20b", "/a%20b"),
        ("file:///a%20b", "/a b"),
        ("file://localhost/a", "/a"),
        ("file://tests/a", "tests/a"),
        ("local:///a", "/a"),
        ("s3://b/a", None),
    ],
)
def test_local_urls_are_converted_to_paths(address, path):
    assert to_local_path(address) == (None if path is None else Path(path))


@pytest.mark.parametrize("root", ["plain", "as uri", "memory"])
def test_storage_writes_reads_and_removes_a_file(tmp_path, root):
    roots = {"plain": str(tmp_path / "n"), "as uri": (tmp_path / "n").as_uri()}
    storage = StorageTarget(roots.get(root, f"memory://{tmp_path.name}/n"))
    with storage.open("deep/x", "wb") as file:
        file.write(b"abc")
    with storage.open("deep/x") as file:
        assert file.read() == b"abc"
    with storage.open_address(storage.get_url("deep/x")) as file:
        assert file.read() == b"abc"
    storage.remove("deep/x")
    with pytest.raises(FileNotFoundError):
        storage.file("deep/x")
    storage.remove("deep/x")


def test_storage_parameters_are_passed_to_fsspec():
    with StorageTarget("memory://x", params={"skip_instance_cache": True}).open("y", "wb") as file:
        file.write(b"1")
    with pytest.raises(ValueError, match="nosuch"):
        StorageTarget("nosuch://x").file("y")


def test_redacted_url_shows_no_password():
    assert redact_url("ftp://me:secret@host/a?key=k", with_query=False) == "ftp://host/a"
    assert redact_url("/a@b/c", with_query=False) == "/a@b/c"


def test_local_storage_does_not_import_fsspec(tmp_path):
    program = (
        "import sys; from tap_core.batch.storage import StorageTarget\n"
        f"with StorageTarget({str(tmp_path)!r}).open('x', 'wb') as f: f.write(b'1')\n"
        "import tap_core, tap_core.target_base, tap_core.contrib.batch_encoder_jsonl\n"
        "assert not {'fsspec', 'pyarrow'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
