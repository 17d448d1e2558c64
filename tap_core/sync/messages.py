"""Functions that generate and write the Singer messages of a stream.

They implement the ``_generate_*`` and ``_write_*`` methods of `tap_core.Stream`. Every sync calls
those for schemas and table versions. Those for records are called only for a tap that overrides
such a method or `Tap.write_message`; otherwise the sync engine writes compiled records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tap_core.parsing.datetimes import utc_now
from tap_core.protocols.singer.event_conversion import to_event
from tap_core.singerlib.messages import (
    ActivateVersionMessage,
    Message,
    RecordMessage,
    SchemaMessage,
    SDKBatchMessage,
)
from tap_core.sync.overridable_loop import write_record
from tap_core.sync.override_detection import is_overridden
from tap_core.sync.plan import get_plan, get_transforms

if TYPE_CHECKING:
    from tap_core.batch.encodings import BaseBatchFileEncoding
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.sync_run import SyncRun
    from tap_core.types import Record

__all__ = [
    "emit_message",
    "generate_batch_messages",
    "generate_record_messages",
    "generate_schema_messages",
    "write_activate_version_messages",
    "write_messages",
    "write_record_message",
    "write_schema_message",
]


def emit_message(run: SyncRun, message: Message) -> None:
    """Write a message that the tap's code has built, after the rows that are still buffered."""
    run.emit(to_event(message, run.protocol_writer.encode))


def generate_schema_messages(stream: SyncStream) -> Iterator[SchemaMessage]:
    """Yield the SCHEMA messages of a stream, one for each output stream of its stream maps."""
    for event in get_plan(stream).schemas:
        yield SchemaMessage(
            event.stream.name,
            dict(event.schema),
            list(event.keys),
            [event.cursor] if event.cursor else None,
        )


def generate_record_messages(stream: SyncStream, record: Record) -> Iterator[RecordMessage]:
    """Yield the RECORD messages for a record: one for each output stream of its stream maps.

    The record is first converted to the types of the schema. Deselected properties are deleted from
    ``record`` itself, except the replication key, which the bookmark needs.
    """
    plan = get_plan(stream)
    conformed = plan.conform(record)
    for name, transform in get_transforms(stream, plan):
        mapped = transform(conformed)
        if mapped is not None:
            yield RecordMessage(
                stream=name,
                record=mapped,
                version=stream._stream_version,
                time_extracted=utc_now(),
            )


def generate_batch_messages(
    stream: SyncStream, encoding: BaseBatchFileEncoding, manifest: list[str]
) -> Iterator[SDKBatchMessage]:
    """Yield the BATCH messages for a list of file URLs: one for each output of stream maps."""
    for event in get_plan(stream).schemas:
        yield SDKBatchMessage(event.stream.name, encoding, manifest, stream._stream_version)


def write_activate_version_messages(stream: SyncStream, version: int) -> None:
    """Write the ACTIVATE_VERSION messages of a stream: one for each output of stream maps."""
    for event in get_plan(stream).schemas:
        stream._tap.write_message(ActivateVersionMessage(event.stream.name, version))


def write_messages(stream: SyncStream, messages: Iterable[Message]) -> None:
    """Pass each message to the tap's ``write_message``."""
    for message in messages:
        stream._tap.write_message(message)


def write_schema_message(stream: SyncStream) -> None:
    """Write the SCHEMA message of a stream, unless it equals the last one that was written."""
    if is_overridden(stream, "_generate_schema_messages") or is_overridden(
        stream._tap, "write_message"
    ):
        write_messages(stream, stream._generate_schema_messages())
    else:
        for event in get_plan(stream).schemas:
            stream._tap.run.write_schema(event)


def write_record_message(stream: SyncStream, record: Record) -> None:
    """Add a record to the output buffer. Records are written in the order of these calls."""
    plan = get_plan(stream)
    if plan.makes_messages:
        write_messages(stream, stream._generate_record_messages(record))
    else:
        write_record(stream, plan, record)
    stream.state_manager.is_flushed = False
