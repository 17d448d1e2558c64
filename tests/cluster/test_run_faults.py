"""`target-spark run` under faults: no row is lost or duplicated, and no bookmark is ahead."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.faulty_taps import FaultyTap
from tests.cluster.jobs import Job, wait_until
from tests.cluster.rate_limited_server import RateLimitedServer
from tests.cluster.standalone import StandaloneCluster
from tests.server_thread import serve_in_thread

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.thorough]

SLOW = {"pause": 0.05, "rows": 60}
"""A context takes at least three seconds."""


@pytest.fixture
def job(standalone: StandaloneCluster, tmp_path: Path) -> Iterator[Job]:
    """Create a job of one stream, whose table shows duplicates; restart dead workers at the end."""
    created_job = Job(tmp_path / "job", standalone, {"streams": ["orders"]}, {"format": "parquet"})
    yield created_job
    created_job.close()
    for index, worker in enumerate(standalone.started_workers):
        if not worker.alive:
            standalone.restart_worker(index)


@cache
def _source(config: str, stream: str) -> tuple[str, ...]:
    tap = FaultyTap(config=json.loads(config))
    source_stream: Any = tap.streams[stream]
    contexts = source_stream.partitions or [None]
    rows: list[Any] = [
        {**record, **(context or {})}
        for context in contexts
        for record in source_stream.get_records(context)
    ]
    return tuple(json.dumps([row.get("shop"), row["id"]]) for row in rows)


def source(job: Job, stream: str) -> Counter[str]:
    """Return shop and id of each row of the source's stream."""
    config = {**job.config, "pause": 0, "faults": str(job.folder / "none")}
    return Counter(_source(json.dumps(config, sort_keys=True), stream))


def read_loaded_ids(job: Job, stream: str) -> Counter[str]:
    """Return shop and id of each row of the stream's table."""
    counts: Counter[str] = Counter()
    for row, count in job.rows(stream).items():
        record = json.loads(row)
        counts[json.dumps([record.get("shop"), record["id"]])] += count
    return counts


def read_shops(job: Job, stream: str) -> set[int]:
    """Return the contexts that have a bookmark in the tables."""
    entries = job.state().get("bookmarks", {}).get(stream, {}).get("partitions", ())
    return {
        entry["context"]["shop"]
        for entry in entries
        if "replication_key_value" in entry and "progress_markers" not in entry
    }


def check_not_ahead(job: Job, stream: str = "orders") -> None:
    """Check that the rows that each bookmark covers are in the table."""
    loaded_rows = read_loaded_ids(job, stream)
    covered = read_shops(job, stream)
    missing = [
        row for row in source(job, stream) if json.loads(row)[0] in covered and not loaded_rows[row]
    ]
    assert missing == []


def check_whole(job: Job, *streams: str) -> None:
    """Check that tables contain each row of the source once."""
    for stream in streams or ("orders",):
        assert read_loaded_ids(job, stream) == source(job, stream)
    assert job.list_staging() == []


def check_all_but(job: Job, *shops: int) -> str:
    """Run the job; check that all contexts but the failing ones are loaded. Return stderr."""
    result = job.run().check(1)
    other_shops = set(range(6)) - set(shops)
    assert read_shops(job, "orders") == other_shops
    expected = Counter(row for row in source(job, "orders") if json.loads(row)[0] in other_shops)
    assert read_loaded_ids(job, "orders") == expected
    assert job.list_staging() == []
    assert [shop for shop in shops if f"{{'shop': {shop}}}" not in result.err] == []
    assert "Traceback" not in result.err
    return result.err


# Failures of the cluster


@pytest.mark.parametrize("kind", ["delta upsert", "parquet append"])
def test_killed_executor_loses_no_rows(job: Job, kind: str) -> None:
    """The executor's contexts are read again on another one; the first attempt leaves no row."""
    form, mode = kind.split()
    job.config.update(SLOW)
    job.target.update(format=form, write_mode=mode)
    running = job.start()
    running.wait_for_visits("orders", 3)
    job.cluster.kill_executor()
    running.end().check()
    check_whole(job)
    assert read_shops(job, "orders") == set(range(6))


def test_killed_python_worker_loses_no_rows(job: Job) -> None:
    """The reader is a separate process, which Spark restarts."""
    job.config.update(SLOW)
    running = job.start()
    running.wait_for_visits("orders", 3)
    for pid in job.faults.readers("orders"):
        os.kill(pid, signal.SIGKILL)
    running.end().check()
    check_whole(job)


