"""Table version of a FULL_TABLE stream, announced with ACTIVATE_VERSION.

The version is chosen once per run and stream, even if several workers sync the contexts of
the stream. Every row carries the version. The final ACTIVATE_VERSION, which tells the target
to delete rows of older versions, is written when the stream has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.sync_run import SyncRun

__all__ = ["emit_activate_version"]


def emit_activate_version(stream: SyncStream, run: SyncRun) -> None:
    """Emit an ACTIVATE_VERSION message before the first row of a FULL_TABLE stream.

    The message is sent at most once per sync. Nothing is sent if the stream has no table version.
    """
    if (
        stream.replication_method == REPLICATION_FULL_TABLE
        and stream.emit_activate_version_messages
        and stream._stream_version is None
    ):
        version = stream._stream_version = stream._initialized_at // 1000
        run.outbox.call_on_change(
            ("version", stream.name),
            version,
            lambda: stream._write_activate_version_message(version),
        )
