"""One warehouse from its first row to its last, and the invariants after each kill."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import stat
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tap_core.protocols.singer.reader import SingerReader
from target_spark.columns import IS_CURRENT, VALID_FROM, VALID_TO
from target_spark.config import settings
from target_spark.config.options import RunInfo as LoadRun
from target_spark.loader.batch_commit import BatchWriter
from target_spark.loader.loader import Loader
from target_spark.loader.report import Report
from target_spark.spark.session import Session
from target_spark.storage.job_lock import monotonic_run_start
from target_spark.storage.spool import SpoolFolder
from target_spark.tables.commit_metadata import CommitMetadata, find_latest_metadata
from target_spark.tables.table import Table
from target_spark.writers import get_writer
from tests.target.loader.crash_run import Run, left_behind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.errors import TargetSparkError

__all__ = ["Scenario"]

ROWS, KEYS, FLUSHES, STATE_EVERY = 240, 37, (20, 40), 7
KILLS = ("python", "jvm", "both")
VICTIMS = (*KILLS, *KILLS, "tap", "term", "twice")
"""Processes to kill; "tap" ends in the middle of a line, "term" and "twice" are signals."""

ENDS = {
    "tap": {0, 1},
    "term": {0, -signal.SIGTERM},
    "twice": {0, -signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGINT},
}
"""Exit codes after a signal; the system's own if Python had not started yet."""

FIRST_GUESS = 8.0
"""Assumed seconds of a run, before a run has ended."""


class _Engine:
    """The campaign's Spark session, for loads within this process."""

    failure: TargetSparkError | None = None
    started = True

    def __init__(self, session: Session) -> None:
        self._session = session

    def begin(self) -> None:
        """Do nothing: the session has started."""

    def spark(self) -> SparkSession:
        return self._session.thread_session()

    spark_on_demand = spark

    def raise_if_engine_lost(self, error: BaseException) -> None:
        """Do nothing: the session is not one of a warm engine."""

    def close(self) -> None:
        """Do nothing: the session is used again."""


