"""Storage that is unavailable for a moment while batch files are read or tables are maintained."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import pytest
from pyarrow import parquet

from tap_core.batch.limits import FileLimits
from target_spark.errors import DiskFullError, FilesError, QuarantineError, StorageError
from target_spark.loader import batch_file_download
from target_spark.loader.batch_file_checks import BatchFile, check_content
from target_spark.storage import commit_retry
from target_spark.tables.table import MaintenanceOptions, Table
from target_spark.writers.delta.writer import DeltaWriter
from tests.server_thread import serve_in_thread
from tests.target.warehouse import ID, Warehouse, feed, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.thorough]

JSONL = {"format": "jsonl"}
GZIP = {"format": "jsonl", "compression": "gzip"}
PARQUET = {"format": "parquet"}
AWAY = {
    "exception": "RetriableException",
    "javaClassName": "org.apache.hadoop.ipc.RetriableException",
    "message": "the storage is away",
}


class Storage(ThreadingHTTPServer):
    """A WebHDFS server for files; ``failing`` chooses the reads that fail."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.reads = 0
        self.failing: Callable[[int], bool] = {0}.__contains__

    def put(self, name: str, *rows: dict[str, Any]) -> str:
        self.files[name] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        return f"webhdfs://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    """The requests of one client."""

    server: Storage

    def log_message(self, *_args: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        content = self.server.files[url.path.rpartition("/")[2]]
        query = dict(parse_qsl(url.query))
        if query["op"] == "OPEN":
            self.read(content[int(query.get("offset", 0)) :], here="here" in query)
            return
        size = len(content)
        answers: dict[str, Any] = {
            "GETFILESTATUS": {"FileStatus": status(size)},
            "LISTSTATUS": {"FileStatuses": {"FileStatus": [status(size)]}},
            "GETFILEBLOCKLOCATIONS": {"BlockLocations": {"BlockLocation": [block(size)]}},
        }
        self.answer(json.dumps(answers[query["op"]]).encode(), "application/json")

    def do_DELETE(self) -> None:
        del self.server.files[urlsplit(self.path).path.rpartition("/")[2]]
        self.answer(b'{"boolean": true}', "application/json")

    def read(self, content: bytes, *, here: bool) -> None:
        if not here:  # WebHDFS redirects to the server that has the bytes
            self.send_response(307)
            here_too = f"http://127.0.0.1:{self.server.server_port}{self.path}&here=1"
            self.send_header("Location", here_too)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.server.reads += 1
        if self.server.failing(self.server.reads):
            self.answer(json.dumps({"RemoteException": AWAY}).encode(), "application/json", 503)
            return
        self.answer(content, "application/octet-stream")

    def answer(self, data: bytes, kind: str, code: int = 200) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def status(size: int) -> dict[str, Any]:
    fields = {"type": "FILE", "pathSuffix": "", "owner": "x", "group": "x", "permission": "644"}
    times = {"accessTime": 0, "modificationTime": 0}
    return {"length": size, "blockSize": 1 << 20, "replication": 1, **fields, **times}


def block(size: int) -> dict[str, Any]:
    hosts = {"hosts": ["localhost"], "names": ["localhost:1"], "topologyPaths": ["/x/localhost:1"]}
    return {"cachedHosts": [], "corrupt": False, "length": size, "offset": 0, **hosts}


@pytest.fixture
def storage() -> Iterator[Storage]:
    with serve_in_thread(Storage()) as storage:
        yield storage


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses before retries."""
    for fault, pauses in commit_retry.BACKOFF_SECONDS.items():
        monkeypatch.setitem(commit_retry.BACKOFF_SECONDS, fault, tuple(0.01 for _ in pauses))


def batch(*manifest: str, encoding: Any = JSONL) -> dict[str, Any]:
    return {"type": "BATCH", "stream": "a", "encoding": encoding, "manifest": list(manifest)}


