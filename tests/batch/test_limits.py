"""Limits of batch files that a message names: allowed paths, sizes and memory."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from tap_core.batch import parquet_pages
from tap_core.batch.encodings import BaseBatchFileEncoding
from tap_core.batch.limits import FileLimits
from tap_core.batch.reader import check_file, read_rows
from tap_core.batch.storage import StorageTarget
from tap_core.batch.url_schemes import check_url, get_allowed_schemes
from tap_core.exceptions import BatchFileError
from tap_core.limits.memory import MIB, Bound, InputTooLargeError

SMALL = FileLimits(Bound(1000, "the setting batch_max_line_bytes"))


def read(path: object, form: str = "jsonl", compression: str | None = None, **options: Any) -> Any:
    encoding = BaseBatchFileEncoding(form, compression)
    return list(read_rows(str(path), encoding, stream="s", **options))


def read_error(*args: Any, **options: Any) -> str:
    with pytest.raises(BatchFileError) as error:
        read(*args, **options)
    return str(error.value).partition("cannot be read: ")[2]


def test_path_that_is_not_a_regular_file_is_rejected_without_blocking(tmp_path):
    """SEC16: a BATCH message that names a pipe, a device, a socket or a folder is refused."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "to-pipe").symlink_to("pipe")
    for path in ("/dev/zero", "/dev/tty", *(tmp_path / n for n in ("pipe", "link", "to-pipe"))):
        assert read_error(path) in {"it is not a regular file", "No such device or address"}
        assert read_error(path, "parquet")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert read_error(tmp_path / "socket")
    assert read_error(tmp_path) == "Is a directory"
    (tmp_path / "rows").write_text('{"id":1}\n')
    (tmp_path / "to-rows").symlink_to("rows")
    assert read(tmp_path / "to-rows") == [{"id": 1}]


def test_line_longer_than_the_limit_is_rejected(tmp_path):
    """SEC13: a line of a batch file that is too long is an error that names the limit."""
    row = json.dumps({"id": "x" * 1000}).encode()
    for compression in (None, "gzip"):
        path = tmp_path / f"rows-{compression}"
        path.write_bytes(row if compression is None else gzip.compress(row))
        assert read_error(path, compression=compression, limits=SMALL) == (
            "a line is longer than 1,000 bytes; raise the setting batch_max_line_bytes to read it"
        )
        limits = FileLimits.from_config({"batch_max_line_bytes": 2000})
        assert len(read(path, compression=compression, limits=limits)) == 1


def test_line_with_too_many_values_is_rejected_before_decoding(tmp_path):
    """Many small values take many times the memory of their text."""
    path = tmp_path / "rows"
    path.write_text('{"a":[' + "{}," * 300 + "1]}")
    assert "a line has too many values" in read_error(path, limits=SMALL)


def test_too_many_blank_lines_are_rejected(tmp_path):
    """A compressed file of only line ends would be read for a long time without a row."""
    path = tmp_path / "rows"
    path.write_bytes(gzip.compress(b'{"id":1}\n' + b"\n\r\n" * 999))
    assert "blank lines follow each other" in read_error(path, compression="gzip", limits=SMALL)


@pytest.mark.parametrize(
    "line, reason",
    [
        ("[" * 200_000, "it is nested too deeply"),
        ('{"id": ' + "9" * 100_000 + "}", "a number in it has too many digits"),
        ('{"id": 1e99999999999999999999}', "a number in it has too many digits"),
    ],
)
def test_line_beyond_pythons_limits_is_rejected_with_a_reason(tmp_path, line, reason):
    path = tmp_path / "rows"
    path.write_text(line)
    assert read_error(path) == f"line 1 cannot be read: {reason}"


def many_times(path: Path, value: str, rows: int) -> None:
    """Write a file of a few kilobytes that repeats a long value."""
    indexes = pa.array([0] * rows, pa.int32())
    repeated = pa.DictionaryArray.from_arrays(indexes, pa.array([value]))
    table = pa.table({"id": pa.array(range(rows)), "x": repeated})
    parquet.write_table(
        table, path, compression="zstd", store_schema=False, dictionary_pagesize_limit=1 << 30
    )


def test_repeated_parquet_value_is_held_in_memory_once(tmp_path):
    """A thousand rows of 16 MB each would be 16 GB."""
    many_times(tmp_path / "rows", "a" * (16 * MIB), 3000)
    assert (tmp_path / "rows").stat().st_size < 100_000
    rows = read(tmp_path / "rows", "parquet")
    assert len(rows) == 3000
    assert len({id(row["x"]) for row in rows[:500]}) == 1


