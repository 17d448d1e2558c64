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
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = ["COMPLETE", "STOPPED", "Report", "StreamCounts"]

COMPLETE: Final = "complete"
STOPPED: Final = "stopped by a signal"


@dataclass
class StreamCounts:
    """One stream's figures: rows, bytes that were spooled, commits, seconds of writing."""

    table: str = ""
    received: int = 0
    written: int = 0
    quarantined: int = 0
    bytes: int = 0
    commits: int = 0
    seconds: float = 0.0
    zoneless: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class Report:
    """The figures of one run. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[str, StreamCounts] = {}
        self._started = time.monotonic()
        self._states = 0
        self._outcome = "running"

    def described(self, stream: str, table: str) -> None:
        """Note which table a stream goes to."""
        with self._lock:
            self._of(stream).table = table

    def received(self, stream: str, rows: int, nbytes: int) -> None:
        """Count rows that came in."""
        with self._lock:
            counts = self._of(stream)
            counts.received += rows
            counts.bytes += nbytes

    def committed(self, stream: str, written: int, quarantined: int, seconds: float) -> None:
        """Count a batch that is in the table, and how long its writing took."""
        with self._lock:
            counts = self._of(stream)
            counts.written += written
            counts.quarantined += quarantined
            counts.commits += 1
            counts.seconds += seconds

    def zoneless(self, stream: str, columns: Mapping[str, int]) -> None:
        """Count, by column, date-times that came without a zone."""
        with self._lock:
            known = self._of(stream).zoneless
            for column, count in columns.items():
                known[column] = known.get(column, 0) + count

    def released(self) -> None:
        """Count a state that left."""
        with self._lock:
            self._states += 1

    def note(self, stream: str, text: str) -> bool:
        """Keep a remark on a stream; False if it was made before."""
        with self._lock:
            notes = self._of(stream).notes
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
            return {
                "outcome": self._outcome,
                "complete": self._outcome == COMPLETE,
                "seconds": round(time.monotonic() - self._started, 3),
                "states": self._states,
                "streams": {
                    name: {**asdict(counts), "seconds": round(counts.seconds, 3)}
                    for name, counts in self._streams.items()
                },
            }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figures to a file, as JSON, whole or not at all."""
        final = Path(path)
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = final.with_name(f".{final.name}.{os.getpid()}")
        partial.write_text(json.dumps(self.as_dict(), indent=2) + "\n", encoding="utf-8")
        partial.replace(final)

    def progress(self) -> str:
        """Return one line: how far each stream is."""
        parts = [
            f"{name}: {counts.received:,} received, {counts.written:,} written"
            + (f", {counts.quarantined:,} quarantined" if counts.quarantined else "")
            for name, counts in self._snapshot().items()
        ]
        return "; ".join(parts) or "nothing received yet"

    def lines(self) -> list[str]:
        """Return the table for the end of the run, one text per line."""
        head = ("stream", "received", "written", "quarantined", "MB", "commits", "seconds")
        rows = [
            (
                name,
                f"{counts.received:,}",
                f"{counts.written:,}",
                f"{counts.quarantined:,}",
                f"{counts.bytes / 1e6:,.1f}",
                f"{counts.commits:,}",
                f"{counts.seconds:.1f}",
            )
            for name, counts in self._snapshot().items()
        ]
        notes = [
            f"{name}: {note}"
            for name, counts in self._snapshot().items()
            for note in (*counts.notes, *_zone_notes(counts))
        ]
        return [*_aligned([head, *rows]), *notes]

    def _snapshot(self) -> dict[str, StreamCounts]:
        with self._lock:
            return {name: StreamCounts(**asdict(counts)) for name, counts in self._streams.items()}

    def _of(self, stream: str) -> StreamCounts:
        return self._streams.setdefault(stream, StreamCounts())


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
