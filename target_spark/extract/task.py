"""One part of a tap's sync in one of Spark's workers, from its context to lines of the spool.

Rules of the room: this runs in a worker. A part is read whole before any of its rows leave, into
a file of this process that nobody else can open; so it can be tried again, and what of it fails
for good leaves nothing behind. What is told of a failure has no secret of the settings. The rows
that leave are blocks of whole lines, as they stand in a spool.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from typing import IO, TYPE_CHECKING, Any, Final

from tap_core.events import Describe, Rows
from tap_core.protocols.singer.encode import encode_body
from tap_core.sync.parts import Result
from target_spark.extract.apart import apart
from target_spark.extract.source import forget, hidden, made
from target_spark.extract.tries import FailedError, tried
from target_spark.spool import lines_of, may_delete

if TYPE_CHECKING:
    from tap_core.events import Event
    from tap_core.sync.outbox import Outlet
    from tap_core.sync.parts import Part
    from target_spark.extract.source import Source

__all__ = ["RESULTS", "SPAN", "Told", "Work", "synced"]

RESULTS: Final = -1
"""The number under which results leave, where streams have theirs."""

SPAN: Final = 1 << 32
"""Ordinals that each part has of its own: no part has so many rows."""

_IN_MEMORY: Final = 8 << 20
"""Bytes of a part that are kept without a file."""

_BLOCK: Final = 1 << 18
"""Bytes of lines that leave together, about: Java's collector treats an object apart that is larger
than half of one of its regions, which in a small heap are of a mebibyte."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a worker tells of a part: its `Result`, and what became of its rows.

    ``nbytes`` are of the lines of each stream, ``deletes`` the streams that may have delete
    records, ``described`` the descriptions that differ from those that were handed over.
    """

    result: Result
    nbytes: Mapping[str, int]
    deletes: Sequence[str]
    described: Sequence[Mapping[str, Any]]

    def line(self) -> bytes:
        """Return it as JSON on one line."""
        return json.dumps(asdict(self), separators=(",", ":"), default=str).encode()

    @classmethod
    def read(cls, line: str) -> Told:
        """Read what `line` has written."""
        found = json.loads(line)
        return cls(**{**found, "result": Result(**found["result"])})


@dataclass(frozen=True, slots=True, repr=False)
class Work:
    """What all parts of one job share, and the parts; called with the batches of their numbers.

    ``streams`` are the names under which rows go out, in the order of their numbers, each with
    its description; ``first`` is the first of the ordinals that were kept for all rows.
    """

    source: Source
    parts: Sequence[Part]
    streams: Mapping[str, Describe]
    first: int
    tries: int = 3

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield blocks of lines, with the number of their stream; results as `RESULTS`."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._lines(self.parts[number])

    def _lines(self, part: Part) -> Iterator[Any]:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            sink, told = self._read(part, file)
            file.seek(0)
            for stream, nbytes in sink.blocks():
                yield _batch(stream, file.read(nbytes))
        yield _batch(RESULTS, told.line() + b"\n")

    def _read(self, part: Part, file: IO[bytes]) -> tuple[_Sink, Told]:
        """Read a part, as often as it may be tried; return what the last try brought."""

        def told(error: BaseException) -> str:
            return hidden(self.source)(f"{type(error).__name__}: {error}")

        try:
            return tried(
                lambda: self._once(part, file), self.tries, f"{part.stream} {part.context}", told
            )
        except FailedError as error:
            failed = Result(part.number, error=str(error))
            return _Sink(file, self.streams, 0), Told(failed, {}, (), ())

    def _once(self, part: Part, file: IO[bytes]) -> tuple[_Sink, Told]:
        file.seek(0)
        file.truncate()
        sink = _Sink(file, self.streams, self.first + part.number * SPAN)
        result = Result(part.number, self._synced(part, sink, file), dict(sink.counts))
        described = [asdict(each) for each in sink.described]
        return sink, Told(result, dict(sink.nbytes), sorted(sink.deletes), described)

    def _synced(self, part: Part, sink: _Sink, file: Any) -> Mapping[str, Any]:
        """Sync a part here; where a process died of this task, in one of its own each."""
        if not _is_tried_again():
            return synced(self.source, part, sink)
        file.rollover()  # what a child writes to memory stays there

        def read() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
            forget()  # connections of the parent are the parent's
            bookmarks = synced(self.source, part, sink)
            file.flush()
            return bookmarks, sink.taken()

        bookmarks, taken = apart(read)
        sink.take_over(taken)
        return bookmarks


def _is_tried_again() -> bool:
    """Tell whether this task was begun before: whatever it was, its process may be gone."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def synced(source: Source, part: Part, outlet: Outlet) -> Mapping[str, Any]:
    """Sync a part in this process, its events to ``outlet``; return the states after it.

    The states are by stream, as under ``bookmarks`` in a state document. A tap that has failed
    is not used again: rows may stand in its open chunk, which are of no other part.
    """
    tap = made(source)
    voice = tap.outlet
    if not isinstance(voice, _Voice):
        voice = _Voice()
        tap.speak_by(voice)
    voice.listener = outlet.emit
    try:
        return tap.sync_part(part)
    except BaseException:
        voice.listener = None
        forget()
        raise


