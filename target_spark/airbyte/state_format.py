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
    """Encoding of Airbyte states for standard output and for the metadata of commits.

    A state on standard output must include the number of rows since the previous state. An Airbyte
    state belongs to one stream or to all streams (a global state), so rows are counted per stream
    for the first kind, and over all streams for the second.
    """

    def __init__(self) -> None:
        """Create the encoding, with all row counts at zero."""
        self._counted: Counter[Hashable] = Counter()
        self._rejected: Counter[Hashable] = Counter()

    def format_output(self, covered: CoveredState) -> bytes:
        """Return an Airbyte STATE message with the numbers of committed and rejected rows.

        The rows since the previous state of the same stream are counted. For a global state it is
        the rows of all streams since the previous global state.
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
        """Return the states as a JSON list, to store them in the metadata of a commit.

        The list has one state per stream, or one state for all streams.
        """
        return b"[%b]" % b",".join(each.state for each in states)

    def count_rejected(self, stream: Hashable, rows: int) -> None:
        """Count rows of a stream that were quarantined. The next state reports them as rejected."""
        self._rejected[stream] += rows
        self._rejected[_ALL] += rows


def _add_row_counts(state: bytes, committed: int, rejected: int) -> bytes:
    """Add the row counts of this destination to a state. Row counts in the state are replaced."""
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
