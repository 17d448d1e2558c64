"""The function that a Spark task runs to sync partitions of a tap in a worker.

A partition that fails is retried, and its rows are discarded before each attempt. Rows are written
as JSON lines by `target_spark.extract.spool_output`. Error messages contain no secrets of the
settings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tap_core.events import Rows, SchemaEvent
from tap_core.protocols.singer.writer import encode_body
from tap_core.state.encoder import encode_value
from tap_core.state.reader import parse_json
from tap_core.sync.work_units import WorkResult
from target_spark.extract.forked_process import run_in_fork
from target_spark.extract.retry import RetriesExhaustedError, with_retries
from target_spark.extract.spool_output import SpoolOutput
from target_spark.extract.tap_factory import describe_error, drop_cached_tap, get_tap
from target_spark.storage.row_ordinals import first_in_part
from target_spark.storage.spool import encode_lines, may_contain_deletes

if TYPE_CHECKING:
    from tap_core.events import Event
    from tap_core.sync.output import ProtocolWriter
    from tap_core.sync.work_units import WorkUnit
    from target_spark.extract.tap_factory import TapSpec

__all__ = ["RESULT_STREAM", "PartResult", "SparkTask", "sync_part"]

RESULT_STREAM: Final = -1
"""Stream number of an output row that contains a `PartResult` instead of rows of a stream."""


@dataclass(frozen=True, slots=True)
class PartResult:
    """Result of syncing one partition, which a worker sends to the driver as JSON.

    Attributes:
        result: The partition's row counts and bookmarks, or the text of its error.
        file: The name of the file that the task wrote in the folder of each stream.
        nbytes: The size of the rows in bytes, by stream.
        deletes: The streams that may have delete records.
        schemas: The schemas that the tap emitted in the worker, if they differ from the schemas
            known to the driver.
    """

    result: WorkResult
    file: str
    nbytes: Mapping[str, int]
    deletes: Sequence[str]
    schemas: Sequence[Mapping[str, Any]]

    def to_json(self) -> bytes:
        """Return this result as one line of JSON, without the newline, for `read` on the driver.

        Values are encoded as in a Singer state, so that the driver can identify the partition.
        """
        return encode_value(asdict(self))

    @classmethod
    def read(cls, line: str) -> PartResult:
        """Return the result that `to_json` encoded as the JSON text ``line`` in a worker."""
        document = parse_json(line.encode())
        return cls(**{**document, "result": WorkResult(**document["result"])})


@dataclass(frozen=True, slots=True, repr=False)
class SparkTask:
    """Callable that Spark runs in a worker (with ``mapInArrow``) to sync partitions of a tap.

    Attributes:
        source: The class, settings and catalog of the tap.
        parts: The partitions of the Spark job.
        streams: The schemas of the output streams by name. The number of a stream is its index.
        first: The number of the job's first partition among all partitions of the run.
        folder: A shared folder to write rows to; None to return the rows as record batches.
        tries: The number of attempts to read a partition.
    """

    source: TapSpec
    parts: Sequence[WorkUnit]
    streams: Mapping[str, SchemaEvent]
    first: int
    folder: str | None = None
    tries: int = 3

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Sync the partitions whose indexes are in the input, and yield their rows and results.

        Each output batch has one row with a stream number and bytes. For each partition, its rows
        as JSON lines come first, unless they are written to a folder. Its result follows, with
        `RESULT_STREAM` as stream number.

        Args:
            batches: Arrow record batches whose first column has indexes of ``parts``.
        """
        with closing(SpoolOutput(self.folder)) as spool:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    result = self._read_partition(self.parts[number], spool)
                    for stream, block in spool.take_blocks():
                        yield _build_record_batch(stream, block)
                    yield _build_record_batch(RESULT_STREAM, result.to_json() + b"\n")

    def _read_partition(self, part: WorkUnit, spool: SpoolOutput) -> PartResult:
        """Sync a partition with retries, and return its result or its last error.

        The rows of failed attempts are discarded.
        """
        try:
            return with_retries(
                lambda: self._sync_once(part, spool),
                self.tries,
                f"{part.stream} {part.context}",
                partial(describe_error, self.source),
            )
        except RetriesExhaustedError as error:
            spool.drop()
            return PartResult(WorkResult(part.number, error=str(error)), spool.name, {}, (), ())

    def _sync_once(self, part: WorkUnit, spool: SpoolOutput) -> PartResult:
        spool.drop()
        sink = _PartitionOutput(spool, self.streams, first_in_part(self.first + part.number))
        result = WorkResult(
            part.number, self._sync_possibly_forked(part, sink, spool), dict(sink.counts)
        )
        spool.keep()
        schemas = [asdict(schema) for schema in sink.schemas]
        return PartResult(result, spool.name, dict(sink.nbytes), sorted(sink.deletes), schemas)

    def _sync_possibly_forked(
        self, part: WorkUnit, sink: _PartitionOutput, spool: SpoolOutput
    ) -> Mapping[str, Any]:
        """Sync a partition and return its bookmarks by stream.

        If Spark repeats this task, the tap may have crashed the worker process. The partition is
        then synced in a forked child process, whose crash raises an exception here.
        """
        if not _is_task_retry():
            return sync_part(self.source, part, sink)
        spool.share(len(self.streams))

        def sync_in_child() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
            drop_cached_tap()  # the child must not use connections of its parent
            bookmarks = sync_part(self.source, part, sink)
            spool.flush()
            return bookmarks, {name: getattr(sink, name) for name in _STATISTICS}

        bookmarks, statistics = run_in_fork(sync_in_child)
        vars(sink).update(statistics)
        return bookmarks


