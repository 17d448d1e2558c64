"""Runs that share an engine: real processes, some of which are killed."""

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
    get_application_id,
    make_record_messages,
    make_schema_message,
    wait_until,
)

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

PARTS, ROWS_PER_PART = 12, 100


@pytest.fixture
def home(tmp_path: Path) -> Iterator[EngineHome]:
    engine_home = EngineHome(tmp_path)
    yield engine_home
    engine_home.end()


def has_version(home: EngineHome, version: int, tables: str = "tables") -> bool:
    return (home.folder / tables / "a" / "_delta_log" / f"{version:020}.json").exists()


def test_later_runs_use_the_engine_of_the_first(home: EngineHome) -> None:
    """SEC23: its token is on no command line, in no file and in no log."""
    first = home.load(make_schema_message() + make_record_messages(1, 20))
    [engine] = home.engines()
    second = home.load(make_schema_message() + make_record_messages(11, 30, "y"), engine="auto")
    assert get_application_id(first) == get_application_id(second)
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
    first = home.load(make_schema_message() + make_record_messages(1, 20), **options)
    second = home.load(
        make_schema_message() + make_record_messages(21, 30), engine="auto", **options
    )
    assert get_application_id(first) == get_application_id(second)
    ids = open_warehouse(home.folder / "tables")["a"].to_arrow(["id"])["id"].to_pylist()
    assert sorted(ids) == list(range(1, 31))


