"""Airbyte states: the STATE messages to emit, and the states stored in commits.

A state is emitted as the object that was received; only its ``destinationStats`` are added, also to
states of unknown types. Commits store a JSON list of such objects, which every source accepts as
its state. Source: the Airbyte protocol, section "State & Checkpointing", and the protocol's models
for the statistics.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

import msgspec

from tap_core.io.json_lines import DECODE_ERRORS
from target_spark.loader.pending_states import CoveredState

__all__ = ["PerStreamStateFormat"]

_STATS: Final = "destinationStats"
_ALL: Final = None
_decode_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class PerStreamStateFormat:
    """Format of Airbyte states: each emitted state includes the number of rows before it.

    The count begins at the previous state of the same scope. The scope of a state is one stream, or
    all streams for a global state.
    """

    def __init__(self) -> None:
        """Create the format with all row counts at zero."""
        self._counted: Counter[Hashable] = Counter()
        self._rejected: Counter[Hashable] = Counter()

    def format_output(self, covered: CoveredState) -> bytes:
        """Return a STATE message with the numbers of committed and of rejected rows.

        Rows are counted from the previous state of the same scope: one stream, or all streams.
        """
        scope = covered.scope
        received = covered.rows - self._counted[scope]
        rejected = min(self._rejected[scope], received)
        self._counted[scope] = covered.rows
        self._rejected[scope] -= rejected
        return b'{"type":"STATE","state":%b}' % _add_row_counts(
            covered.state, received - rejected, rejected
        )

    def format_stored(self, states: Sequence[CoveredState]) -> bytes:
        """Return the states as a JSON list, with one state per stream or one for all streams."""
        return b"[%b]" % b",".join(each.state for each in states)

    def count_rejected(self, stream: Hashable, rows: int) -> None:
        """Add to the number of rows of a stream that were written to its quarantine table."""
        self._rejected[stream] += rows
        self._rejected[_ALL] += rows


def _add_row_counts(state: bytes, committed: int, rejected: int) -> bytes:
    """Return a state with the destination's row counts; existing counts are replaced."""
    stats = b'{"recordCount":%d.0}' % committed
    if rejected:
        stats = stats[:-1] + b',"rejectedRecordCount":%d.0}' % rejected
    if _STATS.encode() in state:
        with contextlib.suppress(*DECODE_ERRORS):  # if it fails, the last of two members counts
            members = _decode_object(state)
            if _STATS in members:
                return msgspec.json.encode({**members, _STATS: msgspec.Raw(stats)})
    inside = state[: state.rindex(b"}")].rstrip()
    comma = b"" if inside == b"{" else b","
    return b'%b%b"%b":%b}' % (inside, comma, _STATS.encode(), stats)