def test_killed_worker_loses_no_rows(job: Job) -> None:
    """A machine with all its processes fails during the reads."""
    job.config.update(SLOW)
    running = job.start()
    running.wait_for_visits("orders", 4)
    job.cluster.kill_worker(0)
    running.end().check()
    check_whole(job)


# Failures of the driver


@pytest.mark.parametrize("kind", ["delta append", "iceberg append"])
def test_killed_driver_is_resumed_by_the_next_run(job: Job, kind: str) -> None:
    """The driver is killed during the reads and during the commits; each run resumes."""
    form, mode = kind.split()
    job.config.update(SLOW)
    job.target.update(format=form, write_mode=mode)
    running = job.start()
    running.wait_for_visits("orders", 3)
    running.kill()
    check_not_ahead(job)
    wait_until(lambda: not job.cluster.applications())
    running = job.start()
    running.wait_until(lambda: any((job.tables / "orders").glob("*")))
    running.kill()
    check_not_ahead(job)
    job.run().check()
    check_whole(job)


def test_killed_driver_jvm_is_an_error_and_the_next_run_completes(job: Job) -> None:
    """The run ends with an error without a traceback, and the next one loads all rows."""
    job.config.update(SLOW)
    running = job.start()
    running.wait_for_visits("orders", 3)
    jvm = running.jvm()
    os.kill(jvm, signal.SIGKILL)
    result = running.end().check(1)
    assert "Traceback" not in result.err
    job.run().check()
    check_whole(job)


def test_sigterm_ends_the_driver_and_the_next_run_completes(job: Job) -> None:
    """SIGTERM during the reads: no row is partial, and none of its tasks continues."""
    job.config.update(SLOW)
    running = job.start()
    running.wait_for_visits("orders", 3)
    running.signal(signal.SIGTERM)
    result = running.end()
    assert result.code in {0, 128 + signal.SIGTERM, -signal.SIGTERM}, result.err[-4000:]
    check_not_ahead(job)
    wait_until(lambda: not job.cluster.applications())
    job.run().check()
    check_whole(job)


# Failing contexts


@pytest.mark.parametrize("kind", ["delta upsert", "delta append", "parquet append"])
def test_failing_context_does_not_prevent_the_others(job: Job, kind: str) -> None:
    """The others are committed with their bookmarks; the error names it; later it is repaired."""
    form, mode = kind.split()
    job.target.update(format=form, write_mode=mode)
    job.faults.set_fault("orders", 2, "raise", after=7)
    check_all_but(job, 2)
    job.faults.clear()
    job.run().check()
    check_whole(job)


def test_contexts_that_end_their_process_are_reported_as_failures(job: Job) -> None:
    """SystemExit, KeyboardInterrupt, and a process that kills itself: each is named."""
    job.faults.set_fault("orders", 0, "exit", after=7)
    job.faults.set_fault("orders", 2, "interrupt", after=7)
    job.faults.set_fault("orders", 3, "kill", after=7)
    err = check_all_but(job, 0, 2, 3)
    assert "SIGKILL" in err
    job.faults.clear()
    job.run().check()
    check_whole(job)


def test_failing_window_holds_back_later_windows(job: Job) -> None:
    """Windows count in their order: the bookmark is before the failed one."""
    job.config.update(streams=["readings"], day=6, rows=5)
    job.faults.set_fault("readings", "2024-01-04", "raise", after=2)
    result = job.run().check(1)
    assert "2024-01-04" in result.err
    rows = [json.loads(row)["at"][:10] for row in job.rows("readings").elements()]
    assert Counter(rows) == {"2024-01-01": 5, "2024-01-02": 5, "2024-01-03": 5}
    assert job.state()["bookmarks"]["readings"]["replication_key_value"] < "2024-01-04"
    job.faults.clear()
    job.run().check()
    check_whole(job, "readings")


def test_failing_child_context_is_named(job: Job) -> None:
    """The notes of the other users are loaded; the next run reads the parent again."""
    job.config.update(streams=["users", "notes"])
    job.faults.set_fault("notes", 3, "raise", after=1)
    result = job.run().check(1)
    assert "{'user': 3}" in result.err
    users = Counter(json.loads(row)["user"] for row in job.rows("notes").elements())
    assert users == dict.fromkeys((0, 1, 2, 4, 5), 20)
    job.faults.clear()
    job.run().check()
    users = Counter(json.loads(row)["user"] for row in job.rows("notes").elements())
    assert users == dict.fromkeys(range(6), 20)


