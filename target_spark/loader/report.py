"""Run report: statistics per stream, counted during the run and printed at its end.

Each number is counted separately and never computed from another one, so that discrepancies are
visible. The writer threads and the input thread both update the report, which has one lock.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from tap_core.io.private_files import make_parents, replace_file
from tap_core.redaction import clean_document, redact, redact_line
from tap_core.telemetry import begin_stream, count_commit
from target_spark.phase_timing import Phases
from target_spark.tables.quarantine_summary import (
    QuarantineSummary,
    Reason,
    replay_command,
    stream_command,
)
from target_spark.tables.table import CommitStats

__all__ = ["COMPLETE", "NOT_COMPLETE", "STOPPED", "Report", "StreamCounts", "split_outcome"]

COMPLETE: Final = "complete"
STOPPED: Final = "stopped by a signal"
NOT_COMPLETE: Final = "not complete"
"""The outcome of a run that ended with an error. The error message is shown separately."""

_COLUMNS: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "received": ("received", "{:,}".format),
    "written": ("written", "{:,}".format),
    "inserted": ("inserted", "{:,}".format),
    "updated": ("updated", "{:,}".format),
    "deleted": ("deleted", "{:,}".format),
    "quarantined": ("quarantined", "{:,}".format),
    "nulled": ("nulled", "{:,}".format),
    "bytes": ("MB", lambda nbytes: f"{nbytes / 1e6:,.1f}"),
    "files": ("files", "{:,}".format),
    "commits": ("commits", "{:,}".format),
    "seconds": ("seconds", "{:,.1f}".format),
}
"""Columns of the summary, by attribute of `StreamCounts`: the column's title, and the function that
formats its numbers."""

_ALWAYS_SHOWN: Final = frozenset({"received", "written", "commits"})


@dataclass
class StreamCounts:
    """Statistics of one stream in the run report.

    The attributes are keys in the JSON file of the report; renaming one would change that file.

    Attributes:
        table: Name of the table, without catalog and database.
        place: Full location of the table: its name with catalog and database. Without a catalog,
            the path of its folder.
        received: Rows received.
        written: Rows committed to the table.
        quarantined: Rows committed to the quarantine table.
        nulled: Written rows in which null replaced a value that does not fit its column.
        bytes: Bytes of the rows received.
        commits: Number of commits.
        seconds: Seconds spent in commits.
        inserted: Rows inserted, as the table format reports them.
        updated: Rows updated, as the table format reports them.
        deleted: Rows deleted, as the table format reports them.
        files: Files added to the table, as the table format reports them.
        table_bytes: Bytes of the added files, as the table format reports them.
        waiting: Bytes received and not committed yet.
        changes: Columns that were added or widened, and changes that ``on_schema_change`` prevents.
        zoneless: Per column, the number of date-times without a time zone, read as UTC.
        notes: Notes for the user.
        quarantine: Table and reasons of the quarantined rows; None if no row was quarantined.
        withheld: The reason why states after the stream's rows are held back, or None if they
            are not.
    """

    table: str = ""
    place: str = ""
    received: int = 0
    written: int = 0
    quarantined: int = 0
    nulled: int = 0
    bytes: int = 0
    commits: int = 0
    seconds: float = 0.0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files: int = 0
    table_bytes: int = 0
    waiting: int = 0
    changes: list[dict[str, Any]] = field(default_factory=list)
    zoneless: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    quarantine: QuarantineSummary | None = None
    withheld: str | None = None


class Report:
    """Statistics of one run, updated by all threads and printed at the end.

    Args:
        config: The values of the option ``--config``, for the commands that the report suggests to
            the user.
    """

    def __init__(self, config: Sequence[str] = ()) -> None:
        self._lock = threading.Lock()
        self._streams: dict[str, StreamCounts] = {}
        self._started = time.monotonic()
        self._waited_seconds = 0.0
        self._received_states = 0
        self._emitted_states = 0
        self._is_last_emitted: bool | None = None
        self._facts: dict[str, Any] = {}
        self._remarks: list[str] = []
        self._outcome = "running"
        self._config = tuple(config)
        self.phases = Phases()

    def add_facts(self, **facts: Any) -> None:
        """Store values that describe the run, to be included in the report under their names.

        Examples are ``job`` (the job's name), ``run`` (the run's id) and ``spark`` (the version).
        """
        with self._lock:
            self._facts |= facts

    def add_remark(self, text: str) -> None:
        """Add a note for the user about the whole run. The summary at its end prints the note."""
        with self._lock:
            self._remarks.append(text)

    def add_wait(self, seconds: float) -> None:
        """Add seconds in which no input was read, because the run waited for commits."""
        with self._lock:
            self._waited_seconds += seconds

    def record_table(self, stream: str, table: str, location: str) -> None:
        """Store the name and the location of a stream's table.

        The location is the table's name in the catalog, or without a catalog the path of its
        folder.
        """
        with self._lock:
            counts = self._get_counts(stream)
            counts.table, counts.place = table, location
        begin_stream(stream)

    def run_commit(self, stream: str) -> AbstractContextManager[None]:
        """Return a context manager: during a commit, the progress display shows "committing …"."""
        with self._lock:
            number = self._get_counts(stream).commits + 1
        return self.phases.run(f"committing {stream} batch {number}")

    def count_received(self, stream: str, rows: int, nbytes: int) -> None:
        """Add ``rows`` received rows with ``nbytes`` bytes to a stream's statistics."""
        with self._lock:
            counts = self._get_counts(stream)
            counts.received += rows
            counts.bytes += nbytes
            counts.waiting += nbytes

    def count_commit(
        self,
        stream: str,
        written: int,
        quarantined: int,
        seconds: float,
        effect: CommitStats = CommitStats(),  # noqa: B008  (frozen)
        nbytes: int = 0,
    ) -> None:
        """Add a commit to a stream's statistics.

        Args:
            stream: The name of the stream.
            written: The number of rows written to the table.
            quarantined: The number of rows written to the quarantine table.
            seconds: The duration of the commit.
            effect: Numbers of changed rows and added files, as the table format reports them.
            nbytes: The bytes of the rows. They no longer wait for a commit, so they are subtracted
                from the waiting bytes.
        """
        with self._lock:
            counts = self._get_counts(stream)
            counts.written += written
            counts.quarantined += quarantined
            counts.commits += 1
            counts.seconds += seconds
            counts.inserted += effect.inserted
            counts.updated += effect.updated
            counts.deleted += effect.deleted
            counts.files += effect.files
            counts.table_bytes += effect.nbytes
            counts.waiting -= nbytes
        count_commit(stream, quarantined, nbytes)

    def record_quarantine(
        self, stream: str, table: str, location: str, reasons: Iterable[Reason], *, can_replay: bool
    ) -> None:
        """Store the quarantine table of a stream, and add the reasons of newly quarantined rows.

        Args:
            stream: The name of the stream.
            table: The name of the quarantine table.
            location: The quarantine table's name in the catalog. Without a catalog, the path of
                its folder.
            reasons: The reasons why the rows were quarantined.
            can_replay: True if the rows can be loaded again with `target-spark replay`, so that the
                report suggests this command. False if the next run loads them anyway.
        """
        with self._lock:
            counts = self._get_counts(stream)
            if counts.quarantine is None:
                replay = replay_command(stream, self._config) if can_replay else None
                counts.quarantine = QuarantineSummary(table, location, replay)
            counts.quarantine.add(reasons)

    def record_withheld(self, stream: str, reason: str | None) -> None:
        """Store the reason why states after a stream's rows are held back; None if they are not."""
        with self._lock:
            self._get_counts(stream).withheld = reason

    def count_nulled(self, stream: str, rows: int) -> None:
        """Count rows of a stream in which null replaced a value that does not fit its column."""
        with self._lock:
            self._get_counts(stream).nulled += rows

    def record_column_change(
        self,
        stream: str,
        column: str,
        type: str,
        kind: str,
        instead_of: str | None = None,
        old: str | None = None,
    ) -> None:
        """Store a column change, or a change that the setting ``on_schema_change`` prevented.

        Args:
            stream: The name of the stream.
            column: The column's path, joined by dots.
            type: The new type, as DDL. For a change that is not made, the type in the schema.
            kind: ``add`` or ``widen`` for a change of the table. Otherwise the column is not
                changed: ``omit`` for a property without a column, ``keep`` for a type that stays,
                ``refuse`` for a change that ends the run.
            instead_of: The existing column that could not be widened, if the new column was added
                for that reason; else None.
            old: The type of the existing column, as DDL; None for a new property.
        """
        change = {"column": column, "type": type, "kind": kind, "beside": instead_of, "old": old}
        with self._lock:
            self._get_counts(stream).changes.append(change)

    def count_zoneless(self, stream: str, columns: Mapping[str, int]) -> None:
        """Add each column's number of date-times without a time zone, which are read as UTC."""
        with self._lock:
            zoneless = self._get_counts(stream).zoneless
            for column, count in columns.items():
                zoneless[column] = zoneless.get(column, 0) + count

    def count_state(self) -> None:
        """Add one to the number of states received."""
        with self._lock:
            self._received_states += 1
            self._is_last_emitted = False

    def count_released_state(self, *, last: bool = True) -> None:
        """Add one to the number of states that were emitted.

        Args:
            last: True if the state is the newest one received; False if newer states are held back.
        """
        with self._lock:
            self._emitted_states += 1
            self._is_last_emitted = last

    def add_stream_remark(self, stream: str, text: str) -> bool:
        """Add a note for the user about a stream.

        Return True if the note was added; False if the report already had it.
        """
        with self._lock:
            notes = self._get_counts(stream).notes
            if text in notes:
                return False
            notes.append(text)
            return True

    def record_outcome(self, outcome: str) -> None:
        """Store the outcome of the run: `COMPLETE`, `STOPPED` or an error message."""
        with self._lock:
            self._outcome = outcome

    def as_dict(self) -> dict[str, Any]:
        """Return the whole report as a JSON-compatible dictionary, with secrets redacted."""
        with self._lock:
            document = {
                "outcome": self._outcome,
                "complete": self._outcome == COMPLETE,
                **self._facts,
                "remarks": list(self._remarks),
                "seconds": round(time.monotonic() - self._started, 3),
                "held_back_seconds": round(self._waited_seconds, 3),
                "states_received": self._received_states,
                "states": self._emitted_states,
                "last_state_released": self._is_last_emitted,
                "streams": {
                    name: {**asdict(counts), "seconds": round(counts.seconds, 3)}
                    for name, counts in self._streams.items()
                },
            }
        return cast("dict[str, Any]", clean_document(document, redact, by_name=False))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report atomically, as a JSON file that only the current user can read."""
        file = Path(path)
        make_parents(file)
        replace_file(file, json.dumps(self.as_dict(), indent=2) + "\n")

    def progress(self) -> str:
        """Return the current progress as one line, such as ``users: 5 received, 3 written``.

        The line names all streams. While a phase such as the start of Spark is in progress, the
        line begins with it.
        """
        parts = [
            f"{name}: {counts.received:,} received, {counts.written:,} written"
            + (f", {counts.quarantined:,} quarantined" if counts.quarantined else "")
            for name, counts in self.streams().items()
        ]
        phases = self.phases.describe()
        return "; ".join([*([phases] if phases else []), *(parts or ["nothing received yet"])])

    def lines(self) -> list[str]:
        """Return the lines of the summary to print at the end of the run, with secrets redacted."""
        document = self.as_dict()
        streams = self.streams()
        notes = [  # remarks about streams are not repeated, as the log already has them
            f"{name}: column {column}: {count:,} date-times without a zone were read as UTC"
            for name, counts in streams.items()
            for column, count in counts.zoneless.items()
        ]
        lines = [*_describe_run(document), *_format_table(streams), *document["remarks"], *notes]
        return [redact_line(line) for line in lines]

    def show_command(self, stream: str) -> str:
        """Return the ``target-spark show`` command line for a stream's table.

        It repeats the ``--config`` options of the run.
        """
        return stream_command("show", stream, self._config)

    def streams(self) -> dict[str, StreamCounts]:
        """Return a copy of the statistics of all streams, by name."""
        with self._lock:
            return {name: deepcopy(counts) for name, counts in self._streams.items()}

    def describe_quarantines(self) -> list[str]:
        """Return a text for each stream with quarantined rows.

        The text says how many rows were quarantined, why, in which table they are, and how to load
        them.
        """
        return [
            f"Stream {name}: {self._describe_quarantine(counts)}"
            for name, counts in self.streams().items()
            if counts.quarantine is not None
        ]

    def describe_incomplete(self, stream: str) -> str:
        """Return a text about a stream: why its states are held back, and its quarantined rows."""
        counts = self.streams()[stream]
        reason = counts.withheld or "the rows of other versions stay in its table"
        return (
            f"Stream {stream} is not complete: {reason}; no state that covers its rows is emitted."
            f" {self._describe_quarantine(counts)}"
        )

    def _describe_quarantine(self, counts: StreamCounts) -> str:
        if counts.quarantine is None:
            return ""
        dry_run = bool(self._facts.get("dry_run"))
        return counts.quarantine.describe(
            counts.quarantined,
            counts.received,
            withheld=counts.withheld is not None,
            dry_run=dry_run,
        )

    def _get_counts(self, stream: str) -> StreamCounts:
        return self._streams.setdefault(stream, StreamCounts())


def split_outcome(outcome: str) -> tuple[str, str | None]:
    """Return a run's outcome and its error message, from the entry ``outcome`` of its report.

    The outcome is `COMPLETE`, `STOPPED` or `NOT_COMPLETE`. The error message is None unless the
    outcome is `NOT_COMPLETE`.
    """
    return (outcome, None) if outcome in {COMPLETE, STOPPED} else (NOT_COMPLETE, outcome)


def _describe_run(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the first lines of the summary: the run, its outcome, its duration and its states."""
    run = [
        f"{name} {document[name]}" for name in ("job", "run", "application") if document.get(name)
    ]
    if run:
        yield ", ".join(run)
    if document.get("dry_run"):
        yield "dry run: nothing was written, no state was emitted; 'written' counts planned rows"
    outcome, _ = split_outcome(document["outcome"])
    received, emitted = document["states_received"], document["states"]
    states = ""
    if received:
        last = "including the last" if document["last_state_released"] else "without the last"
        states = f"; states: {received:,} received, {emitted:,} emitted, {last}"
    yield f"{outcome} after {document['seconds']:.1f} s{states}"


def _format_table(streams: Mapping[str, StreamCounts]) -> list[str]:
    """Return the statistics as lines of a text table, with one line for each stream.

    Optional columns such as ``quarantined`` are omitted if they are zero for every stream.
    """
    if not streams:
        return []
    columns = [
        name
        for name in _COLUMNS
        if name in _ALWAYS_SHOWN or any(getattr(counts, name) for counts in streams.values())
    ]
    if not {"updated", "deleted"} & set(columns):
        columns = [name for name in columns if name != "inserted"]  # equal to written
    head = ("stream", *(_COLUMNS[name][0] for name in columns))
    rows = [
        (stream, *(_COLUMNS[name][1](getattr(counts, name)) for name in columns))
        for stream, counts in streams.items()
    ]
    return _align_columns([head, *rows])


def _align_columns(rows: list[tuple[str, ...]]) -> list[str]:
    """Return table rows as lines of text: first column left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if position == 0 else cell.rjust(width)
            for position, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
