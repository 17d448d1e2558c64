"""Errors for a replication key that is missing or out of order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tap_core.exceptions import InvalidReplicationKeyException, StreamSetupError
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL

if TYPE_CHECKING:
    from tap_core.types import Record

__all__ = ["missing_replication_key", "require_replication_key"]


def require_replication_key(name: str, key: str | None) -> str:
    """Check that the INCREMENTAL stream ``name`` has a replication key, and return the key.

    Raises:
        StreamSetupError: ``key`` is None or empty.
    """
    if not key:
        raise StreamSetupError(
            f"Could not detect replication key for '{name}' stream"
            f" (replication method={REPLICATION_INCREMENTAL}): name one in the catalog or in the"
            " class, or use the method FULL_TABLE."
        )
    return key


def missing_replication_key(
    name: str, key: str | None, record: Record
) -> InvalidReplicationKeyException:
    """Return the error for a record that has no replication key.

    The message lists the names of the record's properties, and says how to correct this.
    """
    return InvalidReplicationKeyException(
        f"Stream '{name}': a record has no replication key '{key}'; it has"
        f" {', '.join(map(repr, sorted(map(str, record))))}. Add the key to each record"
        " (post_process can), or sync the stream as FULL_TABLE."
    )
