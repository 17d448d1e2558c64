"""The version of a table that is read in full.

Rules of the room: it is begun once per run and stream, whoever syncs the stream's contexts; rows
carry it, and what looks final is said of it when the stream has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.sync_run import SyncRun

__all__ = ["emit_activate_version"]


def emit_activate_version(stream: SyncStream, run: SyncRun) -> None:
    """Say which version of a full table is coming, once per run."""
    if (
        stream.replication_method == REPLICATION_FULL_TABLE
        and stream.emit_activate_version_messages
        and stream._stream_version is None
    ):
        version = stream._stream_version = stream._initialized_at // 1000
        run.outbox.say_once(
            ("version", stream.name),
            version,
            lambda: stream._write_activate_version_message(version),
        )
