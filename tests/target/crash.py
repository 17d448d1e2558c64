"""Loads that are killed at random moments: ``python -m tests.target.crash``.

A life is one warehouse: its load is killed a few times, each time resumed from the last
state that left (or that the tables hold), and at last let run to its end. After each
death the tables are held against what was sent. All that is chosen comes from the
life's seed, which is printed; the moments depend on the machine too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from target_spark.columns import IS_CURRENT
from target_spark.ledger import newest
from target_spark.session import Session, SparkSettings
from target_spark.tables import Table
from target_spark.writers import writer_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MODES", "Life", "left_behind", "main"]

MODES = {
    "delta": ("append", "upsert", "overwrite", "scd2"),
    "iceberg": ("append", "upsert", "overwrite"),
    "parquet": ("append", "overwrite"),
}
ROOT = Path(__file__).parents[2]
TARGET = "from target_spark.target import TargetSpark; TargetSpark.cli()"
PATIENCE = 300
ROWS, KEYS, FLUSH, STATE_EVERY = 240, 37, 20, 7
VICTIMS = ("python", "jvm", "both")


class Run:
    """One process of the target, and a thread that feeds it."""

    def __init__(self, folder: Path, lines: Iterator[bytes], pause: float) -> None:
        self.folder = folder
        self._cut = threading.Event()
        with (folder / "errors.log").open("ab") as errors, (folder / "states").open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", TARGET, "--config", "config.json"],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=errors,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        self._feeder = threading.Thread(target=self._feed, args=(lines, pause), daemon=True)
        self._feeder.start()

    def _feed(self, lines: Iterator[bytes], pause: float) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            for line in lines:
                if self._cut.is_set():
                    break
                self.process.stdin.write(line)
                if pause:
                    self.process.stdin.flush()
                    time.sleep(pause)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def cut(self) -> None:
        """Let the tap die."""
        self._cut.set()

    def jvm(self) -> int | None:
        """Return the JVM's process id, once it is known."""
        for lease in (self.folder / "tables" / "_target_spark").glob("*.lease"):
            with contextlib.suppress(ValueError):
                owner = json.loads(lease.read_bytes())
                if owner.get("pid") == self.process.pid and "jvm" in owner:
                    return int(owner["jvm"])
        return None

    def kill(self, victim: str) -> str:
        """Kill; return who was killed."""
        jvm = self.jvm()
        killed = []
        if victim in {"jvm", "both"} and jvm is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(jvm, signal.SIGKILL)
                killed.append("jvm")
        if victim != "jvm" or not killed:
            self.process.kill()
            killed.append("python")
        return "+".join(killed)

    def end(self) -> int:
        """Wait for the process, the feeder and whatever the process started."""
        code = self.process.wait(PATIENCE)
        self._feeder.join(PATIENCE)
        until = time.monotonic() + PATIENCE
        while left := left_behind(self.folder):
            assert time.monotonic() < until, f"still there: {left}"
            time.sleep(0.05)
        return code


