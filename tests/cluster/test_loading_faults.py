"""Processes of a cluster are killed during a load: no row is lost or duplicated, no state ahead."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.loads import PATIENCE, Load, TargetProcess, record, schema, state
from tests.cluster.standalone import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

ROUND, KEYS = 200, 150
"""Rows of a round, per stream; number of different keys of the upserted stream."""

SCHEMAS = schema("log", n="integer") + schema("kept", "k", k="integer", n="integer")
ROOT = Path(__file__).parents[2]


def rows(number: int, *streams: str) -> bytes:
    """Return the messages of a round, counted from 1, and the state that covers it."""
    ns = range((number - 1) * ROUND, number * ROUND)
    logged = [record("log", n=n) for n in ns if "log" in streams]
    upserted = [record("kept", k=n % KEYS, n=n) for n in ns if "kept" in streams]
    return b"".join([*logged, *upserted, state(number)])


def check(load: Load, rounds: int, *streams: str) -> None:
    """Check that the tables contain each sent row once."""
    tables, ns = load.rows(*streams), range(rounds * ROUND)
    if "log" in streams:
        assert sorted(row["n"] for row in tables["log"]) == [*ns]
    if "kept" in streams:
        assert len(tables["kept"]) == KEYS
        assert {row["k"]: row["n"] for row in tables["kept"]} == {n % KEYS: n for n in ns}
    assert load.list_staging() == []


def send_first_round(run: TargetProcess, *streams: str) -> None:
    """Send the first round, and wait until it is committed."""
    run.send(SCHEMAS, rows(1, *streams))
    run.until_state(1)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_killed_executors_lose_no_rows(
    standalone: StandaloneCluster, tmp_path: Path, form: str
) -> None:
    """One is killed in each round, at a random moment."""
    chance, streams = random.Random(form), ("log", "kept")
    load = Load(tmp_path, standalone, form, {"flush_rows": ROUND})
    with load.running() as run:
        send_first_round(run, *streams)
        for number in range(2, 5):
            run.send(rows(number, *streams))
            time.sleep(3 * chance.random())
            standalone.kill_executor(number % 2)
            run.until_state(number)
        assert run.end() == 0, run.read_log()
    assert run.states() == [1, 2, 3, 4]
    check(load, 4, *streams)


def test_failed_machine_loses_no_rows(standalone: StandaloneCluster, tmp_path: Path) -> None:
    """A worker and its executor are killed, and not restarted during the run."""
    load = Load(tmp_path, standalone, settings={"flush_rows": ROUND})
    try:
        with load.running() as run:
            send_first_round(run, "log", "kept")
            run.send(rows(2, "log", "kept"))
            time.sleep(1)
            standalone.kill_worker(0)
            run.send(rows(3, "log", "kept"))
            assert run.end() == 0, run.read_log()
    finally:
        standalone.restart_worker(0)
    assert run.states()[-1] == 3
    check(load, 3, "log", "kept")


@pytest.mark.parametrize(("form", "stream"), [("delta", "log"), ("iceberg", "kept")])
def test_killed_driver_is_resumed_by_the_next_run(
    standalone: StandaloneCluster, tmp_path: Path, form: str, stream: str
) -> None:
    """First Python is killed, then Python and the JVM; the next run resumes from the tables."""
    load = Load(tmp_path, standalone, form, {"flush_rows": ROUND})
    resumed, rounds = 0, 6
    for both_die in (False, True):
        with load.running() as run:
            run.send(SCHEMAS, rows(resumed + 1, stream))
            run.until_state(resumed + 1)
            run.send(rows(resumed + 2, stream))
            time.sleep(2 * random.Random(form).random())
            jvm = run.jvm()
            run.kill()
            if both_die and jvm is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(jvm, signal.SIGKILL)
        resumed = _resumed(load)
        assert resumed >= max(run.states())
    remaining = (rows(number, stream) for number in range(resumed + 1, rounds + 1))
    next_run = load.run(SCHEMAS, *remaining)
    assert next_run.states()[-1] == rounds
    check(load, rounds, stream)


def _resumed(load: Load) -> int:
    """Return the last round by the tables; a dead run's JVM may still be ending."""
    process = load.word("last-state")
    assert process.returncode == 0, process.stderr.decode()
    return int(json.loads(process.stdout))


