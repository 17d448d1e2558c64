"""Tables and staged rows in object storage that is accessed by s3a."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from target_spark.config.options import RunInfo
from target_spark.storage.staging_area import run_folder
from tests.cluster.bucket_load import BucketLoad
from tests.cluster.loads import TargetProcess, record, schema, state
from tests.cluster.s3_server import KEY, SECRET, S3Server
from tests.cluster.standalone import StandaloneCluster
from tests.peers import missing_reason, peer_python

pytestmark = [
    pytest.mark.spark,
    pytest.mark.thorough,
    pytest.mark.peer,
    pytest.mark.skipif(peer_python("s3_server") is None, reason=missing_reason("s3_server")),
]

FORMATS = ("delta", "iceberg")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Start one server for all tests; each test has its own bucket."""
    with S3Server(tmp_path_factory.mktemp("s3") / "log") as server:
        yield server


@pytest.fixture
def bucket(server: S3Server, request: pytest.FixtureRequest) -> str:
    """Create a bucket for one test."""
    name = f"b{abs(hash(request.node.nodeid))}"
    server.make_bucket(name)
    return name


def make_load(
    folder: Path,
    server: S3Server,
    bucket: str,
    form: str = "delta",
    cluster: Any = None,
    **settings: Any,
) -> BucketLoad:
    on_cluster = cluster is not None
    return BucketLoad(
        folder, cluster, form, settings, server=server, bucket=bucket, on_cluster=on_cluster
    )


def put_batch_file(server: S3Server, bucket: str, *numbers: int) -> bytes:
    """Put a batch file into the bucket; return the BATCH message that a tap would write."""
    lines = "".join(json.dumps({"n": n}) + "\n" for n in numbers)
    server.put(bucket, "from-tap/rows.jsonl", lines.encode())
    message = {
        "type": "BATCH",
        "stream": "files",
        "encoding": {"format": "jsonl"},
        "manifest": [f"s3://{bucket}/from-tap/rows.jsonl"],
    }
    return json.dumps(message).encode() + b"\n"


@pytest.mark.parametrize("form", FORMATS)
def test_every_write_mode_gives_the_tables_of_a_local_folder(
    server: S3Server, bucket: str, tmp_path: Path, form: str
) -> None:
    """Append, upsert, overwrite, quarantined rows, batch files, the state read back."""
    streams = {"whole": {"write_mode": "overwrite"}}
    job = make_load(tmp_path, server, bucket, form, streams=streams, flush_rows=60)
    schema_message = (
        schema("log", n="integer", text="string"),
        schema("kept", "id", id="integer", name="string"),
        schema("whole", "id", id="integer"),
    )
    job.run(
        *schema_message,
        schema("files", n="integer"),
        *(record("log", n=n, text=f"line {n}") for n in range(50)),
        record("log", n="none", text="does not fit"),
        *(record("kept", id=n, name="old") for n in range(100)),
        *(record("whole", id=n) for n in range(50)),
        put_batch_file(server, bucket, *range(20)),
        state({"bookmarks": {"round": 1}}),
    )
    run = job.run(
        *schema_message,
        *(record("kept", id=n, name="new") for n in range(50, 150)),
        *(record("whole", id=n) for n in range(40, 60)),
        state({"bookmarks": {"round": 2}}),
    )
    assert run.states()[-1] == {"bookmarks": {"round": 2}}
    assert json.loads(job.word("last-state").stdout) == {"bookmarks": {"round": 2}}
    tables = job.rows("log", "log__quarantine", "kept", "whole", "files")
    assert sorted(row["n"] for row in tables["log"]) == [*range(50)]
    assert [json.loads(row["raw"])["n"] for row in tables["log__quarantine"]] == ["none"]
    upserted = sorted((row["id"], row["name"]) for row in tables["kept"])
    assert upserted == [(n, "old" if n < 50 else "new") for n in range(150)]
    assert sorted(row["id"] for row in tables["whole"]) == [*range(40, 60)]
    assert sorted(row["n"] for row in tables["files"]) == [*range(20)]
    assert job.list_staging() == []


