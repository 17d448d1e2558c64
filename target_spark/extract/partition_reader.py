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
from tap_core.http.rate_limit import use_shared_counters
from tap_core.protocols.singer.writer import encode_body
from tap_core.sync.concurrency import explain_not_distributed
from tap_core.sync.work_units import WorkResult, WorkResults
from target_spark.errors import FrameError
from target_spark.extract.rate_limit_server import StaticShare
from target_spark.extract.reader_options import select_single_stream
from target_spark.extract.retry import RetriesExhaustedError, with_retries
from target_spark.extract.sync_task import sync_part
from target_spark.extract.tap_factory import get_tap
from target_spark.frames.arrow_conversion import ArrowConverter, ConversionError

if TYPE_CHECKING:
    from tap_core.events import Event
    from tap_core.sync.work_units import WorkUnit
    from target_spark.extract.reader_options import ReadOptions

__all__ = ["PartitionGroup", "plan_groups", "read_batches"]

_IN_MEMORY: Final = 8 << 20
"""Maximum bytes of a context's records in memory. Larger data are written to a temporary file."""

_ROWS, _BYTES = 10_000, 4 << 20
"""Approximate maximum number of rows, and of bytes, in a record batch."""

_ALL_AT_ONCE: Final = 1 << 31
"""Number above that of any stream's contexts, so that all are passed to one call of `sync`."""


@dataclass(frozen=True, slots=True)
class PartitionGroup:
    """Group of contexts of a stream, which one Spark task reads one after the other.

    A context identifies a partition of a stream, as in singer_sdk, for example one parent record.

    Attributes:
        number: The index of the group, from 0.
        group_count: The number of groups of the stream.
        parts: The contexts; a single None if the stream cannot be divided and is read as a whole.
    """

    number: int
    group_count: int
    parts: Sequence[WorkUnit | None]


# ------------------------------------------------------------------------------ the driver


def plan_groups(options: ReadOptions) -> list[PartitionGroup]:
    """Divide the contexts of a stream into at most ``options.partitions`` groups.

    A context identifies a partition of the stream, such as one parent record. If
    ``options.partitions`` is None, each context is a separate group.

    Raises:
        FrameError: The tap cannot list the contexts, or the name of a property is not supported.
    """
    _make_converter(options)  # before the tap reads anything
    parts = _list_parts(options)
    count = min(len(parts), options.partitions or len(parts)) or 1
    return [PartitionGroup(number, count, parts[number::count]) for number in range(count)]


def _make_converter(options: ReadOptions) -> ArrowConverter:
    """Return the converter of the records of a stream to Arrow record batches.

    Raises:
        FrameError: The name of a property is not supported.
    """
    try:
        return ArrowConverter(options.table_schema, nulls=options.nulls)
    except ValueError as error:  # msgspec matches no names with quotes or control characters
        invalid = str(error).rpartition(" - ")[2].removesuffix(" is invalid")
        raise FrameError(
            f"Stream {options.name} cannot be read as a DataFrame: the name of its property"
            f" {invalid} has a quotation mark, a backslash or a control character. Load it with"
            " target-spark run."
        ) from None


def _list_parts(options: ReadOptions) -> list[WorkUnit | None]:
    try:
        return _collect_parts(options)
    except Exception as error:  # noqa: BLE001  it is reported without secrets
        reason = options.describe_error(error)
        raise FrameError(
            f"The contexts of stream {options.name} cannot be found: {reason}"
        ) from None


def _collect_parts(options: ReadOptions) -> list[WorkUnit | None]:
    tap = options.tap()
    stream = tap.streams[options.stream]
    if explain_not_distributed(stream) is not None:
        return [None]
    collector = _ContextCollector()
    tap.set_protocol_writer(collector)
    vars(stream)["get_records"] = collector.read_here
    tap.sync_all()
    return [None] if collector.is_read_here else list(collector.parts)


class _ContextCollector:
    """Tap output that collects the contexts of a stream, whose records are not read.

    A context identifies a partition of the stream, such as one parent record. This object is also
    the tap's `tap_core.sync.work_units.WorkDistributor`. So the tap passes the contexts to `sync`
    instead of reading their records.
    """

    max_units = _ALL_AT_ONCE
    encode = staticmethod(encode_body)

    def __init__(self) -> None:
        self.parts: list[WorkUnit] = []
        self.is_read_here = False

    @property
    def distributor(self) -> _ContextCollector:
        return self

    def emit(self, event: Event) -> None:
        """Ignore an event of the tap, such as a record of a parent stream.

        This class only collects the contexts that the tap passes to its method `sync`.
        """

    def explain_refusal(self, _stream: Any) -> str | None:
        return None

    def sync(self, parts: Sequence[WorkUnit], *, in_order: bool) -> WorkResults:  # noqa: ARG002
        self.parts += parts
        return WorkResults((), [WorkResult(part.number) for part in parts])

    def read_here(self, _context: Any) -> tuple[()]:
        """Record that the stream cannot be divided into contexts (partitions); return no records.

        The tap calls this function in place of the stream's `get_records`.
        """
        self.is_read_here = True
        return ()


