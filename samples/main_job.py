"""The main job: flights of 2013 from a tap into Delta tables, in two runs.

The first run sees the data as it was on 1 October; the second goes on from the saved state and
sees the rest. Everything is made from nothing, below `demo/` or in an empty folder that is named:
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from query import spark_for
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from typing_extensions import Self

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
QUESTION = """
    SELECT airlines.name AS airline,
           count(*) AS flights,
           round(avg(dep_delay), 1) AS minutes_late,
           round(avg(dep_delay) FILTER (WHERE wind_gust > 30), 1) AS minutes_late_in_gusts
    FROM flights
    JOIN airlines USING (carrier)
    LEFT JOIN weather USING (origin, time_hour)
    GROUP BY airlines.name
    HAVING count(*) > 10000
    ORDER BY minutes_late
"""

console = Console()


@dataclass
class Run:
    """What one run of the pipe read, and what the target said of it at the end."""

    read: Counter[str] = field(default_factory=Counter)
    report: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def main() -> None:
    """Run the pipe twice and ask the tables one question."""
    shutil.rmtree(DEMO, ignore_errors=True)
    HOME.mkdir(parents=True, exist_ok=True)
    if next(HOME.iterdir(), None):
        sys.exit(f"{HOME} is not empty")

    console.rule(f"First run: what there was before {FIRST_RUN_UNTIL[:10]}")
    first = run_pipe("first", {"until": FIRST_RUN_UNTIL})
    before = look()
    show(first, gained=before.rows)

    console.rule("Second run: from the saved state")
    second = run_pipe("second", {})
    after = look(QUESTION)
    gained = after.rows - before.rows
    show(second, gained=gained)
    check(second, gained, before)

    console.rule("Which airline leaves on time?")
    console.print(after.answer)
    console.print(f"Tables: {WAREHOUSE}\nState:  {STATE}\nLogs:   {HOME / 'logs'}")
    console.print(f"Report: {PAGE}, a page for any browser")


# ------------------------------------------------------------------------ the pipe


def run_pipe(name: str, settings: dict[str, str]) -> Run:
    """Run `tap-flights | target-spark >> state.jsonl`, counting what goes through the pipe."""
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
        assert tap.stdout is not None  # noqa: S101  (both are pipes, as asked)
        assert target.stdin is not None  # noqa: S101
        with Display() as display:
            relay(tap.stdout, target.stdin, run.read, display.count)
            display.say("everything is read, the last batches are being committed")
            target.wait()
    run.seconds = time.monotonic() - started
    for program, process in (("tap", tap), ("target", target)):
        if process.returncode != 0:
            path = log_file(f"{name}-{program}")
            sys.exit(f"{path.read_text()[-3000:]}\nThe {program} failed; the whole log: {path}")
    run.report = json.loads(report.read_text())
    return run


STREAM = re.compile(rb'\{"type": ?"RECORD", ?"stream": ?"([^"]+)"')


def relay(
    source: IO[bytes], sink: IO[bytes], read: Counter[str], count: Callable[[str, int], None]
) -> None:
    """Hand the tap's lines to the target as they are, and count the records of each stream."""
    for line in source:
        sink.write(line)
        if record := STREAM.match(line):
            stream = record.group(1).decode()
            read[stream] += 1
            count(stream, read[stream])
    sink.close()


def write_json(name: str, content: Mapping[str, Any]) -> Path:
    """Write a settings file below the home of the job."""
    path = HOME / name
    path.write_text(json.dumps(content, indent=2))
    return path


def log_file(name: str) -> Path:
    """Return where the log of one program goes."""
    (HOME / "logs").mkdir(exist_ok=True)
    return HOME / "logs" / f"{name}.log"


# -------------------------------------------------------------------- what is seen


class Display:
    """Progress while the pipe runs: a bar per stream on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self.bars: Progress | None = None
        self.tasks: dict[str, TaskID] = {}
        self.stream = ""
        self.said_at = 0.0

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
        """Show that so many rows of the stream are read; cheap enough for every row."""
        if rows % 1000 and stream == self.stream:
            return
        if self.bars:
            if stream not in self.tasks:
                self.tasks[stream] = self.bars.add_task(stream, total=None)
            self.bars.update(self.tasks[stream], completed=rows)
        elif time.monotonic() - self.said_at > SECONDS_BETWEEN_LINES or rows == 1:
            console.print(f"  {stream}: {rows:,} read")
            self.said_at = time.monotonic()
        self.stream = stream

    def finish(self, stream: str) -> None:
        """Fill the bar of a stream that has ended."""
        if self.bars and stream in self.tasks:
            self.bars.update(
                self.tasks[stream], total=self.bars.tasks[self.tasks[stream]].completed
            )

    def say(self, sentence: str) -> None:
        """Say what is going on where no rows are to be counted."""
        for stream in self.tasks:
            self.finish(stream)
        console.print(f"  {sentence}")


def show(run: Run, gained: Counter[str]) -> None:
    """Print per stream what was read, written, quarantined, and what its table gained."""
    table = Table()
    for title in ("stream", "read", "written", "quarantined", "seconds", "new rows in the table"):
        table.add_column(title, justify="left" if title == "stream" else "right")
    streams = run.report["streams"]
    for name in sorted(run.read):
        said = streams[name]
        numbers = (run.read[name], said["written"], said["quarantined"])
        counts = [f"{number:,}" for number in numbers]
        table.add_row(name, *counts, f"{said['seconds']:.1f}", f"{gained[name]:,}")
    console.print(table)
    console.print(f"{run.seconds:.0f} seconds in all, Spark's start included\n")


# -------------------------------------------------------------- what is in the tables


@dataclass
class Look:
    """What stands in the tables: rows by table, rows at the bookmarks, and an answer."""

    rows: Counter[str] = field(default_factory=Counter)
    at_bookmark: Counter[str] = field(default_factory=Counter)
    answer: Table = field(default_factory=Table)


def look(question: str | None = None) -> Look:
    """Count the tables with Spark SQL, and answer a question if there is one."""
    session, found = spark_for(WAREHOUSE), Look()
    try:
        spark = session.spark()
        for view in spark.catalog.listTables():
            found.rows[view.name] = spark.table(f"`{view.name}`").count()
        for name in HOURLY:
            last = f"(SELECT origin, max(time_hour) AS time_hour FROM {name} GROUP BY origin)"  # noqa: S608
            found.at_bookmark[name] = spark.table(name).join(spark.sql(last), KEYS).count()
        if question:
            answer = spark.sql(question)
            found.answer = Table(*answer.columns)
            for row in answer.collect():
                found.answer.add_row(*map(str, row))
    finally:
        session.stop()
    return found


def check(second: Run, gained: Counter[str], before: Look) -> None:
    """Say, and hold, that the second run read new rows and those at the bookmarks, no more."""
    for name in HOURLY:
        new, again = gained[name], second.read[name] - gained[name]
        console.print(f"{name}: {new:,} rows are new, {again} were read again")
        if again != before.at_bookmark[name]:
            sys.exit(f"but {before.at_bookmark[name]} rows stand at the bookmarks themselves")
    console.print(
        "Those read again stand at the bookmarks themselves: later rows might share them."
    )
    whole = sorted(set(second.read) - set(HOURLY))
    console.print(
        f"{', '.join(whole)}: whole tables, read each time; by their keys no row doubles."
    )
    if any(gained[name] for name in whole):
        sys.exit(f"but a table has grown: {gained}")


if __name__ == "__main__":
    main()
