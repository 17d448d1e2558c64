"""Batch files of streams with the setting ``batch_config``, written by the SDK or by the tap.

The SDK writes the rows to files if the settings name a built-in format and the stream overrides no
batch methods. Otherwise (``get_batches`` is overridden, or another package provides the encoder)
the tap's code writes the files. It yields lists of file URLs (manifests), which are sent unchanged
in BATCH messages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from tap_core.batch.encodings import is_builtin_encoding
from tap_core.exceptions import ConfigurationError
from tap_core.sync.batch_file_output import StreamBatchWriter
from tap_core.sync.override_detection import BATCH_HOOKS, is_overridden
from tap_core.sync.plan import get_plan

if TYPE_CHECKING:
    from tap_core.batch.encodings import BatchConfig
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.plan import Plan
    from tap_core.sync.sync_run import SyncRun
    from tap_core.types import Context, Record

__all__ = [
    "begin_batches",
    "end_batches",
    "iterate_processed_records",
    "sync_own_batches",
]

_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def begin_batches(stream: SyncStream, run: SyncRun, plan: Plan) -> BatchConfig | None:
    """Prepare the batch files of a stream, if its settings have a ``batch_config``.

    Returns:
        The batch settings if the tap's code writes the files; the caller must then call
        `sync_own_batches`. None if the SDK writes the files, or if there are no batch files.

    Raises:
        ConfigurationError: The batch settings are incomplete.
    """
    takes_files = getattr(run.outbox.protocol_writer, "takes_files", False)
    if not stream.selected or stream.name in run.files or not takes_files:
        return None
    config = stream.get_batch_config(stream.config)
    if config is None:
        return None
    is_own = is_overridden(stream, *BATCH_HOOKS) or is_overridden(stream._tap, "write_message")
    if is_own or not is_builtin_encoding(config.encoding):
        return config
    name, counter = stream._tap.name, stream.get_batch_counter()
    with run.outbox.lock:
        if stream.name not in run.files:
            writers = [StreamBatchWriter(schema, name, config, counter) for schema in plan.schemas]
            run.files.begin(stream.name, writers)
    return None


def end_batches(stream: SyncStream, run: SyncRun) -> None:
    """Close the open batch files of a stream and of its descendants, and emit their events."""
    if stream.name in run.files:
        run.flush()
        run.outbox.finish_files(stream.name)
    for child in stream.child_streams:
        end_batches(child, run)


def sync_own_batches(stream: SyncStream, config: BatchConfig, context: Context | None) -> None:
    """Sync a stream for which the tap's code writes the batch files, not the SDK.

    If the stream overrides ``get_batches`` and has stream maps, a warning is logged, because the
    maps cannot change the contents of the files.
    """
    mapped = get_plan(stream).mapped is not None
    if mapped and is_overridden(stream, "get_batches", "_sync_batches"):
        stream.log(
            "'%s' makes its own batch files: stream maps change the stream's name, but"
            " not the contents of the files.",
            stream.name,
            level=logging.WARNING,
        )
    with stream._tap.run.files.custom_batches(stream.name):
        stream._sync_batches(config, context=context)


def iterate_processed_records(stream: SyncStream, context: Context | None) -> Iterator[Record]:
    """Yield the records of a stream for batch files that the tap's code writes.

    The values are converted to the types of the schema, and stream maps are applied.

    Raises:
        ConfigurationError: Stream maps split the stream into several output streams, whose records
            would be mixed in one file.
    """
    plan = get_plan(stream)
    if len(plan.schemas) > 1:
        names = ", ".join(schema.stream.name for schema in plan.schemas)
        raise ConfigurationError(
            f"Stream '{stream.name}' is sent as {names}, but its own batcher makes one file"
            " for all. Use a built-in format, or override get_batches()."
        )
    for record in stream._sync_records(context, write_messages=False):
        bodies = (
            [plan.serializer.serialize(record)]
            if plan.mapped is None
            else plan.mapped.bodies(record)
        )
        for body in bodies:
            yield _decode(body) if isinstance(body, bytes) else body
