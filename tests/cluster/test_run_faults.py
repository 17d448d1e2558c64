"""`target-spark run` when things go wrong: nothing lost, nothing twice, no bookmark ahead."""

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
from tests.cluster.jobs import Job, until
from tests.cluster.limited import limiting
from tests.cluster.standalone import Standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.thorough]

SLOW = {"pause": 0.05, "rows": 60}
"""A context takes three seconds at least."""


@pytest.fixture
def job(standalone: Standalone, tmp_path: Path) -> Iterator[Job]:
    """A job of one stream, whose table shows each row that comes twice; the cluster heals."""
    made = Job(tmp_path / "job", standalone, {"streams": ["orders"]}, {"format": "parquet"})
    yield made
    made.close()
    for at, worker in enumerate(standalone.all):
        if not worker.alive:
            standalone.restart_worker(at)


@cache
def _source(config: str, stream: str) -> tuple[str, ...]:
    tap = FaultyTap(config=json.loads(config))
    found: Any = tap.streams[stream]
    contexts = found.partitions or [None]
    rows: list[Any] = [
        {**record, **(context or {})}
        for context in contexts
        for record in found.get_records(context)
    ]
    return tuple(json.dumps([row.get("shop"), row["id"]]) for row in rows)


def source(job: Job, stream: str) -> Counter[str]:
    """Return the shop and number of each row that the source has for a stream."""
    config = {**job.config, "pause": 0, "faults": str(job.folder / "none")}
    return Counter(_source(json.dumps(config, sort_keys=True), stream))


def loaded(job: Job, stream: str) -> Counter[str]:
    """Return the same of each row of its table."""
    counts: Counter[str] = Counter()
    for row, count in job.rows(stream).items():
        record = json.loads(row)
        counts[json.dumps([record.get("shop"), record["id"]])] += count
    return counts


def shops_of(job: Job, stream: str) -> set[int]:
    """Return the contexts that have a bookmark in the tables."""
    entries = job.state().get("bookmarks", {}).get(stream, {}).get("partitions", ())
    return {
        entry["context"]["shop"]
        for entry in entries
        if "replication_key_value" in entry and "progress_markers" not in entry
    }


def check_not_ahead(job: Job, stream: str = "orders") -> None:
    """Hold each bookmark against the rows: what it covers is in the table."""
    there = loaded(job, stream)
    covered = shops_of(job, stream)
    missing = [
        row for row in source(job, stream) if json.loads(row)[0] in covered and not there[row]
    ]
    assert missing == []


def check_whole(job: Job, *streams: str) -> None:
    """Hold tables against the source: each row once."""
    for stream in streams or ("orders",):
        assert loaded(job, stream) == source(job, stream)
    assert job.left_behind() == []


def check_all_but(job: Job, *shops: int) -> str:
    """Run it; hold it to having all contexts but those that fail. Return what it said."""
    done = job.run().check(1)
    others = set(range(6)) - set(shops)
    assert shops_of(job, "orders") == others
    expected = Counter(row for row in source(job, "orders") if json.loads(row)[0] in others)
    assert loaded(job, "orders") == expected
    assert job.left_behind() == []
    assert [shop for shop in shops if f"{{'shop': {shop}}}" not in done.err] == []
    assert "Traceback" not in done.err
    return done.err


# A part of the cluster is gone


@pytest.mark.parametrize("kind", ["delta upsert", "parquet append"])
def test_an_executor_that_is_killed_loses_nothing(job: Job, kind: str) -> None:
    """Its contexts are read again elsewhere; of the first attempt no row stays."""
    form, mode = kind.split()
    job.config.update(SLOW)
    job.target.update(format=form, write_mode=mode)
    running = job.start()
    running.wait_for_visits("orders", 3)
    job.cluster.kill_executor()
    running.end().check()
    check_whole(job)
    assert shops_of(job, "orders") == set(range(6))


def test_a_python_worker_that_is_killed_loses_nothing(job: Job) -> None:
    """What reads is a process of its own; Spark starts another one."""
    job.config.update(SLOW)
    running = job.start()
    running.wait_for_visits("orders", 3)
    for pid in job.faults.readers("orders"):
        os.kill(pid, signal.SIGKILL)
    running.end().check()
    check_whole(job)


