"""Estimated number of rows and bytes of a sync, as returned by the tap's ``estimate_sync``.

Estimates are emitted only if the output protocol supports them, such as Airbyte's. If the tap
returns a total, ``estimate_sync`` of its streams is not called. An error in an estimate is logged
and does not stop the sync.
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
    """Call a stream's ``estimate_sync``, and emit the estimated size that it returns.

    Emit nothing if the output protocol does not support estimates, if the method fails, or if an
    estimate for all streams was emitted.
    """
    outbox = stream._tap.run.outbox
    if not outbox.takes_estimates or outbox.has_total_estimate:
        return
    try:
        estimate = stream.estimate_sync()
    except Exception as error:  # noqa: BLE001  estimates are optional
        stream.log("'%s' cannot be estimated: %s", stream.name, error, level=logging.WARNING)
        return
    if estimate is not None:
        emit_stream_estimate(stream, *estimate)


def estimate_total(tap: SyncTap, run: SyncRun) -> None:
    """Call a tap's ``estimate_sync``, and emit the estimated size of all streams that it returns.

    Emit nothing if the output protocol does not support estimates, or if the method fails.
    """
    if not run.outbox.takes_estimates:
        return
    try:
        estimate = tap.estimate_sync()
    except Exception as error:  # noqa: BLE001  estimates are optional
        tap.logger.warning("The sync cannot be estimated: %s", error)
        return
    if estimate is not None:
        emit_total_estimate(run, tap.name, *estimate)


def emit_stream_estimate(stream: SyncStream, rows: int | None, nbytes: int | None) -> None:
    """Emit the estimated rows and bytes of a stream, if the output protocol supports estimates."""
    run = stream._tap.run
    if run.outbox.takes_estimates:
        run.emit(Estimate(get_stream_id(stream), rows, nbytes))


def emit_total_estimate(run: SyncRun, name: str, rows: int | None, nbytes: int | None) -> None:
    """Emit the estimated rows and bytes of all streams, if the output protocol supports estimates.

    ``name`` is the name of the tap.
    """
    if run.outbox.takes_estimates:
        run.outbox.has_total_estimate = True
        run.emit(Estimate(StreamId(name), rows, nbytes, is_total=True))
