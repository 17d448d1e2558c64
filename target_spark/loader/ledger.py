"""What was committed, and which state may therefore leave.

Rules of the room: pure bookkeeping, without clock, file or thread (the caller holds a
lock). Every message has an ordinal; a state at ordinal *n* covers every row with a
smaller one. A batch is known by its first ordinal, and the frontier is the first
ordinal of the oldest batch that is not committed, over all streams. A state is
released only when it lies before the frontier, also where it is of one stream alone.

A commit carries a `Marker` in the table's own metadata. Two things are in it: which
batch this is (`job`, `run`, `batch`), and the newest state that the commit covers with
its position (`run_started`, `ordinal`, `state`). A commit that covers no state of its
own run repeats the position and state that stood in the table before.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from typing import Any

from target_spark.loader.state_tracking import CoveredState, PendingStates, merge_states

__all__ = ["CommitMetadata", "Ledger", "latest_marker", "txn_app_id"]

_FIELD = "target_spark"
"""The one key of a marker's JSON: what tells our metadata from everybody else's."""


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """What a commit says of itself.

    ``job`` and ``run`` name the run, ``batch`` counts the commits of one table within
    the run, from 1. ``run_started`` is in milliseconds since 1970; with ``ordinal``,
    the place of ``state`` in the input, it orders the states of a job's tables.
    ``replay`` is the last run that loaded rows of the table's quarantine again. ``former`` are
    names that earlier releases gave the job; they are not written.
    """

    job: str
    run: str
    run_started: int
    batch: int
    ordinal: int
    state: str | None = None
    replay: str | None = None
    former: tuple[str, ...] = field(default=(), compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return what is written of the marker."""
        written = asdict(self)
        del written["former"]
        return written

    def to_json(self) -> str:
        """Return the marker as one line of JSON, under a key of our own."""
        return json.dumps({_FIELD: self.as_dict()}, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> CommitMetadata | None:
        """Return the marker in a commit's metadata, or None for anybody else's."""
        try:
            document = json.loads(text or "")
            return cls(**document[_FIELD])
        except (ValueError, TypeError, KeyError):
            return None

    def is_same_run(self, other: CommitMetadata | None) -> bool:
        """Tell whether both are of one run of one job."""
        return other is not None and (self.job, self.run) == (other.job, other.run)

    def same_batch(self, other: CommitMetadata | None) -> bool:
        """Tell whether both are of one commit: the same job, run and batch."""
        return other is not None and self.is_same_run(other) and self.batch == other.batch

    def carrying(self, before: CommitMetadata | None) -> CommitMetadata:
        """Return this marker, with what stood before of all that this says nothing of."""
        if before is None:
            return self
        kept = replace(self, replay=self.replay or before.replay)
        if before.state is None:
            return kept
        if self.state is not None:
            return replace(kept, state=merge_states(before.state, self.state))
        return replace(
            kept,
            run_started=before.run_started,
            ordinal=before.ordinal,
            state=before.state,
        )


def latest_marker(markers: Iterable[CommitMetadata | None]) -> CommitMetadata | None:
    """Return the marker to recover from: the last position, a state before none.

    States of single streams that other markers hold stand in it too.
    """
    found = [marker for marker in markers if marker is not None]
    in_order = sorted(
        found, key=lambda each: (each.state is not None, each.run_started, each.ordinal)
    )
    states = [marker.state for marker in in_order if marker.state is not None]
    if not states:
        return in_order[-1] if in_order else None
    return replace(in_order[-1], state=reduce(merge_states, states))


def txn_app_id(job: str, stream: str, run: str) -> str:
    """Return the transaction id of one table in one run.

    It is new for each run: a table format skips a version it has seen without a word,
    and after a restart the batches have other boundaries.
    """
    return f"target-spark:{job}:{stream}:{run}"


@dataclass(slots=True)
class _Lane:
    """The batches of one stream, by first ordinal: those cut, oldest first, and the open one.

    ``withheld`` says that the oldest is committed, and that states wait for it all the same.
    """

    cut: deque[int]
    open: int | None = None
    withheld: bool = False

    def oldest(self) -> int | None:
        return self.cut[0] if self.cut else self.open

    def oldest_after(self, upto: int) -> int | None:
        later = (first for first in self.cut if first > upto)
        return next(later, self.open)


class Ledger:
    """The watermark book of one run. Not safe for threads: the caller holds a lock."""

    def __init__(self) -> None:
        """Open an empty book."""
        self._lanes: dict[Hashable, _Lane] = {}
        self._states = PendingStates()
        self._last = self._last_first = -1

    def state_arrived(self, state: CoveredState) -> None:
        """Note a state at its place in the input."""
        self._advance(state.ordinal)
        self._states.arrived(state, self._last_first)

    def opened(self, stream: Hashable, ordinal: int) -> None:
        """Note rows of a stream, from this ordinal on; the first ones open a batch."""
        self._advance(ordinal)
        lane = self._lanes.setdefault(stream, _Lane(deque()))
        if lane.open is None:
            lane.open = self._last_first = ordinal

    def cut(self, stream: Hashable) -> None:
        """Close the stream's open batch; later rows open the next one."""
        lane = self._lanes.get(stream)
        if lane is not None and lane.open is not None:
            lane.cut.append(lane.open)
            lane.open = None

    def committed(self, stream: Hashable, upto: int) -> None:
        """Note that every cut batch of the stream that begins by this ordinal is safe.

        Raises:
            ValueError: no such batch was cut, so what was committed is not known here.
        """
        lane = self._lane_cut_upto(stream, upto)
        while lane.cut and lane.cut[0] <= upto:
            lane.cut.popleft()
        lane.withheld = False
        self._thin()

    def withhold(self, stream: Hashable, upto: int) -> None:
        """Let states wait for batches that are committed, until a later one of the stream is safe.

        Raises:
            ValueError: as `committed`.
        """
        lane = self._lane_cut_upto(stream, upto)
        first = lane.cut[0]
        while lane.cut and lane.cut[0] <= upto:
            lane.cut.popleft()
        lane.cut.appendleft(first)  # the oldest stands for all of them
        lane.withheld = True
        self._thin()

    def withheld(self) -> list[Hashable]:
        """Return the streams whose committed batches states wait for."""
        return [stream for stream, lane in self._lanes.items() if lane.withheld]

    def waived(self, stream: Hashable) -> None:
        """Note that the stream's open batch need not be waited for; what was cut is committed."""
        lane = self._lanes.get(stream)
        if lane is not None:
            lane.open = None
        self._thin()

    def releasable(self) -> list[CoveredState]:
        """Return the newest state of each scope whose rows are all committed, once, in order."""
        return self._states.leave(self._frontier())

    def state_before_commit(self) -> list[CoveredState]:
        """Return the states that count and are covered by the commits so far."""
        return self._states.covered(self._frontier())

    def state_for_commit(self, stream: Hashable, upto: int) -> list[CoveredState]:
        """Return the states that count and are covered once this batch is committed too.

        That is what its commit may carry; they may have been released before.
        """
        return self._states.covered(self._frontier(stream, upto))

    def released(self) -> list[CoveredState]:
        """Return the states that count of those that left, in order."""
        return self._states.covered(-1)

    def held(self) -> int:
        """Return how many states wait for rows."""
        return len(self._states)

    def pending(self) -> bool:
        """Tell whether any row has arrived that is not committed."""
        return self._frontier() is not None

    def _lane_cut_upto(self, stream: Hashable, upto: int) -> _Lane:
        lane = self._lanes.get(stream)
        if lane is None or not lane.cut or lane.cut[0] > upto:
            message = f"no batch of stream {stream} was cut up to ordinal {upto}"
            raise ValueError(message)
        return lane

    def _advance(self, ordinal: int) -> None:
        if ordinal < self._last:
            message = f"ordinal {ordinal} after {self._last}: messages are out of order"
            raise ValueError(message)
        self._last = ordinal

    def _frontier(self, stream: Hashable = None, upto: int = -1) -> int | None:
        """Return the oldest uncommitted ordinal, as if the stream's were safe up to one."""
        firsts = (
            lane.oldest_after(upto) if name == stream else lane.oldest()
            for name, lane in self._lanes.items()
        )
        return min((first for first in firsts if first is not None), default=None)

    def _thin(self) -> None:
        firsts = sorted(self._firsts())
        self._last_first = firsts[-1] if firsts else -1
        self._states.thin(firsts)

    def _firsts(self) -> Iterable[int]:
        for lane in self._lanes.values():
            yield from lane.cut
            if lane.open is not None:
                yield lane.open
