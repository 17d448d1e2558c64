"""Loads of the real loader into simulated tables, and the invariants after each schedule.

In one schedule, a run of a job loads numbered records into one or two tables of a format, with a
STATE after each. Calls fail, the disk is full, the run is killed, its clock is wrong; another tool,
a run of another job or a second run of the same job, also on a machine without the lock of the job,
acts at any moment, also while a table is created. Then runs of the job resume from the state in the
tables, until one ends without faults.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from tap_core.protocols.singer.reader import SingerReader
from target_spark.cli.last_state import (
    find_recoverable_tables,
    get_expected_metadata,
    get_job_metadata,
)
from target_spark.config import settings
from target_spark.config.options import RunInfo
from target_spark.errors import (
    CommitLostError,
    DiskFullError,
    JobLockError,
    RowCountError,
    StorageError,
    TableError,
    TableOwnerError,
)
from target_spark.frames import Counts
from target_spark.loader import batch_commit, loader, write_modes
from target_spark.loader.batch_commit import BatchWriter
from target_spark.loader.commit_pipeline import CommitPipeline
from target_spark.loader.loader import Loader
from target_spark.loader.report import Report
from target_spark.spark import spark_provider
from target_spark.spark.spark_provider import SparkProvider
from target_spark.storage import commit_retry, job_lock, spool
from target_spark.storage.job_lock import JobLock, monotonic_run_start
from target_spark.storage.spool import SpoolFolder
from target_spark.writers import parquet, parquet_footers
from tests.simulation.delta_tables import DeltaTables
from tests.simulation.iceberg_tables import IcebergTables
from tests.simulation.parquet_tables import ParquetTables
from tests.simulation.scheduler import Killed, Locks, Process, Scheduler
from tests.simulation.spark import (
    Row,
    SimulatedFrame,
    SimulatedSpark,
    Tables,
    no_space,
    read_rows,
)

__all__ = ["FORMATS", "InvariantError", "Schedule", "failure_of", "simulated"]

FORMATS: Final[Mapping[str, Callable[[Path, Scheduler], Tables]]] = {
    "delta": DeltaTables,
    "iceberg": IcebergTables,
    "parquet": ParquetTables,
}

RECORDS: Final = 9
_SCHEMA: Final = {"properties": {"id": {"type": "integer"}, "v": {"type": "integer"}}}
_DAY: Final = 86_400_000


class InvariantError(AssertionError):
    """A violated invariant."""


class SequentialPipeline(CommitPipeline):
    """A pipeline without threads: the schedule decides when a waiting commit is made."""

    def __init__(self, scheduler: Scheduler, *args: Any) -> None:
        super().__init__(*args)
        self._scheduler = scheduler
        self._max_threads = 0

    def _enqueue(self, task: Any) -> None:
        super()._enqueue(task)
        while self._ready and not self._stopped and self._scheduler.chance.random() < 0.5:
            self._make_one()

    def wait(self) -> None:
        while self._ready and not self._stopped:
            self._make_one()

    def wait_for_space(self, _limit: int, _until: float) -> None:
        self.wait()

    def _make_one(self) -> None:
        self._ready.rotate(-self._scheduler.chance.randrange(len(self._ready)))
        task = self._take()
        assert task is not None
        failure: Exception | None = None
        try:
            self._run(task)
        except Exception as error:  # noqa: BLE001  (the loader raises it)
            failure = error
        self._finish_task(task, failure)


class SpoolFrame:
    """The rows of spool files, as `target_spark.frames.SpoolFrame`."""

    def __init__(self, spark: SimulatedSpark, paths: list[str]) -> None:
        files = [Path(path.removeprefix("file://")) for path in paths]
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        self._frame = SimulatedFrame(spark, [line["r"] for line in lines])

    def good(self, strict: bool) -> SimulatedFrame:
        return self._frame

    def counts(self, _expected: int | None = None) -> Counts:
        return Counts(len(self._frame.data), {})


class SpoolFile:
    """An open spool file whose last write may find the disk full."""

    def __init__(self, file: Any, scheduler: Scheduler) -> None:
        self._file = file
        self._scheduler = scheduler
        self.write, self.fileno = file.write, file.fileno

    def close(self) -> None:
        try:
            if self._scheduler.is_full("a spool"):
                self._file.flush()
                self._file.truncate(self._file.tell() // 2)
                raise no_space()
        finally:
            self._file.close()


class Schedule:
    """One schedule, whose events are chosen by its seed.

    ``released`` has the newest emitted state by job, ``theirs`` the keys of other tools' rows,
    ``again`` how often rows are sent again that were committed without a covering state.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.scheduler = Scheduler(seed)
        chance = self.scheduler.chance
        self.format = chance.choice(list(FORMATS))
        self.keyed = self.format != "parquet" and chance.random() < 0.6
        self.streams = ("t",) if chance.random() < 0.7 else ("t", "u")
        self.flush = chance.choice((1, 2, 4, 9))
        self.others = chance.choice(("", "", "", "another job", "a second run"))
        if self.others == "a second run" and self.format == "iceberg" and seed % 2:
            self.others = "a second machine"  # the lock of a job with a local folder reaches others
            # With several tables, a run that has made its last commit to one of them does not look
            # at it again, and a state may cover rows that the other run replaces there.
            self.streams = ("t",)
        self.has_default_job = chance.random() < 0.5
        removed = self.others != "another job" and chance.random() < 0.35
        self.removal = chance.choice(("replaced", "removed")) if removed else ""
        self.folder = folder
        self.root = folder / "tables"
        self.tables = FORMATS[self.format](self.root, self.scheduler)
        self.released: dict[str, int] = {}
        self.foreign_keys: list[int] = []
        self.again: Counter[int] = Counter()
        self.removed_how = ""
        self._limit = RECORDS
        self._begun: dict[str, Process | None] = {}
        self._looked: set[str] = set()
        self._at_work: set[str] = set()
        self._bound = set[str]()
        self._send_limited: set[tuple[str, str]] = set()
        self._runs = 0
        self._clock = 20_000 * _DAY
        self._spools: list[SpoolFolder] = []

    def run(self) -> None:
        """Run the schedule.

        Raises:
            InvariantError: an invariant does not hold; its text has the whole schedule.
        """
        try:
            self._run()
        except (InvariantError, FileNotFoundError, TableError) as failure:  # a reader's, too
            log = "\n  ".join(self.scheduler.log)
            mode = "upsert" if self.keyed else "append"
            where = f"{self.format}, {mode}, {' and '.join(self.streams)}"
            text = f"seed {self.seed}, {where}: {failure}\n  {log}"
            raise InvariantError(text.replace(str(self.folder), "")) from None

    def _run(self) -> None:
        chance, scheduler = self.scheduler.chance, self.scheduler
        self.root.mkdir()
        (self.folder / "link").symlink_to("tables")
        scheduler.allow(
            kills=chance.choice((0, 0, 1, 2)),
            failures=chance.choice((0, 0, 1, 2)),
            full=chance.choice((0, 0, 0, 1)),
        )
        for _ in range(chance.choice((0, 0, 1, 3))):
            scheduler.add_action(self._append_theirs)
        if self.removal:
            scheduler.add_action(self._take_away)
        jobs = {"a": 0, "b": 100} if self.others == "another job" else {"a": 0}
        processes = [Process(name, partial(self._load, name)) for name in jobs]
        if self.others == "a second run":
            processes.append(Process("a", partial(self._load, "a")))
        if self.others == "a second machine":
            processes.append(Process("a", partial(self._load, "a"), "second-machine"))
        scheduler.run(*processes)
        self._check(processes)
        if self.removed_how:
            return
        scheduler.allow()
        self._send_limited.clear()
        last: list[Process] = []
        for name in jobs:
            process = Process(name, partial(self._load, name))
            scheduler.run(process)
            last.append(process)
        self._check(last)
        self._check_end(last)

    def close(self) -> None:
        """End the threads, and close the files, of runs that were killed."""
        self.scheduler.close()
        for spool_files in self._spools:
            spool_files.close()

    # Processes

    def _load(self, name: str) -> None:
        """Run a job from the state in the tables."""
        chance = self.scheduler.chance
        self._runs += 1
        self._clock += chance.choice((-_DAY, -50, 1, 100, _DAY))
        config: dict[str, Any] = {
            "path": str(self.folder / chance.choice(("tables", "link"))),
            "format": self.format,
            "flush_rows": self.flush,
            "write_mode": "upsert" if self.keyed else "append",
        }
        if name != "a" or not self.has_default_job:
            config["job"] = name
        job, former = settings.get_job_name(config), settings.former_jobs(config)
        home = settings.get_location(config)
        started = monotonic_run_start(home, (job, *former), self._clock)
        run = RunInfo(job, f"run-{self._runs}", started, former=former)
        options = settings.load_options(config)
        at_work = SparkProvider(settings.spark_settings(config, str(self.folder)), home, run)
        try:
            at_work.begin()
            self.scheduler.settle()  # pending storage operations of a dead run take effect
            if self.removed_how:  # the run would load into the table as into any other
                return
            self._begun[run.id] = self.scheduler.current
            folder = SpoolFolder(self.folder / "spool")
            self._spools.append(folder)
            commits = partial(BatchWriter, at_work, options, run, folder)
            emit = partial(self._emit, name, run.id)
            loading = Loader(options, at_work, folder, commits, Report(), emit)
            tables = list(find_recoverable_tables(options, _no_spark))
            loading.expect_metadata(get_expected_metadata(tables))
            self._feed(loading, name, get_job_metadata(run.jobs, tables))
            loading.close()
        finally:
            at_work.close()
            self._at_work.discard(run.id)
            self._begun.pop(run.id, None)

    def _feed(self, loading: Loader, name: str, marker: Any) -> None:
        committed = -1 if marker is None else json.loads(marker.state)["at"]
        sent = {self._id(name, number) for number in range(committed + 1, RECORDS)}
        self.again.update(row["id"] for row in self._rows() if row["id"] in sent)
        decoder = SingerReader()
        keys = ["id"] if self.keyed else []
        messages: list[dict[str, Any]] = [
            {"type": "SCHEMA", "stream": stream, "schema": _SCHEMA, "key_properties": keys}
            for stream in self.streams
        ]
        for number in range(committed + 1, RECORDS):
            record = {"id": self._id(name, number), "v": number}
            stream = self._stream(number)
            self._send_limited.add((name, stream))
            messages.append({"type": "RECORD", "stream": stream, "record": record})
            messages.append({"type": "STATE", "value": {"at": number}})
        for message in messages:
            for event in decoder.feed(json.dumps(message).encode() + b"\n"):
                loading.process_event(event)
            loading.poll()
        loading.finish(whole=True)

    def _id(self, name: str, number: int) -> int:
        return (0 if name == "a" else 100) + (number % 6 if self.keyed else number)

    def _stream(self, number: int) -> str:
        return self.streams[number % len(self.streams)]

    def _emit(self, name: str, run: str, line: bytes) -> None:
        position = json.loads(line)["at"]
        self.scheduler.log.append(f"{name}: state {position} leaves")
        self._at_work.add(run)
        if run in self._bound and position > self._limit:
            raise InvariantError(f"state {position} left after the table was {self.removed_how}")
        self.released[name] = max(position, self.released.get(name, -1))
        if not self.removed_how:
            self._check_state(name, position)

    def looked(self, run: str, table: str) -> None:
        """Record that a run has seen a table; before, the run would accept any table."""
        if table == "t":
            self._looked.add(run)

    # Other tools

    def _append_theirs(self) -> None:
        """Append a row as another tool does; to a keyed table one with an unused key."""
        if not self.tables.exists("t") or self.removed_how:
            return
        chance = self.scheduler.chance
        key = chance.choice(
            (chance.randrange(0, 6, len(self.streams)), 1000 + len(self.foreign_keys))
        )
        if any(row["id"] == key for row in self._rows()):
            return
        if self.tables.append("t", {"id": key, "v": -1 if key < 1000 else key}):
            self.foreign_keys.append(key)

    def _take_away(self) -> None:
        """Remove or replace the table, once a state for it was emitted."""
        at_work = [run for run, process in self._begun.items() if process and not process.is_killed]
        if set(at_work) - self._looked or not self.released:
            return
        if not self.tables.may_act("t", self.removal):
            return
        self.scheduler.settle()
        self.removed_how = self.removal
        newest = self._newest()
        covered = (
            number
            for number in range(RECORDS)
            if self._stream(number) == "t" and newest.get(self._id("a", number), -1) < number
        )
        self._limit = next(covered, RECORDS) - 1
        self._bound = set(self._at_work)
        if self.removal == "removed":
            self.tables.remove("t")
        else:
            self.tables.replace("t", {"id": 5000, "v": 5000})

    # Invariants

    def _rows(self) -> list[Row]:
        return [row for stream in self.streams for row in self.tables.rows(stream)]

    def _newest(self) -> dict[int, int]:
        newest: dict[int, int] = {}
        for row in self._rows():
            newest[row["id"]] = max(row["v"], newest.get(row["id"], -1))
        return newest

    def _check_state(self, name: str, position: int) -> None:
        newest = self._newest()
        for number in range(position + 1):
            if newest.get(self._id(name, number), -1) < number:
                raise InvariantError(
                    f"state {position} of job {name} left, and record {number} is not there"
                )

    def _check(self, processes: list[Process]) -> None:
        for process in processes:
            self._check_outcome(process)
        if self.removed_how == "replaced" and not self.tables.is_as_replaced("t"):
            raise InvariantError("a table of another tool was written to")
        if not self.removed_how:
            self._check_rows()

    def _check_outcome(self, process: Process) -> None:
        error = process.outcome
        if isinstance(error, InvariantError):
            raise error
        known = [Killed, TableError, TableOwnerError, JobLockError, StorageError, DiskFullError]
        known += [RowCountError, CommitLostError] if self.removed_how else []
        is_moved = isinstance(error, TableError) and "is not as this run found it" in str(error)
        is_expected = isinstance(error, tuple(known)) and (
            not is_moved or self.others == "a second machine"
        )
        if error is not None and not is_expected:
            raise InvariantError(f"{process.name} ended with {error!r}") from error

    def _check_rows(self) -> None:
        """Check that no row is lost or duplicated."""
        counts = Counter(row["id"] for row in self._rows())
        allowed = Counter[int]() if self.keyed else self.again + Counter(self.foreign_keys)
        duplicates = counts - Counter(set(counts)) - allowed
        appends_twice = self.others == "a second machine" and not self.keyed
        # Each run may append a batch to each table before it finds a commit of the other one.
        if duplicates.total() > (2 * self.flush * len(self.streams) if appends_twice else 0):
            raise InvariantError(f"rows are there twice: {sorted(duplicates)}")
        if lost := [key for key in self.foreign_keys if key not in counts]:
            raise InvariantError(f"rows of another tool are gone: {lost}")
        for name, position in self.released.items():
            self._check_state(name, position)

    def _check_end(self, processes: list[Process]) -> None:
        """Check that one of the last runs loaded all its rows, or another job has the table."""
        ended = [process for process in processes if process.outcome is None]
        rejected = [
            process for process in processes if isinstance(process.outcome, TableOwnerError)
        ]
        shares = len(rejected) == len(self.streams) == 2  # each job was the first at one table
        if len(ended) + len(rejected) != len(processes) or not (ended or shares):
            raise InvariantError(
                f"the last runs ended so: {[ended_process.outcome for ended_process in processes]}"
            )
        for process in ended:
            self._check_state(process.name, RECORDS - 1)
            for stream in self.streams:
                if (process.name, stream) in self._send_limited:
                    leftovers = self.tables.list_leftovers(stream, [process.name])
                    if leftovers:
                        raise InvariantError(f"left in table {stream}: {leftovers}")