def _is_task_retry() -> bool:
    """Return True if Spark runs this task again after a failure, such as a crash of its process."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def sync_part(source: TapSpec, part: WorkUnit, writer: ProtocolWriter) -> Mapping[str, Any]:
    """Sync a partition of a tap in this process, and pass its rows to ``writer``.

    Return the bookmarks by stream, as in the object ``bookmarks`` of a Singer state.
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
        drop_cached_tap()  # its buffers may contain rows of this partition
        raise


class _EventForwarder:
    """Output of a worker's cached tap, which passes the tap's events to ``listener``.

    ``listener`` is the `emit` method for the partition that is being read, or None. The tap keeps
    the same output for all partitions, so only ``listener`` changes.
    """

    def __init__(self) -> None:
        self.encode: Callable[[Any], bytes] = encode_body
        self.listener: Callable[[Event], None] | None = None

    def emit(self, event: Event) -> None:
        if self.listener is not None:
            self.listener(event)


_STATISTICS: Final = ("counts", "nbytes", "deletes", "schemas")
"""Attributes of `_PartitionOutput` that a forked child process sends to its parent."""


class _PartitionOutput:
    """Output of a tap in a worker for one partition: writes rows as JSON lines and counts them."""

    encode = staticmethod(encode_body)

    def __init__(self, spool: SpoolOutput, streams: Mapping[str, SchemaEvent], first: int) -> None:
        self.counts: Counter[str] = Counter()
        self.nbytes: Counter[str] = Counter()
        self.deletes: set[str] = set()
        self.schemas: list[SchemaEvent] = []
        self._spool = spool
        self._known_schemas = streams
        self._numbers = {name: number for number, name in enumerate(streams)}
        self._next = first

    def emit(self, event: Event) -> None:
        if isinstance(event, Rows):
            self._write_rows(event)
        elif isinstance(event, SchemaEvent) and self._known_schemas.get(str(event.stream)) != event:
            self.schemas.append(event)

    def _write_rows(self, rows: Rows) -> None:
        name = str(rows.stream)
        number = self._numbers[name]
        for lines in encode_lines(rows, self._next):
            self._spool.write(number, lines)
            self.nbytes[name] += len(lines)
            if name not in self.deletes and may_contain_deletes(lines):
                self.deletes.add(name)
        self._next += len(rows.rows)
        self.counts[name] += len(rows.rows)


def _build_record_batch(stream: int, lines: bytes) -> Any:
    """Return an Arrow record batch with one row: ``stream``, the number of a stream, and ``value``.

    The value is ``lines``, one or more lines of JSON, as binary without the last newline.
    """
    import pyarrow as pa

    columns = [pa.array([stream], pa.int32()), pa.array([lines[:-1]], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["stream", "value"])
