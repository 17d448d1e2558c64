"""Upserts of target-spark and a hand-written MERGE, in turns in one Spark, on equal tables.

Arguments: the folder, the rows of the table, the rows of the batch and the rounds. The program
prints CPU and elapsed seconds in JSON. Half of the batch's keys are in the table. target-spark
reads Singer messages, and the MERGE a file of the same records; both keep the newest record of a
key.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import generator

from tap_core.protocols.singer.reader import SingerReader
from target_spark.config.options import LoadOptions, RunInfo
from target_spark.loader.batch_commit import BatchWriter
from target_spark.loader.loader import Loader
from target_spark.loader.report import Report
from target_spark.spark.session import Session, SparkSettings
from target_spark.storage.spool import SpoolFolder
from tests.target.warehouse import SharedEngine

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


def make_batch(start: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield the records of the batch, with keys from ``start`` on."""
    for record in generator.narrow(count):
        record["id"] += start
        record["note"] = "changed"
        yield record


def encode_message(message_type: str, **fields: Any) -> bytes:
    """Return a Singer message as a line."""
    return json.dumps({"type": message_type, **fields}, separators=(",", ":")).encode() + b"\n"


def encode_stream(stream: str, rows: Iterator[dict[str, Any]]) -> bytes:
    """Return the Singer messages of a stream."""
    schema = {"schema": generator.NARROW_SCHEMA, "key_properties": ["id"]}
    head = encode_message("SCHEMA", stream=stream, **schema)
    return head + b"".join(encode_message("RECORD", stream=stream, record=row) for row in rows)


def load(session: Session, folder: Path, text: bytes) -> None:
    """Load Singer messages with target-spark's loader and this program's Spark."""
    engine, options = SharedEngine(session), LoadOptions(str(folder))
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
    """Merge the staged records with a hand-written MERGE."""
    spark = session.thread_session()
    spark.read.schema(DDL).json(str(staged)).createOrReplaceTempView("batch")
    spark.sql(MERGE.format(table=folder / "rows"))


def measure(session: Session, step: Callable[[], None]) -> dict[str, float]:
    """Return the CPU seconds of this process and the JVM, and the elapsed seconds, of a step."""
    cpu, wall = _read_cpu(session), time.monotonic()
    step()
    return {"cpu": _read_cpu(session) - cpu, "wall": time.monotonic() - wall}


def _read_cpu(session: Session) -> float:
    fields = Path(f"/proc/{session.jvm_pid}/stat").read_text().rpartition(")")[2].split()
    process_times = os.times()
    return sum(map(int, fields[11:15])) / TICKS + process_times.user + process_times.system


def main(folder: Path, table: int, batch: int, rounds: int) -> None:
    """Warm both up in a first round, then measure them in turns."""
    session = Session(SparkSettings()).start()
    load(session, folder / "first", encode_stream("rows", generator.narrow(table)))
    changed = list(make_batch(table - batch // 2, batch))
    text, staged = encode_stream("rows", iter(changed)), folder / "staged.json"
    staged.write_text("".join(json.dumps(row) + "\n" for row in changed))
    costs: dict[str, list[dict[str, float]]] = {"ours": [], "merge": []}
    for turn in range(rounds + 1):
        for name, seconds in costs.items():
            tables = folder / f"{name}-{turn}"
            shutil.copytree(folder / "first", tables)
            step = (
                partial(load, session, tables, text)
                if name == "ours"
                else partial(merge, session, tables, staged)
            )
            seconds.append(measure(session, step))
            rows = session.thread_session().read.format("delta").load(str(tables / "rows"))
            counts = (rows.count(), rows.where("note = 'changed'").count())
            if counts != (table + batch - batch // 2, batch):
                sys.exit(f"{name}: {counts} rows")
            shutil.rmtree(tables)
    session.stop()
    print(json.dumps({name: seconds[1:] for name, seconds in costs.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
