"""Writer of events as Airbyte messages: records, states, statuses and estimates.

All rows of an event are written at once. Their ``emitted_at`` is the extraction time in
milliseconds. Only streams of the catalog are written, under their name and namespace there. The
status of a stream is STARTED before its other messages, RUNNING at its first record, and COMPLETE
or INCOMPLETE at its end. Source of the message formats: the Airbyte protocol, section "Messages".
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
    """Writer that converts a sync's events, such as rows and states, to Airbyte messages."""

    takes_files = False
    """False: the protocol has no messages for files, so rows are always written as records."""

    takes_estimates = True
    """True: estimates are written as ESTIMATE traces."""

    tells_ends = True
    """True: a STREAM_STATUS trace reports the end of each stream."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        streams: Mapping[str, StreamId],
        *,
        shared: bool = False,
    ) -> None:
        """Create a writer for the streams of a configured catalog.

        Args:
            write: Called with complete lines of JSON.
            streams: Identifiers of the streams in the catalog, by the tap's stream names.
            shared: True to write the states of all streams together as one GLOBAL state. This is
                needed if the streams share a state, such as the position in a database log.
        """
        self._write = write
        self._streams = dict(streams)
        self._states = StreamStates(streams, shared=shared)
        self._record_starts: dict[str, bytes] = {}
        self._progress: dict[str, Progress] = {}
        self._unknown_streams: set[str] = set()
        self._estimated: Literal["", "STREAM", "SYNC"] = ""

    encode = staticmethod(encode_json)

    def emit(self, event: Event) -> None:
        """Write an event as Airbyte messages. Events without an Airbyte message are ignored.

        Raises:
            UnsupportedFeatureError: The rows are in batch files, which Airbyte does not support.
            OSError: The reader of the output has closed it, or the disk is full.
        """
        lines = self._convert(event)
        if lines:
            self._write(lines)

    def break_off(self) -> None:
        """Report an interrupted sync: write the status INCOMPLETE for each unfinished stream."""
        for name, progress in list(self._progress.items()):
            if progress not in _ENDS:
                with suppress(OSError):  # the reader of the output is gone
                    self._write(self._convert_status(name, Progress.INCOMPLETE))

    def _convert(self, event: Event) -> bytes:
        if isinstance(event, Rows):
            return self._convert_rows(event)
        if isinstance(event, Checkpoint):
            return self._states.update(event.state)
        if isinstance(event, StreamStatus):
            return self._convert_status(event.stream.name, event.progress)
        if isinstance(event, Estimate):
            return self._convert_estimate(event)
        if isinstance(event, BatchFiles):
            raise UnsupportedFeatureError(
                f"Stream '{event.stream.name}' writes its rows into files and names these in"
                " BATCH messages. The Airbyte protocol has no such message: yield the rows"
                " from get_records()."
            )
        return b""

    def _convert_estimate(self, event: Estimate) -> bytes:
        """Return an Airbyte ESTIMATE message, or b"" if it must not be sent.

        A sync may send estimates either of the whole sync or of single streams. The kind of the
        first estimate is used, and estimates of the other kind are dropped. Estimates of unknown
        streams are dropped too.
        """
        stream = event.stream if event.is_total else self._find_stream(event.stream.name)
        if stream is None:
            return b""
        kind: Literal["STREAM", "SYNC"] = "SYNC" if event.is_total else "STREAM"
        self._estimated = self._estimated or kind
        if kind != self._estimated:
            return b""
        return estimate_line(stream, kind, event.rows, event.nbytes)

    def _convert_rows(self, event: Rows) -> bytes:
        """Return the RECORD messages for the rows of an event, as lines of JSON.

        The status messages STARTED and RUNNING of the stream come first, if they were not written
        yet. Rows of streams that are not in the catalog are dropped.
        """
        name = event.stream.name
        if not event.rows or self._find_stream(name) is None:
            return b""
        before = self._make_first_statuses(name)
        self._states.count(name, len(event.rows))
        head = self._record_starts[name]
        if isinstance(event.extracted_at, str):
            tail = b',"emitted_at":%d}}\n' % _to_milliseconds(event.extracted_at)
            rows = list(event.rows)
            rows[0] = before + head + rows[0]
            rows[-1] += tail
            return (tail + head).join(rows)
        instants: Sequence[str | None] | repeat[None] = event.extracted_at or repeat(None)
        return before + b"".join(
            b'%b%b,"emitted_at":%d}}\n'
            % (head, row, _to_milliseconds(instant) if instant else now_ms())
            for row, instant in zip(event.rows, instants, strict=False)
        )

    # Stream statuses

    def _convert_status(self, name: str, progress: Progress) -> bytes:
        stream = self._find_stream(name)
        if stream is None:
            return b""
        if progress is Progress.STARTED:
            return self._make_started_status(name)
        state = self._states.end(name) if progress is Progress.COMPLETE else b""
        self._progress[name] = progress
        return state + status_line(stream, progress.name)

    def _make_started_status(self, name: str) -> bytes:
        """Return the status message STARTED of a stream, or b"" if it was returned before."""
        if name in self._progress:
            return b""
        stream = self._streams[name]
        self._progress[name] = Progress.STARTED
        self._record_starts[name] = _make_record_start(stream)
        self._states.begin(name)
        return status_line(stream, "STARTED")

    def _make_first_statuses(self, name: str) -> bytes:
        """Return the status messages STARTED and RUNNING, which come before a stream's records.

        Messages that were already written are left out.
        """
        if self._progress.get(name) is Progress.RUNNING:
            return b""
        lines = self._make_started_status(name)
        if self._progress[name] is Progress.STARTED:
            self._progress[name] = Progress.RUNNING
            lines += status_line(self._streams[name], "RUNNING")
        return lines

    def _find_stream(self, name: str) -> StreamId | None:
        """Return a stream's identifier in the catalog.

        If the stream is not in the catalog, log a warning once and return None.
        """
        stream = self._streams.get(name)
        if stream is None and name not in self._unknown_streams:
            self._unknown_streams.add(name)
            logger.warning("Stream '%s' is not in the catalog: its records are not sent.", name)
        return stream


def _make_record_start(stream: StreamId) -> bytes:
    """Return the start of a RECORD message: ``{"type":"RECORD","record":{"stream":"a","data":``."""
    space = b"" if stream.namespace is None else b'"namespace":%b,' % encode_json(stream.namespace)
    return b'{"type":"RECORD","record":{"stream":%b,%b"data":' % (encode_json(stream.name), space)


def _to_milliseconds(instant: str) -> int:
    return int(parse_datetime(instant).timestamp() * _MILLISECONDS)