# ------------------------------------------------------------------------------- a worker


def read_batches(options: ReadOptions, group: PartitionGroup) -> Iterator[pa.RecordBatch]:
    """Read a group of partitions of a stream; yield their records as Arrow record batches.

    Args:
        options: The options of the DataFrame reader.
        group: The partitions to read.

    Raises:
        FrameError: All attempts to read a partition failed, or a value cannot be converted to its
            column's type.
    """
    converter = _make_converter(options)
    for part in group.parts:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            if _read_context(
                options, group, part, _RecordBatchOutput(options.name, converter, file)
            ):
                file.seek(0)
                with closing(pa.ipc.open_stream(file)) as reader:
                    yield from reader


def _read_context(
    options: ReadOptions, group: PartitionGroup, part: WorkUnit | None, sink: _RecordBatchOutput
) -> bool:
    """Read one context (partition) of a stream with retries. Return True if it has records.

    Without a ``part``, read the whole stream.

    Raises:
        FrameError: All attempts failed.
    """

    def sync_once() -> bool:
        sink.begin()
        _sync_context(options, group, part, sink)
        return sink.end()

    def describe(error: BaseException) -> str:
        return _describe_error(options, error)

    where = _describe_part(options, part)
    try:
        return with_retries(sync_once, options.tries, where, describe, (ConversionError,))
    except RetriesExhaustedError as error:
        raise FrameError(f"{where}: {error}") from None


def _sync_context(
    options: ReadOptions, group: PartitionGroup, part: WorkUnit | None, sink: _RecordBatchOutput
) -> None:
    if part is None:
        tap = options.tap()
        tap.set_protocol_writer(sink)
        tap.sync_all()
    else:
        tap = select_single_stream(get_tap(options.source), options.stream)
        if group.group_count > 1:
            use_shared_counters(tap, StaticShare(group.number, group.group_count))
        sync_part(options.source, part, sink)
    sink.flush()


def _describe_error(options: ReadOptions, error: BaseException) -> str:
    if not isinstance(error, ConversionError):
        return options.describe_error(error)
    hint = "With the option misfits=null the value becomes null"
    return f"record {error.row + 1} does not fit: {error}. {hint}."


def _describe_part(options: ReadOptions, part: WorkUnit | None) -> str:
    if part is None:
        return f"Stream {options.name}, read as a whole"
    where = f"in the context {dict(part.context)}" if part.context else "without a context"
    window = "" if part.interval is None else f", from {part.interval.window.start_time} on"
    return f"Stream {options.name}, {where}{window}"


class _RecordBatchOutput:
    """Tap output that writes the records of one stream to a file as Arrow record batches."""

    encode = staticmethod(encode_body)

    def __init__(self, name: str, converter: ArrowConverter, file: IO[bytes]) -> None:
        self._name = name
        self._converter = converter
        self._file = file
        self.begin()

    def begin(self) -> None:
        """Discard the records that an earlier attempt has written, and start with an empty file."""
        self._file.seek(0)
        self._file.truncate()
        self._writer: Any = None
        self._bodies: list[bytes] = []
        self._pending_bytes = 0
        self._rows_written = 0

    def emit(self, event: Event) -> None:
        if isinstance(event, BatchFiles):
            raise FrameError("its rows are in files (batch_config): load it with target-spark run")
        if not isinstance(event, Rows) or str(event.stream) != self._name:
            return
        self._bodies += event.rows
        self._pending_bytes += sum(map(len, event.rows))
        if len(self._bodies) >= _ROWS or self._pending_bytes >= _BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._bodies:
            return
        try:
            batch = self._converter.batch(self._bodies)
        except ConversionError as error:
            error.row += self._rows_written
            raise
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._file, self._converter.schema)
        self._writer.write_batch(batch)
        self._rows_written += len(self._bodies)
        self._bodies, self._pending_bytes = [], 0

    def end(self) -> bool:
        """Complete the Arrow stream in the file. Return True if the file has records."""
        if self._writer is None:
            return False
        self._writer.close()
        return True
