"""Number of records after which a STATE message is due while a partition is read.

`tap_core.state.checkpoint_policy` decides about the states at the end of a partition.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.record_count import Tally

__all__ = ["find_next_state", "state_is_due"]


def state_is_due(stream: SyncStream, tally: Tally, done: int, next_state: int) -> bool:
    """Return True if a STATE message is due.

    It is due after each full batch file or, for a stream without batch files, after every
    ``STATE_MSG_FREQUENCY`` records. Records of all threads that sync the stream are counted.

    Args:
        stream: Stream that is synced.
        tally: Counter of the stream's records, used in worker threads.
        done: Number of the stream's records so far, used outside of worker threads.
        next_state: Value of ``done`` at which a message is due.
    """
    run = stream._tap.run
    if stream.name in run.files:
        return run.files.wants_state()
    if not run.may_create_pools:
        return tally.is_due(stream.STATE_MSG_FREQUENCY)
    return done >= next_state


def find_next_state(stream: SyncStream, done: int) -> int:
    """Return the number of records at which the next state of a stream is due.

    It is the next multiple of ``STATE_MSG_FREQUENCY`` after ``done``. For a stream with batch
    files, it is `sys.maxsize`, because a state is due when a file is full.
    """
    if stream.name in stream._tap.run.files:
        return sys.maxsize
    return done + stream.STATE_MSG_FREQUENCY - done % stream.STATE_MSG_FREQUENCY