def test_a_worker_that_is_killed_loses_nothing(job: Job) -> None:
    """A machine with all that ran on it is gone in the middle of the reading."""
    job.config.update(SLOW)
    running = job.start()
    running.wait_for_visits("orders", 4)
    job.cluster.kill_worker(0)
    running.end().check()
    check_whole(job)


# The driver is gone


@pytest.mark.parametrize("kind", ["delta append", "iceberg append"])
def test_a_driver_that_is_killed_is_run_again(job: Job, kind: str) -> None:
    """In the middle of reading, and in the middle of the commits; each run goes on."""
    form, mode = kind.split()
    job.config.update(SLOW)
    job.target.update(format=form, write_mode=mode)
    running = job.start()
    running.wait_for_visits("orders", 3)
    running.kill()
    check_not_ahead(job)
    until(lambda: not job.cluster.applications())
    running = job.start()
    running.wait_until(lambda: any((job.tables / "orders").glob("*")))
    running.kill()
    check_not_ahead(job)
    job.run().check()
    check_whole(job)


def test_the_jvm_of_the_driver_is_killed(job: Job) -> None:
    """The run ends with an error that says it, and the next one brings all."""
    job.config.update(SLOW)
    running = job.start()
    running.wait_for_visits("orders", 3)
    jvm = running.jvm()
    os.kill(jvm, signal.SIGKILL)
    done = running.end().check(1)
    assert "Traceback" not in done.err
    job.run().check()
    check_whole(job)


def test_a_driver_that_is_told_to_end_ends_and_can_be_run_again(job: Job) -> None:
    """SIGTERM while workers read: no row is half there, and none of its tasks goes on."""
    job.config.update(SLOW)
    running = job.start()
    running.wait_for_visits("orders", 3)
    running.signal(signal.SIGTERM)
    done = running.end()
    assert done.code in {0, 128 + signal.SIGTERM, -signal.SIGTERM}, done.err[-4000:]
    check_not_ahead(job)
    until(lambda: not job.cluster.applications())
    job.run().check()
    check_whole(job)


# Contexts that fail


@pytest.mark.parametrize("kind", ["delta upsert", "delta append", "parquet append"])
def test_a_context_that_always_fails_keeps_the_others_from_nothing(job: Job, kind: str) -> None:
    """The others are committed with their bookmarks; the error names it; then it is mended."""
    form, mode = kind.split()
    job.target.update(format=form, write_mode=mode)
    job.faults.say("orders", 2, "raise", after=7)
    check_all_but(job, 2)
    job.faults.mend()
    job.run().check()
    check_whole(job)


def test_contexts_that_end_their_process_are_failures_like_others(job: Job) -> None:
    """SystemExit, KeyboardInterrupt, and a process that kills itself: each is named."""
    job.faults.say("orders", 0, "exit", after=7)
    job.faults.say("orders", 2, "interrupt", after=7)
    job.faults.say("orders", 3, "kill", after=7)
    err = check_all_but(job, 0, 2, 3)
    assert "SIGKILL" in err
    job.faults.mend()
    job.run().check()
    check_whole(job)


def test_a_window_that_always_fails_holds_back_those_behind_it(job: Job) -> None:
    """Windows count in their order: the bookmark is before the one that failed."""
    job.config.update(streams=["readings"], day=6, rows=5)
    job.faults.say("readings", "2024-01-04", "raise", after=2)
    done = job.run().check(1)
    assert "2024-01-04" in done.err
    rows = [json.loads(row)["at"][:10] for row in job.rows("readings").elements()]
    assert Counter(rows) == {"2024-01-01": 5, "2024-01-02": 5, "2024-01-03": 5}
    assert job.state()["bookmarks"]["readings"]["replication_key_value"] < "2024-01-04"
    job.faults.mend()
    job.run().check()
    check_whole(job, "readings")


def test_a_child_context_that_always_fails_names_itself(job: Job) -> None:
    """The notes of the other users are there; the parent is read again by the next run."""
    job.config.update(streams=["users", "notes"])
    job.faults.say("notes", 3, "raise", after=1)
    done = job.run().check(1)
    assert "{'user': 3}" in done.err
    users = Counter(json.loads(row)["user"] for row in job.rows("notes").elements())
    assert users == dict.fromkeys((0, 1, 2, 4, 5), 20)
    job.faults.mend()
    job.run().check()
    users = Counter(json.loads(row)["user"] for row in job.rows("notes").elements())
    assert users == dict.fromkeys(range(6), 20)


