"""Loads under schedules of faults, kills and other writers: no state ahead, no row lost or twice.

`python -m tests.simulation --seed N` runs one schedule again and prints it.
"""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from target_spark.writers import delta, delta_files
from target_spark.writers.delta import DeltaWriter
from tests.simulation.delta_tables import SimulatedSnapshot
from tests.simulation.loads import InvariantError, simulated

SEED = random.SystemRandom().randrange(1 << 32)
"""Of the schedules that `make thorough` tries: new ones each time."""


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def failures(seeds: Iterator[int]) -> Iterator[InvariantError]:
    for seed in seeds:
        with simulated(seed) as schedule:
            try:
                schedule.run()
            except InvariantError as error:
                yield error


@pytest.mark.parametrize("part", range(4))
def test_no_schedule_breaks_a_promise(part: int) -> None:
    first = part * 250
    assert next(failures(iter(range(first, first + 250))), None) is None


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("part", range(50))
def test_no_schedule_of_very_many_breaks_a_promise(part: int) -> None:
    first = SEED + (part + 1) * 2000
    assert next(failures(iter(range(first, first + 2000))), None) is None


def test_the_same_seed_makes_the_same_schedule() -> None:
    logs = []
    for _ in range(2):
        with simulated(2871) as schedule:
            schedule.run()
            logs.append([line.partition("(")[0] for line in schedule.scheduler.log])
    assert logs[0] == logs[1]
    assert len(logs[0]) > 3


# Faults that the schedules must find: each was in the code once


def without_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_files, "check_count", lambda *_: None)
    monkeypatch.setattr(delta, "_check_counts", lambda *_: None)
    monkeypatch.setattr(delta, "check_commit", lambda *_: 0)


def removing_staging_of_living_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    without_counts(monkeypatch)
    monkeypatch.setattr(delta_files, "_staging_prefix", lambda _job: ".target-spark-")


def removing_files_after_any_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    without_counts(monkeypatch)
    commit = DeltaWriter._commit_files

    def removing(
        self: Any, spark: Any, table: Any, df: Any, files: Any, *args: Any, **kw: Any
    ) -> bool:
        try:
            return commit(self, spark, table, df, files, *args, **kw)
        except Exception:
            delta_files.remove_files(files)
            raise

    monkeypatch.setattr(DeltaWriter, "_commit_files", removing)


def appending_first_rows_blindly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedSnapshot, "has_files", lambda _: False)


def committing_to_a_table_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    same = property(lambda _: "same", lambda *_: None)
    monkeypatch.setattr(SimulatedSnapshot, "id", same, raising=False)


def not_looking_for_an_earlier_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedSnapshot, "has_batch", lambda *_: False)
    monkeypatch.setattr(delta, "newest_marker", lambda *_: None)


@pytest.mark.parametrize(
    "fault",
    [
        removing_staging_of_living_runs,
        removing_files_after_any_failure,
        appending_first_rows_blindly,
        committing_to_a_table_of_others,
        not_looking_for_an_earlier_try,
    ],
)
def test_a_known_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None]
) -> None:
    fault(monkeypatch)
    found = next(failures(itertools.islice(itertools.count(), 3000)), None)
    assert found is not None
