"""The batches of a stream: whether it has any, and those that an author makes himself.

Rules of the room: a stream whose settings ask for files of a built-in format and that
leaves the making to the SDK runs in its own lane, its chunks going into files. Any other
stream with ``batch_config`` (``get_batches`` overridden, an encoder of another package)
yields its manifests itself, and they are sent as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from tap_core.batch.writer import is_builtin_encoding
from tap_core.exceptions import ConfigurationError
from tap_core.sync.batch_file_output import BatchFolder
from tap_core.sync.plan import get_plan, is_overridden

if TYPE_CHECKING:
    from tap_core.batch.encodings import BatchConfig
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.plan import Plan
    from tap_core.sync.sync_run import SyncRun
    from tap_core.types import Context, Record

__all__ = [
    "BATCH_HOOKS",
    "begin_batches",
    "end_batches",
    "iterate_processed_records",
    "sync_own_batches",
]

BATCH_HOOKS = (
    "_generate_batch_messages",
    "_sync_batches",
    "_write_batch_message",
    "get_batches",
)
"""Members of a stream by which an author makes or names batches himself."""

_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def begin_batches(stream: SyncStream, run: SyncRun, plan: Plan) -> BatchConfig | None:
    """Let a stream's rows go into files, where its settings ask for that.

    Returns the settings for a stream that makes its batches itself.

    Raises:
        ConfigurationError: the settings lack something.
    """
    takes_files = getattr(run.outbox.outlet, "takes_files", False)
    if not stream.selected or stream.name in run.files or not takes_files:
        return None
    config = stream.get_batch_config(stream.config)
    if config is None:
        return None
    own = is_overridden(stream, *BATCH_HOOKS) or is_overridden(stream._tap, "write_message")
    if own or not is_builtin_encoding(config.encoding):
        return config
    name, counter = stream._tap.name, stream.get_batch_counter()
    with run.outbox.lock:
        if stream.name not in run.files:
            folders = [BatchFolder(each, name, config, counter) for each in plan.describes]
            run.files.begin(stream.name, folders)
    return None


def end_batches(stream: SyncStream, run: SyncRun) -> None:
    """Name the last files of a stream and of all below it."""
    if stream.name in run.files:
        run.flush()
        run.outbox.finish_files(stream.name)
    for child in stream.child_streams:
        end_batches(child, run)


def sync_own_batches(stream: SyncStream, config: BatchConfig, context: Context | None) -> None:
    """Sync a stream that makes its batches itself."""
    mapped = get_plan(stream).mapped is not None
    if mapped and is_overridden(stream, "get_batches", "_sync_batches"):
        stream.log(
            "'%s' makes its batch files itself: stream maps change their stream's name, and"
            " nothing in them.",
            stream.name,
            level=logging.WARNING,
        )
    with stream._tap.run.files.batching(stream.name):
        stream._sync_batches(config, context=context)


def iterate_processed_records(stream: SyncStream, context: Context | None) -> Iterator[Record]:
    """Yield the records of a stream as they would go out: selected, mapped, conformed.

    Raises:
        ConfigurationError: the stream's maps send it out by several names, which one
            batcher cannot tell apart.
    """
    plan = get_plan(stream)
    if len(plan.describes) > 1:
        names = ", ".join(each.stream.name for each in plan.describes)
        raise ConfigurationError(
            f"Stream '{stream.name}' goes out as {names}, and its own batcher makes one file"
            " for all. Use a built-in format, or override get_batches()."
        )
    for record in stream._sync_records(context, write_messages=False):
        bodies = [plan.shape(record)] if plan.mapped is None else plan.mapped.bodies(record)
        for body in bodies:
            yield _decode(body) if isinstance(body, bytes) else body