def test_killed_run_is_resumed_and_its_files_removed(
    server: S3Server, bucket: str, tmp_path: Path
) -> None:
    """Rows are exact, the last state is in the tables; only files of dead runs are removed."""
    job = make_load(tmp_path, server, bucket, flush_rows=50, job="nightly")
    schema_message = schema("a", "id", id="integer", name="string")
    with job.running() as run:
        run.send(schema_message, *(record("a", id=n, name="old") for n in range(50)), state(50))
        run.until_state(50)
        server.close_proxy()  # its next operation fails half way
        run.send(*(record("a", id=n, name="old") for n in range(50, 100)), state(100))
        run.wait_until(lambda: "100 received" in run.read_log())
        run.kill()
        assert run.states() == [50]
    server.open_proxy()
    own_folder, other = (
        _folder(bucket, name, machine) for name, machine in (("x", None), ("y", "far"))
    )
    server.put(bucket, f"{own_folder}/rows-1/left", b"{}")
    server.put(bucket, f"{other}/rows-1/young", b"{}")
    done = job.run(
        schema_message, *(record("a", id=n, name="new") for n in range(40, 120)), state(120)
    )
    assert done.states()[-1] == 120
    names = {row["id"]: row["name"] for row in job.rows("a")["a"]}
    assert names == {n: "old" if n < 40 else "new" for n in range(120)}
    assert job.list_staging() == [f"{other}/rows-1/young"]


def test_operation_is_retried_while_the_server_is_unavailable(
    server: S3Server, bucket: str, tmp_path: Path
) -> None:
    """The outage is longer than Hadoop's retries: the step is repeated without duplicates."""
    job = make_load(tmp_path, server, bucket, flush_rows=50)
    with job.running() as run:
        run.send(schema("a", n="integer"), *(record("a", n=n) for n in range(50)), state(50))
        run.until_state(50)
        server.close_proxy()
        try:
            run.send(*(record("a", n=n) for n in range(50, 100)), state(100))
            run.wait_until(lambda: "failed and is repeated" in run.read_log())
        finally:
            server.open_proxy()
        assert run.end() == 0, run.read_log()
        assert run.states() == [50, 100]
    assert sorted(row["n"] for row in job.rows("a")["a"]) == [*range(100)]
    assert job.list_staging() == []


@pytest.mark.parametrize("wrong", ["keys", "bucket"])
def test_denied_access_is_an_error_that_names_the_setting_and_no_secret(
    server: S3Server, bucket: str, tmp_path: Path, wrong: str
) -> None:
    """The run ends with one sentence and a report; no state is emitted."""
    job = make_load(tmp_path, server, bucket if wrong == "keys" else "nobody-has-this")
    server.ask_for_known_keys(known=wrong == "keys")
    try:
        run = job.run(schema("a", n="integer"), record("a", n=1), state(1), code=1)
    finally:
        server.ask_for_known_keys(known=False)
    assert run.states() == []
    outcome = run.report()["outcome"]
    cause = "fs.s3a.secret.key" if wrong == "keys" else "there is no such bucket"
    assert cause in outcome
    assert job.bucket in outcome
    assert "Traceback" not in run.read_log()
    assert SECRET not in run.read_log()
    assert KEY not in run.read_log()


def test_doctor_checks_both_addresses_and_leaves_no_objects(
    server: S3Server, bucket: str, tmp_path: Path
) -> None:
    """`doctor` reports the checks of `staging` and `path`."""
    job = make_load(tmp_path, server, bucket)
    process = job.word("doctor")
    output = process.stdout.decode()
    assert process.returncode == 0, output + process.stderr.decode()
    assert "hadoop-aws" in output
    assert f"a file was written to s3a://{bucket}/staging, read and removed" in output
    assert f"a delta table in s3a://{bucket}/lake/tables was made" in output
    assert server.keys(bucket) == []


def test_cluster_with_object_storage_needs_no_shared_folder(
    server: S3Server, bucket: str, standalone: StandaloneCluster, tmp_path: Path
) -> None:
    """Executors read the rows that the driver staged, and write the tables."""
    job = make_load(tmp_path, server, bucket, cluster=standalone, flush_rows=100)
    schema_message = schema("a", "id", id="integer", name="string")
    first = (record("a", id=n, name="old") for n in range(100))
    updated = (record("a", id=n, name="new") for n in range(50, 150))
    run: TargetProcess = job.run(schema_message, *first, *updated, state(200))
    assert run.states()[-1] == 200
    names = {row["id"]: row["name"] for row in job.rows("a")["a"]}
    assert names == {n: "old" if n < 50 else "new" for n in range(150)}
    assert job.list_staging() == []


def _folder(bucket: str, run: str, machine: str | None) -> str:
    """Return the key of a run's folder, of this machine or another."""
    address = run_folder(f"s3a://{bucket}/staging", RunInfo("nightly", run, 1))
    own_name = f"of-{socket.gethostname()}-{os.getuid()}-"
    assert own_name in address
    return address.replace(own_name, f"of-{machine}-0-" if machine else own_name).removeprefix(
        f"s3a://{bucket}/"
    )
