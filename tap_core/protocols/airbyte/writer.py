"""Events to Airbyte lines: records, states, statuses and estimates.

Rules of the room: a chunk of rows is one write, its bodies between constant bytes; when it was
extracted is said in milliseconds, worked out once for the chunk. Only streams of the catalog
go out, each under the name and namespace that the catalog has for it. A stream is STARTED
before anything else of it, RUNNING with its first record, and has ended with COMPLETE or
INCOMPLETE. Source of the form of each line: the Airbyte protocol, section "Messages".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Final, Literal

from tap_core.events import (
    BatchFiles,
    Checkpoint,
    Estimate,
    Event,
    Progress,
    Rows,
    StreamId,
    StreamStatus,
)
from tap_core.exceptions import UnsupportedFeatureError
from tap_core.parsing.datetimes import parse_datetime
from tap_core.protocols.airbyte.messages import encode_json, estimate_line, now_ms, status_line
from tap_core.protocols.airbyte.state_splitting import StreamStates

__all__ = ["AirbyteWriter"]

logger: logging.Logger = logging.getLogger(__name__)

_MILLISECONDS: Final = 1_000
_ENDS: Final = (Progress.COMPLETE, Progress.INCOMPLETE)


class AirbyteWriter:
    """Writes events as Airbyte messages with ``write``, a function that takes whole lines."""

    takes_files = False
    """No message names files: rows always go out as records."""

    takes_estimates = True
    """ESTIMATE traces tell them."""

    tells_ends = True
    """STREAM_STATUS traces do, for each stream."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        streams: Mapping[str, StreamId],
        *,
        shared: bool = False,
    ) -> None:
        """Write the streams of a catalog, each found by the tap's own name for it.

        With ``shared`` their states go out together, as streams that share a position have to.
        """
        self._write = write
        self._streams = dict(streams)
        self._positions = StreamStates(streams, shared=shared)
        self._heads: dict[str, bytes] = {}
        self._progress: dict[str, Progress] = {}
        self._strangers: set[str] = set()
        self._estimated: Literal["", "STREAM", "SYNC"] = ""

    encode = staticmethod(encode_json)

    def emit(self, event: Event) -> None:
        """Write one event. Events that Airbyte has no message for are left out.

        Raises:
            UnsupportedFeatureError: rows in files, which nobody would read.
            OSError: the reader of the output is gone, or the disk is full.
        """
        lines = self._lines(event)
        if lines:
            self._write(lines)

    def break_off(self) -> None:
        """Say of the streams that have begun and not ended that they will not."""
        for name, progress in list(self._progress.items()):
            if progress not in _ENDS:
                with suppress(OSError):  # whoever is told is gone
                    self._write(self._status(name, Progress.INCOMPLETE))

    def _lines(self, event: Event) -> bytes:
        if isinstance(event, Rows):
            return self._records(event)
        if isinstance(event, Checkpoint):
            return self._positions.take(event.state)
        if isinstance(event, StreamStatus):
            return self._status(event.stream.name, event.progress)
        if isinstance(event, Estimate):
            return self._estimate(event)
        if isinstance(event, BatchFiles):
            raise UnsupportedFeatureError(
                f"Stream '{event.stream.name}' writes its rows into files and names these in"
                " BATCH messages. The Airbyte protocol has no such message: yield the rows"
                " from get_records()."
            )
        return b""

    def _estimate(self, event: Estimate) -> bytes:
        """Return how much will come; a platform takes totals or streams, and no mixture."""
        stream = event.stream if event.is_total else self._known(event.stream.name)
        if stream is None:
            return b""
        kind: Literal["STREAM", "SYNC"] = "SYNC" if event.is_total else "STREAM"
        self._estimated = self._estimated or kind
        if kind != self._estimated:
            return b""
        return estimate_line(stream, kind, event.rows, event.nbytes)

    def _records(self, event: Rows) -> bytes:
        """Return the RECORD lines of a chunk, in one join as copies of a chunk are dear."""
        name = event.stream.name
        if not event.rows or self._known(name) is None:
            return b""
        before = self._running(name)
        self._positions.count(name, len(event.rows))
        head = self._heads[name]
        if isinstance(event.extracted_at, str):
            tail = b',"emitted_at":%d}}\n' % _milliseconds(event.extracted_at)
            rows = list(event.rows)
            rows[0] = before + head + rows[0]
            rows[-1] += tail
            return (tail + head).join(rows)
        instants: Sequence[str | None] | repeat[None] = event.extracted_at or repeat(None)
        return before + b"".join(
            b'%b%b,"emitted_at":%d}}\n' % (head, row, _milliseconds(at) if at else now_ms())
            for row, at in zip(event.rows, instants, strict=False)
        )

    # How far a stream has come

    def _status(self, name: str, progress: Progress) -> bytes:
        stream = self._known(name)
        if stream is None:
            return b""
        if progress is Progress.STARTED:
            return self._started(name)
        state = self._positions.end(name) if progress is Progress.COMPLETE else b""
        self._progress[name] = progress
        return state + status_line(stream, progress.name)

    def _started(self, name: str) -> bytes:
        """Return the word that a stream begins, unless it was said."""
        if name in self._progress:
            return b""
        stream = self._streams[name]
        self._progress[name] = Progress.STARTED
        self._heads[name] = _head(stream)
        self._positions.begin(name)
        return status_line(stream, "STARTED")

    def _running(self, name: str) -> bytes:
        """Return what has to be said before a record, most often nothing."""
        if self._progress.get(name) is Progress.RUNNING:
            return b""
        lines = self._started(name)
        if self._progress[name] is Progress.STARTED:
            self._progress[name] = Progress.RUNNING
            lines += status_line(self._streams[name], "RUNNING")
        return lines

    def _known(self, name: str) -> StreamId | None:
        """Return what the catalog calls a stream; of one that it does not have, say so once."""
        stream = self._streams.get(name)
        if stream is None and name not in self._strangers:
            self._strangers.add(name)
            logger.warning("Stream '%s' is not in the catalog: nothing of it is sent.", name)
        return stream


def _head(stream: StreamId) -> bytes:
    """Return a RECORD line up to its data."""
    space = b"" if stream.namespace is None else b'"namespace":%b,' % encode_json(stream.namespace)
    return b'{"type":"RECORD","record":{"stream":%b,%b"data":' % (encode_json(stream.name), space)


def _milliseconds(instant: str) -> int:
    return int(parse_datetime(instant).timestamp() * _MILLISECONDS)
