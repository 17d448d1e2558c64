"""Runs that are killed at random moments: ``python -m tests.cluster.random_kills``.

A scenario is one job with its tables. Its run is started and a part of it is killed, a few times:
the driver's Python, its JVM, both, an executor, a process that reads, a worker with all that it
started; or the driver gets SIGTERM. After each kill the bookmarks are compared with the rows. Then
the job runs to its end, and its tables and its state are compared with those of ``tap | target`` on
one machine. All choices come from the scenario's seed, which is printed; the moments also depend on
the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.jobs import ROOT, FinishedRun, Job, RunProcess, compare_tables, wait_until
from tests.cluster.standalone import StandaloneCluster

__all__ = ["SOURCES", "Scenario", "main"]

VICTIMS = ("python", "jvm", "driver", "executor", "reader", "worker", "term")
FLIGHTS = "tap_flights.tap:TapFlights"
REGIONS = "tap_regions:TapRegions"


@dataclass(frozen=True)
class Source:
    """A tap with its settings, and the streams whose bookmarks are compared with rows.

    ``cursors`` maps a stream to the property of its bookmark.
    """

    streams: tuple[str, ...]
    cursors: dict[str, str]
    config: dict[str, Any] = field(default_factory=dict)
    tap: str = "tests.cluster.faulty_taps:FaultyTap"
    path: tuple[Path, ...] = (ROOT,)


_FAULTY = ("orders", "totals", "readings", "notes", "users", "journal")
SOURCES = {
    "faulty": Source(
        _FAULTY,
        {"orders": "at", "readings": "at", "notes": "at", "journal": "id"},
        {"streams": list(_FAULTY), "rows": 12, "day": 3, "pause": 0.02},
    ),
    "events": Source(("events",), {"events": "at"}, {"streams": ["events"], "pause": 0.05}),
    "flights": Source(
        ("airlines", "planes", "airports", "weather", "flights"),
        {"weather": "time_hour", "flights": "time_hour"},
        {"until": "2013-01-03T00:00:00Z"},
        FLIGHTS,
        (ROOT, ROOT / "samples" / "tap_flights"),
    ),
    "regions": Source(
        ("orders", "events", "customers", "notes"),
        {"orders": "updated_at", "events": "updated_at", "notes": "updated_at"},
        {"token": "t-1"},
        REGIONS,
        (ROOT, ROOT / "samples" / "cluster"),
    ),
}
"""The sources; ``events`` is one stream without keys, so no row may be duplicated."""


class Scenario:
    """One job that is killed a few times, and then runs to its end."""

    def __init__(
        self, cluster: StandaloneCluster, folder: Path, source: Source, form: str, seed: str
    ) -> None:
        """Prepare the job; ``seed`` decides all choices."""
        self.chance = random.Random(seed)
        self.source = source
        target = {"format": form, "flush_rows": self.chance.choice((100, 1000, 100_000))}
        self.job = Job(
            folder / "job", cluster, dict(source.config), target, source.tap, path=source.path
        )
        self.log: list[str] = []
        self._usual = 40.0

    def run(self, deaths: int) -> None:
        """Kill ``deaths`` runs, finish the job, and compare it with a run on one machine."""
        one_machine_job = self.job.one_machine_job
        one_machine_job.pipe().check()
        expected = {
            stream: list(map(json.loads, one_machine_job.rows(stream).elements()))
            for stream in self.source.cursors
        }
        for _ in range(deaths):
            self._run_and_kill()
            self._check_not_ahead(expected)
        self.job.run().check()
        difference = compare_tables(self.job, one_machine_job, self.source.streams)
        assert difference == {}, difference
        assert self.job.list_staging() == []

    def _run_and_kill(self) -> None:
        """Start a run, kill a part of it at a random moment, and wait for the end."""
        cluster = self.job.cluster
        victim = self.chance.choice(VICTIMS)
        running = self.job.start()
        started = time.monotonic()
        end = started + self._usual * self.chance.random() ** 0.7
        while running.alive and time.monotonic() < end:
            time.sleep(0.02)
        was_alive = running.alive
        if was_alive:
            _KILLS[victim](running, self.chance)
        result = running.end()
        seconds = time.monotonic() - started
        self.log.append(f"{victim if was_alive else 'nobody'} {seconds:.0f} s: {result.code}")
        if not was_alive:
            self._usual = min(self._usual, seconds)
        _check_code(victim if was_alive else "nobody", result)
        for index, worker in enumerate(cluster.started_workers):
            if not worker.alive:
                cluster.restart_worker(index)
        wait_until(lambda: not cluster.applications())

    def _check_not_ahead(self, expected: dict[str, list[dict[str, Any]]]) -> None:
        """Check that the rows that each bookmark covers are in the table."""
        bookmarks = self.job.state().get("bookmarks", {})
        for stream, cursor in self.source.cursors.items():
            bookmark = bookmarks.get(stream, {})
            loaded_rows = self.job.rows(stream) if bookmark else Counter[str]()
            for entry in bookmark.get("partitions") or [bookmark]:
                value = entry.get("replication_key_value")
                if value is None:
                    continue
                context = entry.get("context", {})
                missing = [
                    row
                    for row in expected[stream]
                    if context.items() <= row.items()
                    and _is_covered(row[cursor], value)
                    and not loaded_rows[json.dumps(row, sort_keys=True)]
                ]
                assert missing == [], f"{stream} {context} is ahead of {missing[:3]}"


def _is_covered(value: Any, bookmark: Any) -> bool:
    """Return True if a row's value is not after a bookmark; timestamps are UTC in both."""
    if isinstance(value, str):
        return value[:19].replace(" ", "T") <= str(bookmark)[:19]
    return bool(value <= bookmark)


