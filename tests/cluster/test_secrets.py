"""No secret of a tap or of storage is visible outside of the processes that need it."""

from __future__ import annotations

import contextlib
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.jobs import Job, wait_until
from tests.cluster.standalone import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.slow]

TOKEN, WORD, PASSWORD, KEY = "tkn-9c1f7a", "wrd-44be02", "pwd-d03e81", "key-5f6a17"
"""The secrets to search for."""
SECRETS = [each.encode() for each in (TOKEN, WORD, PASSWORD, KEY)]
PAGES = [
    "environment",
    "allexecutors",
    "jobs",
    "stages?details=true",
    "sql?details=true&planDescription=true",
    "storage/rdd",
    "threads",
    "executors/driver/threads",
]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free_socket:
        return int(free_socket.getsockname()[1])


@pytest.fixture
def job(standalone: StandaloneCluster, tmp_path: Path) -> Iterator[Job]:
    """Create a job of the careless tap, with an event log and Spark's web pages."""
    folder, log = tmp_path / "tap", tmp_path / "events"
    folder.mkdir()
    log.mkdir()
    config = {
        "api_token": TOKEN,
        "word": WORD,
        "dsn": f"postgres://reader:{PASSWORD}@db.example/x",
        "folder": str(folder),
        "streams": ["able", "broken"],
    }
    spark = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(free_port()),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.hadoop.fs.s3a.secret.key": KEY,
    }
    tap = "tests.cluster.secret_taps:CarelessTap"
    yield Job(tmp_path / "job", standalone, config, {"spark": spark}, tap)
    (folder / "seen").touch()


def pages(job: Job) -> dict[str, bytes]:
    """Return Spark's web pages and API responses about the application, by path."""
    base = f"http://127.0.0.1:{job.target['spark']['spark.ui.port']}"

    def read(path: str) -> bytes:
        try:
            with urllib.request.urlopen(base + path, timeout=60) as answer:  # noqa: S310
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            return bytes(error.read())

    [application] = json.loads(read("/api/v1/applications"))
    application_path = f"/api/v1/applications/{application['id']}/"
    contents = {page: read(application_path + page) for page in PAGES}
    contents |= {page: read(f"/{page}/") for page in ("jobs", "stages", "environment", "SQL")}
    return contents


def commands() -> dict[str, bytes]:
    """Return the command lines of all processes of this machine."""
    command_lines = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command_lines[str(path)] = path.read_bytes()
    return command_lines


def files(*folders: Path) -> dict[str, bytes]:
    """Return the content of all files below folders."""
    return {
        str(path): path.read_bytes()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


def find_secrets(texts: dict[str, bytes]) -> list[tuple[str, bytes, bytes]]:
    """Return the places of secrets in texts, with the text around them."""
    return [
        (name, secret, text[max(0, position - 200) : position + 60])
        for name, text in texts.items()
        for secret in SECRETS
        if (position := text.find(secret)) >= 0
    ]


def test_run_shows_no_secret_in_pages_logs_plans_or_errors(job: Job) -> None:
    """Settings reach the workers; plans, pages, logs, the report and errors do not show them.

    The author's exceptions repeat the settings, and an unreachable URL contains two secrets;
    all texts about them are redacted.
    """
    running = job.start()
    folder = Path(job.config["folder"])
    running.wait_until(lambda: len(list(folder.glob("begun-*"))) == 2)
    contents: dict[str, Any] = pages(job) | commands()
    (folder / "seen").touch()
    broken = running.end().check(1)
    job.config["streams"] = ["refused"]
    rejected = job.run().check(1)
    wait_until(lambda: not job.cluster.applications())
    workers = [worker.folder for worker in job.cluster.started_workers]
    contents |= files(job.folder / "staging", job.tables, folder.parent / "events", *workers)
    logs = {"broken": broken.err, "refused": rejected.err}
    contents |= {name: text.encode() for name, text in logs.items()}
    contents["states"] = (broken.out + rejected.out).encode()
    contents["master"] = job.cluster.log.read_bytes()

    assert find_secrets(contents) == []
    # the searched places contain the run's data
    assert b"tap_rows" in contents["sql?details=true&planDescription=true"]
    assert any(b"tap_rows" in text for name, text in contents.items() if "/events/" in name)
    executors = [text for name, text in contents.items() if name.endswith("stderr")]
    assert any(b"broken" in text and b"***" in text for text in executors)
    for stream, text in logs.items():
        assert "'half': 1" in text, text[-4000:]
        assert stream in text
        assert "***" in text
    assert sum(job.rows("able").values()) == 2