def test_runs_of_two_jobs_share_an_engine_and_no_table(home: EngineHome) -> None:
    assert home.command("start").returncode == 0
    processes: dict[str, subprocess.CompletedProcess[bytes]] = {}

    def load(name: str) -> None:
        path = str(home.folder / name)
        processes[name] = home.load(
            make_schema_message() + make_record_messages(1, 50, name), path=path
        )

    threads = [threading.Thread(target=load, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert get_application_id(processes["one"]) == get_application_id(processes["two"])
    for name in ("one", "two"):
        assert (home.keys(name), home.texts(name)) == (list(range(1, 51)), {name})


@pytest.mark.parametrize("victim", ["engine", "jvm"])
def test_killed_engine_neither_loses_nor_repeats_rows(home: EngineHome, victim: str) -> None:
    with home.running(flush_rows=ROWS_PER_PART, write_mode="append") as run:
        run.send(make_schema_message())
        for part in range(PARTS):
            run.send(
                make_record_messages(part * ROWS_PER_PART + 1, part * ROWS_PER_PART + ROWS_PER_PART)
            )
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
        assert len(keys) == released == PARTS * ROWS_PER_PART
    else:  # the commit had succeeded, and its rows could not be counted
        assert "if it fails with this error, start it again" in errors
        assert (
            home.load(
                make_schema_message() + make_record_messages(len(keys) + 1, PARTS * ROWS_PER_PART)
            ).returncode
            == 0
        )
        assert home.keys() == list(range(1, PARTS * ROWS_PER_PART + 1))


def test_replay_whose_engine_is_killed_neither_loses_nor_repeats_records(home: EngineHome) -> None:
    integer_schema = make_schema_message().replace(b'"string"', b'"integer"')
    invalid_row = line({"type": "RECORD", "stream": "a", "record": {"id": 1, "text": 5}})
    assert (
        home.load(
            integer_schema + invalid_row + make_record_messages(2, 9), write_mode="append"
        ).returncode
        == 0
    )
    schema_file = home.folder / "schema.json"
    schema_file.write_bytes(make_schema_message())
    arguments = ["replay", "a", "--schema", str(schema_file), "--config"]
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
        process_again = home.call(*arguments)
        assert process_again.returncode == 0, process_again.stderr.decode()
    assert home.keys() == list(range(1, 10))
    assert home.keys(stream="a__quarantine", column="raw") == []


def test_run_after_a_killed_run_completes_the_table(home: EngineHome) -> None:
    with home.running(flush_rows=ROWS_PER_PART, write_mode="append") as run:
        run.send(
            make_schema_message(),
            *(
                make_record_messages(part * ROWS_PER_PART + 1, part * ROWS_PER_PART + ROWS_PER_PART)
                for part in range(PARTS)
            ),
        )
        run.until(lambda: has_version(home, 2))
        run.process.kill()
    states = [int(text) for text in run.lines]
    last_state = max(states, default=0)
    process = home.load(
        make_schema_message() + make_record_messages(last_state + 1, PARTS * ROWS_PER_PART),
        flush_rows=ROWS_PER_PART,
        write_mode="append",
    )
    assert process.returncode == 0, process.stderr.decode()
    keys = home.keys()
    assert set(keys) == set(range(1, PARTS * ROWS_PER_PART + 1))
    assert set(range(1, last_state + 1)) <= set(keys)
    assert home.command("status").returncode == 0


def test_two_starts_at_once_give_one_engine(home: EngineHome) -> None:
    command = [*COMMAND, "engine", "start", "--config", home.config()]
    processes = [
        subprocess.Popen(command, env=home.environment, cwd=home.folder, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    output = sorted(start.communicate()[0].decode() for start in processes)
    assert [start.returncode for start in processes] == [0, 0]
    assert output[0].startswith("An engine with these settings is already running: process ")
    assert output[1].startswith("The engine was started: process ")
    [engine] = home.engines()
    doctor = home.call("doctor", "--config", home.config())
    assert doctor.returncode == 0, doctor.stdout.decode()
    assert f"ok       engine         process {engine}, ".encode() in doctor.stdout


def test_files_of_a_killed_engine_do_not_disturb_later_runs(home: EngineHome) -> None:
    assert home.command("start").returncode == 0
    [engine] = home.engines()
    os.kill(engine, signal.SIGKILL)
    wait_until(lambda: not home.processes())
    process = home.load(make_schema_message() + make_record_messages(1, 5), engine="auto")
    assert process.returncode == 0, process.stderr.decode()
    assert home.engines() == [engine]
    assert home.command("status").returncode == 1
    assert home.load(make_schema_message() + make_record_messages(6, 9)).returncode == 0
    assert home.engines() not in ([], [engine])
    assert home.keys() == list(range(1, 10))


def test_engine_with_other_settings_is_named_and_not_used(home: EngineHome) -> None:
    assert home.command("start").returncode == 0
    other_settings = {"spark": {"spark.sql.shuffle.partitions": 3}, "engine": "auto"}
    process = home.load(make_schema_message() + make_record_messages(1, 5), **other_settings)
    assert process.returncode == 0, process.stderr.decode()
    assert b"was started with another value of: spark.sql.shuffle.partitions" in process.stderr
    assert home.command("status", **other_settings).returncode == 1
    assert home.command("status").returncode == 0


def test_engine_in_use_is_not_stopped(home: EngineHome) -> None:
    with home.running(flush_rows=1, job="nightly") as run:
        run.send(make_schema_message(), make_record_messages(1, 1))
        run.until(lambda: bool(run.lines))
        stop_in_use = home.command("stop")
        assert stop_in_use.returncode == 1
        assert (
            b"The engine is not stopped, because a run uses it: job nightly" in stop_in_use.stdout
        )
        run.send(make_record_messages(2, 2))
        run.stdin.close()
        assert run.end() == 0, run.errors.decode()
    stop_idle = home.command("stop")
    assert (stop_idle.returncode, stop_idle.stdout) == (0, b"The engine was stopped.\n")
    wait_until(lambda: not home.processes())
    assert home.keys() == [1, 2]


def test_idle_engine_ends_with_its_jvm(home: EngineHome) -> None:
    assert (
        home.load(
            make_schema_message() + make_record_messages(1, 3), engine_idle_seconds=0.1
        ).returncode
        == 0
    )
    wait_until(lambda: not home.processes())
    assert home.keys() == [1, 2, 3]
