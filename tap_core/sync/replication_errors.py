"""Errors for a replication key that is missing or out of order.

This module only builds or logs the errors for records; the caller raises them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tap_core.exceptions import InvalidReplicationKeyException, StreamSetupError
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream
    from tap_core.types import Context, Record

__all__ = ["log_sort_error", "missing_replication_key", "require_replication_key"]


def require_replication_key(name: str, key: str | None) -> str:
    """Return the replication key of an incremental stream.

    Raises:
        StreamSetupError: ``key`` is empty: the stream is INCREMENTAL but has no replication key.
    """
    if not key:
        raise StreamSetupError(
            f"Could not detect replication key for '{name}' stream"
            f" (replication method={REPLICATION_INCREMENTAL})"
        )
    return key


def log_sort_error(
    stream: SyncStream, error: Exception, context: Context | None, done: int, start: int
) -> None:
    """Log that a record is out of order, with its number in the sync and in its partition.

    ``done`` is the record's number in the sync. ``start`` is the number of records of the sync
    before the partition.
    """
    stream.state_manager.log_sort_error(
        ex=error,
        record_count=done,
        partition_record_count=done - start,
        current_context=context,
    )


def missing_replication_key(
    name: str, key: str | None, record: Record
) -> InvalidReplicationKeyException:
    """Return the error for a record without its replication key."""
    return InvalidReplicationKeyException(
        f"Stream '{name}': a record has no replication key '{key}'; it has"
        f" {', '.join(map(repr, sorted(map(str, record))))}. Add the key to each record"
        " (post_process can), or sync the stream as FULL_TABLE."
    )
