"""Demonstration: load the flights of 2013 from tap-flights into Delta tables, in two runs.

The first run reads the data up to 1 October. The second run resumes from the saved state and reads
the rest. All files are written to `demo/`, which is emptied first, or to another empty folder:
`python samples/main_job.py [FOLDER]`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from query import start_spark
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from typing_extensions import Self

from target_spark import open_warehouse

DEMO = Path(__file__).resolve().parents[1] / "demo"
HOME = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else DEMO
WAREHOUSE = HOME / "warehouse"
STATE = HOME / "state.jsonl"
PAGE = HOME / "report.html"
BIN = Path(sys.executable).parent
FIRST_RUN_UNTIL = "2013-10-01T00:00:00Z"
HOURLY = ("weather", "flights")
KEYS = ["origin", "time_hour"]
SECONDS_BETWEEN_LINES = 3.0
"""Minimum time between two lines of the progress, without a terminal."""
QUERY = """
    SELECT airlines.name AS airline,
           count(*) AS flights,
           round(avg(dep_delay), 1) AS minutes_late,
           round(avg(dep_delay) FILTER (WHERE wind_gust > 30), 1) AS minutes_late_in_gusts
    FROM flights
    JOIN airlines USING (carrier)
    LEFT JOIN weather USING (origin, time_hour)
    GROUP BY airlines.name
    HAVING count(*) > 1000
    ORDER BY minutes_late
"""

console = Console()


@dataclass
class Run:
    """Result of a run of the pipe.

    Attributes:
        read: Number of records by stream, counted in the pipe.
        report: The target's report of the run.
        seconds: Duration of the run.
    """

    read: Counter[str] = field(default_factory=Counter)
    report: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def main() -> None:
    """Run the pipe twice, check the second run, and query the tables."""
    shutil.rmtree(DEMO, ignore_errors=True)
    HOME.mkdir(parents=True, exist_ok=True)
    if next(HOME.iterdir(), None):
        sys.exit(f"{HOME} is not empty")

    console.rule(f"First run: data before {FIRST_RUN_UNTIL[:10]}")
    first = run_pipe("first", {"until": FIRST_RUN_UNTIL})
    before, at_bookmark = count_rows(), count_rows_at_bookmarks()
    print_run(first, added=before)

    console.rule("Second run: from the saved state")
    second = run_pipe("second", {})
    added = count_rows() - before
    print_run(second, added=added)
    check_second_run(second, added, at_bookmark)

    console.rule("Delays by airline")
    console.print(query_tables(QUERY))
    console.print(f"Tables: {WAREHOUSE}\nState:  {STATE}\nLogs:   {HOME / 'logs'}")
    console.print(f"Report: {PAGE}")


# ---------------------------------------------------------------------------- pipe


def run_pipe(name: str, settings: dict[str, str]) -> Run:
    """Run `tap-flights | target-spark >> state.jsonl` and count the records in the pipe.

    Args:
        name: Name of the run, used for its files.
        settings: Settings of the tap.

    Raises:
        SystemExit: A program failed; the message has the end of its log.
    """
    report = HOME / "logs" / f"{name}-report.json"
    tap_config = write_json(f"{name}-tap.json", settings)
    target_config = write_json(
        f"{name}-target.json",
        {
            "path": str(WAREHOUSE),
            "job": "demo",
            "small_runs": True,
            "report": str(report),
            "report_html": str(PAGE),
        },
    )
    tap_command = [str(BIN / "tap-flights"), "--config", str(tap_config)]
    if STATE.exists():
        tap_command += ["--state", str(STATE)]
    target_command = [str(BIN / "target-spark"), "--config", str(target_config)]

    run, started = Run(), time.monotonic()
    with (
        STATE.open("ab") as states,
        log_file(f"{name}-tap").open("wb") as tap_log,
        log_file(f"{name}-target").open("wb") as target_log,
        subprocess.Popen(tap_command, stdout=subprocess.PIPE, stderr=tap_log) as tap,
        subprocess.Popen(
            target_command, stdin=subprocess.PIPE, stdout=states, stderr=target_log
        ) as target,
    ):
        assert tap.stdout is not None  # noqa: S101  (both are pipes)
        assert target.stdin is not None  # noqa: S101
        with Display() as display:
            with suppress(BrokenPipeError):  # the target has ended, and its log says why
                relay(tap.stdout, target.stdin, run.read, display.count)
                display.print_message("all records are read, the last batches are being committed")
            target.wait()
    run.seconds = time.monotonic() - started
    for program, process in (("target", target), ("tap", tap)):
        if process.returncode != 0:
            path = log_file(f"{name}-{program}")
            sys.exit(f"{path.read_text()[-3000:]}\nThe {program} failed. Its complete log: {path}")
    run.report = json.loads(report.read_text())
    return run


STREAM = re.compile(rb'\{"type": ?"RECORD", ?"stream": ?"([^"]+)"')
"""Start of a RECORD message, with the name of the stream."""


def relay(
    source: IO[bytes], sink: IO[bytes], read: Counter[str], count: Callable[[str, int], None]
) -> None:
    """Copy lines from the tap to the target unchanged, and count the records of each stream.

    Args:
        source: Output of the tap.
        sink: Input of the target, which is closed at the end.
        read: Number of records by stream, which is updated.
        count: Called for each record with its stream and the new number.
    """
    with sink:
        for line in source:
            sink.write(line)
            if record := STREAM.match(line):
                stream = record.group(1).decode()
                read[stream] += 1
                count(stream, read[stream])


def write_json(name: str, content: Mapping[str, Any]) -> Path:
    """Write a JSON file to the folder of the job and return its path."""
    path = HOME / name
    path.write_text(json.dumps(content, indent=2))
    return path


def log_file(name: str) -> Path:
    """Return the path of a program's log; its folder is created."""
    (HOME / "logs").mkdir(exist_ok=True)
    return HOME / "logs" / f"{name}.log"