class _Voice:
    """The one outlet of a worker's tap, which hands on to whoever listens now."""

    def __init__(self) -> None:
        self.encode: Callable[[Any], bytes] = encode_body
        self.listener: Callable[[Event], None] | None = None

    def emit(self, event: Event) -> None:
        if self.listener is not None:
            self.listener(event)


_OF_A_SINK: Final = ("counts", "nbytes", "deletes", "described", "_index")


class _Sink:
    """Takes the events of one part: rows become lines of a file."""

    def __init__(self, file: IO[bytes], streams: Mapping[str, Describe], first: int) -> None:
        self.counts: Counter[str] = Counter()
        self.nbytes: Counter[str] = Counter()
        self.deletes: set[str] = set()
        self.described: list[Describe] = []
        self._file = file
        self._known = streams
        self._numbers = {name: number for number, name in enumerate(streams)}
        self._next = first
        self._index: list[tuple[int, int]] = []

    def encode(self, record: Any) -> bytes:
        return encode_body(record)

    def emit(self, event: Event) -> None:
        if isinstance(event, Rows):
            self._take(event)
        elif isinstance(event, Describe) and self._known.get(str(event.stream)) != event:
            self.described.append(event)

    def _take(self, rows: Rows) -> None:
        name = str(rows.stream)
        lines = b"".join(lines_of(rows, self._next))
        self._next += len(rows.rows)
        self._file.write(lines)
        self._index.append((self._numbers[name], len(lines)))
        self.counts[name] += len(rows.rows)
        self.nbytes[name] += len(lines)
        if name not in self.deletes and may_delete(lines):
            self.deletes.add(name)

    def taken(self) -> dict[str, Any]:
        """Return what it knows of what it took."""
        return {name: getattr(self, name) for name in _OF_A_SINK}

    def take_over(self, taken: Mapping[str, Any]) -> None:
        """Know what another one knew, which wrote to the same file."""
        for name, value in taken.items():
            setattr(self, name, value)

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield the streams and sizes of the blocks that stand one after the other in the file."""
        for stream, chunks in groupby(self._index, itemgetter(0)):
            size = 0
            for _, nbytes in chunks:
                size += nbytes
                if size >= _BLOCK:
                    yield stream, size
                    size = 0
            if size:
                yield stream, size


def _batch(stream: int, lines: bytes) -> Any:
    """Return one row of Arrow's: the number of a stream, and lines without the last end."""
    import pyarrow as pa

    columns = [pa.array([stream], pa.int32()), pa.array([lines[:-1]], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["stream", "value"])