def test_column_that_decompresses_beyond_the_limit_is_rejected(tmp_path):
    """The cases are long values, and a list of millions of equal elements."""
    many_times(tmp_path / "value", "a" * 100_000, 10)
    assert "column 'x' unpacks" in read_error(tmp_path / "value", "parquet", limits=SMALL)
    long = pa.array([[0] * 5_000_000], pa.list_(pa.int64()))
    parquet.write_table(pa.table({"x": long}), tmp_path / "list", compression="zstd")
    limits = FileLimits(Bound(MIB, "the setting batch_max_line_bytes"))
    assert "raise the setting batch_max_line_bytes" in read_error(
        tmp_path / "list", "parquet", limits=limits
    )


# Files that Spark reads after a check


def check_limits(path: Path, form: str = "jsonl", compression: str | None = None) -> None:
    """Check a file with a limit of 1,000 bytes per line."""
    check_file(path, BaseBatchFileEncoding(form, compression), SMALL.line)


ROWS = b'{"id":1}\n' * 500
LONG = b'{"id":"' + b"x" * 1000 + b'"}\n'


@pytest.mark.parametrize(
    "text, reason",
    [
        (ROWS + LONG + ROWS, "a line is longer than 1,000 bytes"),
        (ROWS + LONG.rstrip(), "a line is longer than 1,000 bytes"),
        (b'{"a":[' + b"{}," * 300 + b"1]}", "a line has too many values"),
        (ROWS + b"\n\r\n" * 999, "blank lines follow each other"),
    ],
    ids=["line", "last", "values", "blank"],
)
def test_file_check_has_the_limits_of_the_reader(tmp_path, text, reason):
    """SEC13: the limits of the SDK's reader also apply to a file that another reader reads."""
    for compression in (None, "gzip"):
        path = tmp_path / f"rows-{compression}"
        path.write_bytes(text if compression is None else gzip.compress(text))
        with pytest.raises(ValueError, match=reason) as error:
            check_limits(path, compression=compression)
        assert str(error.value) == read_error(path, compression=compression, limits=SMALL)
        assert "batch_max_line_bytes" in str(error.value)


