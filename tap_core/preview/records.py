"""Reader of the first records of a stream, without a sync: it writes no messages and no state.

Time windows, partitions and parent records are read one after the other until there are enough
records, so that few requests are sent.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tap_core.config.similar_names import suggest
from tap_core.exceptions import ConfigurationError
from tap_core.singerlib.json import load_json, serialize_json
from tap_core.sync.engine import begin_partition, get_contexts
from tap_core.sync.record_input import call_get_records, check_record, split_record_and_context

if TYPE_CHECKING:
    from tap_core.events import Event
    from tap_core.sync.interfaces import SyncStream, SyncTap
    from tap_core.types import Context, Record

__all__ = ["find_stream", "read_first_records"]


def find_stream(tap: SyncTap, name: str) -> SyncStream:
    """Return the stream of a tap that has the name ``name``.

    Raises:
        ConfigurationError: The tap has no such stream; the message suggests a similar name.
    """
    if name not in tap.streams:
        hint = suggest(name, tap.streams) or f" Its streams: {', '.join(tap.streams) or 'none'}."
        raise ConfigurationError(f"The tap has no stream '{name}'.{hint}")
    return tap.streams[name]


def read_first_records(stream: SyncStream, limit: int) -> list[dict[str, Any]]:
    """Read and return the first ``limit`` records of a stream, as JSON values.

    The stream's ``post_process`` is applied, and the values that identify the partition or parent
    record are added. Stream maps, type conversion and property selection are not applied.
    """
    # Otherwise the states of the windows that are read would be written.
    stream._tap.set_protocol_writer(_DiscardingWriter())
    with closing(_iterate_records(stream)) as records:
        # converted at once, because the tap's code may reuse the dict
        return [load_json(serialize_json(record)) for record, _ in islice(records, limit)]


class _DiscardingWriter:
    """Protocol writer that discards all output, because a preview writes no messages."""

    def encode(self, record: Record, /) -> bytes:  # noqa: ARG002
        """Return ``b""`` instead of the encoded record, because all output is discarded."""
        return b""

    def emit(self, event: Event, /) -> None:
        """Discard the event instead of writing it."""


def _iterate_records(
    stream: SyncStream,
) -> Generator[tuple[Record, Context | None], None, None]:
    """Yield each record of a stream, and the context to pass to `generate_child_contexts`.

    A context has the values that identify a partition or a parent record.
    """
    for context in _iterate_contexts(stream):
        yield from _read_context(stream, context)


def _iterate_contexts(stream: SyncStream) -> Iterator[Context | None]:
    """Yield the contexts of a stream: the values that identify each partition or parent record.

    For a child stream, the records of its parent stream are read.
    """
    parent = _find_parent(stream)
    if parent is None:
        yield from get_contexts(stream, None)
        return
    for record, child_context in _iterate_records(parent):
        for child in parent.generate_child_contexts(record=record, context=child_context):
            if child is not None:
                yield from get_contexts(stream, stream.preprocess_context(copy.copy(child)))


def _find_parent(stream: SyncStream) -> SyncStream | None:
    streams = stream._tap.streams.values()
    return next((parent for parent in streams if stream in parent.child_streams), None)


def _read_context(
    stream: SyncStream, context: Context | None
) -> Iterator[tuple[Record, Context | None]]:
    stream.context = MappingProxyType(dict(context)) if context else None
    bookmark_context = begin_partition(stream, context, None)
    admits = stream._context_reader.begin_preview(context)
    added: Mapping[str, Any] = (bookmark_context or {}) if stream.add_context_to_records else {}
    child_context = None if context is None else copy.copy(context)
    try:
        for pulled in call_get_records(stream, context):
            record = pulled
            if isinstance(record, tuple):
                record, child_context = split_record_and_context(record)
            check_record(record, stream.name)
            record = stream.post_process(record, context)
            check_record(record, stream.name)
            if record is not None and (admits is None or admits(record)):
                yield {**added, **record}, child_context
    finally:
        stream._context_reader.end()