@dataclass
class Scenario:
    """A warehouse from its first row to its last.

    ``form`` is a table format, or ``delta-rs`` for Delta tables that are written without Spark.
    """

    session: Session
    folder: Path
    form: str
    mode: str
    seed: str
    settings: dict[str, Any] = field(default_factory=dict)
    victims: Sequence[str] = VICTIMS
    log: list[str] = field(default_factory=list)
    deaths: Counter[str] = field(default_factory=Counter)
    sent: Counter[int] = field(default_factory=Counter)
    versions: dict[str, int] = field(default_factory=dict)
    generation: int = 0
    usual_seconds: float = FIRST_GUESS
    born: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Choose the settings of the whole scenario."""
        if self.form == "delta-rs":
            self.form, self.settings = "delta", {"small_batches": "delta-rs", **self.settings}
        self.chance = random.Random(self.seed)
        self.streams = self.chance.choice((("a",), ("a", "b")))
        self.resumes = self.chance.choice(("emitted", "tables"))
        self.spark = self.session.spark().newSession()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tables, self.states = self.folder / "tables", self.folder / "states"
        self.config: dict[str, Any] = {
            "path": str(self.tables),
            "format": self.form,
            "write_mode": self.mode,
            "staging": str(self.folder / "spool"),
            "flush_rows": self.chance.choice(FLUSHES),
            "flush_seconds": 3600,  # rows committed because of their age may be sent again
            "small_runs": True,
            "master": "local[2]",
            "job": "crash",
            **self.settings,
        }
        (self.folder / "config.json").write_text(json.dumps(self.config))
        self.states.touch()

    def run(self, deaths: int, copies: int = 0) -> None:
        """Kill the load ``deaths`` times, then finish it, and check the tables."""
        try:
            for _ in range(deaths):
                self._load_and_kill(copies)
                if self.mode != "overwrite" and self.emitted() == ROWS:
                    break
            self._finish()
        except BaseException:
            self.log.append((self.folder / "errors.log").read_text()[-6000:])
            for process in left_behind(self.folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process.partition(" ")[0]), signal.SIGKILL)
            raise

    def _note(self, text: str) -> None:
        self.log.append(f"{time.monotonic() - self.born:.0f}s {text}")

    # Messages

    def _lines(self, start: int) -> Iterator[bytes]:
        keys = ["k"] if self.mode in {"upsert", "scd2"} else []
        properties = {name: {"type": "integer"} for name in ("k", "i")}
        for stream in self.streams:
            yield _line(
                type="SCHEMA",
                stream=stream,
                schema={"properties": properties},
                key_properties=keys,
            )
        if self.mode == "overwrite":
            yield from self._full_table_lines()
            return
        for i in range(start, ROWS):
            self.sent[i] += 1
            stream = self.streams[i % len(self.streams)]
            record = {"k": i % KEYS, "i": i}
            extracted = f"2026-01-01T00:{i // 60:02}:{i % 60:02}Z"
            yield _line(type="RECORD", stream=stream, record=record, time_extracted=extracted)
            if i % STATE_EVERY == 0:
                yield _line(type="STATE", value={"n": i + 1})
        yield _line(type="STATE", value={"n": ROWS})

    def _full_table_lines(self) -> Iterator[bytes]:
        for i in range(ROWS):
            record = {"k": i // len(self.streams), "i": self.generation}
            yield _line(type="RECORD", stream=self.streams[i % len(self.streams)], record=record)
        yield _line(type="STATE", value={"n": self.generation})

    def _start(self, *, tap_dies: bool = False) -> Run:
        """Start the target; with ``tap_dies`` the tap stops in the middle of a line."""
        self.generation += 1
        start = self._position()
        pause = self.chance.choice((0, 0, 0.01))
        lines = self._lines(start)
        if tap_dies:
            count = ROWS if self.mode == "overwrite" else ROWS - start
            lines = _truncate_lines(lines, self.chance.randrange(count), self.chance.random())
        self._note(f"from {start}, pause {pause}")
        return Run(self.folder, lines, pause)

    def _position(self) -> int:
        return self.emitted() if self.resumes == "emitted" else self._state_in_tables()

    def _find_metadata(self) -> CommitMetadata | None:
        return find_latest_metadata(
            self._writer().get_last_metadata(self.spark, table) for table in self._tables()
        )

    def _state_in_tables(self) -> int:
        metadata = self._find_metadata()
        state = json.loads(metadata.state) if metadata is not None and metadata.state else {"n": 0}
        return int(state["n"])

    def emitted(self) -> int:
        """Return the last emitted state; a truncated line raises an error."""
        lines = self.states.read_bytes().splitlines()
        return json.loads(lines[-1])["n"] if lines else 0

    # Kills

    def _load_and_kill(self, copies: int) -> None:
        """Start a load, copy the warehouse at random moments, and kill the load."""
        victim = self.chance.choice(self.victims)
        before = self._generations() if victim == "tap" and self.mode == "overwrite" else None
        run = self._start(tap_dies=victim == "tap")
        started = time.monotonic()
        copied = [self._copy(run, n) for n in range(self.chance.randint(0, copies))]
        if victim != "tap":
            self._wait_for_moment(run)
            self._check_spool()
        killed_process = self._kill(run, victim) if run.alive or victim == "tap" else "nobody"
        killed = time.monotonic()
        code = run.end()
        if code == 0:
            self.usual_seconds = killed - started
        self._note(f"killed {killed_process}, exit {code} after {time.monotonic() - killed:.1f} s")
        _check_code(killed_process, code)
        self.deaths[killed_process] += 1
        self.check()
        if before is not None:
            assert self._generations() == before
        for copy in filter(None, copied):
            self._resume_copy(copy)

    def _kill(self, run: Run, victim: str) -> str:
        if victim == "tap":
            return victim
        if victim in ENDS:
            run.send_signals(1 + (victim == "twice"), self.chance)
            return victim
        return run.kill(victim, self.chance)

    def _wait_for_moment(self, run: Run) -> None:
        """Wait for a random moment, for one after a commit, or for one during a commit."""
        kind = self.chance.choice(("any", "commit", "commit", "begun", "begun"))
        commits, fraction = self.chance.choice((0, 0, 0, 1, 1, 2, 4)), self.chance.random()
        if self.mode == "overwrite":  # all commits begin at the end and are short
            commits = min(commits, len(self.streams) - 1)
        if kind == "any":
            commits, seconds = 0, 0.8 * self.usual_seconds * fraction
        else:
            seconds = (0.8 if kind == "commit" else 0.2) * fraction * self._commit_scale
            signs = set(self._commit_files())
            enough = len(signs) + commits
            while run.alive and (self._is_waiting_for_jvm(run) or len(signs) < enough):
                time.sleep(self._poll_seconds)
                signs.update(self._commit_files())
        if kind == "begun":
            known = set(self._started_commit_files())
            while run.alive and not set(self._started_commit_files()) - known:
                time.sleep(self._poll_seconds)
        deadline = time.monotonic() + seconds
        while run.alive and time.monotonic() < deadline:
            time.sleep(self._poll_seconds)
        self._note(f"{kind}: {commits} commits and {seconds:.2f} s")

    @property
    def _is_without_spark(self) -> bool:
        return self.config.get("small_batches") == "delta-rs"

    @property
    def _commit_scale(self) -> float:
        """Duration of a commit as a share of one in Spark."""
        return 0.05 if self._is_without_spark else 1

    @property
    def _poll_seconds(self) -> float:
        return 0.02 * self._commit_scale

    def _is_waiting_for_jvm(self, run: Run) -> bool:
        return not self._is_without_spark and run.jvm() is None

    def _commit_files(self) -> Iterator[tuple[str, int]]:
        """Yield files that show that a commit was made."""
        for pattern in ("*/_delta_log/*.json", "*/_manifest.json", "*/metadata/*.metadata.json"):
            yield from _list_with_times(self.tables, pattern)

    def _started_commit_files(self) -> Iterator[tuple[str, int]]:
        """Yield files that show that a commit was begun."""
        for pattern in ("*/*", "*/data/*", "*/metadata/*", "*/_delta_log/*", "*/_staging/*"):
            yield from _list_with_times(self.tables, pattern)
        yield from _list_with_times(self.folder / "spool", "*/staged-*")

    def _finish(self) -> None:
        started = time.monotonic()
        code = self._start().end()
        assert code == 0, code
        self.usual_seconds = time.monotonic() - started
        self.check(complete=True)
        spool = self.folder / "spool"
        assert not [*spool.iterdir()], [*spool.iterdir()]

    # Copies of the files as they would be after a kill of all processes at that moment

    def _copy(self, run: Run, number: int) -> Path | None:
        self._wait_for_moment(run)
        copy = self.folder / f"copy-{number}"
        with run.halted():
            if not run.alive:
                return None
            copy.mkdir()
            if self.tables.is_dir():
                shutil.copytree(self.tables, copy / "tables")
            shutil.copy(self.states, copy / "states")
        return copy

    def _resume_copy(self, copy: Path) -> None:
        """Put a copy in the warehouse's place, check it, and resume it."""
        backup = self.folder / "backup"
        backup.mkdir()
        real = [path for path in (self.tables, self.states) if path.exists()]
        for path in real:
            path.rename(backup / path.name)
        for path in copy.iterdir():
            path.rename(self.folder / path.name)
        copy.rmdir()
        self._forget_tables()
        self._note(f"a copy: {self.emitted()} left, {self._state_in_tables()} in the tables")
        self.check()
        self._load_here()
        self.check(complete=True)
        self.deaths["copied"] += 1
        shutil.rmtree(self.tables)
        self.states.unlink()
        for path in backup.iterdir():
            path.rename(self.folder / path.name)
        backup.rmdir()
        self._forget_tables()

    def _load_here(self) -> None:
        """Load the rest within this process: a new process takes longer to start than to load."""
        self.generation += 1
        start = self._position()
        config = {**self.config, "flush_rows": ROWS}
        options, engine = settings.load_options(config), _Engine(self.session)
        job, now = self.config["job"], int(time.time() * 1000)
        run = LoadRun(job, uuid.uuid4().hex, monotonic_run_start(str(self.tables), [job], now))
        spool = SpoolFolder(self.folder / "spool-here")
        commits = partial(BatchWriter, engine, options, run, spool)
        loader = Loader(options, engine, spool, commits, Report(), self._emit)
        decoder = SingerReader()
        try:
            for line in self._lines(start):
                for event in decoder.feed(line):
                    loader.process_event(event)
            loader.poll()
            loader.finish(whole=True)
        finally:
            loader.close()
            spool.close()

    def _emit(self, state: bytes) -> None:
        with self.states.open("ab") as out:
            out.write(state + b"\n")

    def _forget_tables(self) -> None:
        """Clear the caches of this process's Spark after tables were replaced."""
        jvm: Any = self.spark.sparkContext._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self.spark.catalog.clearCache()

    # Invariants

    def check(self, *, complete: bool = False) -> None:
        """Check the tables against the last emitted state and the last state in the tables."""
        states = self._valid_states()
        if complete:
            last = self.generation if self.mode == "overwrite" else ROWS
            assert self.emitted() == last
        for number, stream in enumerate(self.streams):
            rows = self._rows(stream)
            if complete:
                self._check_complete(rows, number)
            if self.mode == "overwrite":
                self._check_generation(rows, states)
                continue
            for upto in states:
                sent = range(number, upto, len(self.streams))
                self._check_covered(rows, sent)
            if self.mode == "append":
                self._check_repeats(rows)
            else:
                assert max(Counter(k for k, _ in rows).values(), default=1) == 1
        if complete and self.form == "parquet":
            self._check_no_unlisted_files()

    def _valid_states(self) -> set[int]:
        """Return the last emitted state and the one in the tables, whose rows must be there.

        The tables' state is left out if the tables note that a run may have upserted rows from
        before it: the load sends changes, so such rows may be older than the state.
        """
        metadata = self._find_metadata()
        is_noted = metadata is not None and metadata.uncovered_since is not None
        if is_noted and self.mode == "upsert" and self.resumes == "emitted":
            return {self.emitted()}
        return {self.emitted(), self._state_in_tables()}

    def _check_covered(self, rows: list[tuple[int, int]], sent: range) -> None:
        if self.mode == "append":
            lost = set(sent) - {i for _, i in rows}
        else:
            newest_of = dict(rows)
            lost = {i for i in sent if newest_of.get(i % KEYS, -1) < i}
        assert not lost, f"lost: {sorted(lost)[:20]}"

    def _check_repeats(self, rows: list[tuple[int, int]]) -> None:
        """Check that no row is in the table more often than it was sent.

        Each row is there once if the runs resume from the tables and no tap was killed.
        """
        exactly_once = (
            self.resumes == "tables" and len(self.streams) == 1 and not self.deaths["tap"]
        )
        for i, count in Counter(i for _, i in rows).items():
            assert count <= (1 if exactly_once else self.sent[i]), (
                f"row {i} is in the table {count} times"
            )

    def _check_generation(self, rows: list[tuple[int, int]], states: set[int]) -> None:
        generations = {i for _, i in rows}
        assert len(generations) <= 1, f"rows of {generations}"
        if generations:
            assert sorted(k for k, _ in rows) == [*range(ROWS // len(self.streams))]
        assert max(states) <= max(generations, default=0)

    def _check_history(self, versions: Sequence[Any]) -> None:
        """Check that each version is there once, in order, and ends where the next one begins."""
        for k in range(KEYS):
            line = [version for version in versions if version.k == k]
            results = [version.i for version in line]
            assert results == sorted(set(results)), f"versions of {k}: {results}"
            ends = [version[VALID_FROM] for version in line[1:]]
            assert [version[VALID_TO] for version in line[:-1]] == ends
            assert [version[IS_CURRENT] for version in line[:-1]] == [False] * len(ends)

    def _check_complete(self, rows: list[tuple[int, int]], number: int) -> None:
        expected = range(number, ROWS, len(self.streams))
        if self.mode == "overwrite":
            assert {i for _, i in rows} == {self.generation}
        elif self.mode == "append":
            assert {i for _, i in rows} == set(expected)
        else:
            assert dict(rows) == {i % KEYS: i for i in expected}
        if self.mode == "scd2":
            assert self.versions[self.streams[number]] == len(expected)

    def _check_no_unlisted_files(self) -> None:
        for stream in self.streams:
            folder = self.tables / stream
            manifest = json.loads((folder / "_manifest.json").read_bytes())
            assert {path.name for path in folder.glob("*.parquet")} == set(manifest["parts"])

    def _check_spool(self) -> None:
        """Check that no other user may read spooled rows."""
        for path in (self.folder / "spool").glob("*"):
            with contextlib.suppress(FileNotFoundError):
                assert stat.S_IMODE(path.stat().st_mode) == 0o700
                for file in path.glob("rows-*"):
                    assert not stat.S_IMODE(file.stat().st_mode) & 0o077, file

    # The tables

    def _writer(self) -> Any:
        return get_writer(self.form)

    def _tables(self) -> list[Table]:
        return [Table(str(self.tables / stream), stream) for stream in self.streams]

    def _generations(self) -> list[set[int]]:
        return [{i for _, i in self._rows(stream)} for stream in self.streams]

    def _rows(self, stream: str) -> list[tuple[int, int]]:
        """Return the rows of a table, of a history only the current ones."""
        table = Table(str(self.tables / stream), stream)
        if self._writer().get_column_types(self.spark, table) is None:
            return []
        rows = self._writer().rows(self.spark, table)
        if self.mode != "scd2":
            return [(row.k, row.i) for row in rows.select("k", "i").collect()]
        columns = ("k", "i", VALID_FROM, VALID_TO, IS_CURRENT)
        versions = sorted(rows.select(*columns).collect(), key=lambda row: row[VALID_FROM])
        self._check_history(versions)
        self.versions[stream] = len(versions)
        return [(row.k, row.i) for row in versions if row[IS_CURRENT]]


def _line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _truncate_lines(lines: Iterator[bytes], count: int, share: float) -> Iterator[bytes]:
    """Yield ``count`` lines and a part of the next one; half of the time no part."""
    yield from islice(lines, count)
    if share > 0.5:
        line = next(lines)
        yield line[: int(len(line) * (2 * share - 1))]


def _list_with_times(folder: Path, pattern: str) -> Iterator[tuple[str, int]]:
    """Yield files and their times of modification, while a run may remove files and folders."""
    with contextlib.suppress(FileNotFoundError):  # of a folder that was removed while it was read
        for path in folder.glob(pattern):
            with contextlib.suppress(FileNotFoundError):
                yield str(path), path.stat().st_mtime_ns


def _check_code(victim: str, code: int) -> None:
    """Check the exit code of a run by how it was killed."""
    if victim in ENDS:
        assert code in ENDS[victim], code
    elif victim == "jvm":
        assert code in {0, 1}, code
    elif victim == "nobody":
        assert code == 0, code