def test_file_check_covers_every_gzip_member(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(gzip.compress(ROWS) + gzip.compress(ROWS))
    check_limits(path, compression="gzip")
    path.write_bytes(gzip.compress(ROWS) + gzip.compress(LONG))
    with pytest.raises(ValueError, match="a line is longer"):
        check_limits(path, compression="gzip")


def test_file_check_reports_broken_and_missing_files(tmp_path):
    (tmp_path / "torn").write_bytes(gzip.compress(ROWS)[:-20])
    (tmp_path / "other").write_bytes(ROWS)
    with pytest.raises(ValueError, match="it ends too early"):
        check_limits(tmp_path / "torn", compression="gzip")
    with pytest.raises(ValueError, match="Not a gzipped file"):
        check_limits(tmp_path / "other", compression="gzip")
    with pytest.raises(ValueError, match="not a parquet file"):
        check_limits(tmp_path / "other", "parquet")
    with pytest.raises(FileNotFoundError):
        check_limits(tmp_path / "missing")


def test_repetition_of_dictionary_texts_is_bounded(tmp_path):
    """SEC13: a small file must not expand to gigabytes of copied texts."""
    path = tmp_path / "rows"
    for value in ("a" * 500, {"y": "a" * 500}):
        parquet.write_table(pa.table({"x": [value] * 2_000}), path)
        with pytest.raises(ValueError, match=r"column 'x.*' repeats its texts to more than"):
            check_limits(path, "parquet")
        parquet.write_table(pa.table({"x": [value] * 20}), path)
        check_limits(path, "parquet")


def test_one_long_text_among_short_ones_is_accepted(tmp_path):
    """The column has 20 kB; the longest text times the number of rows would be 10 MB."""
    path = tmp_path / "rows"
    texts = pa.array(["a" * 500] + ["b"] * 20_000).dictionary_encode()
    parquet.write_table(pa.table({"x": texts}), path, store_schema=False)
    check_limits(path, "parquet")


def test_empty_and_null_columns_are_accepted(tmp_path):
    path = tmp_path / "rows"
    for values in ([], [None] * 9000):
        parquet.write_table(pa.table({"x": pa.array(values, pa.string())}), path)
        check_limits(path, "parquet")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_parquet_page_larger_than_the_limit_is_rejected(tmp_path, version, compression):
    """SEC13: pages are unpacked as a whole, so that the error names the column and the limit."""
    path, limits = tmp_path / "rows", FileLimits(Bound(10_000, "the setting batch_max_line_bytes"))
    texts = [os.urandom(250).hex() for _ in range(1_000)]  # 500 kB in total
    table = pa.table({"id": range(1_000), "x": texts, "parts": [[text] for text in texts]})
    options = {"compression": compression, "data_page_version": version, "use_dictionary": False}
    parquet.write_table(table, path, data_page_size=20_000, write_batch_size=10, **options)
    rows = read(path, "parquet", limits=limits)
    assert [row["x"] for row in rows] == texts
    parquet.write_table(table, path, data_page_size=1 << 30, write_batch_size=1 << 20, **options)
    message = read_error(path, "parquet", limits=limits)
    assert message.startswith("column 'x' has a page that unpacks to 5")
    assert "more than 320,000 bytes; raise the setting batch_max_line_bytes" in message


def test_parquet_file_with_too_many_pages_is_rejected(tmp_path, monkeypatch):
    """SEC13: reading each page header takes time."""
    path, limits = tmp_path / "rows", FileLimits(Bound(1_000, "the setting batch_max_line_bytes"))
    texts = [os.urandom(50).hex() for _ in range(1_000)]
    options = {"use_dictionary": False, "data_page_size": 1, "write_batch_size": 1}
    parquet.write_table(pa.table({"x": texts}), path, **options)
    assert len(read(path, "parquet", limits=limits)) == 1_000
    monkeypatch.setattr(parquet_pages, "_MAX_PAGES", 999)
    message = read_error(path, "parquet", limits=limits)
    assert message == "it has more than 999 pages; let the writer make larger ones"


def test_unreadable_page_header_is_rejected(tmp_path):
    """SEC13: a file whose page sizes cannot be checked is not read."""
    path, limits = tmp_path / "rows", FileLimits(Bound(1_000, "the setting batch_max_line_bytes"))
    table = pa.table({"x": [os.urandom(50).hex() for _ in range(1_000)]})
    parquet.write_table(table, path, use_dictionary=False, compression="none")
    start = parquet.read_metadata(path).row_group(0).column(0).data_page_offset
    content = path.read_bytes()
    for broken in (b"\xff" * 40, b"\x1c" * 5_000, b"\x00" * 40, b"\x15\x00" + b"\x8f" * 40):
        path.write_bytes(content[:start] + broken + content[start + len(broken) :])
        assert f"a page header at byte {start:,} that cannot be read" in read_error(
            path, "parquet", limits=limits
        )


def test_manifest_with_too_many_files_is_rejected():
    """SEC13: the error for a manifest of very many files names the limit and its setting."""
    limits = FileLimits.from_config({})
    limits.check_manifest(5_000)
    with pytest.raises(
        InputTooLargeError, match=r"1,000,000 files, more than 5,000; .*batch_max_files"
    ):
        limits.check_manifest(1_000_000)
    FileLimits.from_config({"batch_max_files": 1_000_000}).check_manifest(1_000_000)


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:9/rows.jsonl",
        "HTTPS://127.0.0.1:9/rows.jsonl",
        "ftp://127.0.0.1:9/rows.jsonl",
        "sftp://host/rows.jsonl",
        "ssh://host/rows.jsonl",
        "smb://host/share/rows.jsonl",
        "hdfs://host/rows.jsonl",
        "webhdfs://host/rows.jsonl",
        "github://org:repo@main/rows.jsonl",
        "simplecache::http://127.0.0.1:9/rows.jsonl",
        "filecache::file:///etc/passwd",
        "blockcache::s3://bucket/rows.jsonl",
        "zip://rows.jsonl::http://127.0.0.1:9/rows.zip",
        "s3://bucket/a::http://127.0.0.1:9/rows",
        "reference://::http://127.0.0.1:9/ref.json",
        "tar://rows::file:///tmp/rows.tar",
        "dask://x",
        "data:,x://",
        "FILE:///etc/passwd",
        "abfss://container@127.0.0.1:9/rows.jsonl",
        "abfs://c@core.windows.net.example.com/rows.jsonl",
        "wasb://169.254.169.254/rows.jsonl",
        "wasbs://example.com/rows.jsonl",
        "adl://example.com/rows.jsonl",
    ],
)
def test_url_with_a_host_or_another_protocol_is_rejected(address):
    """SEC16: a BATCH message cannot name a host or another protocol."""
    with pytest.raises(ValueError, match="address"):
        check_url(address)
    assert "address" in read_error(address)