def _kill_driver(running: RunProcess, _: random.Random) -> None:
    running.kill()


def _kill_python(running: RunProcess, _: random.Random) -> None:
    running.process.kill()


def _kill_jvm(running: RunProcess, _: random.Random) -> None:
    with contextlib.suppress(AssertionError, ProcessLookupError):
        os.kill(running.jvm(), signal.SIGKILL)


def _kill_executor(running: RunProcess, chance: random.Random) -> None:
    _kill_one(running.job.cluster.executors(), chance)


def _kill_reader(running: RunProcess, chance: random.Random) -> None:
    _kill_one(running.job.cluster.pythons(), chance)


def _kill_worker(running: RunProcess, chance: random.Random) -> None:
    running.job.cluster.kill_worker(chance.randrange(len(running.job.cluster.started_workers)))


def _tell_to_end(running: RunProcess, _: random.Random) -> None:
    running.signal(signal.SIGTERM)


def _kill_one(pids: list[int], chance: random.Random) -> None:
    if pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(pids), signal.SIGKILL)


_KILLS: dict[str, Callable[[RunProcess, random.Random], None]] = {
    "python": _kill_python,
    "jvm": _kill_jvm,
    "driver": _kill_driver,
    "executor": _kill_executor,
    "reader": _kill_reader,
    "worker": _kill_worker,
    "term": _tell_to_end,
}


def _check_code(victim: str, result: FinishedRun) -> None:
    """Check the exit code of a run by what was killed."""
    ends = {
        "python": {-signal.SIGKILL},
        "driver": {-signal.SIGKILL},
        "jvm": {0, 1},
        "term": {0, 1, -signal.SIGTERM, 128 + signal.SIGTERM},
    }
    allowed = ends.get(victim, {0})
    assert result.code in allowed, f"{victim}: {result.code}\n{result.err[-6000:]}"


def main() -> int:
    """Run scenarios; print the failed ones with their seeds."""
    parser = argparse.ArgumentParser(description="Kill runs on a cluster at random moments.")
    parser.add_argument("--source", choices=[*SOURCES, "all"], default="all")
    parser.add_argument("--format", choices=["delta", "iceberg", "parquet"], default="delta")
    parser.add_argument("--scenarios", type=int, default=1, help="scenarios of each source")
    parser.add_argument("--deaths", type=int, default=3, help="in each scenario")
    parser.add_argument("--seed", default=str(int(time.time())), help="first part of the seeds")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Told to end."))
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="kills-") as folder, contextlib.ExitStack() as stack:
        cluster = stack.enter_context(StandaloneCluster(Path(folder) / "standalone"))
        for name in SOURCES if options.source == "all" else [options.source]:
            source = _served(SOURCES[name], stack)
            for number in range(options.scenarios):
                seed = f"{name}-{options.format}-{options.seed}-{number}"
                scenario = Scenario(cluster, Path(folder) / seed, source, options.format, seed)
                try:
                    scenario.run(options.deaths)
                    verdict = "ok"
                except Exception as error:  # noqa: BLE001  (the scenarios after it still run)
                    verdict = f"FAILED: {error}"
                    failed.append(seed)
                print(f"{seed}: {verdict} ({'; '.join(scenario.log)})", flush=True)
    print(f"{len(failed)} scenarios failed", *failed, flush=True)
    return 1 if failed else 0


def _served(source: Source, stack: contextlib.ExitStack) -> Source:
    """Serve the API of a source that reads one."""
    if source.tap != REGIONS:
        return source
    sys.path.append(str(ROOT / "samples" / "cluster"))
    import server

    address = stack.enter_context(server.serving(server.API(latency=0.05)))
    return Source(
        source.streams,
        source.cursors,
        {**source.config, "api_url": address},
        source.tap,
        source.path,
    )


if __name__ == "__main__":
    sys.exit(main())
