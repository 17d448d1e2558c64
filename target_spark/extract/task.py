"""One part of a tap's sync in one of Spark's workers, from its context to lines of the spool.

Rules of the room: this runs in a worker. A part is read whole before any of its rows count; so it
can be tried again, and what of it fails for good leaves nothing behind. What is told of a failure
has no secret of the settings. The rows become lines as they stand in a spool, where `lines` has
them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from tap_core.events import Describe, Rows
from tap_core.protocols.singer.encode import encode_body
from tap_core.sync.parts import Result
from target_spark.extract.apart import apart
from target_spark.extract.lines import Lines
from target_spark.extract.source import forget, hidden, made
from target_spark.extract.tries import FailedError, tried
from target_spark.ordinals import first_in_part
from target_spark.spool import lines_of, may_delete

if TYPE_CHECKING:
    from tap_core.events import Event
    from tap_core.sync.outbox import Outlet
    from tap_core.sync.parts import Part
    from target_spark.extract.source import Source

__all__ = ["RESULTS", "Told", "Work", "synced"]

RESULTS: Final = -1
"""The number under which results leave, where streams have theirs."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a worker tells of a part: its `Result`, and what became of its rows.

    ``file`` is what the files of its task are called, ``nbytes`` are of the lines of each stream,
    ``deletes`` the streams that may have delete records, ``described`` the descriptions that
    differ from those that were handed over.
    """

    result: Result
    file: str
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
    its description; ``first`` is what the first part is numbered within the run. Rows stay in
    ``folder``, if there is one that whoever commits has as well.
    """

    source: Source
    parts: Sequence[Part]
    streams: Mapping[str, Describe]
    first: int
    folder: str | None = None
    tries: int = 3

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield what is told of each part as `RESULTS`, after its lines, if these must leave."""
        with closing(Lines(self.folder)) as lines:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    told = self._read(self.parts[number], lines)
                    for stream, block in lines.leaving():
                        yield _batch(stream, block)
                    yield _batch(RESULTS, told.line() + b"\n")

    def _read(self, part: Part, lines: Lines) -> Told:
        """Read a part, as often as it may be tried; keep the lines of the last try."""

        def told(error: BaseException) -> str:
            return hidden(self.source)(f"{type(error).__name__}: {error}")

        try:
            return tried(
                lambda: self._once(part, lines), self.tries, f"{part.stream} {part.context}", told
            )
        except FailedError as error:
            lines.drop()
            return Told(Result(part.number, error=str(error)), lines.name, {}, (), ())

    def _once(self, part: Part, lines: Lines) -> Told:
        lines.drop()
        sink = _Sink(lines, self.streams, first_in_part(self.first + part.number))
        result = Result(part.number, self._synced(part, sink, lines), dict(sink.counts))
        lines.keep()
        described = [asdict(each) for each in sink.described]
        return Told(result, lines.name, dict(sink.nbytes), sorted(sink.deletes), described)

    def _synced(self, part: Part, sink: _Sink, lines: Lines) -> Mapping[str, Any]:
        """Sync a part here; where a process died of this task, in one of its own each."""
        if not _is_tried_again():
            return synced(self.source, part, sink)
        lines.share(len(self.streams))

        def read() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
            forget()  # connections of the parent are the parent's
            bookmarks = synced(self.source, part, sink)
            lines.flush()
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


_OF_A_SINK: Final = ("counts", "nbytes", "deletes", "described")


class _Sink:
    """Takes the events of one part: its rows become lines."""

    encode = staticmethod(encode_body)

    def __init__(self, lines: Lines, streams: Mapping[str, Describe], first: int) -> None:
        self.counts: Counter[str] = Counter()
        self.nbytes: Counter[str] = Counter()
        self.deletes: set[str] = set()
        self.described: list[Describe] = []
        self._lines = lines
        self._known = streams
        self._numbers = {name: number for number, name in enumerate(streams)}
        self._next = first

    def emit(self, event: Event) -> None:
        if isinstance(event, Rows):
            self._take(event)
        elif isinstance(event, Describe) and self._known.get(str(event.stream)) != event:
            self.described.append(event)

    def _take(self, rows: Rows) -> None:
        name = str(rows.stream)
        number = self._numbers[name]
        for lines in lines_of(rows, self._next):
            self._lines.write(number, lines)
            self.nbytes[name] += len(lines)
            if name not in self.deletes and may_delete(lines):
                self.deletes.add(name)
        self._next += len(rows.rows)
        self.counts[name] += len(rows.rows)

    def taken(self) -> dict[str, Any]:
        """Return what it knows of what it took."""
        return {name: getattr(self, name) for name in _OF_A_SINK}

    def take_over(self, taken: Mapping[str, Any]) -> None:
        """Know what another one knew, which wrote to the same files."""
        for name, value in taken.items():
            setattr(self, name, value)


def _batch(stream: int, lines: bytes) -> Any:
    """Return one row of Arrow's: the number of a stream, and lines without the last end."""
    import pyarrow as pa

    columns = [pa.array([stream], pa.int32()), pa.array([lines[:-1]], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["stream", "value"])