@pytest.mark.parametrize(
    "address",
    [
        *("/tmp/a", "file:///tmp/a", "local:///tmp/a", "a::b"),
        *("s3://bucket/a", "s3a://bucket/a", "gs://bucket/a", "gcs://bucket/a", "memory://a"),
        "abfss://container@account.dfs.core.windows.net/a",
        "az://container/a",
        "adl://account.azuredatalakestore.net/a",
    ],
)
def test_urls_of_local_files_and_object_stores_are_accepted(address):
    check_url(address)


def test_batch_schemes_and_configured_storage_allow_more_urls():
    """A URL is allowed by its scheme, or if it has the host of a configured storage."""
    check_url("sftp://host/a", get_allowed_schemes({"batch_schemes": ["SFTP://"]}))
    check_url("hdfs://name:8020/b/a", roots=["hdfs://name:8020/warehouse"])
    for other in ("hdfs://other:8020/a", "hdfs://name:8021/a", "http://name:8020/a"):
        with pytest.raises(ValueError, match="begins with"):
            check_url(other, roots=["hdfs://name:8020/warehouse", "/local"])


def test_path_cannot_leave_the_configured_storage(tmp_path):
    """Paths with `..`, also escaped, and absolute paths are not read outside of the storage."""
    (tmp_path / "secret.json").write_text('{"id":"secret"}')
    inner = tmp_path / "files"
    inner.mkdir()
    (inner / "rows.json").write_text('{"id":1}')
    (tmp_path / "files-of-others").mkdir()
    (tmp_path / "files-of-others" / "rows.json").write_text('{"id":"secret"}')
    for root in (str(inner), inner.as_uri()):
        storage = StorageTarget(root)
        assert read(f"{root}/../files/rows.json", storage=storage) == [{"id": 1}]
        assert read(f"{inner.as_uri()}-of-others/rows.json", storage=storage) == [{"id": 1}]
        for address in (
            f"{root}/../secret.json",
            f"{root}/..%2Fsecret.json",
            f"{inner.as_uri()}/%2E%2E/secret.json",
            "..%2Fsecret.json",
            "x/..",
            "x/",
            f"%2F{tmp_path}/secret.json".replace("/", "%2F"),
        ):
            assert "secret" not in str(read_error(address, storage=storage)), address
    fsspec.filesystem("memory").pipe("/secret.json", b'{"id":"secret"}')
    storage = StorageTarget("memory://files")
    assert read_error("memory://files/../secret.json", storage=storage) == "it does not exist"


BOMBS = """
import sys
from tap_core.batch.encodings import BaseBatchFileEncoding
from tap_core.batch.reader import read_rows
from tests.process_memory import read_peak_memory
try:
    for _ in read_rows(sys.argv[1], BaseBatchFileEncoding(sys.argv[2], sys.argv[3]), stream="s"):
        pass
except Exception as error:
    print(error)
print(read_peak_memory() >> 20)
"""


def packed(path: Path, head: bytes, block: bytes, times: int) -> None:
    packer = zlib.compressobj(9, wbits=31)
    with path.open("wb") as out:
        out.write(packer.compress(head))
        for _ in range(times):
            out.write(packer.compress(block))
        out.write(packer.flush())


@pytest.mark.thorough
@pytest.mark.parametrize(
    "head, block, times",
    [
        (b'{"x":"', b"a" * MIB, 400),
        (b'{"x":[', b"{}," * (21 * MIB), 1),
        (b'{"x":[', b"1.5," * (15 * MIB), 1),
        (b'{"x":[', b'{"k":1.5},' * (MIB // 2 - 1000), 1),
        (b'{"x":"\xf0\x9f\x98\x80', b"a" * MIB, 63),
        (b'{"x":[', b'{"k":1.5},' * (MIB - 1000), 1),
    ],
    ids=["text", "objects", "numbers", "small", "wide", "keys"],
)
def test_no_compressed_row_takes_more_than_600_megabytes(tmp_path, head, block, times):
    """SEC13: no row of a packed batch file takes more than 600 MB of memory."""
    packed(tmp_path / "rows", head, block, times)
    command = [sys.executable, "-c", BOMBS, str(tmp_path / "rows"), "jsonl", "gzip"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert int(process.stdout.split()[-1]) < 600, process.stdout
