"""Our upsert beside a MERGE written by hand, in one Spark and in turns, on equal tables.

Called with folder, rows of the table, rows of the batch and rounds; prints
one JSON document of CPU and wall seconds. Half of the batch's keys are in the table. Both read
the same staged lines: ours from its spool, the other records alone, newest of a key included.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import made

from tap_core.protocols.singer.reader import SingerReader
from target_spark.config.options import LoadOptions, RunInfo
from target_spark.loader.batch_writer import BatchWriter
from target_spark.loader.loader import Loader
from target_spark.loader.report import Report
from target_spark.spark.session import Session, SparkSettings
from target_spark.storage.spool import SpoolFolder

TICKS = os.sysconf("SC_CLK_TCK")
DDL = (
    "id BIGINT, name STRING, email STRING, amount DOUBLE, active BOOLEAN, quantity BIGINT,"
    " updated_at TIMESTAMP, note STRING"
)
MERGE = """
MERGE INTO delta.`{table}` AS t
USING (
  SELECT * EXCEPT (rank) FROM (
    SELECT *, row_number() OVER (PARTITION BY id ORDER BY updated_at DESC) AS rank FROM batch
  ) WHERE rank = 1
) AS s
ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
"""


class Engine:
    """The one Spark of this program, as the loader knows it."""

    failure = None
    application = None
    started = False

    def __init__(self, session: Session) -> None:
        self.session = session

    def begin(self) -> None:
        """Note that there are rows."""
        self.started = True

    def spark(self) -> Any:
        """Return the thread's session."""
        return self.session.thread_session()

    def close(self) -> None:
        """Leave Spark as it is."""


def records(start: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield the records of the batch."""
    for record in made.narrow(count):
        record["id"] += start
        record["note"] = "changed"
        yield record


def message(kind: str, **more: Any) -> bytes:
    """Return a message as a line."""
    return json.dumps({"type": kind, **more}, separators=(",", ":")).encode() + b"\n"


def lines(stream: str, rows: Iterator[dict[str, Any]]) -> bytes:
    """Return the messages of a stream."""
    schema = message("SCHEMA", stream=stream, schema=made.NARROW_SCHEMA, key_properties=["id"])
    return schema + b"".join(message("RECORD", stream=stream, record=row) for row in rows)


def load(session: Session, folder: Path, text: bytes) -> None:
    """Load messages as the target does, into this program's Spark."""
    engine, options = Engine(session), LoadOptions(str(folder))
    run = RunInfo("bench", f"{time.time_ns()}", time.time_ns() // 1_000_000)
    spool = SpoolFolder(folder.parent / "spool")
    loader = Loader(
        options,
        engine,
        spool,
        lambda: BatchWriter(engine, options, run, spool),
        Report(),
        lambda _state: None,
    )
    for event in SingerReader().feed(text):
        loader.process_event(event)
    loader.finish(whole=True)
    loader.close()
    spool.close()


def merge(session: Session, folder: Path, staged: Path) -> None:
    """Do the same by hand."""
    spark = session.thread_session()
    spark.read.schema(DDL).json(str(staged)).createOrReplaceTempView("batch")
    spark.sql(MERGE.format(table=folder / "rows"))


def cost(session: Session, do: Callable[[], None]) -> dict[str, float]:
    """Return the CPU seconds of this process and of the JVM, and the wall seconds."""
    cpu, wall = _cpu(session), time.monotonic()
    do()
    return {"cpu": _cpu(session) - cpu, "wall": time.monotonic() - wall}


def _cpu(session: Session) -> float:
    fields = Path(f"/proc/{session.jvm_pid}/stat").read_text().rpartition(")")[2].split()
    own = os.times()
    return sum(map(int, fields[11:15])) / TICKS + own.user + own.system


def main(folder: Path, table: int, batch: int, rounds: int) -> None:
    """Warm both up, then measure them in turns."""
    session = Session.start(SparkSettings())
    load(session, folder / "first", lines("rows", made.narrow(table)))
    changed = list(records(table - batch // 2, batch))
    text, staged = lines("rows", iter(changed)), folder / "staged.json"
    staged.write_text("".join(json.dumps(row) + "\n" for row in changed))
    found: dict[str, list[dict[str, float]]] = {"ours": [], "by hand": []}
    for turn in range(rounds + 1):
        for who, costs in found.items():
            place = folder / f"{who}-{turn}".replace(" ", "-")
            shutil.copytree(folder / "first", place)
            do = (
                (lambda to=place: load(session, to, text))
                if who == "ours"
                else (lambda to=place: merge(session, to, staged))
            )
            costs.append(cost(session, do))
            rows = session.thread_session().read.format("delta").load(str(place / "rows"))
            seen = (rows.count(), rows.where("note = 'changed'").count())
            if seen != (table + batch - batch // 2, batch):
                sys.exit(f"{who}: {seen} rows")
            shutil.rmtree(place)
    session.stop()
    print(json.dumps({who: costs[1:] for who, costs in found.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
