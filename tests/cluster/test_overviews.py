"""History, report, backfill and actions after a load: through Spark Connect, and in a bucket.

Spark reads these tables; the commands that read tables in local folders without it are tested
elsewhere.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.bucket_load import BucketLoad
from tests.cluster.connect import ConnectServer
from tests.cluster.connect_client import ConnectClient, needs_connect
from tests.cluster.loads import record, schema, state
from tests.cluster.s3_server import SECRET, S3Server
from tests.peers import missing_reason, peer_python

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.peer]

TAP = "tests.cluster.connect_taps:DaysTap"
SAVE_REPORT = "import pathlib, sys; pathlib.Path('of-action.json').write_text(sys.stdin.read())"
ACTIONS = [
    {"sql": "SELECT assert_true(count(*) > 0) FROM {table:days}"},
    {"command": [sys.executable, "-c", SAVE_REPORT]},
    {"sql": "SELECT assert_true(count(*) < 7) FROM {table:days}", "on": "always"},
]
SETTINGS = {"after_load": ACTIONS, "add_record_metadata": True}
DAYS = {"properties": {"day": {"type": "string", "format": "date"}}}
DAYS_SCHEMA = {"type": "SCHEMA", "stream": "days", "schema": DAYS, "key_properties": []}
FIRST_LOAD = (
    schema("people", "id", id="integer"),
    record("people", id=1),
    record("people", id="none"),
    json.dumps(DAYS_SCHEMA).encode() + b"\n",
    record("days", day="2024-01-01"),
    state({"bookmarks": {"people": {"at": 1}}}),
)


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """Start a Spark Connect server."""
    with ConnectServer(tmp_path_factory.mktemp("connect") / "server") as started:
        yield started


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Start an S3 server; each test makes its own bucket."""
    with S3Server(tmp_path_factory.mktemp("s3") / "log") as started:
        yield started


class Commands:
    """The commands of target-spark with the settings of one job."""

    def __init__(self, folder: Path, call: Callable[..., tuple[int, str, str]]) -> None:
        self.folder, self._call = folder, call
        self.errors = ""

    def run(self, *arguments: str, code: int = 0, stdin: bytes = b"") -> str:
        """Run a command and return its standard output; its errors are then in ``errors``."""
        exit_code, out, self.errors = self._call(*arguments, stdin=stdin)
        assert exit_code == code, self.errors
        assert "Traceback" not in self.errors
        return out

    def read(self, *arguments: str) -> Any:
        """Return the JSON document that a command prints."""
        return json.loads(self.run(*arguments))

    def read_tap(self, last: int, *arguments: str, code: int = 0) -> str:
        """Read the tap up to a day, and load its records."""
        (self.folder / "tap.json").write_text(json.dumps({"last": last}))
        tap = ("--tap", TAP, "--tap-config", str(self.folder / "tap.json"))
        return self.run("run", *tap, *arguments, code=code)


def check_commands(job: Commands, root: str) -> None:
    """Load, backfill, list, show and report; ``root`` is the address of the tables."""
    job.run(stdin=b"".join(FIRST_LOAD))
    job.read_tap(3)
    report = json.loads((job.folder / "of-action.json").read_text())
    assert (report["outcome"], report["streams"]["days"]["written"]) == ("complete", 3)
    before = job.read("last-state")
    job.read_tap(9, "--from", "2024-01-02", "--to", "2024-01-03")
    assert job.read("last-state") == before
    job.read_tap(4, code=1)
    assert "after_load.2 (SELECT assert_true(count(*) < 7) FROM {table:days})" in job.errors
    assert job.read("last-state")["bookmarks"]["days"]["replication_key_value"] == "2024-01-04"

    runs = job.read("runs", "--format", "json")
    assert [(row["stream"], row["written"], row["outcome"]) for row in runs] == [
        ("days", 2, "complete"),
        ("days", 1, "complete"),
        ("days", 3, "complete"),
        ("people", 1, "complete"),
        ("days", 1, "complete"),
    ]
    of_people = runs[3:4]
    people = job.read("show", "people", "--format", "json")
    assert people["table"].startswith(root)
    assert people["rows"] == 1
    assert people["columns"]["id"] == "bigint"
    assert people["run"] == of_people[0]["run"]
    assert people["last_commit"] is not None
    assert people["newest_row"] is not None
    assert people["quarantine"]["rows"] == 1
    assert len(people["quarantine"]["reasons"]) == 1
    assert people["runs"] == of_people

    job.run("report", "--html", "report.html")
    page = (job.folder / "report.html").read_text()
    assert all(text in page for text in ("people", "days", root, "none", "2024-01-04"))
    assert not re.search("(?i)traceback|cannot be read", page)


@needs_connect
@pytest.mark.parametrize("table_format", ["delta", "iceberg", "parquet"])
def test_history_report_backfill_and_actions_through_spark_connect(
    tmp_path: Path, connect: ConnectServer, table_format: str
) -> None:
    client = ConnectClient(tmp_path, connect.url, table_format, **SETTINGS)

    def call(*arguments: str, stdin: bytes) -> tuple[int, str, str]:
        (tmp_path / "errors").write_text("")
        process = client.start(*arguments)
        out, _ = process.communicate(stdin, timeout=1800)
        return process.returncode, out.decode(), client.errors()

    check_commands(Commands(tmp_path, call), str(tmp_path / "tables"))


@pytest.mark.skipif(peer_python("s3_server") is None, reason=missing_reason("s3_server"))
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_history_report_backfill_and_actions_in_object_storage(
    tmp_path: Path, s3: S3Server, table_format: str
) -> None:
    bucket = f"overviews-{table_format}"
    s3.make_bucket(bucket)
    job = BucketLoad(tmp_path, None, table_format, SETTINGS, server=s3, bucket=bucket)

    def call(*arguments: str, stdin: bytes) -> tuple[int, str, str]:
        process = job.word(*arguments, stdin=stdin)
        return process.returncode, process.stdout.decode(), process.stderr.decode()

    commands = Commands(tmp_path, call)
    check_commands(commands, f"s3a://{bucket}/lake/tables")
    assert SECRET not in (tmp_path / "report.html").read_text()
