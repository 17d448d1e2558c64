"""`target-spark run` on a real standalone cluster: the same tables as ``tap | target``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.jobs import ROOT, FinishedRun, Job, differences, ordered
from tests.cluster.standalone import Standalone

sys.path.append(str(ROOT / "samples" / "cluster"))  # it need not be installed

import server

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPREAD = ("orders", "events", "prices", "totals", "notes", "readings")
WHOLE = ("users", "journal")
ALL = (*SPREAD, *WHOLE, "blank")
FLIGHTS = "tap_flights.tap:TapFlights"
REGIONS = "tap_regions:TapRegions"


@pytest.fixture
def job(standalone: Standalone, tmp_path: Path) -> Iterator[Job]:
    """Create a job of one partitioned stream in its own folder."""
    created_job = Job(tmp_path / "job", standalone, {"streams": ["orders"]})
    yield created_job
    created_job.close()


def run_both_ways(
    job: Job, alone: Job, streams: tuple[str, ...]
) -> tuple[FinishedRun, FinishedRun]:
    """Run a job both ways, each from its last state, and compare the results.

    A tap in a pipe gets no state if its rows replace those of the table; `target-spark run` leaves
    the bookmarks of such streams out by itself.
    """
    resumes = alone.tables.exists() and alone.target.get("write_mode") != "overwrite"
    spread = job.run().check()
    piped = alone.pipe(alone.state() if resumes else None).check()
    assert differences(job, alone, streams) == {}
    assert ordered(spread.state) == ordered(piped.state)
    assert job.list_staging() == []
    return spread, piped


def received(result: FinishedRun) -> dict[str, int]:
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
    assert ordered(result.state) == {"orders": {"partitions": bookmarks}}
    assert job.state() == result.state
    assert running.process.pid not in job.faults.readers("orders")
    assert job.faults.visits("orders") == 7
    assert job.list_staging() == []


@pytest.mark.thorough
def test_every_kind_of_stream_gives_the_rows_of_one_machine(job: Job) -> None:
    """Contexts, children, windows, shared bookmarks; a second run reads only new rows."""
    job.config.update(streams=list(ALL), shops=5, rows=8, day=2)
    alone = job.alone
    running = job.start()
    result = running.end().check()
    piped = alone.pipe().check()
    assert differences(job, alone, ALL) == {}
    assert ordered(result.state) == ordered(piped.state)
    driver = running.process.pid
    assert {
        compared_job for compared_job in SPREAD if driver in job.faults.readers(compared_job)
    } == set()
    assert {
        compared_job for compared_job in WHOLE if job.faults.readers(compared_job) != {driver}
    } == set()
    assert "'journal' has one context, so it is read by one process" in result.err
    for compared_job in (job, alone):
        compared_job.config["day"] = 3
    spread, piped = run_both_ways(job, alone, ALL)
    assert received(spread) == received(piped)
    assert received(spread)["orders"] < sum(job.rows("orders").values()) / 2


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kind", ["delta append", "delta overwrite", "iceberg upsert", "parquet append"]
)
def test_tables_of_every_format_match_those_of_one_machine(job: Job, kind: str) -> None:
    """Two runs, the second from the state in the tables; with and without keys."""
    form, mode = kind.split()
    job.target.update(format=form, write_mode=mode)
    streams = ("orders", "notes", "users") if mode == "upsert" else ("orders", "events")
    job.config.update(streams=list(streams), shops=4, day=2)
    alone = job.alone
    run_both_ways(job, alone, streams)
    for compared_job in (job, alone):
        compared_job.config["day"] = 3
    run_both_ways(job, alone, streams)


@pytest.mark.thorough
def test_old_versions_are_deleted_when_the_new_one_is_complete(job: Job) -> None:
    """The contexts of a full-table stream share one version; deleted rows are removed."""
    job.config.update(streams=["prices"], emit_activate_version_messages=True)
    job.target["hard_delete"] = True
    alone = job.alone
    run_both_ways(job, alone, ("prices",))
    for compared_job in (job, alone):
        compared_job.config["shops"] = 3
    run_both_ways(job, alone, ("prices",))
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
    discover = subprocess.run(
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
    job.catalog = json.loads(discover.stdout)
    for stream in job.catalog["streams"]:
        for entry in stream["metadata"]:
            if entry["breadcrumb"] == ["properties", "tags"]:
                entry["metadata"]["selected"] = False
            if entry["breadcrumb"] == [] and stream["tap_stream_id"] == "users":
                entry["metadata"]["selected"] = False
    alone = job.alone
    run_both_ways(job, alone, ("orders", "happened", "notes"))
    assert sum(job.rows("orders").values()) == 60
    assert not any("tags" in json.loads(row) for row in job.rows("notes"))
    assert not (job.tables / "users").exists()


@pytest.mark.thorough
def test_contexts_without_rows_give_an_empty_table_and_a_state(job: Job) -> None:
    """The tables are empty, and the state is that of one machine."""
    job.config["streams"] = ["blank"]
    run_both_ways(job, job.alone, ("blank",))
    assert (job.tables / "blank").is_dir()


@pytest.mark.thorough
def test_flights_sample_is_the_same_on_cluster_and_one_machine(
    standalone: Standalone, tmp_path: Path
) -> None:
    """The sample tap: partitions, a parent and its children, full tables; then two more days."""
    path = (ROOT, ROOT / "samples" / "tap_flights")
    config = {"until": "2013-01-04T00:00:00Z"}
    job = Job(tmp_path / "flights", standalone, config, tap=FLIGHTS, path=path)
    alone, streams = job.alone, ("airlines", "planes", "airports", "weather", "flights")
    run_both_ways(job, alone, streams)
    for compared_job in (job, alone):
        compared_job.config["until"] = "2013-01-06T00:00:00Z"
    run_both_ways(job, alone, streams)


@pytest.mark.thorough
def test_regions_sample_is_the_same_on_cluster_and_one_machine(
    standalone: Standalone, tmp_path: Path
) -> None:
    """The REST sample with requests that fail sometimes; then more days."""
    api = server.API(fails={"region-07": 2})
    with server.serving(api) as address:
        config = {"api_url": address, "token": "t-1"}
        path = (ROOT, ROOT / "samples" / "cluster")
        job = Job(tmp_path / "regions", standalone, config, tap=REGIONS, path=path)
        alone, streams = job.alone, ("orders", "events", "customers", "notes")
        run_both_ways(job, alone, streams)
        assert sum(job.rows("orders").values()) == 5_000
        api.until = "2024-01-20T00:00:00Z"
        run_both_ways(job, alone, streams)
