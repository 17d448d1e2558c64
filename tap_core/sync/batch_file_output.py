"""Output stage that writes the rows of streams with ``batch_config`` into batch files.

- The stage runs before the protocol writer. Encoded rows are appended to the open file of their
  stream, so selection, stream maps and type conformance are the same as for RECORD messages.
- A file with ``batch_size`` rows is closed, and a `BatchFiles` event for it is emitted at once.
- A state covers the rows of all streams. Before it is written, all open files are closed and their
  events emitted. No state is written while a tap's own ``get_batches`` has read records that are
  not in a BATCH message yet. Optional states are skipped, because each would end the open files
  early.

Source: "Batch Messages" in the documentation of the Meltano Singer SDK.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tap_core.events import ActivateVersion, BatchFiles, Checkpoint, Rows, SchemaEvent, StreamId

if TYPE_CHECKING:
    from tap_core.batch.encodings import BatchConfig
    from tap_core.batch.writer import BatchFileWriter
    from tap_core.events import Event
    from tap_core.metrics import Counter

__all__ = ["BatchFileOutput", "StreamBatchWriter"]


class StreamBatchWriter:
    """Writer of the batch files of one output stream. It starts a new file when one is full."""

    def __init__(
        self, schema: SchemaEvent, tap_name: str, config: BatchConfig, counter: Counter
    ) -> None:
        """Create a writer without an open file.

        Args:
            schema: Name and JSON Schema of the output stream.
            tap_name: Name of the tap; file names consist of it and the stream's name.
            config: Batch settings: format, compression, size and storage.
            counter: Metric that counts the files.

        Raises:
            ConfigurationError: The configured compression is not available.
        """
        from tap_core.batch.writer import FileNamer, get_format

        self.stream = schema.stream
        self.schema = schema.schema
        self.counter = counter
        self._config = config
        self._format = get_format(config.encoding)
        self._names = FileNamer(tap_name, schema.stream.name, config.storage)
        self._file: BatchFileWriter | None = None
        self._version: int | None = None

    @property
    def free_rows(self) -> int:
        """Number of further rows for the current batch file; ``batch_size`` if no file is open."""
        return self._config.batch_size - (self._file.count if self._file is not None else 0)

    def write(self, rows: Rows) -> Iterator[BatchFiles]:
        """Append rows to the open file. Yield an event for each file that becomes full.

        Raises:
            BatchFileError: A file cannot be written.
        """
        from tap_core.batch.writer import encode_row

        if rows.version != self._version:
            yield from self.close()
            self._version = rows.version
        unencoded: Sequence[Any] = rows.rows  # a Singer message writer keeps records, not bytes
        bodies = [row if isinstance(row, bytes) else encode_row(row) for row in unencoded]
        while bodies:
            fitting = bodies[: self.free_rows]
            self._open_file().write(fitting)
            del bodies[: len(fitting)]
            if not self.free_rows:
                yield from self.close()

    def close(self) -> Iterator[BatchFiles]:
        """Complete the open file, and yield the event for its BATCH message, if a file is open.

        Raises:
            BatchFileError: The file cannot be completed.
        """
        file, self._file = self._file, None
        if file is not None:
            encoding = self._config.encoding
            form = {"format": encoding.format}
            if encoding.compression is not None:
                form["compression"] = encoding.compression
            yield BatchFiles(self.stream, (file.close(),), form, version=self._version)

    def _open_file(self) -> BatchFileWriter:
        from tap_core.batch.writer import BatchFileWriter

        if self._file is None:
            self._file = BatchFileWriter(self._config, self._format, self._names, dict(self.schema))
        return self._file


class BatchFileOutput:
    """Stage of a sync's output that writes the rows of some streams into batch files.

    All threads of the sync share it. The caller of a method must hold the lock of the
    `OutputQueue`.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        """Create the output without any stream. It passes the resulting events to ``emit``."""
        self._emit = emit
        self._sources: dict[str, tuple[StreamBatchWriter, ...]] = {}
        self._writers: dict[StreamId, StreamBatchWriter] = {}
        self._has_filled = False
        self._custom_batch_keys: set[tuple[str, int]] = set()
        self._blocked: set[tuple[str, int]] = set()

    def __contains__(self, source: str) -> bool:
        """Return True if this stage writes batch files for the tap's stream named ``source``."""
        return source in self._sources

    def begin(self, source: str, writers: Iterable[StreamBatchWriter]) -> None:
        """Start writing batch files for a stream.

        Stream maps may give several streams the same name. They then share the writer of the first
        one, including its files, batch settings and metric.

        Args:
            source: Name of the stream in the tap, before stream maps rename it.
            writers: One writer for each output stream of the stream maps.
        """
        self._sources[source] = tuple(
            self._writers.setdefault(writer.stream, writer) for writer in writers
        )

    def finish(self, source: str) -> None:
        """Close the files of the stream ``source``, emit their events and log their number."""
        for writer in self._sources.pop(source, ()):
            self._emit_files(writer.close())
            if not any(writer in open_writers for open_writers in self._sources.values()):
                writer.counter.exit()
                del self._writers[writer.stream]

    def get_row_limit(self, source: str, limit: int) -> int:
        """Return the number of records to buffer before writing them to the files of ``source``.

        It is ``limit``, or fewer if an open file has space for fewer rows.
        """
        writers = self._sources.get(source)
        return min(limit, *(writer.free_rows for writer in writers)) if writers else limit

    def emit(self, event: Event) -> None:
        """Write rows into the batch files of their stream, and pass all other events on.

        Rows of a stream without batch files are passed on too. Before a state, a changed schema or
        a table version, open files are closed and their events are passed on. The target then loads
        these files first.
        """
        if isinstance(event, Rows):
            writer = self._writers.get(event.stream)
            if writer is not None:
                self._has_filled = self._emit_files(writer.write(event)) or self._has_filled
                return
        elif isinstance(event, Checkpoint):
            for writer in self._writers.values():
                self._emit_files(writer.close())
            self._has_filled = False
        elif isinstance(event, ActivateVersion | SchemaEvent):
            self._close_before(event)
        self._emit(event)

    def _close_before(self, event: ActivateVersion | SchemaEvent) -> None:
        writer = self._writers.get(event.stream)
        if writer is None or (isinstance(event, SchemaEvent) and event.schema == writer.schema):
            return
        self._emit_files(writer.close())
        if isinstance(event, SchemaEvent):
            writer.schema = event.schema

    def _emit_files(self, finished: Iterable[BatchFiles]) -> bool:
        """Pass on the BATCH event of each finished file. Return True if there was one."""
        has_files = False
        for files in finished:
            has_files = True
            self._emit(files)
            self._writers[files.stream].counter.increment()
        return has_files

    # State control

    def wants_state(self) -> bool:
        """Return True if a batch file became full since the last call, so that a state is due."""
        filled, self._has_filled = self._has_filled, False
        return filled

    def allows_state(self, *, required: bool) -> bool:
        """Return True if a state may be written now.

        No state may be written while a record that the tap has read is not in a BATCH message yet.

        Args:
            required: False for an optional state. It is not written while a stream has batch files,
                because it would end the files early.
        """
        return not self._blocked and (required or not self._sources)

    @contextmanager
    def custom_batches(self, source: str) -> Iterator[None]:
        """Context manager for syncing a stream whose batch files the tap's code writes.

        ``source`` is the stream's name. Inside the block, `block_states` can prevent the writing of
        states. If the block then fails, no further states are written, because records may be
        missing from the files.
        """
        thread_key = _make_thread_key(source)
        self._custom_batch_keys.add(thread_key)
        yield
        self._custom_batch_keys.discard(thread_key)
        self._blocked.discard(thread_key)

    def block_states(self, source: str) -> None:
        """Prevent the writing of states while a record of ``source`` is in no BATCH message yet.

        The method has no effect outside a `custom_batches` block of this thread for ``source``.
        """
        if _make_thread_key(source) in self._custom_batch_keys:
            self._blocked.add(_make_thread_key(source))

    def allow_states(self, source: str) -> None:
        """End the effect of `block_states`, since BATCH messages list all records of ``source``."""
        self._blocked.discard(_make_thread_key(source))


def _make_thread_key(source: str) -> tuple[str, int]:
    return source, threading.get_ident()