# ------------------------------------------------------------------------- display


class Display:
    """Display of the progress: a bar per stream in a terminal, plain lines otherwise."""

    def __init__(self) -> None:
        self.bars: Progress | None = None
        self.tasks: dict[str, TaskID] = {}
        self.stream = ""
        self.printed_at = 0.0

    def __enter__(self) -> Self:
        if console.is_terminal:
            columns = ("{task.description:10}", "{task.completed:>9,.0f} read")
            self.bars = Progress(
                *map(TextColumn, columns), BarColumn(), TimeElapsedColumn(), console=console
            )
            self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bars:
            self.finish(self.stream)
            self.bars.stop()

    def count(self, stream: str, rows: int) -> None:
        """Update the number of rows read from a stream. The call is cheap enough for each row."""
        if rows % 1000 and stream == self.stream:
            return
        if self.bars:
            if stream not in self.tasks:
                self.tasks[stream] = self.bars.add_task(stream, total=None)
            self.bars.update(self.tasks[stream], completed=rows)
        elif time.monotonic() - self.printed_at > SECONDS_BETWEEN_LINES or rows == 1:
            console.print(f"  {stream}: {rows:,} read")
            self.printed_at = time.monotonic()
        self.stream = stream

    def finish(self, stream: str) -> None:
        """Show the bar of a stream as complete."""
        if self.bars and stream in self.tasks:
            self.bars.update(
                self.tasks[stream], total=self.bars.tasks[self.tasks[stream]].completed
            )

    def print_message(self, text: str) -> None:
        """Complete all bars and print a message."""
        for stream in self.tasks:
            self.finish(stream)
        console.print(f"  {text}")


def print_run(run: Run, added: Counter[str]) -> None:
    """Print a table with the numbers of rows of each stream: read, written, quarantined, added."""
    table = Table()
    for title in ("stream", "read", "written", "quarantined", "seconds", "new rows in the table"):
        table.add_column(title, justify="left" if title == "stream" else "right")
    streams = run.report["streams"]
    for name in sorted(run.read):
        reported = streams[name]
        numbers = (run.read[name], reported["written"], reported["quarantined"])
        counts = [f"{number:,}" for number in numbers]
        table.add_row(name, *counts, f"{reported['seconds']:.1f}", f"{added[name]:,}")
    console.print(table)
    console.print(f"{run.seconds:.0f} seconds in total, including the start of Spark\n")


# -------------------------------------------------------------------------- tables


def count_rows() -> Counter[str]:
    """Return the number of rows by table. The tables are read without Spark."""
    warehouse, counts = open_warehouse(WAREHOUSE), Counter[str]()
    for name in warehouse:
        counts[name] = warehouse[name].to_arrow().num_rows
    return counts


def count_rows_at_bookmarks() -> dict[str, int]:
    """Return the number of rows with the replication key value of a bookmark, by table."""
    warehouse, counts = open_warehouse(WAREHOUSE), dict[str, int]()
    for name in HOURLY:
        keys = cast("list[dict[str, Any]]", warehouse[name].to_arrow(KEYS).to_pylist())
        rows = Counter((row["origin"], row["time_hour"]) for row in keys)
        latest = dict(sorted(rows))  # origin -> its last hour: later pairs replace earlier ones
        counts[name] = sum(rows[origin, hour] for origin, hour in latest.items())
    return counts


def query_tables(query: str) -> Table:
    """Run a query with Spark and return its result as a table to print."""
    session = start_spark(WAREHOUSE)
    try:
        frame = session.spark().sql(query)
        result = Table(*frame.columns)
        for row in frame.collect():
            result.add_row(*map(str, row))
    finally:
        session.stop()
    return result


def check_second_run(second: Run, added: Counter[str], at_bookmark: Mapping[str, int]) -> None:
    """Check that the second run read only new rows and those at the bookmarks, and report it.

    Raises:
        SystemExit: It read other rows again, or a table that is read in full has more rows.
    """
    for name in HOURLY:
        new, read_again = added[name], second.read[name] - added[name]
        console.print(f"{name}: {new:,} rows are new, {read_again} were read again")
        if read_again != at_bookmark[name]:
            sys.exit(f"Error: {at_bookmark[name]} rows have the value of a bookmark.")
    console.print(
        "Rows with the value of a bookmark are read again, because new rows may have it, too."
    )
    full = sorted(set(second.read) - set(HOURLY))
    console.print(
        f"{', '.join(full)}: read in full in each run; their keys prevent duplicate rows."
    )
    if any(added[name] for name in full):
        sys.exit(f"Error: the number of rows of a table has changed: {added}")


if __name__ == "__main__":
    main()
