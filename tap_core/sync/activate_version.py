"""Table version of a FULL_TABLE stream, and its first ACTIVATE_VERSION message.

The version is chosen once per run and stream, even if several threads sync its partitions. Every
row has the version. A second ACTIVATE_VERSION message at the end of the stream makes the target
delete the rows of older versions.

A stream whose parent resumes from a bookmark gets no version. This run reads only the children of
some parent records, and the rows of all other parents must stay. Two streams to which stream maps
give the same name get no version either, because each would delete the rows of the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.sync_run import SyncRun

__all__ = ["emit_activate_version"]


def emit_activate_version(stream: SyncStream, run: SyncRun) -> None:
    """Choose the table version of a FULL_TABLE stream, and write its first ACTIVATE_VERSION.

    The version is the tap's start time in seconds since 1970. Do nothing if the stream already has
    a version, is read only in part, is not FULL_TABLE, or sets ``emit_activate_version_messages``
    to False.
    """
    if (
        stream.replication_method == REPLICATION_FULL_TABLE
        and stream.emit_activate_version_messages
        and stream._stream_version is None
        and stream.name not in run.outbox.read_in_part
    ):
        version = stream._stream_version = stream._initialized_at // 1000
        run.outbox.call_on_change(
            ("version", stream.name),
            version,
            lambda: stream._write_activate_version_message(version),
        )
