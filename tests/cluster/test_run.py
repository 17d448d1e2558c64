"""`target-spark run` on a real standalone cluster: the same tables as ``tap | target``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.jobs import ROOT, FinishedRun, Job, compare_tables, sort_bookmarks
from tests.cluster.standalone import StandaloneCluster

sys.path.append(str(ROOT / "samples" / "cluster"))  # it need not be installed

import server

pytestmark = [pytest.mark.spark, pytest.mark.slow]

READ_BY_WORKERS = ("orders", "events", "prices", "totals", "notes", "readings")
READ_BY_DRIVER = ("users", "journal")
ALL_STREAMS = (*READ_BY_WORKERS, *READ_BY_DRIVER, "blank")
FLIGHTS = "tap_flights.tap:TapFlights"
REGIONS = "tap_regions:TapRegions"


@pytest.fixture
def job(standalone: StandaloneCluster, tmp_path: Path) -> Iterator[Job]:
    """Create a job of one partitioned stream in its own folder."""
    cluster_job = Job(tmp_path / "job", standalone, {"streams": ["orders"]})
    yield cluster_job
    cluster_job.close()


def run_both_ways(
    job: Job, one_machine_job: Job, streams: tuple[str, ...]
) -> tuple[FinishedRun, FinishedRun]:
    """Run a job on the cluster and on one machine, each from its last state, and compare them.

    A tap in a pipe gets no state if its rows replace those of the table; `target-spark run` leaves
    the bookmarks of such streams out by itself.
    """
    has_state = (
        one_machine_job.tables.exists() and one_machine_job.target.get("write_mode") != "overwrite"
    )
    cluster_run = job.run().check()
    pipe_run = one_machine_job.pipe(one_machine_job.state() if has_state else None).check()
    assert compare_tables(job, one_machine_job, streams) == {}
    assert sort_bookmarks(cluster_run.state) == sort_bookmarks(pipe_run.state)
    assert job.list_staging() == []
    return cluster_run, pipe_run


def count_received_rows(result: FinishedRun) -> dict[str, int]:
    """Return the number of rows of each stream that the loader received."""
    [line] = [line for line in result.err.splitlines() if line.startswith("REPORT: ")]
    streams = json.loads(line.removeprefix("REPORT: "))["streams"]
    return {name: counts["received"] for name, counts in streams.items()}


@pytest.mark.thorough
def test_tap_runs_on_a_cluster_in_one_application(job: Job) -> None:
    """Each context's rows are loaded once, read by Spark's workers, with their bookmarks."""
    job.faults.set_fault("orders", 1, "raise", after=5, times=1)
    running = job.start()
    result = running.end().check()
    rows = [json.loads(row) for row in job.rows("orders").elements()]
    assert sorted((row["shop"], row["id"]) for row in rows) == [
        (shop, 1000 + number) for shop in range(6) for number in range(20)
    ]
    latest = {"replication_key": "at", "replication_key_value": "2024-01-01T23:00:00Z"}
    bookmarks = [{"context": {"shop": shop}, **latest} for shop in range(6)]
    assert sort_bookmarks(result.state) == {"orders": {"partitions": bookmarks}}
    assert job.state() == result.state
    assert running.process.pid not in job.faults.readers("orders")
    assert job.faults.visits("orders") == 7
    assert job.list_staging() == []


@pytest.mark.thorough
def test_every_kind_of_stream_gives_the_rows_of_one_machine(job: Job) -> None:
    """Contexts, children, windows, shared bookmarks; a second run reads only new rows."""
    job.config.update(streams=list(ALL_STREAMS), shops=5, rows=8, day=2)
    one_machine_job = job.one_machine_job
    running = job.start()
    result = running.end().check()
    pipe_run = one_machine_job.pipe().check()
    assert compare_tables(job, one_machine_job, ALL_STREAMS) == {}
    assert sort_bookmarks(result.state) == sort_bookmarks(pipe_run.state)
    driver = running.process.pid
    assert {stream for stream in READ_BY_WORKERS if driver in job.faults.readers(stream)} == set()
    assert {stream for stream in READ_BY_DRIVER if job.faults.readers(stream) != {driver}} == set()
    assert "'journal' has one context, so it is read by one process" in result.err
    for compared_job in (job, one_machine_job):
        compared_job.config["day"] = 3
    cluster_run, pipe_run = run_both_ways(job, one_machine_job, ALL_STREAMS)
    assert count_received_rows(cluster_run) == count_received_rows(pipe_run)
    assert count_received_rows(cluster_run)["orders"] < sum(job.rows("orders").values()) / 2


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kind", ["delta append", "delta overwrite", "iceberg upsert", "parquet append"]
)
def test_tables_of_every_format_match_those_of_one_machine(job: Job, kind: str) -> None:
    """Two runs, the second from the state in the tables; with and without keys."""
    table_format, mode = kind.split()
    job.target.update(format=table_format, write_mode=mode)
    streams = ("orders", "notes", "users") if mode == "upsert" else ("orders", "events")
    job.config.update(streams=list(streams), shops=4, day=2)
    one_machine_job = job.one_machine_job
    run_both_ways(job, one_machine_job, streams)
    for compared_job in (job, one_machine_job):
        compared_job.config["day"] = 3
    run_both_ways(job, one_machine_job, streams)


@pytest.mark.thorough
def test_old_versions_are_deleted_when_the_new_one_is_complete(job: Job) -> None:
    """The contexts of a full-table stream share one version; deleted rows are removed."""
    job.config.update(streams=["prices"], emit_activate_version_messages=True)
    job.target["hard_delete"] = True
    one_machine_job = job.one_machine_job
    run_both_ways(job, one_machine_job, ("prices",))
    for compared_job in (job, one_machine_job):
        compared_job.config["shops"] = 3
    run_both_ways(job, one_machine_job, ("prices",))
    assert sum(job.rows("prices").values()) == 60


@pytest.mark.thorough
def test_incomplete_version_deletes_no_rows(job: Job) -> None:
    """The rows of the former version stay if a context of the new one failed."""
    job.config.update(streams=["prices"], emit_activate_version_messages=True)
    job.target["hard_delete"] = True
    job.run().check()
    before = job.rows("prices")
    job.config["shops"] = 3
    job.faults.set_fault("prices", 1, "raise", after=3)
    job.run().check(1)
    assert before - job.rows("prices") == {}
    job.faults.clear()
    job.run().check()
    assert sum(job.rows("prices").values()) == 60


@pytest.mark.thorough
def test_selection_and_stream_maps_apply_on_the_workers(job: Job) -> None:
    """Deselected properties are absent; a map renames, drops and computes properties."""
    job.config.update(streams=["orders", "events", "notes", "users"])
    job.config["stream_maps"] = {
        "orders": {"double": "amount * 2", "__filter__": "id % 2 == 0", "note": None},
        "events": {"__alias__": "happened"},
    }
    process = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tests.cluster.faulty_taps import FaultyTap; FaultyTap.cli()",
            "--discover",
            "--config",
            "/dev/stdin",
        ],
        input=json.dumps(job.config),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    job.catalog = json.loads(process.stdout)
    for stream in job.catalog["streams"]:
        for entry in stream["metadata"]:
            if entry["breadcrumb"] == ["properties", "tags"]:
                entry["metadata"]["selected"] = False
            if entry["breadcrumb"] == [] and stream["tap_stream_id"] == "users":
                entry["metadata"]["selected"] = False
    one_machine_job = job.one_machine_job
    run_both_ways(job, one_machine_job, ("orders", "happened", "notes"))
    assert sum(job.rows("orders").values()) == 60
    assert not any("tags" in json.loads(row) for row in job.rows("notes"))
    assert not (job.tables / "users").exists()


@pytest.mark.thorough
def test_contexts_without_rows_give_an_empty_table_and_a_state(job: Job) -> None:
    """The tables are empty, and the state is that of one machine."""
    job.config["streams"] = ["blank"]
    run_both_ways(job, job.one_machine_job, ("blank",))
    assert (job.tables / "blank").is_dir()


@pytest.mark.thorough
def test_flights_sample_is_the_same_on_cluster_and_one_machine(
    standalone: StandaloneCluster, tmp_path: Path
) -> None:
    """The sample tap: partitions, a parent and its children, full tables; then two more days."""
    path = (ROOT, ROOT / "samples" / "tap_flights")
    config = {"until": "2013-01-04T00:00:00Z"}
    job = Job(tmp_path / "flights", standalone, config, tap=FLIGHTS, path=path)
    one_machine_job, streams = (
        job.one_machine_job,
        ("airlines", "planes", "airports", "weather", "flights"),
    )
    run_both_ways(job, one_machine_job, streams)
    for compared_job in (job, one_machine_job):
        compared_job.config["until"] = "2013-01-06T00:00:00Z"
    run_both_ways(job, one_machine_job, streams)


@pytest.mark.thorough
def test_regions_sample_is_the_same_on_cluster_and_one_machine(
    standalone: StandaloneCluster, tmp_path: Path
) -> None:
    """The REST sample with requests that fail sometimes; then more days."""
    api = server.API(fails={"region-07": 2})
    with server.serving(api) as address:
        config = {"api_url": address, "token": "t-1"}
        path = (ROOT, ROOT / "samples" / "cluster")
        job = Job(tmp_path / "regions", standalone, config, tap=REGIONS, path=path)
        one_machine_job, streams = job.one_machine_job, ("orders", "events", "customers", "notes")
        run_both_ways(job, one_machine_job, streams)
        assert sum(job.rows("orders").values()) == 5_000
        api.until = "2024-01-20T00:00:00Z"
        run_both_ways(job, one_machine_job, streams)
