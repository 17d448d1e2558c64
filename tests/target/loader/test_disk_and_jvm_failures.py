"""Full disks and JVMs that die: an early and clear error, and the next run resumes."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from target_spark.spark.session import SparkSettings, _explain_jvm_exit
from tests.target.cli.test_signals import get_jvm, is_writing_rows, wait_for_no_processes
from tests.target.cli.test_target_cli import (
    COMMAND,
    PATIENCE,
    config,
    environment,
    ids,
    line,
    record,
    run,
    running,
    schema,
    state,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

TEXT = {"properties": {"id": {"type": "integer"}, "text": {"type": "string"}}}
SOON = 60


def text_schema() -> bytes:
    return line({"type": "SCHEMA", "stream": "a", "schema": TEXT, "key_properties": []})


def text_record(number: int, size: int) -> bytes:
    """Return a record that cannot be compressed."""
    text = base64.b64encode(random.Random(number).randbytes(size)).decode()
    return line({"type": "RECORD", "stream": "a", "record": {"id": number, "text": text}})


# The JVM


@pytest.mark.parametrize(
    "code, message",
    [
        (3, "it ran out of memory: spark.driver.memory is 2g. Increase it"),
        (52, "it ran out of memory"),
        (-9, "it was killed, perhaps by the system for lack of memory"),
        (-11, "signal 11; its messages are on standard error"),
        (1, "exit code 1; its messages"),
    ],
)
def test_exit_code_of_the_jvm_is_explained(code: int, message: str) -> None:
    assert message in str(
        _explain_jvm_exit(code, SparkSettings(conf={"spark.driver.memory": "2g"}))
    )


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_jvm_death_is_an_error_while_the_tap_sends_nothing(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    with running(tmp_path, flush_rows=1, format=form) as target:
        target.send(schema(), record(1), state(1))
        target.until(lambda: target.lines == [b"1\n"])
        jvm = get_jvm(tmp_path)
        assert jvm is not None
        os.kill(jvm, signal.SIGKILL)
        died = time.monotonic()
        assert target.end() == 1  # though the input is still open
        assert time.monotonic() - died < SOON
        assert b"Spark's JVM ended in the middle of the run: it was killed" in target.errors
        assert b"spark.driver.memory" in target.errors
        assert b"Traceback" not in target.errors
    assert ids(spark, tmp_path, form=form) == [1]
    wait_for_no_processes(tmp_path)


def test_jvm_death_during_a_commit_is_an_error(tmp_path: Path) -> None:
    rows = [record(n) for n in range(1, 60_001)]
    with running(tmp_path, flush_rows=60_000) as target:
        target.send(schema(), *rows, state(1))
        target.until(lambda: is_writing_rows(tmp_path))
        jvm = get_jvm(tmp_path)
        assert jvm is not None
        os.kill(jvm, signal.SIGTERM)
        died = time.monotonic()
        assert target.end() == 1  # though the input is still open
        assert time.monotonic() - died < SOON
        assert b"Spark's JVM ended in the middle of the run" in target.errors
    wait_for_no_processes(tmp_path)


def test_jvm_out_of_memory_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    limits = dict.fromkeys(("TAP_CORE_LINE_BYTES", "TARGET_SPARK_RECORD_BYTES"), "300000000")
    small = {"spark.driver.memory": "480m"}
    with running(tmp_path, variables=limits, spark=small) as target:
        target.send(text_schema())
        with contextlib.suppress(BrokenPipeError):
            target.send(b'{"type":"RECORD","stream":"a","record":{"id":1,"text":"')
            for _ in range(250):
                target.send(b"x" * 1_000_000)
            target.send(b'"}}\n', state(1))
            target.stdin.close()
        assert target.end() == 1
        assert b"ran out of memory: spark.driver.memory is 480m" in target.errors
        assert target.lines == []
    wait_for_no_processes(tmp_path)


# The disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of a few megabytes."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"this machine does not let us mount: {mounted.stderr.decode()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_full_table_disk_is_an_error_and_the_next_run_resumes(
    spark: SparkSession, tmp_path: Path, small_disk: Path, form: str
) -> None:
    rows = [text_record(n, 1_000_000) + state(n) for n in range(1, 11)]
    options = {"path": str(small_disk), "format": form, "flush_rows": 1}
    process = run(tmp_path, b"".join([text_schema(), *rows]), **options)
    assert process.returncode == 1
    errors = process.stderr.decode()
    assert f"No space is left for table a ({small_disk}/a): No space left on device" in errors
    assert "Traceback" not in errors
    covered = int(process.stdout.split()[-1])
    assert 0 < covered < 10
    table = spark.read.format(form).load(f"file://{small_disk}/a")
    assert set(range(1, covered + 1)) <= {row.id for row in table.select("id").collect()}

    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    remaining = b"".join([text_schema(), *rows[covered:]])
    process = run(tmp_path, remaining, **options)
    assert (process.returncode, process.stdout.split()[-1]) == (0, b"10")
    table = spark.read.format(form).load(f"file://{small_disk}/a")
    assert sorted(row.id for row in table.select("id").collect()) == [*range(1, 11)]
    wait_for_no_processes(tmp_path)


def test_full_spool_disk_is_an_error_after_the_committed_states(
    spark: SparkSession, tmp_path: Path, small_disk: Path
) -> None:
    with running(tmp_path, staging=str(small_disk), flush_rows=2) as target:
        target.send(text_schema(), text_record(1, 100), text_record(2, 100), state(2))
        target.until(lambda: target.lines == [b"2\n"])
        with contextlib.suppress(BrokenPipeError):
            target.send(text_record(3, 9_000_000))
        assert target.end() == 1
        errors = target.errors.decode()
        assert f"No space is left for uncommitted rows ({small_disk}" in errors
        assert "set staging" in errors
        assert "Traceback" not in errors
        assert target.lines == [b"2\n"]
    assert ids(spark, tmp_path) == [1, 2]
    assert not [*small_disk.iterdir()]
    wait_for_no_processes(tmp_path)


def test_file_size_limit_is_reported_like_a_full_disk(tmp_path: Path) -> None:
    """A limit that any user can set with `ulimit -f`."""
    command = " ".join(f"'{word}'" for word in [*COMMAND, "--config", str(config(tmp_path))])
    process = subprocess.run(
        ["sh", "-c", f"ulimit -f 1000; exec {command}"],
        input=text_schema() + text_record(1, 3_000_000) + state(1),
        capture_output=True,
        env=environment(),
        cwd=tmp_path,
        timeout=PATIENCE,
        check=False,
    )
    assert (process.returncode, process.stdout) == (1, b"")
    assert b"No space is left for uncommitted rows" in process.stderr
    assert b"File too large" in process.stderr
    wait_for_no_processes(tmp_path)


def test_spool_of_a_dead_run_is_private_and_removed_by_the_next(
    spark: SparkSession, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    with running(tmp_path, staging=str(spool), flush_rows=100) as target:
        target.send(schema(), *(record(n) for n in range(1, 11)))
        target.until(lambda: any(spool.glob("target-spark-*/rows-*")))
        target.until(lambda: any(spool.glob("target-spark-*/blockmgr-*")))  # Spark's own
        target.process.kill()
        target.end()
    (folder,) = spool.iterdir()
    files = [path for path in folder.iterdir() if path.is_file()]
    modes = {path.name.partition("-")[0]: path.stat().st_mode & 0o777 for path in files}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert modes == {"lock": 0o600, "rows": 0o600}
    process = run(tmp_path, schema() + record(1) + state(1), staging=str(spool))
    assert (process.returncode, process.stdout) == (0, b"1\n")
    assert not [*spool.iterdir()]
    assert ids(spark, tmp_path) == [1]
    assert json.loads(process.stdout) == 1
    wait_for_no_processes(tmp_path)
