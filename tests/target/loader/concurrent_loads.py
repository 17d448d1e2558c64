"""Processes of the target that load one table concurrently with other tools.

A `ConcurrentLoad` is one process with its own job, input and report. All of them load the stream
``t`` into the same warehouse; its rows have an ``id``, the sender in ``who``, and are wide enough
for a batch to take a while.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from target_spark.writers.delta.data_files import _staging_prefix
from tests.target.loader.crash_run import PATIENCE, TARGET, Run

__all__ = [
    "OTHER_TOOL",
    "ConcurrentLoad",
    "append_as_other_tool",
    "create_as_other_tool",
    "list_staging_folders",
    "read_rows",
    "until",
]

OTHER_TOOL = "theirs"
_TYPES = {"id": "integer", "who": "string", "text": "string"}
_COLUMNS = pa.schema([("id", pa.int64()), ("who", pa.string()), ("text", pa.string())])


def until(condition: Callable[[], Any], loads: Iterable[ConcurrentLoad] = ()) -> None:
    """Wait for a condition, or for the end of one of the processes."""
    end = time.monotonic() + PATIENCE
    while not condition() and all(load.run.alive for load in loads):
        assert time.monotonic() < end
        time.sleep(0.005)


class ConcurrentLoad:
    """One process of the target with its own job, on the warehouse ``root/tables``."""

    def __init__(self, root: Path, job: str, **config: Any) -> None:
        self.job, self.folder, self.table = job, root / job, root / "tables" / "t"
        self.folder.mkdir(exist_ok=True)
        settings = {"path": str(root / "tables"), "job": job, "report": str(self.folder / "report")}
        settings |= {"master": "local[2]", "small_runs": True, **config}
        (self.folder / "config.json").write_text(json.dumps(settings))
        self.run: Run
        self.code: int | None = None

    def start(self, lines: Iterator[bytes], program: str = TARGET) -> None:
        """Start the process on an input, which may use ``run``."""
        is_started = threading.Event()

        def wait_for_start() -> Iterator[bytes]:
            is_started.wait()
            yield from lines

        self.run = Run(self.folder, wait_for_start(), 0, program)
        is_started.set()

    def end(self) -> int:
        """Wait for the end of the process."""
        self.code = self.run.end()
        return self.code

    def messages(
        self,
        rows: range,
        keys: tuple[str, ...] = (),
        *,
        state_every: int = 0,
        stream: str = "t",
    ) -> Iterator[bytes]:
        """Yield the schema, the rows, and states, each the number of rows before it."""
        properties = {name: {"type": ["null", type_]} for name, type_ in _TYPES.items()}
        description = {"schema": {"properties": properties}, "key_properties": keys}
        yield _line(type="SCHEMA", stream=stream, **description)
        for number in rows:
            row = {"id": number, "who": self.job, "text": f"{number:08}" * 25}
            yield _line(type="RECORD", stream=stream, record=row)
            if state_every and (number + 1) % state_every == 0:
                yield _line(type="STATE", value={"rows": number + 1})
        if not state_every or rows.stop % state_every:
            yield _line(type="STATE", value={"rows": rows.stop})

    def acknowledged(self) -> int:
        """Return how many rows the emitted states cover; a truncated line raises an error."""
        states = [json.loads(line) for line in (self.folder / "states").read_bytes().splitlines()]
        counts = [state["rows"] for state in states]
        assert counts == sorted(counts)
        return counts[-1] if counts else 0

    def errors(self) -> str:
        """Return the standard error of the process."""
        return (self.folder / "errors.log").read_text()

    def check_report(self, rows: int) -> None:
        """Check that the report of an append counts these rows as written and inserted."""
        report = json.loads((self.folder / "report").read_bytes())["streams"]["t"]
        assert (report["received"], report["written"], report["inserted"]) == (rows, rows, rows)

    def check_end(self, rows: int, *, may_fail: str = "") -> None:
        """Check that the process ended with its last state, or with an error.

        ``may_fail`` is the text of an allowed error; without it none is allowed.
        """
        if self.code == 0:
            assert self.acknowledged() == rows, self.errors()
            return
        assert may_fail, self.errors()
        assert may_fail in self.errors()
        assert "Traceback" not in self.errors()
        assert self.acknowledged() < rows


def _line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def list_staging_folders(load: ConcurrentLoad) -> list[Path]:
    """Return the staging folders of a job in which Spark writes a batch."""
    try:
        return list(load.table.glob(f"{_staging_prefix(load.job)}*/_temporary"))
    except FileNotFoundError:  # a folder was removed during the search
        return []


def read_rows(table: Path) -> list[tuple[str, int]]:
    """Return sender and id of each row of a Delta table, as delta-rs reads them."""
    columns = DeltaTable(table).to_pyarrow_table(columns=["who", "id"])
    return sorted(zip(columns["who"].to_pylist(), columns["id"].to_pylist(), strict=True))


def append_as_other_tool(table: Path, rows: range, mode: Any = "append") -> None:
    """Append rows as another tool does, with the tool's name in the commit."""
    count = len(rows)
    data = {"id": list(rows), "who": [OTHER_TOOL] * count, "text": [OTHER_TOOL] * count}
    properties = CommitProperties(custom_metadata={"tool": OTHER_TOOL})
    write_deltalake(table, pa.table(data, schema=_COLUMNS), mode=mode, commit_properties=properties)


def create_as_other_tool(table: Path, rows: range) -> None:
    """Create a table with these rows; append them if the table has been created meanwhile."""
    try:
        append_as_other_tool(table, rows, mode="error")
    except DeltaError:
        append_as_other_tool(table, rows)
