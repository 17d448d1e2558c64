"""Encoding of Airbyte states as STATE messages, and as JSON for the commit metadata of tables.

A received state is emitted unchanged, except that row counts are added as ``destinationStats``. The
commit metadata contains a JSON list of received states, which an Airbyte source accepts as input
state. Source: the Airbyte protocol, section "State & Checkpointing", and the protocol's models
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
_GLOBAL_SCOPE: Final = None
"""Scope of a state that covers all streams; other scopes are the ids of streams."""

_decode_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class PerStreamStateFormat:
    """Encoder of Airbyte states for standard output and for the commit metadata of tables.

    In a STATE message on standard output, Airbyte expects the number of rows since the previous
    state of the same stream or, for a global state, since the previous global state. The encoder
    stores the counts to compute these numbers.
    """

    def __init__(self) -> None:
        self._reported: Counter[Hashable] = Counter()
        self._rejected: Counter[Hashable] = Counter()

    def format_output(self, covered: CoveredState) -> bytes:
        """Return an Airbyte STATE message with the numbers of committed and rejected rows.

        The numbers count the rows since the previous state of the same stream or, in a global
        state, the rows of all streams since the previous global state.
        """
        scope = covered.scope
        received = covered.rows - self._reported[scope]
        rejected = min(self._rejected[scope], received)
        self._reported[scope] = covered.rows
        self._rejected[scope] -= rejected
        return b'{"type":"STATE","state":%b}' % _add_row_counts(
            covered.state, received - rejected, rejected
        )

    def format_stored(self, states: Sequence[CoveredState]) -> bytes:
        """Return states as the JSON list that is stored in the metadata of a table's commit.

        Args:
            states: One state per stream, or only one global state for all streams.
        """
        return b"[%b]" % b",".join(state.state for state in states)

    def count_rejected(self, stream: Hashable, rows: int) -> None:
        """Add ``rows`` quarantined rows to the count that a stream's next state reports."""
        self._rejected[stream] += rows
        self._rejected[_GLOBAL_SCOPE] += rows


def _add_row_counts(state: bytes, committed: int, rejected: int) -> bytes:
    """Return the JSON of an Airbyte state with row counts as its ``destinationStats``.

    Existing ``destinationStats`` are replaced. The ``rejected`` rows were quarantined.
    """
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
