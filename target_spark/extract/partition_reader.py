"""Division of a tap's stream into Spark partitions, and conversion of its records to Arrow.

The driver lists the contexts of the stream, as in singer_sdk: one for each partition or parent
record. For a child stream, it reads the parent records for this purpose. A worker writes all
records of a context to a temporary file before it yields them, so that a retry yields no
duplicates. Error messages name the context and contain no secrets of the settings.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

import pyarrow as pa

from tap_core.events import BatchFiles, Rows
from tap_core.protocols.singer.writer import encode_body
from tap_core.sync.concurrency import explain_not_distributed
from tap_core.sync.work_units import WorkResult, WorkResults
from target_spark.errors import FrameError
from target_spark.extract.rate_limit_server import StaticShare, use_job_rate_limit
from target_spark.extract.reader_options import select_single_stream
from target_spark.extract.retry import RetriesExhaustedError, with_retries
from target_spark.extract.tap_factory import get_tap
from target_spark.extract.task import sync_part
from target_spark.frames.arrow_conversion import ArrowConverter, ConversionError

if TYPE_CHECKING:
    from tap_core.events import Event
    from tap_core.sync.work_units import WorkUnit
    from target_spark.extract.reader_options import ReadOptions

__all__ = ["PartitionGroup", "plan_groups", "read_batches"]

_IN_MEMORY: Final = 8 << 20
"""Maximum bytes of the records of a context in memory; more are written to a temporary file."""

_ROWS, _BYTES = 10_000, 4 << 20
"""Approximate maximum rows and bytes of a record batch."""

_ALL_AT_ONCE: Final = 1 << 31
"""Number of contexts above that of any stream, so that one call of `sync` passes all of them."""


@dataclass(frozen=True, slots=True)
class PartitionGroup:
    """Group of contexts of a stream, which one Spark task reads one after the other.

    A context identifies a partition of a stream, as in singer_sdk, for example one parent record.

    Attributes:
        number: The index of the group, from 0.
        of: The number of groups of the stream.
        parts: The contexts; a single None if the stream cannot be divided and is read as a whole.
    """

    number: int
    of: int
    parts: Sequence[WorkUnit | None]


# ------------------------------------------------------------------------------ the driver


def plan_groups(request: ReadOptions) -> list[PartitionGroup]:
    """Divide the contexts of a stream into at most ``request.partitions`` groups.

    If ``request.partitions`` is None, each context is a separate group.

    Raises:
        FrameError: The tap cannot list the contexts.
    """
    parts = _list_parts(request)
    size = min(len(parts), request.partitions or len(parts)) or 1
    return [PartitionGroup(number, size, parts[number::size]) for number in range(size)]


def _list_parts(request: ReadOptions) -> list[WorkUnit | None]:
    try:
        return _collected(request)
    except Exception as error:  # noqa: BLE001  it is reported without secrets
        why = request.describe_error(error)
        raise FrameError(f"The contexts of stream {request.name} cannot be found: {why}") from None


def _collected(request: ReadOptions) -> list[WorkUnit | None]:
    tap = request.tap()
    stream = tap.streams[request.stream]
    if explain_not_distributed(stream) is not None:
        return [None]
    collected = _ContextCollector()
    tap.set_protocol_writer(collected)
    vars(stream)["get_records"] = collected.read_here
    tap.sync_all()
    return [None] if collected.is_read_here else list(collected.parts)


class _ContextCollector:
    """Output of a tap on the driver, which collects the contexts of a stream without its records.

    The tap also uses the object as its distributor (`tap_core.sync.work_units.WorkDistributor`): it
    passes contexts to `sync` instead of reading them.
    """

    most = _ALL_AT_ONCE
    encode = staticmethod(encode_body)

    def __init__(self) -> None:
        self.parts: list[WorkUnit] = []
        self.is_read_here = False

    @property
    def distributor(self) -> _ContextCollector:
        return self

    def emit(self, event: Event) -> None:
        """Ignore the messages of the tap, such as records of a parent stream."""

    def refuses(self, _stream: Any) -> str | None:
        return None

    def sync(self, parts: Sequence[WorkUnit], *, in_order: bool) -> WorkResults:  # noqa: ARG002
        self.parts += parts
        return WorkResults((), [WorkResult(part.number) for part in parts])

    def read_here(self, _context: Any) -> tuple[()]:
        """Return no records and set `is_read_here`; replaces the stream's `get_records`.

        The tap calls `get_records` only if it has not passed the contexts to `sync`, because the
        stream cannot be divided.
        """
        self.is_read_here = True
        return ()


# ------------------------------------------------------------------------------- a worker


def read_batches(request: ReadOptions, group: PartitionGroup) -> Iterator[pa.RecordBatch]:
    """Read the contexts of a group, and yield their records as Arrow record batches.

    Args:
        request: The options of the DataFrame reader.
        group: The contexts to read.

    Raises:
        FrameError: All attempts to read a context failed, or a value cannot be converted to its
            column's type.
    """
    converter = ArrowConverter(request.table_schema, nulls=request.nulls)
    for part in group.parts:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            if _read_context(
                request, group, part, _RecordBatchOutput(request.name, converter, file)
            ):
                file.seek(0)
                with closing(pa.ipc.open_stream(file)) as reader:
                    yield from reader


def _read_context(
    request: ReadOptions, group: PartitionGroup, part: WorkUnit | None, sink: _RecordBatchOutput
) -> bool:
    """Read one context of a stream with retries. Return True if it has records.

    Args:
        request: The options of the DataFrame reader.
        group: The group of the context.
        part: The context; None for the whole stream.
        sink: The output to which the records are written.

    Raises:
        FrameError: All attempts failed.
    """

    def once() -> bool:
        sink.begin()
        _sync(request, group, part, sink)
        return sink.end()

    def describe(error: BaseException) -> str:
        return _describe_error(request, error)

    where = _describe_part(request, part)
    try:
        return with_retries(once, request.tries, where, describe, (ConversionError,))
    except RetriesExhaustedError as error:
        raise FrameError(f"{where}: {error}") from None


def _sync(
    request: ReadOptions, group: PartitionGroup, part: WorkUnit | None, sink: _RecordBatchOutput
) -> None:
    if part is None:
        tap = request.tap()
        tap.set_protocol_writer(sink)
        tap.sync_all()
    else:
        tap = select_single_stream(get_tap(request.source), request.stream)
        if group.of > 1:
            use_job_rate_limit(tap, StaticShare(group.number, group.of))
        sync_part(request.source, part, sink)
    sink.flush()


def _describe_error(request: ReadOptions, error: BaseException) -> str:
    if not isinstance(error, ConversionError):
        return request.describe_error(error)
    hint = "With the option misfits=null the value becomes null"
    return f"record {error.row + 1} does not fit: {error}. {hint}."


def _describe_part(request: ReadOptions, part: WorkUnit | None) -> str:
    if part is None or not part.context:
        where = "read as a whole" if part is None else "without a context"
    else:
        where = f"in the context {dict(part.context)}"
    window = "" if part is None or part.interval is None else part.interval.window.start_time
    return f"Stream {request.name}, {where}{f', from {window} on' if window else ''}"


class _RecordBatchOutput:
    """Tap output that writes the records of one stream to a file as Arrow record batches."""

    encode = staticmethod(encode_body)

    def __init__(self, name: str, conversion: ArrowConverter, file: IO[bytes]) -> None:
        self._name = name
        self._conversion = conversion
        self._file = file
        self.begin()

    def begin(self) -> None:
        """Discard the records that an earlier attempt has written, and start with an empty file."""
        self._file.seek(0)
        self._file.truncate()
        self._writer: Any = None
        self._bodies: list[bytes] = []
        self._waiting = 0
        self._done = 0

    def emit(self, event: Event) -> None:
        if isinstance(event, BatchFiles):
            raise FrameError("its rows are in files (batch_config): load it with target-spark run")
        if not isinstance(event, Rows) or str(event.stream) != self._name:
            return
        self._bodies += event.rows
        self._waiting += sum(map(len, event.rows))
        if len(self._bodies) >= _ROWS or self._waiting >= _BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._bodies:
            return
        try:
            batch = self._conversion.batch(self._bodies)
        except ConversionError as error:
            error.row += self._done
            raise
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._file, self._conversion.schema)
        self._writer.write_batch(batch)
        self._done += len(self._bodies)
        self._bodies, self._waiting = [], 0

    def end(self) -> bool:
        """Complete the Arrow stream in the file. Return True if it has records, else False."""
        if self._writer is None:
            return False
        self._writer.close()
        return True
