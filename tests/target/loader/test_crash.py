"""A real tap piped into the target and killed at random: no row is lost, no state is ahead."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.storage.uris import to_spark_uri
from tests.target.loader.crash import MODES
from tests.target.loader.crash_scenario import Scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
TARGET = "from target_spark.target import TargetSpark; TargetSpark.cli()"
TAP = '''
import time

from tap_core import Stream, Tap
from tap_core import typing as th

COUNT, PARTS = 900, ("a", "b", "c")


def slowly(rows):
    for at, row in enumerate(rows):
        if at % 20 == 0:
            time.sleep(0.1)
        yield row


class Numbers(Stream):
    """In order, and so every row can be resumed from."""

    name = "numbers"
    primary_keys = ("id",)
    replication_key = "id"
    is_sorted = True
    STATE_MSG_FREQUENCY = 30
    schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()

    def get_records(self, context):
        first = self.get_starting_replication_key_value(context) or 1
        return slowly({"id": n} for n in range(first, COUNT + 1))


class Shuffled(Stream):
    """Not in order: only a partition that came to its end has a bookmark."""

    name = "shuffled"
    primary_keys = ("part", "at")
    replication_key = "at"
    partitions = [{"part": part} for part in PARTS]
    STATE_MSG_FREQUENCY = 30
    schema = th.PropertiesList(
        th.Property("part", th.StringType), th.Property("at", th.IntegerType)
    ).to_dict()

    def get_records(self, context):
        first = self.get_starting_replication_key_value(context) or 1
        return slowly({"at": n * 7 % 200 + 1} for n in range(200) if n * 7 % 200 + 1 >= first)


class Mixed(Tap):
    """Both."""

    name = "tap-mixed"

    def discover_streams(self):
        return [Numbers(self), Shuffled(self)]


Mixed.cli()
'''
COUNT, PARTS, PART_COUNT = 900, "abc", 200


class Attempt:
    """``tap --state state.json | target >> state.json``, two processes and one pipe."""

    def __init__(self, folder: Path, form: str) -> None:
        self._folder = folder
        self.states = folder / "state.json"
        self.states.touch()
        (folder / "tap.py").write_text(TAP)
        settings = {"flush_rows": 100, "small_runs": True, "master": "local[2]"}
        (folder / "config.json").write_text(
            json.dumps({"path": str(folder / "tables"), "format": form, **settings})
        )
        resume = ["--state", str(self.states)] if self.states.stat().st_size else []
        with (folder / "errors.log").open("ab") as errors, self.states.open("ab") as states:
            common: dict[str, Any] = {
                "stderr": errors,
                "cwd": folder,
                "env": {**os.environ, "PYTHONPATH": str(ROOT)},
            }
            self.tap = subprocess.Popen(
                [sys.executable, "tap.py", *resume], stdout=subprocess.PIPE, **common
            )
            self.target = subprocess.Popen(
                [sys.executable, "-c", TARGET, "--config", "config.json"],
                stdin=self.tap.stdout,
                stdout=states,
                **common,
            )
        assert self.tap.stdout is not None
        self.tap.stdout.close()

    def kill(self, victims: str, chance: random.Random) -> None:
        """Kill the tap at any time, or the target after it emitted a state."""
        if "target" in victims:
            before = last_state(self.states)
            while last_state(self.states) == before and self.target.poll() is None:
                time.sleep(0.01)
            time.sleep(1.5 * chance.random())
        else:
            time.sleep(0.5 + 4 * chance.random())
        for victim in victims.split("+"):
            getattr(self, victim).kill()

    def end(self) -> tuple[int, int]:
        """Wait for both processes; return their exit codes."""
        return self.tap.wait(120), self.target.wait(120)


def last_state(path: Path) -> dict[str, Any]:
    """Return the last complete state; a truncated or foreign line raises an error."""
    lines = path.read_bytes().rpartition(b"\n")[0].splitlines()
    states: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return states[-1] if states else {}


def covered_rows(state: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield part and number of the rows that a state covers; the part is empty for numbers."""
    bookmarks = state.get("bookmarks", {})
    numbers = bookmarks.get("numbers", {})
    for n in range(1, numbers.get("replication_key_value", 0) + 1):
        yield "", n
    for entry in bookmarks.get("shuffled", {}).get("partitions", ()):
        for n in range(1, entry.get("replication_key_value", 0) + 1):
            yield entry["context"]["part"], n


def read_rows(spark: SparkSession, folder: Path, form: str) -> list[tuple[str, int]]:
    """Return the rows of both tables, without those of a missing table."""
    rows: list[tuple[str, int]] = []
    for stream, columns in (("numbers", ("'' AS part", "id")), ("shuffled", ("part", "at"))):
        path = folder / "tables" / stream
        if any(path.glob("*.parquet")):
            table = spark.read.format(form).load(to_spark_uri(str(path)))
            rows += [(part, n) for part, n in table.selectExpr(*columns).collect()]
    return rows


EVERY_TIME = {"delta upsert"}
"""The pair that `make test` runs; the others take several times as long."""


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(pair, marks=[] if pair in EVERY_TIME else pytest.mark.thorough)
        for pair in (f"{form} {mode}" for form, modes in MODES.items() for mode in modes)
    ],
)
def test_load_killed_at_a_random_moment_resumes(
    spark_session: Session, tmp_path: Path, pair: str
) -> None:
    """For each format and mode, a load is killed once and copied once while it is stopped."""
    form, mode = pair.split()
    scenario = Scenario(spark_session, tmp_path, form, mode, seed=f"{form}-{mode}-{time.time_ns()}")
    try:
        scenario.run(deaths=1, copies=1)
    finally:
        print(scenario.seed, *scenario.log, sep="\n")


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["delta"])
def test_no_row_is_lost_after_repeated_kills(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    chance = random.Random(form)
    victims = ["tap", "target", "tap+target"]
    chance.shuffle(victims)
    for victim in victims:
        attempt = Attempt(tmp_path, form)
        attempt.kill(victim, chance)
        attempt.end()
        # A state covers committed rows only, at any moment of the kill.
        assert set(covered_rows(last_state(attempt.states))) <= set(
            read_rows(spark, tmp_path, form)
        )
    last = Attempt(tmp_path, form)
    assert last.end() == (0, 0), (tmp_path / "errors.log").read_text()
    expected = {("", n) for n in range(1, COUNT + 1)}
    expected |= {(part, n) for part in PARTS for n in range(1, PART_COUNT + 1)}
    assert set(covered_rows(last_state(last.states))) == expected
    rows = read_rows(spark, tmp_path, form)
    assert set(rows) == expected
    if form == "delta":
        assert len(rows) == len(expected)
