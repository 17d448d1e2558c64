"""Runs that share an engine: real processes, killed at the worst moments."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from target_spark import open_warehouse
from tests.target.cli.test_target_cli import line
from tests.target.warm_engine.engine_runs import (
    COMMAND,
    EngineHome,
    application,
    keyed,
    rows,
    wait_until,
)

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

PARTS, ROWS = 12, 100


@pytest.fixture
def home(tmp_path: Path) -> Iterator[EngineHome]:
    engine_home = EngineHome(tmp_path)
    yield engine_home
    engine_home.end()


def has_version(home: EngineHome, version: int, tables: str = "tables") -> bool:
    return (home.folder / tables / "a" / "_delta_log" / f"{version:020}.json").exists()


def test_later_runs_use_the_engine_that_the_first_left_behind(home: EngineHome) -> None:
    """SEC23: its token is on no command line, in no file and in no log."""
    first = home.load(keyed() + rows(1, 20))
    [engine] = home.engines()
    second = home.load(keyed() + rows(11, 30, "y"), engine="auto")
    assert application(first) == application(second)
    assert home.engines() == [engine]
    assert home.keys() == list(range(1, 31))
    assert (first.stdout, second.stdout) == (b"20\n", b"30\n")
    for folder in home.folder.glob("cache/target-spark/engines/*"):
        assert folder.stat().st_mode & 0o077 == 0
    for process in home.processes():
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        assert b"SECRET" not in command
        assert b"token" not in command


@pytest.mark.parametrize("table_format", ["iceberg", "parquet"])
def test_later_runs_of_other_formats_use_the_engine_too(
    home: EngineHome, table_format: str
) -> None:
    options = {"format": table_format, "write_mode": "append"}
    first = home.load(keyed() + rows(1, 20), **options)
    second = home.load(keyed() + rows(21, 30), engine="auto", **options)
    assert application(first) == application(second)
    ids = open_warehouse(home.folder / "tables")["a"].to_arrow(["id"])["id"].to_pylist()
    assert sorted(ids) == list(range(1, 31))


def test_runs_of_two_jobs_share_an_engine_and_no_table(home: EngineHome) -> None:
    assert home.command("start").returncode == 0
    processes: dict[str, subprocess.CompletedProcess[bytes]] = {}

    def load(name: str) -> None:
        path = str(home.folder / name)
        processes[name] = home.load(keyed() + rows(1, 50, name), path=path)

    threads = [threading.Thread(target=load, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert application(processes["one"]) == application(processes["two"])
    for name in ("one", "two"):
        assert (home.keys(name), home.texts(name)) == (list(range(1, 51)), {name})


@pytest.mark.parametrize("victim", ["engine", "jvm"])
def test_killed_engine_loses_no_row_and_repeats_none(home: EngineHome, victim: str) -> None:
    with home.running(flush_rows=ROWS, write_mode="append") as run:
        run.send(keyed())
        for part in range(PARTS):
            run.send(rows(part * ROWS + 1, part * ROWS + ROWS))
            if part == PARTS // 2:
                run.until(lambda: has_version(home, 2))
                pid = home.engines()[0] if victim == "engine" else home.jvm()
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
        run.stdin.close()
        code = run.end()
    errors = run.errors.decode()
    assert "The engine ended in the middle of the run" in errors
    assert "Traceback" not in errors
    keys, released = home.keys(), int(run.lines[-1])
    assert keys == list(range(1, len(keys) + 1))
    assert released <= len(keys)
    if code == 0:
        assert len(keys) == released == PARTS * ROWS
    else:  # the commit had succeeded, and its rows could not be counted
        assert "if it fails with this error, start it again" in errors
        assert home.load(keyed() + rows(len(keys) + 1, PARTS * ROWS)).returncode == 0
        assert home.keys() == list(range(1, PARTS * ROWS + 1))


def test_replay_whose_engine_is_killed_loses_no_record_and_repeats_none(home: EngineHome) -> None:
    numbers = keyed().replace(b'"string"', b'"integer"')
    row = line({"type": "RECORD", "stream": "a", "record": {"id": 1, "text": 5}})
    assert home.load(numbers + row + rows(2, 9), write_mode="append").returncode == 0
    schema = home.folder / "schema.json"
    schema.write_bytes(keyed())
    arguments = ["replay", "a", "--schema", str(schema), "--config"]
    arguments.append(home.config(write_mode="append"))
    log = home.folder / "tables" / "a__quarantine" / "_delta_log"
    earlier = len(list(log.glob("*.json")))
    with subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, env=home.environment, cwd=home.folder
    ) as process:
        wait_until(lambda: len(list(log.glob("*.json"))) > earlier)
        pid = home.jvm()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        errors = process.communicate()[1].decode()
    assert "The engine ended in the middle of the run" in errors
    assert "Traceback" not in errors
    if process.returncode:
        done = home.call(*arguments)
        assert done.returncode == 0, done.stderr.decode()
    assert home.keys() == list(range(1, 10))
    assert home.keys(stream="a__quarantine", column="raw") == []


def test_killed_run_leaves_no_row_twice_for_the_next_run(home: EngineHome) -> None:
    with home.running(flush_rows=ROWS, write_mode="append") as run:
        run.send(keyed(), *(rows(part * ROWS + 1, part * ROWS + ROWS) for part in range(PARTS)))
        run.until(lambda: has_version(home, 2))
        run.process.kill()
    states = [int(text) for text in run.lines]
    resumed = max(states, default=0)
    process = home.load(
        keyed() + rows(resumed + 1, PARTS * ROWS), flush_rows=ROWS, write_mode="append"
    )
    assert process.returncode == 0, process.stderr.decode()
    keys = home.keys()
    assert set(keys) == set(range(1, PARTS * ROWS + 1))
    assert set(range(1, resumed + 1)) <= set(keys)
    assert home.command("status").returncode == 0


def test_two_starts_at_once_give_one_engine(home: EngineHome) -> None:
    command = [*COMMAND, "engine", "start", "--config", home.config()]
    starts = [
        subprocess.Popen(command, env=home.environment, cwd=home.folder, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    output = sorted(start.communicate()[0].decode() for start in starts)
    assert [start.returncode for start in starts] == [0, 0]
    assert output[0].startswith("An engine with these settings is already running: process ")
    assert output[1].startswith("The engine was started: process ")
    [engine] = home.engines()
    checked = home.call("doctor", "--config", home.config())
    assert checked.returncode == 0, checked.stdout.decode()
    assert f"ok       engine         process {engine}, ".encode() in checked.stdout


def test_remains_of_a_killed_engine_do_not_disturb(home: EngineHome) -> None:
    assert home.command("start").returncode == 0
    [engine] = home.engines()
    os.kill(engine, signal.SIGKILL)
    wait_until(lambda: not home.processes())
    process = home.load(keyed() + rows(1, 5), engine="auto")
    assert process.returncode == 0, process.stderr.decode()
    assert home.engines() == [engine]
    assert home.command("status").returncode == 1
    assert home.load(keyed() + rows(6, 9)).returncode == 0
    assert home.engines() not in ([], [engine])
    assert home.keys() == list(range(1, 10))


def test_engine_with_other_settings_is_named_and_not_used(home: EngineHome) -> None:
    assert home.command("start").returncode == 0
    other = {"spark": {"spark.sql.shuffle.partitions": 3}, "engine": "auto"}
    process = home.load(keyed() + rows(1, 5), **other)
    assert process.returncode == 0, process.stderr.decode()
    assert b"was started with another value of: spark.sql.shuffle.partitions" in process.stderr
    assert home.command("status", **other).returncode == 1
    assert home.command("status").returncode == 0


def test_engine_in_use_is_not_stopped(home: EngineHome) -> None:
    with home.running(flush_rows=1, job="nightly") as run:
        run.send(keyed(), rows(1, 1))
        run.until(lambda: bool(run.lines))
        rejected = home.command("stop")
        assert rejected.returncode == 1
        assert b"The engine is not stopped, because a run uses it: job nightly" in rejected.stdout
        run.send(rows(2, 2))
        run.stdin.close()
        assert run.end() == 0, run.errors.decode()
    stopped = home.command("stop")
    assert (stopped.returncode, stopped.stdout) == (0, b"The engine was stopped.\n")
    wait_until(lambda: not home.processes())
    assert home.keys() == [1, 2]


def test_idle_engine_ends_with_its_jvm(home: EngineHome) -> None:
    assert home.load(keyed() + rows(1, 3), engine_idle_seconds=0.1).returncode == 0
    wait_until(lambda: not home.processes())
    assert home.keys() == [1, 2, 3]