def test_one_of_several_streams_fails(job: Job) -> None:
    """A stream that comes after one that failed is read all the same, or by the next run."""
    job.config["streams"] = ["orders", "events", "totals"]
    job.target["format"] = "delta"
    job.faults.say("events", 0, "raise", after=1)
    done = job.run().check(1)
    assert "{'shop': 0}" in done.err
    check_not_ahead(job, "orders")
    check_not_ahead(job, "events")
    job.faults.mend()
    job.run().check()
    check_whole(job, "orders", "events", "totals")


def test_contexts_that_fail_twice_are_read_a_third_time(job: Job) -> None:
    """The run is complete, and has each row once in a table that only appends."""
    for shop, how in enumerate(("raise", "exit", "kill", "interrupt")):
        job.faults.say("orders", shop, how, after=11, times=2)
    job.run().check()
    assert min(job.faults.visits("orders", shop) for shop in range(4)) >= 3
    check_whole(job)


def test_contexts_that_share_a_bookmark_do_not_move_it_past_one_that_failed(job: Job) -> None:
    """Of a region with a context that failed nothing is promoted."""
    job.config["streams"] = ["totals"]
    job.target["format"] = "delta"
    job.faults.say("totals", "north-3", "raise", after=3)
    job.run().check(1)
    for entry in job.state().get("bookmarks", {}).get("totals", {}).get("partitions", ()):
        assert "replication_key_value" not in entry
    job.faults.mend()
    job.run().check()
    check_whole(job, "totals")


# The source, the storage, another application


def test_a_source_that_limits_requests_is_read_to_the_end(
    standalone: Standalone, tmp_path: Path
) -> None:
    """429 with a Retry-After is waited for, on each worker."""
    with limiting(a_second=4) as server:
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


def test_a_staging_that_is_full_is_an_error_and_then_mended(job: Job) -> None:
    """It names the place, and nothing is ahead; with room the next run is complete."""
    job.config.update(rows=2000)
    place = job.folder / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be made here")
    try:
        done = job.run(staging=str(place)).check(1)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
    assert str(place) in done.err
    check_not_ahead(job)
    job.run().check()
    check_whole(job)


def test_a_staging_that_is_removed_is_an_error_and_then_mended(job: Job) -> None:
    """Somebody clears the folder in the middle of the reading."""
    job.config.update(SLOW)
    running = job.start()
    running.wait_for_visits("orders", 3)
    subprocess.run(["rm", "-rf", str(job.folder / "staging")], check=True)
    done = running.end()
    assert done.code in {0, 1}
    if done.code:
        assert str(job.folder / "staging") in done.err
        check_not_ahead(job)
        job.run().check()
    check_whole(job)


def test_the_second_application_of_a_job_is_refused(job: Job) -> None:
    """It says who has the job, and disturbs nothing."""
    job.config.update(SLOW)
    first = job.start()
    first.wait_for_visits("orders", 2)
    second = Job(job.folder, job.cluster, job.config, job.target)
    refused = second.start("second").end().check(1)
    assert str(first.process.pid) in refused.err
    first.end().check()
    check_whole(job)


def test_tasks_that_run_twice_double_nothing(tmp_path: Path) -> None:
    """Speculation starts a second attempt on another machine; one of the two counts."""
    speculation = {
        "spark.speculation": True,
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": 1.1,
        "spark.speculation.quantile": 0.3,
        "spark.speculation.minTaskRuntime": "500ms",
    }
    with Standalone(tmp_path / "cluster", hosts=("127.0.0.1", "127.0.0.2")) as cluster:
        config = {"streams": ["orders"], "rows": 30}
        job = Job(tmp_path / "job", cluster, config, {"format": "parquet"})
        job.faults.say("orders", 5, "slow", after=2, times=1)
        try:
            job.run(spark=speculation).check()
            assert job.faults.visits("orders", 5) > 1
            check_whole(job)
        finally:
            job.close()
