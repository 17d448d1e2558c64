"""What a run did, per stream: counted while it runs, told at its end.

Rules of the room: counts come from what was done and are never derived from each other,
so that a difference between them shows. Writers' threads and the reader both count here;
one lock covers it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from tap_core.io.private_files import replace_file
from tap_core.redaction import clean_document, redact, redact_line
from target_spark.tables.model import CommitStats
from target_spark.tables.quarantine_summary import QuarantineSummary, Reason, replay_command

__all__ = ["COMPLETE", "STOPPED", "Report", "StreamCounts"]

COMPLETE: Final = "complete"
STOPPED: Final = "stopped by a signal"

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
"""The figures that people are shown: the head of the column, and how a figure is written."""

_ALWAYS: Final = frozenset({"received", "written", "commits"})


@dataclass
class StreamCounts:
    """One stream's figures: rows, bytes that were spooled, commits, seconds of writing.

    ``nulled`` are written rows with a field that is null because its value does not fit;
    ``inserted`` to ``table_bytes`` are the table's own words on what the commits did;
    ``waiting`` are the bytes that are not committed, ``changes`` the columns that the
    table was given or that grew. ``quarantine`` says why rows were set aside, and where they
    are; ``withheld`` why no state may cover the stream's rows.
    """

    table: str = ""
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
    """The figures of one run. Safe for threads.

    ``config`` are the arguments of ``--config``, for the commands that it tells of.
    """

    def __init__(self, config: Sequence[str] = ()) -> None:
        self._lock = threading.Lock()
        self._streams: dict[str, StreamCounts] = {}
        self._started = time.monotonic()
        self._held_back = 0.0
        self._states_received = 0
        self._states = 0
        self._last_left: bool | None = None
        self._facts: dict[str, Any] = {}
        self._remarks: list[str] = []
        self._outcome = "running"
        self._config = tuple(config)

    def about(self, **facts: Any) -> None:
        """Note what the run is: its job, its id, the Spark that it has."""
        with self._lock:
            self._facts |= facts

    def remark(self, text: str) -> None:
        """Keep a remark on the run."""
        with self._lock:
            self._remarks.append(text)

    def held_back(self, seconds: float) -> None:
        """Count for how long the tap was made to wait: too many bytes waited for commits."""
        with self._lock:
            self._held_back += seconds

    def described(self, stream: str, table: str) -> None:
        """Note which table a stream goes to."""
        with self._lock:
            self._get_counts(stream).table = table

    def received(self, stream: str, rows: int, nbytes: int) -> None:
        """Count rows that came in."""
        with self._lock:
            counts = self._get_counts(stream)
            counts.received += rows
            counts.bytes += nbytes
            counts.waiting += nbytes

    def committed(
        self,
        stream: str,
        written: int,
        quarantined: int,
        seconds: float,
        effect: CommitStats = CommitStats(),  # noqa: B008  (frozen)
        nbytes: int = 0,
    ) -> None:
        """Count a batch that is in the table, how long its writing took, and what it did."""
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

    def set_aside(
        self, stream: str, table: str, place: str, reasons: Iterable[Reason], *, can_replay: bool
    ) -> None:
        """Note in which table rows of a stream were set aside, and why."""
        with self._lock:
            counts = self._get_counts(stream)
            if counts.quarantine is None:
                replay = replay_command(stream, self._config) if can_replay else None
                counts.quarantine = QuarantineSummary(table, place, replay)
            counts.quarantine.add(reasons)

    def withheld(self, stream: str, why: str | None) -> None:
        """Note why no state may cover the rows of a stream; None: it may."""
        with self._lock:
            self._get_counts(stream).withheld = why

    def nulled(self, stream: str, rows: int) -> None:
        """Count rows with a field that is null because its value does not fit."""
        with self._lock:
            self._get_counts(stream).nulled += rows

    def changed(
        self, stream: str, column: str, type: str, kind: str, beside: str | None = None
    ) -> None:
        """Note a column that the table was given (add) or whose type grew (widen)."""
        change = {"column": column, "type": type, "kind": kind, "beside": beside}
        with self._lock:
            self._get_counts(stream).changes.append(change)

    def zoneless(self, stream: str, columns: Mapping[str, int]) -> None:
        """Count, by column, date-times that came without a zone."""
        with self._lock:
            known = self._get_counts(stream).zoneless
            for column, count in columns.items():
                known[column] = known.get(column, 0) + count

    def state_received(self) -> None:
        """Count a state that came in."""
        with self._lock:
            self._states_received += 1
            self._last_left = False

    def released(self, *, last: bool = True) -> None:
        """Count a state that left; ``last`` says that no other has come since."""
        with self._lock:
            self._states += 1
            self._last_left = last

    def note(self, stream: str, text: str) -> bool:
        """Keep a remark on a stream; False if it was made before."""
        with self._lock:
            notes = self._get_counts(stream).notes
            if text in notes:
                return False
            notes.append(text)
            return True

    def ended(self, outcome: str) -> None:
        """Say how the run ended: `COMPLETE`, `STOPPED`, or what went wrong."""
        with self._lock:
            self._outcome = outcome

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        with self._lock:
            told = {
                "outcome": self._outcome,
                "complete": self._outcome == COMPLETE,
                **self._facts,
                "remarks": list(self._remarks),
                "seconds": round(time.monotonic() - self._started, 3),
                "held_back_seconds": round(self._held_back, 3),
                "states_received": self._states_received,
                "states": self._states,
                "last_state_released": self._last_left,
                "streams": {
                    name: {**asdict(counts), "seconds": round(counts.seconds, 3)}
                    for name, counts in self._streams.items()
                },
            }
        return cast("dict[str, Any]", clean_document(told, redact, by_name=False))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figures as JSON to a file that only this user may read, whole or not at all."""
        final = Path(path)
        final.parent.mkdir(parents=True, exist_ok=True)
        replace_file(final, json.dumps(self.as_dict(), indent=2) + "\n")

    def progress(self) -> str:
        """Return one line: how far each stream is."""
        parts = [
            f"{name}: {counts.received:,} received, {counts.written:,} written"
            + (f", {counts.quarantined:,} quarantined" if counts.quarantined else "")
            for name, counts in self.streams().items()
        ]
        return "; ".join(parts) or "nothing received yet"

    def lines(self) -> list[str]:
        """Return what stands at the end of the run for people, one text per line."""
        told = self.as_dict()
        streams = self.streams()
        notes = [
            f"{name}: {note}"
            for name, counts in streams.items()
            for note in (*counts.notes, *_zone_notes(counts))
        ]
        lines = [*_head(told), *_table(streams), *told["remarks"], *notes]
        return [redact_line(line) for line in lines]

    def streams(self) -> dict[str, StreamCounts]:
        """Return a copy of each stream's figures as they are now."""
        with self._lock:
            return {name: deepcopy(counts) for name, counts in self._streams.items()}

    def describe_quarantines(self) -> list[str]:
        """Return for each stream of which rows were set aside how many, why, where, what to do."""
        return [
            f"Stream {name}: {self._describe_quarantine(counts)}"
            for name, counts in self.streams().items()
            if counts.quarantine is not None
        ]

    def describe_incomplete(self, stream: str) -> str:
        """Return why a stream is not complete whose rows were set aside."""
        counts = self.streams()[stream]
        why = counts.withheld or "the rows of other versions stay in its table"
        return (
            f"Stream {stream} is not complete: {why}, and no state that covers its rows leaves."
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


def _head(told: Mapping[str, Any]) -> Iterator[str]:
    run = [f"{name} {told[name]}" for name in ("job", "run", "application") if told.get(name)]
    if run:
        yield ", ".join(run)
    if told.get("dry_run"):
        yield "dry run: nothing was written and no state left; written is what would have been"
    seconds, came, left = told["seconds"], told["states_received"], told["states"]
    states = ""
    if came:
        last = "the last one too" if told["last_state_released"] else "not the last one"
        states = f"; states: {came:,} came, {left:,} left, {last}"
    outcome = told["outcome"] if told["outcome"] in {COMPLETE, STOPPED} else "not complete"
    yield f"{outcome} after {seconds:.1f} s{states}"


def _table(streams: Mapping[str, StreamCounts]) -> list[str]:
    """Return the streams as a table with the columns that say something."""
    if not streams:
        return []
    wanted = [
        name
        for name in _COLUMNS
        if name in _ALWAYS or any(getattr(counts, name) for counts in streams.values())
    ]
    if not {"updated", "deleted"} & set(wanted):
        wanted = [name for name in wanted if name != "inserted"]  # it says what written says
    head = ("stream", *(_COLUMNS[name][0] for name in wanted))
    rows = [
        (stream, *(_COLUMNS[name][1](getattr(counts, name)) for name in wanted))
        for stream, counts in streams.items()
    ]
    return _aligned([head, *rows])


def _zone_notes(counts: StreamCounts) -> list[str]:
    return [
        f"column {column}: {count:,} date-times without a zone were read as UTC"
        for column, count in counts.zoneless.items()
    ]


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as text: the first column to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
