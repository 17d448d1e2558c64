"""Killed at any moment, resumed from the last state line: no row missing, no state ahead."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from target_spark.places import spark_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from target_spark.target import TargetSpark; TargetSpark.cli()"]
LAST = 1800
STATE_EVERY = 50
KILLS = 3


def messages(after: int) -> list[bytes]:
    """Return what a tap sends that resumes behind a number: two streams, mixed, and states.

    Rows are sent with what they were in that attempt, so a keyed row is updated too.
    """
    number = {"id": {"type": "integer"}, "seen": {"type": "integer"}}
    lines = [
        {"type": "SCHEMA", "stream": name, "schema": {"properties": number}, "key_properties": keys}
        for name, keys in (("keyed", ["id"]), ("plain", []))
    ]
    for at in range(after + 1, LAST + 1):
        name = "keyed" if at % 3 else "plain"
        lines.append({"type": "RECORD", "stream": name, "record": {"id": at, "seen": after}})
        if at % STATE_EVERY == 0:
            lines.append({"type": "STATE", "value": {"at": at}})
    return [json.dumps(line).encode() + b"\n" for line in lines]


class Attempt:
    """One run of the target, fed by a tap that resumes."""

    def __init__(self, tmp_path: Path, form: str, after: int) -> None:
        config = tmp_path / "config.json"
        settings = {"flush_rows": 200, "small_runs": True, "master": "local[2]"}
        config.write_text(
            json.dumps({"path": str(tmp_path / "tables"), "format": form, **settings})
        )
        self._errors = (tmp_path / "errors.log").open("ab")
        self.process = subprocess.Popen(
            [*COMMAND, "--config", str(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.states: list[int] = []
        self._threads = [
            threading.Thread(target=self._feed, args=(self.process.stdin, messages(after))),
            threading.Thread(target=self._listen, args=(self.process.stdout,)),
        ]
        for thread in self._threads:
            thread.start()

    def _feed(self, stdin: IO[bytes], lines: list[bytes]) -> None:
        with contextlib.suppress(BrokenPipeError):
            for start in range(0, len(lines), 20):
                stdin.write(b"".join(lines[start : start + 20]))
                stdin.flush()
                time.sleep(0.005)
            stdin.close()

    def _listen(self, stdout: IO[bytes]) -> None:
        for line in stdout:
            self.states.append(json.loads(line)["at"])  # a torn or foreign line would raise

    def kill_after(self, states: int, seconds: float) -> None:
        """Kill the process a moment after it has let this many states out."""
        while len(self.states) < states and self.process.poll() is None:
            time.sleep(0.01)
        time.sleep(seconds)
        self.process.kill()

    def end(self) -> int:
        for thread in self._threads:
            thread.join()
        code = self.process.wait()
        self._errors.close()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]
        return code


def ids(spark: SparkSession, tmp_path: Path, form: str, stream: str) -> list[int]:
    """Return the numbers in a table; none where nothing was committed yet."""
    folder = tmp_path / "tables" / stream
    if not any(folder.glob("*.parquet")):
        return []
    read = spark.read.format(form).load(spark_address(str(folder)))
    return [row[0] for row in read.select("id").collect()]


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_killed_again_and_again_nothing_is_lost(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    chance = random.Random(form)
    after = 0
    for kill in range(KILLS):
        attempt = Attempt(tmp_path, form, after)
        attempt.kill_after(kill % 2 + 1, chance.random())
        attempt.end()
        assert attempt.states == sorted(attempt.states)
        after = attempt.states[-1] if attempt.states else after
        # What a state says is committed is committed, at whatever moment death came.
        safe = {*ids(spark, tmp_path, form, "keyed"), *ids(spark, tmp_path, form, "plain")}
        assert safe >= set(range(1, after + 1))
    last = Attempt(tmp_path, form, after)
    assert last.end() == 0, (tmp_path / "errors.log").read_text()
    # A kill may come after everything is safe: then there is nothing left to send.
    assert (last.states or [after])[-1] == LAST
    keyed, plain = (ids(spark, tmp_path, form, stream) for stream in ("keyed", "plain"))
    assert set(plain) == set(range(3, LAST + 1, 3))
    assert set(keyed) == set(range(1, LAST + 1)) - set(plain)
    if form == "delta":
        assert len(keyed) == len(set(keyed))