def test_removed_staging_folder_ends_the_run(standalone: StandaloneCluster, tmp_path: Path) -> None:
    """No staged row is acknowledged; the next run loads them."""
    load = Load(tmp_path, standalone, settings={"flush_rows": ROUND})
    with load.running() as run:
        send_first_round(run, "log")
        shutil.rmtree(load.staging)
        run.send(rows(2, "log"))
        assert run.end() == 1, run.read_log()
    assert run.states() == [1]
    assert str(load.staging) in run.report()["outcome"]
    load.run(SCHEMAS, rows(2, "log"))
    check(load, 2, "log")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of a few megabytes as the staging folder."""
    folder = tmp_path / "staging"
    folder.mkdir()
    arguments = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    mounted = subprocess.run(arguments, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"this machine does not let us mount: {mounted.stderr.decode()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_full_staging_folder_is_an_error(
    standalone: StandaloneCluster, tmp_path: Path, small_disk: Path
) -> None:
    """An executor that cannot write there ends the run; with more space the next run succeeds."""
    # Parquet halves it; as a smaller record, it would be read in Python and not be staged.
    text = random.Random(1).randbytes(4_000_000).hex()
    load = Load(tmp_path, standalone, "iceberg", {"flush_rows": 1})
    schema_message = schema("kept", "k", k="integer", text="string")
    first, large = record("kept", k=1, text="x"), record("kept", k=1, text=text)
    with load.running() as run:
        run.send(schema_message, first, state(1))
        run.until_state(1)
        run.send(large, state(2))
        assert run.end() == 1, run.read_log()
    assert run.states() == [1]
    assert "No space is left for uncommitted rows" in run.report()["outcome"]
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert load.run(schema_message, large, state(2)).states() == [2]
    assert [row["text"] == text for row in load.rows("kept")["kept"]] == [True]


def test_second_application_of_a_job_is_rejected(
    standalone: StandaloneCluster, tmp_path: Path
) -> None:
    """The second application fails at the job lock; the first one is not affected."""
    load = Load(tmp_path, standalone, settings={"flush_rows": ROUND})
    second = Load(tmp_path / "second", standalone, settings={"path": str(load.tables)})
    with load.running() as run:
        send_first_round(run, "log")
        rejected = second.run(SCHEMAS, rows(2, "log"), code=1)
        assert "Another run of job" in rejected.read_log()
        assert rejected.states() == []
        run.send(rows(2, "log"))
        assert run.end() == 0, run.read_log()
    check(load, 2, "log")


def test_sigterm_ends_a_run_that_waits_for_executors(
    standalone: StandaloneCluster, tmp_path: Path
) -> None:
    """No worker has enough memory, so no commit can be in progress; no row is acknowledged."""
    load = Load(tmp_path, standalone, settings={"spark": {"spark.executor.memory": "64g"}})
    with load.running() as run:
        run.send(SCHEMAS, rows(1, "log"), state(1))
        run.wait_until(lambda: "has not accepted any resources" in run.read_log())
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == 1, run.read_log()
    assert "before the cluster had assigned executors" in run.report()["outcome"]
    assert run.states() == []
    assert load.list_staging() == []


ENDED = """
import sys
from target_spark.spark.session import Session, SparkSettings

master, *conf = sys.argv[1:]
conf = dict(each.split("=", 1) for each in conf)
session = Session(SparkSettings(master=master, conf=conf, format="parquet")).start()
try:
    spark = session.spark()
    print(session.failure)
    spark.sparkContext._jsc.sc().stop()
    print(session.failure)
finally:
    session.stop()
"""


def test_application_ended_by_the_master_is_a_failure(standalone: StandaloneCluster) -> None:
    """Spark stops, and its JVM continues without a cluster."""
    arguments = [
        standalone.master,
        *(f"{key}={text}" for key, text in standalone.small_application_conf.items()),
    ]
    process = subprocess.run(
        [sys.executable, "-c", ENDED, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    before, after = process.stdout.splitlines()
    assert before == "None"
    assert after.startswith("The cluster ended Spark's application in the middle of the run")


LOST = """
import sys
from datetime import datetime, timezone
from pathlib import Path
from target_spark.columns import ORDINAL, ColumnOptions, schema_from_json_schema
from target_spark.frames import BatchMetadata, SpoolFrame
from target_spark.spark.session import Session, SparkSettings
from target_spark.spark.arrow_workers import map_in_arrow
from target_spark.writers import MergeKeys, latest_by_key

def slowly(batches):
    import time
    while not Path(folder, "go").exists():
        time.sleep(0.1)
    yield from batches

master, folder, *conf = sys.argv[1:]
conf = {**dict(each.split("=", 1) for each in conf), "spark.sql.adaptive.enabled": "false"}
session = Session(SparkSettings(master=master, conf=conf, format="parquet")).start()
try:
    spark, now = session.thread_session(), datetime.now(timezone.utc)
    schema = {"properties": {"k": {"type": "integer"}}}
    layout = schema_from_json_schema(schema, ("k",), ColumnOptions())
    spool = [f"file://{path}" for path in Path(folder).glob("rows-*")]
    frame = SpoolFrame(spark, spool, layout, BatchMetadata(now, now, 0))
    rows = latest_by_key(frame.good(strict=True), MergeKeys(("k",), ORDINAL))
    map_in_arrow(rows, slowly, rows.schema, "slowly").write.parquet(f"file://{folder}/out")
    print(frame._observation.get["rows"], frame.counts().rows, frame.counts(400).rows)
finally:
    session.stop()
"""


def test_rows_of_a_lost_executor_are_counted_once(
    standalone: StandaloneCluster, tmp_path: Path
) -> None:
    """Lost shuffle files are computed again, and Spark's counters count their rows twice."""
    for part in range(4):
        lines = ({"n": n, "t": None, "v": None, "r": {"k": n}} for n in range(part, 400, 4))
        (tmp_path / f"rows-{part}").write_text("".join(json.dumps(line) + "\n" for line in lines))
    conf = {**standalone.small_application_conf, "spark.sql.files.maxPartitionBytes": "1000"}
    arguments = [standalone.master, str(tmp_path), *(f"{key}={text}" for key, text in conf.items())]
    with subprocess.Popen(
        [sys.executable, "-c", LOST, *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as script:
        try:
            kill_executors_after_shuffle(standalone, script)
            (tmp_path / "go").touch()
            output = script.communicate(timeout=PATIENCE)[0]
        finally:
            script.kill()
    spark_count, counted, expected = map(int, output.split())
    assert counted == expected == 400
    assert spark_count > 400, "Spark counts once now: the counting anew can go"


def kill_executors_after_shuffle(
    standalone: StandaloneCluster, script: subprocess.Popen[bytes]
) -> None:
    """Kill all executors once one of them has passed the shuffle."""
    while not standalone.pythons():
        assert script.poll() is None
        time.sleep(0.1)
    for pid in standalone.executors():
        os.kill(pid, signal.SIGKILL)
