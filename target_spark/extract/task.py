"""The Spark task that syncs partitions of a tap in a worker, and writes spool lines.

A partition is read completely before any of its rows count, so that it can be retried, and a
partition that fails finally adds no rows. Error messages contain no secrets of the settings.
`target_spark.extract.spool_output` stores the lines.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from tap_core.events import Rows, SchemaEvent
from tap_core.protocols.singer.writer import encode_body
from tap_core.sync.work_units import WorkResult
from target_spark.extract.forked_process import run_in_fork
from target_spark.extract.retry import RetriesExhaustedError, with_retries
from target_spark.extract.spool_output import SpoolOutput
from target_spark.extract.tap_factory import drop_cached_tap, get_redactor, get_tap
from target_spark.storage.row_ordinals import first_in_part
from target_spark.storage.spool import encode_lines, may_contain_deletes

if TYPE_CHECKING:
    from tap_core.events import Event
    from tap_core.sync.output import ProtocolWriter
    from tap_core.sync.work_units import WorkUnit
    from target_spark.extract.tap_factory import TapSpec

__all__ = ["RESULT_STREAM", "PartResult", "SparkTask", "sync_part"]

RESULT_STREAM: Final = -1
"""Number that marks results, in the place of a stream number."""


@dataclass(frozen=True, slots=True)
class PartResult:
    """Result of reading one partition, sent from the worker to the driver as JSON.

    Attributes:
        result: The row counts and bookmarks, or the error.
        file: The name of the file that the task wrote in the folder of each stream.
        nbytes: The size of the rows in bytes, by stream.
        deletes: The streams that may have delete records.
        described: The schemas that the tap emitted in the worker, if they differ from those that it
            emitted in the driver.
    """

    result: WorkResult
    file: str
    nbytes: Mapping[str, int]
    deletes: Sequence[str]
    described: Sequence[Mapping[str, Any]]

    def to_json(self) -> bytes:
        """Return the result as one line of JSON, without a newline."""
        return json.dumps(asdict(self), separators=(",", ":"), default=str).encode()

    @classmethod
    def read(cls, line: str) -> PartResult:
        """Parse the JSON that `to_json` returned."""
        document = json.loads(line)
        return cls(**{**document, "result": WorkResult(**document["result"])})


@dataclass(frozen=True, slots=True, repr=False)
class SparkTask:
    """Function that Spark calls in a worker to read partitions of a tap.

    Its input is record batches with the indexes of partitions in ``parts``.

    Attributes:
        source: The tap.
        parts: The partitions of the Spark job.
        streams: The output streams with their schemas; the number of a stream is its index here.
        first: The number that the job's first partition has among all partitions of the run.
        folder: A folder of the driver to write rows to; None to send the rows with the results.
        tries: The number of attempts to read a partition.
    """

    source: TapSpec
    parts: Sequence[WorkUnit]
    streams: Mapping[str, SchemaEvent]
    first: int
    folder: str | None = None
    tries: int = 3

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Read the partitions with the given indexes, and yield record batches for the driver.

        Each record batch has a stream number and bytes. A partition's rows come first, unless they
        are written to a folder. The partition's result follows, with `RESULT_STREAM` as the stream
        number.
        """
        with closing(SpoolOutput(self.folder)) as lines:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    result = self._read_partition(self.parts[number], lines)
                    for stream, block in lines.take_blocks():
                        yield _build_record_batch(stream, block)
                    yield _build_record_batch(RESULT_STREAM, result.to_json() + b"\n")

    def _read_partition(self, part: WorkUnit, lines: SpoolOutput) -> PartResult:
        """Read a partition with retries. The rows of failed attempts are discarded."""

        def describe(error: BaseException) -> str:
            return get_redactor(self.source)(f"{type(error).__name__}: {error}")

        try:
            return with_retries(
                lambda: self._sync_once(part, lines),
                self.tries,
                f"{part.stream} {part.context}",
                describe,
            )
        except RetriesExhaustedError as error:
            lines.drop()
            return PartResult(WorkResult(part.number, error=str(error)), lines.name, {}, (), ())

    def _sync_once(self, part: WorkUnit, lines: SpoolOutput) -> PartResult:
        lines.drop()
        sink = _PartitionOutput(lines, self.streams, first_in_part(self.first + part.number))
        result = WorkResult(
            part.number, self._sync_possibly_forked(part, sink, lines), dict(sink.counts)
        )
        lines.keep()
        described = [asdict(each) for each in sink.described]
        return PartResult(result, lines.name, dict(sink.nbytes), sorted(sink.deletes), described)

    def _sync_possibly_forked(
        self, part: WorkUnit, sink: _PartitionOutput, lines: SpoolOutput
    ) -> Mapping[str, Any]:
        """Sync a partition in this process, or in a child process if Spark has repeated this task.

        Spark may have repeated the task because the tap crashed the process. In a child process
        such a crash is only an error.

        Returns:
            The partition's bookmarks.
        """
        if not _is_task_retry():
            return sync_part(self.source, part, sink)
        lines.share(len(self.streams))

        def read() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
            drop_cached_tap()  # the child must not use connections of its parent
            bookmarks = sync_part(self.source, part, sink)
            lines.flush()
            return bookmarks, sink.statistics()

        bookmarks, statistics = run_in_fork(read)
        sink.restore_statistics(statistics)
        return bookmarks


