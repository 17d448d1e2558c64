"""Loads of a PostgreSQL log that are killed at random moments while the tables change.

A writer changes two tables in random transactions: inserts, updates, deletions and new keys. Each
round starts the tap with the last state that the target has emitted, and kills the tap, the target
or neither. At the end the tables that were loaded must equal those of the source.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.samples.postgres_log import LogSource
from tests.samples.postgres_tap import TAP, environment

__all__ = ["LogCrash"]

TABLES = ("t", "u")
KEYS = 300


class LogCrash:
    """A source that changes, and its loads.

    Args:
        source: Database of the tables.
        folder: Folder of all files.
        target: Settings of target-spark in addition to the path.
        seed: Seed of all random choices.
    """

    def __init__(self, source: LogSource, folder: Path, target: dict[str, Any], seed: int) -> None:
        self.source = source
        self.folder = folder
        self.random = random.Random(seed)
        self.states = folder / "states.jsonl"
        self.states.touch()
        for table in TABLES:
            source.run(
                f"CREATE TABLE {table} (id int PRIMARY KEY, v text, n int, big text)",
                f"ALTER TABLE {table} ALTER big SET STORAGE EXTERNAL",
                f"INSERT INTO {table} SELECT i, 'first', i, repeat(md5(i::text), 100)"  # noqa: S608
                f" FROM generate_series(1, {KEYS}) i",
            )
        self._write("catalog", source.make_catalog())
        slot = {"replication_slot_name": source.database.name}
        self._write("tap", {**source.database.settings, **slot})
        self._write("target", {"path": str(folder / "tables"), **target})

    def _write(self, name: str, document: dict[str, Any]) -> None:
        text = json.dumps(document, default=float)
        (self.folder / f"{name}.json").write_text(text)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Change the tables in another thread for the duration of the block."""
        ended = threading.Event()
        writer = threading.Thread(target=self._change, args=(ended, self.random.random()))
        writer.start()
        try:
            yield
        finally:
            ended.set()
            writer.join()

    def _change(self, ended: threading.Event, seed: float) -> None:
        chooser = random.Random(seed)
        with self.source.database.connect(autocommit=False) as connection:
            while not ended.is_set():
                for _ in range(chooser.choice([1, 3, 30])):
                    connection.execute(make_change(chooser).encode())
                if chooser.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()
                time.sleep(chooser.random() * 0.02)

    def run(self, kill: str | None, seconds: float = 0.0) -> tuple[int, int]:
        """Load once, and kill ``tap`` or ``target`` after some seconds; return both exit codes."""
        tap_command = [*TAP, "--config", "tap.json", "--catalog", "catalog.json"]
        if self.states.stat().st_size:
            tap_command += ["--state", "states.jsonl"]
        target_command = [sys.executable, "-m", "target_spark", "--config", "target.json"]
        with (
            (self.folder / "tap.log").open("ab") as tap_log,
            (self.folder / "target.log").open("ab") as target_log,
            self.states.open("ab") as states,
        ):
            options: dict[str, Any] = {"cwd": self.folder, "env": environment()}
            tap = subprocess.Popen(tap_command, stdout=subprocess.PIPE, stderr=tap_log, **options)
            target = subprocess.Popen(
                target_command, stdin=tap.stdout, stdout=states, stderr=target_log, **options
            )
            assert tap.stdout is not None
            tap.stdout.close()
            if kill is not None:
                time.sleep(seconds)
                {"tap": tap, "target": target}[kill].kill()
            return tap.wait(), target.wait()

    def run_randomly(self, longest: float) -> None:
        """Load once, with a random process killed within ``longest`` seconds, or none."""
        kill = self.random.choice(["tap", "target", "target", None])
        self.run(kill, self.random.random() * longest)

    def get_logs(self) -> str:
        """Return the ends of the programs' logs."""
        names = ("tap.log", "target.log")
        return "\n".join((self.folder / name).read_text()[-3000:] for name in names)

    def get_source_rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return the rows of a table of the source, by key."""
        return self.source.run(f"SELECT id, v, n, md5(big) FROM {table} ORDER BY id")  # noqa: S608


def make_change(chooser: random.Random) -> str:
    """Return a random statement that changes rows of a table."""
    table, key = chooser.choice(TABLES), chooser.randint(1, KEYS)
    word, number = f"'{chooser.randint(1, 9)}'", chooser.randint(1, 99)
    insert = (
        f"INSERT INTO {table} VALUES ({key}, {word}, {number}, repeat({word}, 3000))"  # noqa: S608
        " ON CONFLICT (id) DO UPDATE SET n = excluded.n"
    )
    new_key = (
        f"UPDATE {table} SET id = {key} WHERE id = (SELECT max(id) FROM {table})"  # noqa: S608
        f" AND NOT EXISTS (SELECT FROM {table} WHERE id = {key})"
    )
    return chooser.choice(
        [
            insert,
            f"UPDATE {table} SET v = {word}, n = {number} WHERE id % 50 = {key % 50}",  # noqa: S608
            f"UPDATE {table} SET big = repeat({word}, 4000) WHERE id = {key}",  # noqa: S608
            f"DELETE FROM {table} WHERE id = {key}",  # noqa: S608
            new_key,
        ]
    )
