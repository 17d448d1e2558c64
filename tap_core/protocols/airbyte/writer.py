"""Writer of events as Airbyte messages: records, states, statuses and estimates.

A chunk of rows is one write of row bodies between constant bytes; ``emitted_at`` is the extraction
time in milliseconds, computed once per chunk. Only streams of the catalog are written, under their
name and namespace in the catalog. A stream is STARTED before its other messages, RUNNING at its
first record, and ends with COMPLETE or INCOMPLETE. Source of the message formats: the Airbyte
protocol, section "Messages".
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
    """Writer of events as Airbyte messages. ``write`` is called with complete lines."""

    takes_files = False
    """False: the protocol has no messages for files, so rows are always written as records."""

    takes_estimates = True
    """True: ESTIMATE traces carry them."""

    tells_ends = True
    """True: a STREAM_STATUS trace reports the end of each stream."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        streams: Mapping[str, StreamId],
        *,
        shared: bool = False,
    ) -> None:
        """Create a writer for the streams of a catalog, keyed by the tap's stream names.

        shared: True to write the states of all streams together as one GLOBAL state, which is
        needed if streams share a position, such as that of a database log.
        """
        self._write = write
        self._streams = dict(streams)
        self._positions = StreamStates(streams, shared=shared)
        self._heads: dict[str, bytes] = {}
        self._progress: dict[str, Progress] = {}
        self._unknown_streams: set[str] = set()
        self._estimated: Literal["", "STREAM", "SYNC"] = ""

    encode = staticmethod(encode_json)

    def emit(self, event: Event) -> None:
        """Write one event. Events that have no Airbyte message are ignored.

        Raises:
            UnsupportedFeatureError: The rows are in batch files, which Airbyte does not support.
            OSError: The reader of the output has closed it, or the disk is full.
        """
        lines = self._lines(event)
        if lines:
            self._write(lines)

    def break_off(self) -> None:
        """Write the status INCOMPLETE for each stream that has started but not ended."""
        for name, progress in list(self._progress.items()):
            if progress not in _ENDS:
                with suppress(OSError):  # the reader of the output is gone
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
        """Return an ESTIMATE message, or b"" if the estimate must be dropped.

        Airbyte accepts estimates of the sync or of streams, but not both. The kind of the first
        estimate is kept.
        """
        stream = event.stream if event.is_total else self._known(event.stream.name)
        if stream is None:
            return b""
        kind: Literal["STREAM", "SYNC"] = "SYNC" if event.is_total else "STREAM"
        self._estimated = self._estimated or kind
        if kind != self._estimated:
            return b""
        return estimate_line(stream, kind, event.rows, event.nbytes)

    def _records(self, event: Rows) -> bytes:
        """Return the RECORD messages of a group of rows. Rows of unknown streams are dropped."""
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

    # Stream statuses

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
        """Return the STARTED status message of a stream, or b"" if it has a status already."""
        if name in self._progress:
            return b""
        stream = self._streams[name]
        self._progress[name] = Progress.STARTED
        self._heads[name] = _head(stream)
        self._positions.begin(name)
        return status_line(stream, "STARTED")

    def _running(self, name: str) -> bytes:
        """Return the status messages to write before a stream's first record: STARTED and RUNNING.

        Messages that were written before are left out.
        """
        if self._progress.get(name) is Progress.RUNNING:
            return b""
        lines = self._started(name)
        if self._progress[name] is Progress.STARTED:
            self._progress[name] = Progress.RUNNING
            lines += status_line(self._streams[name], "RUNNING")
        return lines

    def _known(self, name: str) -> StreamId | None:
        """Return a stream's id in the catalog, or None if it is not there. That is logged once."""
        stream = self._streams.get(name)
        if stream is None and name not in self._unknown_streams:
            self._unknown_streams.add(name)
            logger.warning("Stream '%s' is not in the catalog: its records are not sent.", name)
        return stream


def _head(stream: StreamId) -> bytes:
    """Return the text of a stream's RECORD messages that comes before the data of the record."""
    space = b"" if stream.namespace is None else b'"namespace":%b,' % encode_json(stream.namespace)
    return b'{"type":"RECORD","record":{"stream":%b,%b"data":' % (encode_json(stream.name), space)


def _milliseconds(instant: str) -> int:
    return int(parse_datetime(instant).timestamp() * _MILLISECONDS)