def _no_spark() -> Any:
    raise AssertionError("the tables can be read without Spark")


def failure_of(seed: int, format: str | None = None) -> InvariantError | None:
    """Run a schedule if it is of this format; return the violated invariant."""
    with simulated(seed) as schedule:
        try:
            if format in {None, schedule.format}:
                schedule.run()
        except InvariantError as error:
            return error
    return None


@contextlib.contextmanager
def simulated(seed: int) -> Iterator[Schedule]:
    """Yield a schedule with the models of tables, Spark and deltalake in place."""
    folder = Path(tempfile.mkdtemp(dir=_memory()))
    schedule = Schedule(seed, folder)
    try:
        with _replaced(_of_the_loader(schedule)), _replaced(schedule.tables.replacements()):
            try:
                yield schedule
            finally:
                schedule.close()
    finally:
        shutil.rmtree(folder)


def _of_the_loader(schedule: Schedule) -> dict[Any, dict[str, Any]]:
    """Return, by module, replacements for the loader's time, locks, threads and Spark."""
    scheduler = schedule.scheduler
    locks = Locks(scheduler)
    ticks, wait = iter(range(1 << 60)), scheduler.wait
    session = SimpleNamespace(
        failure=None,
        thread_session=lambda: SimulatedSpark(scheduler, schedule.tables),
        stop=lambda: None,
    )
    write, open_private, fit = JobLock._write, spool._open_private, BatchWriter._prepare_columns

    def fit_table(self: Any, spark: Any, table: Any, *args: Any, **kw: Any) -> Any:
        table_schema = fit(self, spark, table, *args, **kw)
        schedule.looked(self._run.id, table.name)
        return table_schema

    def write_lease(self: Any) -> None:
        if scheduler.is_full("a lease"):
            os.pwrite(self._file, b'{"job"', 0)
            raise no_space()
        write(self)

    def open_spool(path: Path) -> Any:
        file = open_private(path)
        return file if path.name == "lock" else SpoolFile(file, scheduler)

    def rename(rename_file: Callable[[Path, Any], Path]) -> Callable[[Path, Any], Path]:
        def renamed(path: Path, to: Any) -> Path:
            if not path.is_relative_to(schedule.root):
                return rename_file(path, to)
            return scheduler.call(f"rename {path.name[:5]}", lambda: rename_file(path, to))

        return renamed

    return {
        loader: {"CommitPipeline": partial(SequentialPipeline, scheduler)},
        spark_provider: {"start_spark": lambda *_, **__: session},
        batch_commit: {
            "read_local_frame": lambda *_: None,
            "SpoolFrame": lambda spark, paths, *_: SpoolFrame(spark, paths),
            "stage_frame": lambda _spark, _reach, df: contextlib.nullcontext(df),
        },
        write_modes: {
            "latest_by_key": lambda df, _keys: df.newest_by_key(),
            "sort_rows": lambda df, _columns: df,
            "_has_repeated_keys": lambda *_: False,
        },
        commit_retry: {"_sleep": lambda *_: scheduler.step("a pause before the next try")},
        job_lock: {
            "fcntl": locks,
            "lock_file_path": partial(_find_lock_file, schedule, job_lock.lock_file_path),
            "time": SimpleNamespace(
                **{**vars(time), "monotonic": partial(next, ticks), "sleep": lambda _: wait()}
            ),
        },
        spool: {"fcntl": locks, "_open_private": open_spool},
        parquet: {"fcntl": locks},
        parquet_footers: {"row_count": lambda path: len(read_rows(path))},
        BatchWriter: {"_prepare_columns": fit_table},
        JobLock: {"_write": write_lease},
        Path: {"rename": rename(Path.rename), "replace": rename(Path.replace)},
    }


def _find_lock_file(
    schedule: Schedule, find: Callable[[str, str], Path], warehouse: str, job: str
) -> Path:
    """Return the path of a job's lock file on the machine of the current process."""
    path, process = find(warehouse, job), schedule.scheduler.current
    return schedule.folder / process.machine / path.name if process and process.machine else path


@contextlib.contextmanager
def _replaced(names: Mapping[Any, Mapping[str, Any]]) -> Iterator[None]:
    """Replace names of modules and classes during the context."""
    before = {
        owner: {name: getattr(owner, name) for name in replacements}
        for owner, replacements in names.items()
    }
    try:
        for owner, replacements in names.items():
            for name, value in replacements.items():
                setattr(owner, name, value)
        yield
    finally:
        for owner, replacements in before.items():
            for name, value in replacements.items():
                setattr(owner, name, value)


def _memory() -> str | None:
    """Return an in-memory folder, if there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
