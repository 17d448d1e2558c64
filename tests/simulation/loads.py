"""Loads of the real loader into simulated tables, and what must hold after each schedule.

One schedule: a run of a job loads numbered records, with a STATE after each. Calls fail, the run is
killed, another tool or a run of another job writes to the same table, from its birth on. Runs of
the job then go on from the state that the table holds, until one comes to its end without faults.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from tap_core.protocols.singer.decode import Decoder
from target_spark import batches, lease, loader, retries, settings, ways
from target_spark.batches import BatchWriter
from target_spark.errors import (
    CommitLostError,
    CountError,
    LeaseError,
    OwnerError,
    StorageError,
    TableError,
)
from target_spark.frames import Counts
from target_spark.lease import Lease
from target_spark.loader import Loader
from target_spark.options import Run
from target_spark.report import Report
from target_spark.spool import SpoolFolder
from target_spark.tables import Table
from target_spark.writers import delta, delta_files, delta_place, parquet_footers
from target_spark.writers.delta import DeltaWriter
from tests.simulation.delta_tables import (
    SimulatedDelta,
    SimulatedFrame,
    SimulatedMerge,
    SimulatedSpark,
    commit,
    info,
    live_rows,
    newest_version,
    write_rows,
)
from tests.simulation.scheduler import Killed, Process, Scheduler

__all__ = ["InvariantError", "Schedule", "simulated"]

RECORDS = 12
_SCHEMA = {"properties": {"id": {"type": "integer"}, "v": {"type": "integer"}}}


class InvariantError(AssertionError):
    """An invariant does not hold."""


class SequentialLanes:
    """`Lanes` without threads: the schedule says when a waiting commit is made."""

    def __init__(self, scheduler: Scheduler, _threads: int) -> None:
        self._scheduler = scheduler
        self._jobs: list[tuple[Callable[[], None], int]] = []
        self._stopped = False
        self.failure: BaseException | None = None

    @property
    def nbytes(self) -> int:
        return sum(nbytes for _, nbytes in self._jobs)

    def submit(self, _lane: object, job: Callable[[], None], nbytes: int = 0) -> None:
        self._jobs.append((job, nbytes))
        while self._jobs and self._scheduler.chance.random() < 0.5:
            self._run()

    def wait(self, until: Callable[[], bool]) -> None:
        while self._jobs and not (until() or self.failure or self._stopped):
            self._run()

    def stop(self) -> None:
        self._stopped = True

    close = stop

    def _run(self) -> None:
        if self._stopped or self.failure is not None:
            self._jobs.clear()
            return
        job, _ = self._jobs.pop(0)
        try:
            job()
        except Exception as error:  # noqa: BLE001  (the loader raises it)
            self.failure = error


class SimulatedEngine:
    """A Spark that is up."""

    failure = None
    started = True

    def __init__(self, scheduler: Scheduler) -> None:
        self._spark = SimulatedSpark(scheduler)

    def begin(self) -> None:
        """Do nothing: it is up."""

    def spark(self) -> Any:
        return self._spark

    def close(self) -> None:
        """Do nothing."""


class SpoolFrame:
    """The rows of spool files, as `target_spark.frames.Frame` gives them."""

    def __init__(self, spark: SimulatedSpark, paths: list[str]) -> None:
        files = [Path(path.removeprefix("file://")) for path in paths]
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        self._frame = SimulatedFrame(spark, [line["r"] for line in lines])

    def good(self, strict: bool) -> SimulatedFrame:
        return self._frame

    def counts(self, _expected: int | None = None) -> Counts:
        return Counts(len(self._frame.data), {})


@dataclass
class Schedule:
    """One schedule: what happens is chosen by its seed.

    ``released`` has the newest state that left, by job, ``theirs`` the keys of other tools' rows,
    ``again`` how often rows are sent again whose commit carried no state that covers them.
    """

    seed: int
    folder: Path
    released: dict[str, int] = field(default_factory=dict)
    theirs: list[int] = field(default_factory=list)
    again: Counter[int] = field(default_factory=Counter)
    is_replaced: bool = False
    runs: int = 0
    clock: int = 1000

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.seed)
        chance = self.scheduler.chance
        self.keyed = chance.random() < 0.6
        self.flush = chance.choice((1, 3, 5, 12))
        self.has_second_job = chance.random() < 0.3
        self.may_be_replaced = not self.has_second_job and chance.random() < 0.2
        self.table = self.folder / "tables" / "t"
        self._spools: list[SpoolFolder] = []

    def run(self) -> None:
        """Run the schedule.

        Raises:
            InvariantError: an invariant does not hold; its text has the whole schedule.
        """
        try:
            self._run()
        except (InvariantError, FileNotFoundError) as failure:  # a reader's, of a live file
            log = "\n  ".join(self.scheduler.log)
            mode = "upsert" if self.keyed else "append"
            raise InvariantError(f"seed {self.seed}, {mode}: {failure}\n  {log}") from None

    def _run(self) -> None:
        chance, scheduler = self.scheduler.chance, self.scheduler
        scheduler.allow(kills=chance.choice((0, 0, 1, 2)), failures=chance.choice((0, 0, 1, 2)))
        for _ in range(chance.choice((0, 0, 1, 3))):
            scheduler.add_action(self._append_theirs)
        if self.may_be_replaced:
            scheduler.add_action(self._replace_table)
        processes = [Process("a", partial(self._load, "a", 0))]
        if self.has_second_job:
            processes.append(Process("b", partial(self._load, "b", 100)))
        scheduler.run(*processes)
        self._check(processes)
        if self.is_replaced:
            return
        scheduler.allow()
        last: list[Process] = []
        for name, first in (("a", 0), ("b", 100))[: len(processes)]:
            process = Process(name, partial(self._load, name, first))
            scheduler.run(process)
            last.append(process)
        self._check(last)
        self._check_end(last)

    # What the processes do

    def _load(self, job: str, first: int) -> None:
        """Run a job: go on after the state that the table holds."""
        self.runs += 1
        self.clock += self.scheduler.chance.choice((-50, 1, 100))
        config = {
            "path": str(self.table.parent),
            "format": "delta",
            "job": job,
            "flush_rows": self.flush,
            "write_mode": "upsert" if self.keyed else "append",
        }
        options = settings.load_options(config)
        engine: Any = SimulatedEngine(self.scheduler)
        run = Run(job, f"run-{self.runs}", self.clock)
        writer = partial(BatchWriter, engine, options, run)
        emit = partial(self._emit, job)
        held = Lease.take(str(self.table.parent), job, run=run.id, started=run.started)
        try:
            spool = SpoolFolder(self.folder / "spool")
            self._spools.append(spool)
            commits = partial(writer, spool)
            loading = Loader(options, engine, spool, commits, Report(), emit)
            self._feed(loading, job, first)
            loading.close()
        finally:
            held.release()

    def close(self) -> None:
        """Close the files of runs that were killed."""
        for spool in self._spools:
            spool.close()

    def _feed(self, loading: Loader, job: str, first: int) -> None:
        marker = DeltaWriter().last_marker(
            SimulatedSpark(self.scheduler),  # type: ignore[arg-type]
            Table(str(self.table), "t"),
        )
        is_ours = marker is not None and marker.job == job and marker.state
        done = json.loads(marker.state)["at"] if marker and is_ours and marker.state else -1
        if newest_version(self.table) is not None:
            sent = {first + number for number in range(done + 1, RECORDS)}
            self.again.update(row["id"] for row in live_rows(self.table) if row["id"] in sent)
        decoder = Decoder()
        keys = ["id"] if self.keyed else []
        messages: list[dict[str, Any]] = [
            {"type": "SCHEMA", "stream": "t", "schema": _SCHEMA, "key_properties": keys}
        ]
        for number in range(done + 1, RECORDS):
            record = {"id": first + number % 8 if self.keyed else first + number, "v": number}
            messages.append({"type": "RECORD", "stream": "t", "record": record})
            messages.append({"type": "STATE", "value": {"at": number}})
        for message in messages:
            for event in decoder.feed(json.dumps(message).encode() + b"\n"):
                loading.fold(event)
            loading.beat()
        loading.finish(whole=True)

    def _emit(self, job: str, line: bytes) -> None:
        at = json.loads(line)["at"]
        self.scheduler.log.append(f"{job}: state {at} leaves")
        self.released[job] = max(at, self.released.get(job, -1))
        if not self.is_replaced:
            self._check_state(job, at)

    # What other tools do

    def _append_theirs(self) -> None:
        """Append a row, as another tool does; of a keyed table one whose key is not there."""
        version = newest_version(self.table)
        if version is None or self.is_replaced:
            return
        chance = self.scheduler.chance
        key = chance.choice((chance.randrange(8), 1000 + len(self.theirs)))
        if any(row["id"] == key for row in live_rows(self.table)):
            return
        row = {"id": key, "v": -1 if key < 1000 else key}
        path = self.table / f"theirs-{len(self.theirs)}.parquet"
        write_rows(path, [row])
        stats = json.dumps({"numRecords": 1})
        made = {"add": {"path": path.name, "size": path.stat().st_size, "stats": stats}}
        if commit(self.table, version + 1, [info(None, {"numOutputRows": 1}), made]):
            self.theirs.append(key)

    def _replace_table(self) -> None:
        """Put another table in the place of ours, but not while a MERGE reads it.

        Delta itself does not see that, if it comes between a MERGE's look and its commit.
        """
        if newest_version(self.table) is None or not self.released or self.scheduler.merges:
            return
        shutil.rmtree(self.table)
        (self.table / "_delta_log").mkdir(parents=True)
        made = {"metaData": {"id": "another", "configuration": {}}}
        commit(self.table, 0, [info(None, {}), made])
        self.is_replaced = True

    # What must hold

    def _check_state(self, job: str, at: int) -> None:
        rows = live_rows(self.table)
        first = 0 if job == "a" else 100
        for number in range(at + 1):
            key = first + number % 8 if self.keyed else first + number
            found = [row for row in rows if row["id"] == key and row["v"] >= number]
            if not found:
                raise InvariantError(
                    f"state {at} of job {job} left, and record {number} is not there"
                )

    def _check(self, processes: list[Process]) -> None:
        for process in processes:
            self._check_outcome(process)
        if self.is_replaced:
            if newest_version(self.table) != 0:
                raise InvariantError("a table of another tool was written to")
        elif newest_version(self.table) is not None:
            self._check_rows()

    def _check_outcome(self, process: Process) -> None:
        error = process.outcome
        if isinstance(error, InvariantError):
            raise error
        known = [Killed, TableError, OwnerError, LeaseError, StorageError]
        known += [CountError, CommitLostError] if self.is_replaced else []
        if error is not None and not isinstance(error, tuple(known)):
            raise InvariantError(f"{process.name} ended with {error!r}") from error

    def _check_rows(self) -> None:
        """No row is lost, of ours or of others, and none is there twice."""
        counts = Counter(row["id"] for row in live_rows(self.table))
        allowed = Counter[int]() if self.keyed else self.again + Counter(self.theirs)
        if double := sorted(key for key, count in counts.items() if count > 1 + allowed[key]):
            raise InvariantError(f"rows are there twice: {double}")
        if lost := [key for key in self.theirs if key not in counts]:
            raise InvariantError(f"rows of another tool are gone: {lost}")
        for job, at in self.released.items():
            self._check_state(job, at)

    def _check_end(self, processes: list[Process]) -> None:
        """The last runs met no fault: one has loaded all its rows, or another job has the table."""
        ended = [process for process in processes if process.outcome is None]
        refused = [process for process in processes if isinstance(process.outcome, OwnerError)]
        if not ended or len(ended) + len(refused) != len(processes):
            raise InvariantError(f"the last runs ended so: {[each.outcome for each in processes]}")
        for process in ended:
            self._check_state(process.name, RECORDS - 1)
        if left := [path.name for path in self.table.glob(".target-spark-*")]:
            raise InvariantError(f"staging is left: {left}")


@contextlib.contextmanager
def simulated(seed: int) -> Iterator[Schedule]:
    """Give a schedule whose tables, and whose Spark and deltalake, are the model's."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder, contextlib.ExitStack() as stack:
        schedule = Schedule(seed, Path(folder))
        model = SimulatedDelta(schedule.scheduler)
        step = schedule.scheduler.step

        def replace(module: Any, **names: Any) -> None:
            for name, value in names.items():
                stack.enter_context(mock.patch.object(module, name, value))

        def create(_spark: Any, table: Table, *_: Any, **__: Any) -> None:
            model.create_table(Path(table.path), {"target_spark.source.kept": "true"})

        replace(loader, Lanes=partial(SequentialLanes, schedule.scheduler))
        replace(
            batches,
            read_spool=lambda spark, paths, *_: SpoolFrame(spark, paths),
            staged=lambda _spark, _reach, df: contextlib.nullcontext(df),
        )
        replace(ways, newest_by_key=_newest, in_order=lambda df, _: df)
        replace(retries, _sleep=lambda *_: step("a pause before the next try"))
        replace(
            delta,
            make=create,
            read_snapshot=model.read_snapshot,
            commit_files=model.commit_files,
            counted=lambda df, _rows: (df, lambda _found: len(df.data)),
            newest_by_key=_newest,
            as_first_rows=lambda df, _: df,
            upsert=lambda ref, *_: SimulatedMerge(ref),
        )
        replace(delta_place, read_snapshot=model.read_snapshot)
        replace(
            delta_files,
            row_count=_row_count,
            delta_statistics=lambda _path: "",
            _sync=lambda _path: None,
            _moved=_with_step(step, delta_files._moved),
        )
        replace(parquet_footers, row_count=_row_count)
        replace(lease, _PAUSE=0)
        try:
            yield schedule
        finally:
            schedule.close()


def _row_count(path: Path) -> int:
    return len(path.read_text().splitlines())


def _newest(df: SimulatedFrame, _keys: Any) -> SimulatedFrame:
    newest = {row["id"]: row for row in df.data}
    return SimulatedFrame(df.spark, list(newest.values()))


def _with_step(step: Callable[[str], None], function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*args: Any) -> Any:
        step("before a file is moved")
        return function(*args)

    return wrapped


def _memory() -> str | None:
    """Return a folder in memory, where there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