def test_failing_stream_does_not_lose_the_others(job: Job) -> None:
    """A stream after a failed one is read in the same run or the next."""
    job.config["streams"] = ["orders", "events", "totals"]
    job.target["format"] = "delta"
    job.faults.set_fault("events", 0, "raise", after=1)
    result = job.run().check(1)
    assert "{'shop': 0}" in result.err
    check_not_ahead(job, "orders")
    check_not_ahead(job, "events")
    job.faults.clear()
    job.run().check()
    check_whole(job, "orders", "events", "totals")


def test_context_is_tried_three_times(job: Job) -> None:
    """The run is complete, and an append-only table has each row once."""
    for shop, kind in enumerate(("raise", "exit", "kill", "interrupt")):
        job.faults.set_fault("orders", shop, kind, after=11, times=2)
    job.run().check()
    assert min(job.faults.visits("orders", shop) for shop in range(4)) >= 3
    check_whole(job)


def test_shared_bookmark_does_not_advance_past_a_failed_context(job: Job) -> None:
    """In a region with a failed context no bookmark is promoted."""
    job.config["streams"] = ["totals"]
    job.target["format"] = "delta"
    job.faults.set_fault("totals", "north-3", "raise", after=3)
    job.run().check(1)
    for entry in job.state().get("bookmarks", {}).get("totals", {}).get("partitions", ()):
        assert "replication_key_value" not in entry
    job.faults.clear()
    job.run().check()
    check_whole(job, "totals")


# Source, storage, other applications


def test_rate_limited_source_is_read_completely(
    standalone: StandaloneCluster, tmp_path: Path
) -> None:
    """Each worker waits for the Retry-After of a 429."""
    with serve_in_thread(RateLimitedServer(requests_per_second=4)) as server:
        job = Job(
            tmp_path / "job",
            standalone,
            {"url": server.url, "shops": 12},
            tap="tests.cluster.faulty_taps:LimitedTap",
        )
        job.run().check()
    assert server.refused > 0
    rows = [json.loads(row) for row in job.rows("pages").elements()]
    assert sorted((row["shop"], row["id"]) for row in rows) == [
        (shop, number) for shop in range(12) for number in range(5)
    ]


def test_full_staging_folder_is_an_error_and_the_next_run_completes(job: Job) -> None:
    """The error names the folder, and no bookmark is ahead."""
    job.config.update(rows=2000)
    staging = job.folder / "small"
    staging.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(staging)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be made here")
    try:
        result = job.run(staging=str(staging)).check(1)
    finally:
        subprocess.run(["umount", "-l", str(staging)], check=True)
    assert str(staging) in result.err
    check_not_ahead(job)
    job.run().check()
    check_whole(job)


def test_removed_staging_folder_is_an_error_and_the_next_run_completes(job: Job) -> None:
    """The folder is removed during the reads."""
    job.config.update(SLOW)
    running = job.start()
    running.wait_for_visits("orders", 3)
    subprocess.run(["rm", "-rf", str(job.folder / "staging")], check=True)
    result = running.end()
    assert result.code in {0, 1}
    if result.code:
        assert str(job.folder / "staging") in result.err
        check_not_ahead(job)
        job.run().check()
    check_whole(job)


def test_second_application_of_a_job_is_rejected(job: Job) -> None:
    """The error names the process of the first, which is not affected."""
    job.config.update(SLOW)
    first = job.start()
    first.wait_for_visits("orders", 2)
    second = Job(job.folder, job.cluster, job.config, job.target)
    rejected = second.start("second").end().check(1)
    assert str(first.process.pid) in rejected.err
    first.end().check()
    check_whole(job)


def test_speculative_tasks_duplicate_no_rows(tmp_path: Path) -> None:
    """Speculation starts a second attempt on another machine; one of the two counts."""
    speculation = {
        "spark.speculation": True,
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": 1.1,
        "spark.speculation.quantile": 0.3,
        "spark.speculation.minTaskRuntime": "500ms",
    }
    with StandaloneCluster(tmp_path / "cluster", hosts=("127.0.0.1", "127.0.0.2")) as cluster:
        config = {"streams": ["orders"], "rows": 30}
        job = Job(tmp_path / "job", cluster, config, {"format": "parquet"})
        job.faults.set_fault("orders", 5, "slow", after=2, times=1)
        try:
            job.run(spark=speculation).check()
            assert job.faults.visits("orders", 5) > 1
            check_whole(job)
        finally:
            job.close()