def test_files_are_read_again_after_an_outage_and_loaded_once(
    delta: Warehouse, storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    """The storage fails at each file until the retry is logged."""
    away_after, read = [0, 1], 0

    def count_retries() -> int:
        return sum("its batch files: attempt" in text for text in caplog.messages)

    def failing(_number: int) -> bool:
        nonlocal read
        number = count_retries()
        if number < len(away_after) and read == away_after[number]:
            return True
        read += 1
        return False

    storage.failing = failing
    addresses = [storage.put(f"{n}.jsonl", {"id": 10 * n}, {"id": 10 * n + 1}) for n in (1, 2)]
    loader, spool = delta.open(
        flush_rows=1, add_record_metadata=True, delete_batch_files=True, batch_schemes=["webhdfs"]
    )
    feed(loader, schema("a", ID, "id"), record("a", id=1))
    for number, address in enumerate(addresses):
        feed(loader, batch(address), record("a", id=10 * number + 19), state(number))
    loader.finish(whole=True)
    loader.close()
    spool.close()
    assert delta.states[-1] == 1
    loaded = [(row["_sdc_sequence"], row.id) for row in delta.read("a").collect()]
    assert [id_ for _, id_ in sorted(loaded)] == [1, 10, 11, 19, 20, 21, 29]
    assert len({sequence for sequence, _ in loaded}) == len(loaded)
    assert (count_retries(), read) == (2, 2)
    assert storage.files == {}
    assert delta.counts("a")["received"] == 7
    assert not list((delta.folder.parent / "spool").iterdir())


def test_files_of_unavailable_storage_are_an_error_and_kept(
    delta: Warehouse, storage: Storage
) -> None:
    messages = (schema("a", ID), batch(storage.put("x.jsonl", {"id": 1})), state(1))
    storage.failing = bool
    text = r"(?s)Stream a: its batch files: The storage.*Tried 5 times.*x\.jsonl"
    with pytest.raises(StorageError, match=text):
        delta.load(*messages, delete_batch_files=True, batch_schemes=["webhdfs"])
    assert (delta.states, [*storage.files]) == ([], ["x.jsonl"])
    storage.failing = {0}.__contains__
    assert delta.load(*messages, delete_batch_files=True, batch_schemes=["webhdfs"]) == [1]
    assert (delta.rows("a"), storage.files) == ([(1,)], {})


def test_files_whose_rows_are_not_committed_are_kept(delta: Warehouse, storage: Storage) -> None:
    address = storage.put("x.jsonl", {"id": 1}, {"id": "x"})
    with pytest.raises(QuarantineError):
        delta.load(
            schema("a", ID),
            batch(address),
            delete_batch_files=True,
            batch_schemes=["webhdfs"],
            max_quarantined=0,
        )
    assert [*storage.files] == ["x.jsonl"]


def too_large() -> list[tuple[str, bytes, dict[str, str], str]]:
    """Return files that exceed a limit on memory, and the text of their errors."""
    page = io.BytesIO()
    options: dict[str, Any] = {"use_dictionary": False, "data_page_size": 1 << 30}
    rows = pa.table({"id": [os.urandom(500).hex() for _ in range(400)]})
    parquet.write_table(rows, page, compression="none", write_batch_size=1 << 20, **options)
    endless = gzip.compress(b"a" * 400_000_000, 1)
    long = b'{"id": 1}\n' * 99 + b'{"id": "%b"}\n' % (b"x" * 10_000)
    return [
        ("a.json.gz", endless, GZIP, "a line is longer than 10,000 bytes"),
        ("b.jsonl", long, JSONL, "a line is longer than 10,000 bytes"),
        ("c.parquet", page.getvalue(), PARQUET, "column 'id' has a page that unpacks to 4"),
    ]


def test_remote_file_with_too_long_lines_is_rejected(delta: Warehouse, storage: Storage) -> None:
    """SEC13: with the error for local files; Spark does not read the file."""
    options = {"batch_schemes": ["webhdfs"], "batch_max_line_bytes": 10_000}
    good = storage.put("good.jsonl", {"id": 1}, {"id": 2})
    for name, content, encoding, reason in too_large():
        bad = storage.put(name)
        storage.files[name] = content
        text = rf"Stream a: batch file {bad} cannot be read: {reason}.*batch_max_line_bytes"
        messages = (batch(good), batch(bad, encoding=encoding), state(1))
        with pytest.raises(FilesError, match=text):
            delta.load(schema("a", ID), *messages, **options)
        assert delta.states == []
        assert not list((delta.folder.parent / "spool").iterdir())
    assert delta.load(schema("a", ID), batch(good, good), state(1), **options) == [1]
    assert delta.rows("a") == [(1,), (1,), (2,), (2,)]


def test_error_of_a_downloaded_file_names_its_address(delta: Warehouse, storage: Storage) -> None:
    """Some invalid files fail the loader's own check, others fail in Spark."""
    for name, encoding in (("x.parquet", PARQUET), ("x.json.gz", GZIP), ("x.jsonl", JSONL)):
        address = storage.put(name)
        storage.files[name] = b'{"id": 1}\n{"id": 2'
        with pytest.raises(FilesError, match=f"batch file {address} cannot be read") as error:
            delta.load(
                schema("a", ID), batch(address, encoding=encoding), batch_schemes=["webhdfs"]
            )
        assert str(delta.folder.parent) not in str(error.value)


def test_checked_copy_is_what_spark_reads(
    delta: Warehouse, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC13: a file that is changed after its check has no effect."""
    address = storage.put("x.jsonl", {"id": 1})

    def check_and_change(file: BatchFile, limits: FileLimits) -> None:
        check_content(file, limits)
        storage.put("x.jsonl", {"id": 2})

    monkeypatch.setattr(batch_file_download, "check_content", check_and_change)
    assert delta.load(schema("a", ID), batch(address), state(1), batch_schemes=["webhdfs"]) == [1]
    assert (delta.rows("a"), storage.reads) == ([(1,)], 1)


def test_full_disk_during_a_download_is_an_error(
    delta: Warehouse, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(batch_file_download, "fetch_file", full)
    with pytest.raises(DiskFullError, match=r"No space is left for uncommitted rows \(/.*spool"):
        delta.load(
            schema("a", ID), batch(storage.put("x.jsonl", {"id": 1})), batch_schemes=["webhdfs"]
        )


class UnavailableWriter(DeltaWriter):
    """A writer whose first maintenance attempts fail."""

    tries = 0
    away = 0

    def maintain(self, spark: SparkSession, table: Table, care: MaintenanceOptions) -> None:
        UnavailableWriter.tries += 1
        if UnavailableWriter.tries <= UnavailableWriter.away:
            raise RuntimeError("x\nCaused by: java.net.ConnectException: refused")
        super().maintain(spark, table, care)


@pytest.mark.parametrize("delta", ["delta"], indirect=True)  # the writer that is replaced
@pytest.mark.parametrize("away", [2, 99])
def test_maintenance_is_retried_and_never_fails_the_run(
    delta: Warehouse, monkeypatch: pytest.MonkeyPatch, away: int
) -> None:
    monkeypatch.setattr(
        "target_spark.loader.batch_commit.get_writer", lambda *_, **__: UnavailableWriter()
    )
    UnavailableWriter.tries, UnavailableWriter.away = 0, away
    loaded = [schema("a", ID), record("a", id=1), state(1), record("a", id=2), state(2)]
    assert delta.load(*loaded, compact=True, flush_rows=1)[-1] == 2
    assert UnavailableWriter.tries == (3 if away == 2 else 5)
    notes = " ".join(delta.report.as_dict()["streams"]["a"]["notes"])
    text = "maintenance failed, the data is intact: x (java.net.ConnectException: refused)"
    assert (text in notes) == (away != 2)
    assert delta.rows("a") == [(1,), (2,)]