def _is_task_retry() -> bool:
    """Return True if Spark has repeated this task, for example because its process died."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def sync_part(source: TapSpec, part: WorkUnit, writer: ProtocolWriter) -> Mapping[str, Any]:
    """Sync a partition in this process, write its rows to ``writer``, and return its bookmarks.

    The bookmarks are by stream, as under ``bookmarks`` in a Singer state. If the tap fails, it is
    not used again: it may still hold rows that would be counted for the next partition.
    """
    tap = get_tap(source)
    forwarder = tap.protocol_writer
    if not isinstance(forwarder, _EventForwarder):
        forwarder = _EventForwarder()
        tap.set_protocol_writer(forwarder)
    forwarder.listener = writer.emit
    try:
        return tap.sync_part(part)
    except BaseException:
        forwarder.listener = None
        drop_cached_tap()
        raise


class _EventForwarder:
    """Output of a worker's tap that forwards each event to the output of the current partition."""

    def __init__(self) -> None:
        self.encode: Callable[[Any], bytes] = encode_body
        self.listener: Callable[[Event], None] | None = None

    def emit(self, event: Event) -> None:
        if self.listener is not None:
            self.listener(event)


_STATISTICS: Final = ("counts", "nbytes", "deletes", "described")


class _PartitionOutput:
    """Output of one partition, which writes rows to files as lines of JSON and counts them."""

    encode = staticmethod(encode_body)

    def __init__(self, lines: SpoolOutput, streams: Mapping[str, SchemaEvent], first: int) -> None:
        self.counts: Counter[str] = Counter()
        self.nbytes: Counter[str] = Counter()
        self.deletes: set[str] = set()
        self.described: list[SchemaEvent] = []
        self._lines = lines
        self._schemas = streams
        self._numbers = {name: number for number, name in enumerate(streams)}
        self._next = first

    def emit(self, event: Event) -> None:
        if isinstance(event, Rows):
            self._take(event)
        elif isinstance(event, SchemaEvent) and self._schemas.get(str(event.stream)) != event:
            self.described.append(event)

    def _take(self, rows: Rows) -> None:
        name = str(rows.stream)
        number = self._numbers[name]
        for lines in encode_lines(rows, self._next):
            self._lines.write(number, lines)
            self.nbytes[name] += len(lines)
            if name not in self.deletes and may_contain_deletes(lines):
                self.deletes.add(name)
        self._next += len(rows.rows)
        self.counts[name] += len(rows.rows)

    def statistics(self) -> dict[str, Any]:
        """Return the row counts and schemas collected so far, by attribute name."""
        return {name: getattr(self, name) for name in _STATISTICS}

    def restore_statistics(self, statistics: Mapping[str, Any]) -> None:
        """Take over the row counts and schemas that a child process collected.

        The child process has written its rows to the same files.
        """
        for name, value in statistics.items():
            setattr(self, name, value)


def _build_record_batch(stream: int, lines: bytes) -> Any:
    """Return a record batch with one row: a stream number and lines of text.

    The newline after the last line is removed.
    """
    import pyarrow as pa

    columns = [pa.array([stream], pa.int32()), pa.array([lines[:-1]], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["stream", "value"])
