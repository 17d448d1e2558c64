"""About how much a sync will bring: asked of its author before the first record, and told later.

Rules of the room: only a protocol that has a word for estimates is told of them; where the tap
knows the total, its streams are not asked. An estimate that fails stops nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tap_core.events import Estimate, StreamId
from tap_core.sync.plan import get_stream_id

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream, SyncTap
    from tap_core.sync.sync_run import SyncRun

__all__ = ["emit_stream_estimate", "emit_total_estimate", "estimate_stream", "estimate_total"]


def estimate_stream(stream: SyncStream) -> None:
    """Ask a stream how much it will bring, and tell it; not where the total is known."""
    outbox = stream._tap.run.outbox
    if not outbox.takes_estimates or outbox.has_total:
        return
    try:
        found = stream.estimate_sync()
    except Exception as error:  # noqa: BLE001  a guess is no reason to stop
        stream.log("'%s' cannot be estimated: %s", stream.name, error, level=logging.WARNING)
        return
    if found is not None:
        emit_stream_estimate(stream, *found)


def estimate_total(tap: SyncTap, run: SyncRun) -> None:
    """Ask a tap how much all of its streams will bring, and tell it."""
    if not run.outbox.takes_estimates:
        return
    try:
        found = tap.estimate_sync()
    except Exception as error:  # noqa: BLE001  the same
        tap.logger.warning("The sync cannot be estimated: %s", error)
        return
    if found is not None:
        emit_total_estimate(run, tap.name, *found)


def emit_stream_estimate(stream: SyncStream, rows: int | None, nbytes: int | None) -> None:
    """Tell how much a stream brings, where the protocol has a word for it."""
    run = stream._tap.run
    if run.outbox.takes_estimates:
        run.emit(Estimate(get_stream_id(stream), rows, nbytes))


def emit_total_estimate(run: SyncRun, name: str, rows: int | None, nbytes: int | None) -> None:
    """Tell how much the sync of the tap ``name`` brings, where the protocol has a word for it."""
    if run.outbox.takes_estimates:
        run.outbox.has_total = True
        run.emit(Estimate(StreamId(name), rows, nbytes, is_total=True))
