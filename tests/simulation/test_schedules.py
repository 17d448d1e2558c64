"""Loads under schedules of faults, kills and other writers: no row is lost or duplicated.

`python -m tests.simulation --seed N` runs one schedule again and prints it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from target_spark.config import settings
from target_spark.storage import job_lock
from target_spark.tables import parquet_manifest
from target_spark.tables.parquet_manifest import CommitManifest
from target_spark.writers import commit_checks, parquet
from target_spark.writers.delta import data_files
from target_spark.writers.delta import writer as delta
from target_spark.writers.delta.writer import DeltaWriter
from target_spark.writers.iceberg import writer as iceberg
from target_spark.writers.iceberg.writer import IcebergWriter
from tests.simulation import loads
from tests.simulation.delta_tables import SimulatedSnapshot
from tests.simulation.loads import failure_of, simulated
from tests.simulation.search import failures

COUNT = int(os.environ.get("SCHEDULES", "20000"))
"""Number of schedules that `make thorough` tries."""

SEED = random.SystemRandom().randrange(1 << 32)
"""The first seed, chosen anew for each run."""


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_no_schedule_violates_an_invariant() -> None:
    assert next(failures(0, 250, processes=1), None) is None


@pytest.mark.thorough
@pytest.mark.slow
def test_no_schedule_of_very_many_violates_an_invariant() -> None:
    assert next(failures(SEED, COUNT), None) is None


@pytest.mark.parametrize("seed", range(3000, 3009))
def test_same_seed_gives_the_same_schedule(seed: int) -> None:
    logs = []
    for _ in range(2):
        with simulated(seed) as schedule:
            schedule.run()
            logs.append([line.partition("(")[0] for line in schedule.scheduler.log])
    assert logs[0] == logs[1]
    assert logs[0]


def test_consecutive_seeds_cover_every_format() -> None:
    formats = set()
    for seed in range(20):
        with simulated(seed) as schedule:
            formats.add(schedule.format)
    assert formats == set(loads.FORMATS)


# Faults that the schedules must find: each was in the code once, or a check prevents it


def without_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "check_written_count", lambda *_: None)
    monkeypatch.setattr(delta, "_check_counts", lambda *_: None)
    monkeypatch.setattr(delta, "check_commit", lambda *_: 0)


def removing_staging_of_living_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    without_counts(monkeypatch)
    monkeypatch.setattr(data_files, "_staging_prefix", lambda _job: ".target-spark-")


def removing_files_after_any_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    without_counts(monkeypatch)
    append = DeltaWriter._append_files

    def removing(self: Any, spark: Any, table: Any, source: Any, marker: Any, **kw: Any) -> bool:
        files: list[data_files.DataFile] = []

        def write(folder: Path) -> list[data_files.DataFile]:
            files.extend(source.write(folder))
            return files

        try:
            return append(self, spark, table, replace(source, write=write), marker, **kw)
        except Exception:
            data_files.remove_files(files)
            raise

    monkeypatch.setattr(DeltaWriter, "_append_files", removing)


def appending_first_rows_blindly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedSnapshot, "has_files", lambda _: False)


def appending_first_rows_blindly_to_iceberg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IcebergWriter, "_append_first_rows", IcebergWriter.append)


def committing_to_a_table_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "check_same_table", lambda *_: "same")
    monkeypatch.setattr(DeltaWriter, "_check_history", lambda *_: None)


def not_looking_for_an_earlier_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedSnapshot, "has_batch", lambda *_: False)
    monkeypatch.setattr(delta, "find_newest_metadata", lambda *_: None)


def not_overtaking_a_late_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IcebergWriter, "_block_pending_commit", lambda *_: None)


def loading_beside_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (commit_checks, iceberg):
        monkeypatch.setattr(module, "check_predecessor", lambda *_: None)


def writing_each_manifest_under_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    write, fixed_uuid = (
        CommitManifest.write,
        SimpleNamespace(uuid4=lambda: SimpleNamespace(hex="one")),
    )

    def writing(self: CommitManifest, folder: Path) -> None:
        (folder / "_manifest.json.one.new").unlink(missing_ok=True)
        with monkeypatch.context() as patch:
            patch.setattr(parquet_manifest, "uuid", fixed_uuid)
            write(self, folder)

    monkeypatch.setattr(CommitManifest, "write", writing)
    monkeypatch.setattr(parquet, "_remove_unfinished", lambda _: None)


def writing_parquet_without_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_locked", contextlib.nullcontext)


def naming_the_job_by_the_path_as_spelled(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (settings, job_lock):
        monkeypatch.setattr(module, "resolve_address", lambda address: address)
    monkeypatch.setattr(settings, "former_jobs", lambda _: ())


_LOST = "record .* is not there"
_GONE = "which are not there"
_MISSING = "ended with FileNotFoundError"
_TWICE = "rows are there twice"
_OF_OTHERS = "left after the table was replaced"


@pytest.mark.parametrize(
    ("fault", "format", "message", "first"),
    [
        pytest.param(
            removing_staging_of_living_runs, "delta", _LOST, 0, marks=pytest.mark.thorough
        ),
        pytest.param(
            removing_files_after_any_failure, "delta", _GONE, 0, marks=pytest.mark.thorough
        ),
        (appending_first_rows_blindly, "delta", _TWICE, 0),
        (appending_first_rows_blindly_to_iceberg, "iceberg", _TWICE, 0),
        pytest.param(
            committing_to_a_table_of_others, "delta", _OF_OTHERS, 0, marks=pytest.mark.thorough
        ),
        pytest.param(
            not_looking_for_an_earlier_try, "delta", _TWICE, 0, marks=pytest.mark.thorough
        ),
        (not_overtaking_a_late_snapshot, "iceberg", _TWICE, 0),
        pytest.param(
            loading_beside_another_run, "iceberg", _TWICE, 300, marks=pytest.mark.thorough
        ),
        (writing_each_manifest_under_one_name, "parquet", _MISSING, 1800),
        pytest.param(
            writing_parquet_without_the_lock, "parquet", _LOST, 600, marks=pytest.mark.thorough
        ),
        (naming_the_job_by_the_path_as_spelled, None, "is loaded by job", 0),
    ],
)
def test_a_known_fault_is_found(
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[pytest.MonkeyPatch], None],
    format: str | None,
    message: str,
    first: int,
) -> None:
    """The search starts near a schedule that finds the fault."""
    fault(monkeypatch)
    failures = (failure_of(seed, format) for seed in range(first, first + 6000))
    assert any(failure and re.search(message, str(failure).splitlines()[0]) for failure in failures)