def left_behind(folder: Path) -> list[str]:
    """Return the processes that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder.resolve()):
                found.append(f"{process.name} {(process / 'cmdline').read_bytes()[:100]!r}")
    return found


@dataclass
class Life:
    """A warehouse, from its first row to its last."""

    spark: SparkSession
    folder: Path
    form: str
    mode: str
    seed: str
    settings: dict[str, Any] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    sent: Counter[int] = field(default_factory=Counter)
    generation: int = 0

    def __post_init__(self) -> None:
        """Choose what holds for the whole life."""
        self.chance = random.Random(self.seed)
        self.streams = self.chance.choice((("a",), ("a", "b")))
        self.resumes = self.chance.choice(("emitted", "tables"))
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "path": str(self.folder / "tables"),
            "format": self.form,
            "write_mode": self.mode,
            "staging": str(self.folder / "spool"),
            "flush_rows": FLUSH,
            "small_runs": True,
            "master": "local[2]",
            "job": "crash",
            **self.settings,
        }
        (self.folder / "config.json").write_text(json.dumps(settings))
        (self.folder / "states").touch()

    def live(self, deaths: int) -> None:
        """Die so many times, then come to the end; hold the tables against what was sent."""
        try:
            for _ in range(deaths):
                if self._die() == 0 and self.mode != "overwrite":
                    break
            self._finish()
        except BaseException:
            self.log.append((self.folder / "errors.log").read_text()[-6000:])
            for process in left_behind(self.folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process.partition(" ")[0]), signal.SIGKILL)
            raise

    # What is sent

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
            yield from self._whole()
            return
        for i in range(start, ROWS):
            self.sent[i] += 1
            stream = self.streams[i % len(self.streams)]
            record = {"k": i % KEYS, "i": i}
            yield _line(type="RECORD", stream=stream, record=record)
            if i % STATE_EVERY == 0:
                yield _line(type="STATE", value={"n": i + 1})
        yield _line(type="STATE", value={"n": ROWS})

    def _whole(self) -> Iterator[bytes]:
        for i in range(ROWS):
            record = {"k": i // len(self.streams), "i": self.generation}
            yield _line(type="RECORD", stream=self.streams[i % len(self.streams)], record=record)
        yield _line(type="STATE", value={"n": self.generation})

    def _start(self) -> Run:
        self.generation += 1
        start = self._position()
        pause = self.chance.choice((0, 0, 0.01))
        self.log.append(f"from {start}, pause {pause}")
        return Run(self.folder, self._lines(start), pause)

    def _position(self) -> int:
        if self.resumes == "emitted":
            return self.emitted()
        markers = [self._writer().last_marker(self.spark, table) for table in self._tables()]
        found = newest(markers)
        state = json.loads(found.state) if found is not None and found.state else {"n": 0}
        return int(state["n"])

    def emitted(self) -> int:
        """Return the last state that left; a torn line would raise."""
        lines = (self.folder / "states").read_bytes().splitlines()
        return json.loads(lines[-1])["n"] if lines else 0

    # Death

    def _die(self) -> int:
        """Start, and kill at some moment; return the exit code."""
        run = self._start()
        victims = (*VICTIMS, "tap") if self.mode == "overwrite" else VICTIMS
        victim = self.chance.choice(victims)
        self._wait_for_the_moment(run)
        if victim == "tap":
            run.cut()
            who = "tap"
        else:
            self._check_spool()
            who = run.kill(victim)
        at = time.monotonic()
        code = run.end()
        self.log.append(f"killed {who}, exit {code} after {time.monotonic() - at:.1f} s")
        if who == "jvm":
            assert code in {0, 1}, code
        self.check()
        return code

    def _wait_for_the_moment(self, run: Run) -> None:
        commits, early = self.chance.randrange(6), self.chance.random() < 0.2
        rest = self.chance.random()
        if early:
            deadline = time.monotonic() + 6 * rest
            while run.process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            return
        known = set(self._signs())
        while run.process.poll() is None and len(set(self._signs()) - known) < commits:
            time.sleep(0.005)
        while run.process.poll() is None and run.jvm() is None:
            time.sleep(0.01)
        time.sleep(0.6 * rest)
        self.log.append(f"after {commits} commits and {0.6 * rest:.2f} s")

    def _signs(self) -> Iterator[tuple[str, int]]:
        """Yield what shows that a commit was made."""
        for pattern in ("*/_delta_log/*.json", "*/_manifest.json", "**/metadata/*.metadata.json"):
            for path in (self.folder / "tables").glob(pattern):
                with contextlib.suppress(OSError):
                    yield str(path), path.stat().st_mtime_ns

    def _finish(self) -> None:
        code = self._start().end()
        assert code == 0, code
        self.check()
        assert self.emitted() == (self.generation if self.mode == "overwrite" else ROWS)
        for number, stream in enumerate(self.streams):
            self._check_whole(stream, number)
        spool = self.folder / "spool"
        assert not [*spool.iterdir()], [*spool.iterdir()]
        if self.form == "parquet":
            self._check_no_strays()

    # What must hold

    def check(self) -> None:
        """Hold the tables against the last state that left, and the one that they hold."""
        states = {self.emitted(), self._position()}
        for number, stream in enumerate(self.streams):
            rows = self._rows(stream)
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

    def _check_covered(self, rows: list[tuple[int, int]], sent: range) -> None:
        if self.mode == "append":
            lost = set(sent) - {i for _, i in rows}
        else:
            newest_of = dict(rows)
            lost = {i for i in sent if newest_of.get(i % KEYS, -1) < i}
        assert not lost, f"lost: {sorted(lost)[:20]}"

    def _check_repeats(self, rows: list[tuple[int, int]]) -> None:
        exactly_once = self.resumes == "tables" and len(self.streams) == 1
        for i, count in Counter(i for _, i in rows).items():
            assert count <= (1 if exactly_once else self.sent[i]), f"{i} stands there {count}x"

    def _check_generation(self, rows: list[tuple[int, int]], states: set[int]) -> None:
        generations = {i for _, i in rows}
        assert len(generations) <= 1, f"rows of {generations}"
        if generations:
            assert sorted(k for k, _ in rows) == [*range(ROWS // len(self.streams))]
        assert max(states) <= max(generations, default=0)

    def _check_whole(self, stream: str, number: int) -> None:
        rows = self._rows(stream)
        if self.mode == "overwrite":
            assert {i for _, i in rows} == {self.generation}
            return
        everything = range(number, ROWS, len(self.streams))
        if self.mode == "append":
            assert {i for _, i in rows} == set(everything)
        else:
            assert dict(rows) == {i % KEYS: i for i in everything}

    def _check_no_strays(self) -> None:
        for stream in self.streams:
            folder = self.folder / "tables" / stream
            manifest = json.loads((folder / "_manifest.json").read_bytes())
            assert {path.name for path in folder.glob("*.parquet")} == set(manifest["parts"])

    def _check_spool(self) -> None:
        """Nobody else may read rows that wait."""
        for path in (self.folder / "spool").glob("*"):
            with contextlib.suppress(OSError):
                assert stat.S_IMODE(path.stat().st_mode) == 0o700
                for file in path.iterdir():
                    mode = stat.S_IMODE(file.stat().st_mode)
                    assert not mode & 0o077 or file.is_dir(), (file, oct(mode))

    # The tables

    def _writer(self) -> Any:
        return writer_for(self.form)

    def _tables(self) -> list[Table]:
        return [Table(str(self.folder / "tables" / stream), stream) for stream in self.streams]

    def _rows(self, stream: str) -> list[tuple[int, int]]:
        table = Table(str(self.folder / "tables" / stream), stream)
        if self._writer().table_types(self.spark, table) is None:
            return []
        rows = self._writer().rows(self.spark, table)
        if self.mode == "scd2":
            rows = rows.where(IS_CURRENT)
        return [(row.k, row.i) for row in rows.select("k", "i").collect()]


def _line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def main() -> int:
    """Run lives until so many deaths were died; print what failed, with its seed."""
    parser = argparse.ArgumentParser(description="Kill loads at random moments.")
    parser.add_argument("--format", choices=[*MODES, "all"], default="all")
    parser.add_argument("--mode", default="all")
    parser.add_argument("--kills", type=int, default=100, help="for each format and mode")
    parser.add_argument("--seed", help="repeat the life of this seed")
    parser.add_argument("--base", default=str(int(time.time())), help="what seeds are made of")
    parser.add_argument("--deaths", type=int, default=3, help="in each life")
    given = parser.parse_args()
    failed: list[str] = []
    for form, modes in MODES.items():
        if given.format not in {form, "all"}:
            continue
        session = Session.start(SparkSettings(master="local[1]", small_runs=True, format=form))
        try:
            for mode in modes:
                if given.mode in {mode, "all"}:
                    failed += _campaign(session.spark(), form, mode, given)
        finally:
            session.stop()
    print(f"{len(failed)} lives failed", *failed, sep="\n", flush=True)
    return 1 if failed else 0


def _campaign(spark: SparkSession, form: str, mode: str, given: argparse.Namespace) -> list[str]:
    failed = []
    lives = 1 if given.seed else -(-given.kills // given.deaths)
    for number in range(lives):
        seed = given.seed or f"{form}-{mode}-{given.base}-{number}"
        with tempfile.TemporaryDirectory(prefix="crash-") as folder:
            life = Life(spark, Path(folder), form, mode, seed)
            started = time.monotonic()
            try:
                life.live(given.deaths)
                verdict = "ok"
            except (AssertionError, subprocess.TimeoutExpired) as error:
                verdict = f"FAILED: {error}"
                failed.append(seed)
            seconds = time.monotonic() - started
            told = "; ".join(life.log if verdict != "ok" else life.log[:-1])
            print(f"{seed}: {verdict} ({seconds:.0f} s; {told})", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
