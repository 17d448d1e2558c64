"""Rows into files: a way out that stands before a door's.

Rules of the room: a chunk of a stream with ``batch_config`` goes into the open file of
that stream, body for body, so selection, maps and conformance are those of RECORD lines.
A file that has ``batch_size`` rows is closed and named in a `Files` at once. A state
covers all that was pulled, of every stream, so before one goes out all open files are
closed and named; none goes out while an author's own batcher holds rows that it has not
named. Extra states would cut files short and wait.

Source: "Batch Messages" in the documentation of the Meltano Singer SDK.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tap_core.events import ActivateVersion, BatchFiles, Checkpoint, Rows, SchemaEvent, StreamId

if TYPE_CHECKING:
    from tap_core.batch.encodings import BatchConfig
    from tap_core.batch.writer import BatchFileWriter
    from tap_core.events import Event
    from tap_core.metrics import Counter

__all__ = ["BatchFileOutput", "BatchFolder"]


class _WayOut(Protocol):
    """Whatever takes events; `outbox.Outlet` is one."""

    def emit(self, event: Event, /) -> None: ...


class BatchFolder:
    """Where the files of one stream go, and the one that is open."""

    def __init__(
        self, describe: SchemaEvent, tap_name: str, config: BatchConfig, counter: Counter
    ) -> None:
        """Name files after ``tap_name`` and the stream; count them with ``counter``.

        Raises:
            ConfigurationError: files cannot be compressed as the settings ask.
        """
        from tap_core.batch.writer import FileNamer, get_format

        self.stream = describe.stream
        self.schema = describe.schema
        self.counter = counter
        self._config = config
        self._kind = get_format(config.encoding)
        self._names = FileNamer(tap_name, describe.stream.name, config.storage)
        self._file: BatchFileWriter | None = None
        self._version: int | None = None

    @property
    def room(self) -> int:
        """How many rows go into the open file, or the next one, until it is full."""
        return self._config.batch_size - (self._file.count if self._file is not None else 0)

    def take(self, rows: Rows) -> Iterator[BatchFiles]:
        """Write a chunk; yield the files that it filled.

        Raises:
            BatchFileError: a file cannot be written.
        """
        from tap_core.batch.writer import encode_row

        if rows.version != self._version:
            yield from self.close()
            self._version = rows.version
        given: Sequence[Any] = rows.rows  # a writer's outlet keeps records, not bodies
        bodies = [row if isinstance(row, bytes) else encode_row(row) for row in given]
        while bodies:
            fitting = bodies[: self.room]
            self._opened().write(fitting)
            del bodies[: len(fitting)]
            if not self.room:
                yield from self.close()

    def close(self) -> Iterator[BatchFiles]:
        """Complete the open file, if there is one, and yield it.

        Raises:
            BatchFileError: it cannot be completed.
        """
        file, self._file = self._file, None
        if file is not None:
            encoding = self._config.encoding
            form = {"format": encoding.format, "compression": encoding.compression}
            known = {key: value for key, value in form.items() if value is not None}
            yield BatchFiles(self.stream, (file.close(),), known, version=self._version)

    def _opened(self) -> BatchFileWriter:
        from tap_core.batch.writer import BatchFileWriter

        if self._file is None:
            self._file = BatchFileWriter(self._config, self._kind, self._names, dict(self.schema))
        return self._file


class BatchFileOutput:
    """The streams of one run whose rows go into files; under the lock of the way out."""

    def __init__(self, outlet: _WayOut) -> None:
        """Hand on to ``outlet`` what does not go into files, and the files' names."""
        self._outlet = outlet
        self._sources: dict[str, tuple[BatchFolder, ...]] = {}
        self._folders: dict[StreamId, BatchFolder] = {}
        self._has_filled = False
        self._batching: set[tuple[str, int]] = set()
        self._held: set[tuple[str, int]] = set()

    def __contains__(self, source: str) -> bool:
        """Whether the rows of a stream, by its own name, go into files now."""
        return source in self._sources

    def begin(self, source: str, folders: Iterable[BatchFolder]) -> None:
        """Let a stream's rows go into files: a folder for each name that it goes out by."""
        self._sources[source] = tuple(folders)
        for folder in self._sources[source]:
            self._folders[folder.stream] = folder

    def finish(self, source: str) -> None:
        """Name the last files of a stream, and log how many there were."""
        for folder in self._sources.get(source, ()):
            self._name(folder.close())
            folder.counter.exit()
        for folder in self._sources.pop(source, ()):
            del self._folders[folder.stream]

    def room(self, source: str, most: int) -> int:
        """How many records of a stream may be gathered before a file may be full."""
        folders = self._sources.get(source)
        return min(most, *(each.room for each in folders)) if folders else most

    def emit(self, event: Event) -> None:
        """Write rows into their file, or hand an event on; rows before it are named first."""
        if isinstance(event, Rows):
            folder = self._folders.get(event.stream)
            if folder is not None:
                self._has_filled = self._name(folder.take(event)) or self._has_filled
                return
        elif isinstance(event, Checkpoint):
            for folder in self._folders.values():
                self._name(folder.close())
            self._has_filled = False
        elif isinstance(event, ActivateVersion | SchemaEvent):
            self._make_way(event)
        self._outlet.emit(event)

    def _make_way(self, event: ActivateVersion | SchemaEvent) -> None:
        folder = self._folders.get(event.stream)
        if folder is None or (isinstance(event, SchemaEvent) and event.schema == folder.schema):
            return
        self._name(folder.close())
        if isinstance(event, SchemaEvent):
            folder.schema = event.schema

    def _name(self, finished: Iterable[BatchFiles]) -> bool:
        """Tell of finished files; return whether there were any."""
        found = False
        for files in finished:
            found = True
            self._outlet.emit(files)
            self._folders[files.stream].counter.increment()
        return found

    # When states may go out

    def wants_state(self) -> bool:
        """Whether a file was filled since this was last asked: then a state is due."""
        filled, self._has_filled = self._has_filled, False
        return filled

    def allows_state(self, *, owed: bool) -> bool:
        """Whether a state may go out; an extra one only while no stream writes files."""
        return not self._held and (owed or not self._sources)

    @contextmanager
    def batching(self, source: str) -> Iterator[None]:
        """Let a stream make its batches itself; after an error its rows stay held."""
        who = _here(source)
        self._batching.add(who)
        yield
        self._batching.discard(who)
        self._held.discard(who)

    def hold(self, source: str) -> None:
        """Note that this thread pulled a record, which stands in no file that was named."""
        if _here(source) in self._batching:
            self._held.add(_here(source))

    def release(self, source: str) -> None:
        """Note that this thread names a batch: it holds all that was pulled."""
        self._held.discard(_here(source))


def _here(source: str) -> tuple[str, int]:
    return source, threading.get_ident()
