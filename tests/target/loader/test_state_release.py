"""The ledger: it releases the newest state whose rows are all committed, and no later one."""

from __future__ import annotations

import json
import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from target_spark.errors import TableOwnerError
from target_spark.loader.pending_states import CoveredState
from target_spark.loader.report import Report
from target_spark.loader.state_release import Ledger
from target_spark.tables.commit_metadata import CommitMetadata, find_latest_metadata, txn_app_id
from target_spark.tables.table import Table
from target_spark.writers.commit_checks import next_metadata


@dataclass
class WholeStates:
    """A state format that stores the states it is given."""

    emitted: list[CoveredState] = field(default_factory=list)
    carried: list[CoveredState] = field(default_factory=list)

    def format_output(self, covered: CoveredState) -> bytes:
        self.emitted.append(covered)
        return covered.state

    def format_stored(self, states: Sequence[CoveredState]) -> bytes:
        self.carried = list(states)
        return states[-1].state

    def count_rejected(self, stream: Hashable, rows: int) -> None:
        raise AssertionError


class OpenLedger(Ledger):
    """A ledger that exposes the states it combines and holds."""

    def __init__(self) -> None:
        self.whole_states = WholeStates()
        super().__init__(lambda _line: None, Report(), self.whole_states)

    def releasable(self) -> list[CoveredState]:
        """Release states, and return them."""
        self.whole_states.emitted.clear()
        self.release()
        return [*self.whole_states.emitted]

    def states_for_commit(self, stream: Hashable, upto: int) -> list[CoveredState]:
        return self._parts(self.state_for_commit(stream, upto))

    def states_before_commit(self) -> list[CoveredState]:
        return self._parts(self.state_before_commit())

    def _parts(self, covered: CoveredState | None) -> list[CoveredState]:
        if covered is None:
            return []
        assert covered.ordinal == self.whole_states.carried[-1].ordinal
        return self.whole_states.carried

    def held(self) -> int:
        return len(self._states._waiting)

    def pending(self) -> bool:
        return self._frontier() is not None


@dataclass
class Model:
    """The expected ledger: rows, batches, states, and the last released state."""

    rows: dict[int, str] = field(default_factory=dict)
    open: dict[str, list[int]] = field(default_factory=dict)
    cut: dict[str, list[list[int]]] = field(default_factory=dict)
    withheld: dict[str, list[int]] = field(default_factory=dict)
    safe: set[int] = field(default_factory=set)
    states: list[int] = field(default_factory=list)
    released: int = -1

    def covered(self, extra: frozenset[int] = frozenset()) -> int:
        """Return the newest state all of whose rows are committed, or will be with `extra`."""
        lost = [row for row in self.rows if row not in self.safe and row not in extra]
        frontier = min(lost, default=len(self.rows) + len(self.states) + 1)
        return max((state for state in self.states if state < frontier), default=-1)


STREAMS = ("a", "b", "c")


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("rows"), st.sampled_from(STREAMS), st.integers(1, 3)),
            st.tuples(st.just("state")),
            st.tuples(st.just("cut"), st.sampled_from(STREAMS)),
            st.tuples(st.just("commit"), st.sampled_from(STREAMS), st.integers(1, 3)),
            st.tuples(st.just("withhold"), st.sampled_from(STREAMS), st.integers(1, 3)),
            st.tuples(st.just("release")),
        ),
        max_size=60,
    ),
    order=st.randoms(use_true_random=False),
)
def test_released_state_is_the_newest_covered_one(steps, order):
    ledger, model = OpenLedger(), Model()
    for step in [*steps, *_remaining_steps(steps, order)]:
        _apply(ledger, model, step)
        _check(ledger, model)
    _apply(ledger, model, ("release",))
    assert model.released == max(model.states, default=-1)
    assert not ledger.pending()
    assert ledger.held() == 0


def _remaining_steps(steps: list[tuple], order: random.Random) -> list[tuple]:
    """Return steps that close and commit all batches, the streams in random order."""
    ends = [("cut", s) for s in STREAMS] + [("commit", s, 99) for s in STREAMS]
    order.shuffle(ends)
    last = [(kind, s, 99)[: 2 if kind == "cut" else 3] for kind in ("rows", "cut") for s in STREAMS]
    return [*ends, *last, *(("commit", s, 99) for s in STREAMS)]


def _apply(ledger: OpenLedger, model: Model, step: tuple) -> None:
    now = len(model.rows) + len(model.states)
    match step:
        case ("rows", stream, count):
            ledger.record_rows(stream, now)
            rows = range(now, now + count)
            model.rows.update(dict.fromkeys(rows, stream))
            model.open.setdefault(stream, []).extend(rows)
        case ("state",):
            ledger.add_state(CoveredState(now, str(now).encode()))
            model.states.append(now)
        case ("cut", stream):
            ledger.close_batch(stream)
            if rows := model.open.pop(stream, []):
                model.cut.setdefault(stream, []).append(rows)
        case ("commit", stream, count):
            _commit(ledger, model, stream, count)
        case ("withhold", stream, count):
            _withhold(ledger, model, stream, count)
        case ("release",):
            expected = model.covered()
            newer = [expected] if expected > model.released else []
            assert ledger.releasable() == [
                CoveredState(ordinal, str(ordinal).encode()) for ordinal in newer
            ]
            model.released = max(model.released, expected)


def _commit(ledger: OpenLedger, model: Model, stream: str, count: int) -> None:
    batches = model.cut.get(stream, [])[:count]
    if not batches:
        if stream not in model.withheld:
            with pytest.raises(ValueError, match="no batch"):
                ledger.mark_committed(stream, 10_000)
        return
    rows = frozenset(row for batch in batches for row in batch)
    carried = ledger.states_for_commit(stream, max(rows))
    covered = model.covered(rows | {*model.withheld.get(stream, ())})
    assert [state.ordinal for state in carried or [CoveredState(-1, b"")]] == [covered]
    ledger.mark_committed(stream, max(rows))
    model.safe |= {*rows, *model.withheld.pop(stream, ())}
    del model.cut[stream][:count]


def _withhold(ledger: OpenLedger, model: Model, stream: str, count: int) -> None:
    """Commit batches that no state may cover before a later batch of the stream is committed."""
    batches = model.cut.get(stream, [])[:count]
    if not batches:
        return
    rows = [row for batch in batches for row in batch]
    before = [state.ordinal for state in ledger.states_before_commit()] or [-1]
    assert before == [model.covered()]
    ledger.mark_committed(stream, max(rows), withheld=True)
    model.withheld.setdefault(stream, []).extend(rows)
    del model.cut[stream][:count]


def _check(ledger: OpenLedger, model: Model) -> None:
    assert ledger.pending() == (set(model.rows) != model.safe)
    live = sum(len(batches) for batches in model.cut.values()) + len(model.open)
    live += len(model.withheld)  # one batch represents all of them
    assert set(ledger.withheld()) == set(model.withheld)
    assert ledger.held() <= live + 1


def test_ledger_keeps_one_state_between_two_batches():
    ledger = OpenLedger()
    ledger.record_rows("slow", 0)
    for ordinal in range(1, 10_000):
        ledger.add_state(CoveredState(ordinal, b"x"))
    assert ledger.held() == 1
    ledger.record_rows("fast", 10_000)
    ledger.close_batch("fast")
    ledger.add_state(CoveredState(10_001, b"y"))
    assert ledger.held() == 2
    ledger.mark_committed("fast", 10_000)
    assert ledger.held() == 1  # there is no batch between the two states any more
    assert ledger.releasable() == []
    ledger.close_batch("slow")
    assert ledger.states_for_commit("slow", 0) == [CoveredState(10_001, b"y")]
    ledger.mark_committed("slow", 0)
    assert ledger.releasable() == [CoveredState(10_001, b"y")]
    assert ledger.releasable() == []


def test_commit_may_carry_an_already_released_state():
    ledger = OpenLedger()
    ledger.add_state(CoveredState(0, b"s"))
    assert ledger.releasable() == [CoveredState(0, b"s")]
    ledger.record_rows("a", 1)
    ledger.close_batch("a")
    assert ledger.states_for_commit("a", 1) == [CoveredState(0, b"s")]


def test_state_is_not_carried_while_another_batch_is_uncommitted():
    ledger = OpenLedger()
    ledger.record_rows("a", 0)
    ledger.record_rows("b", 1)
    ledger.add_state(CoveredState(2, b"s"))
    ledger.close_batch("a")
    ledger.close_batch("b")
    assert ledger.states_for_commit("a", 0) == []
    assert ledger.states_for_commit("b", 1) == []
    ledger.mark_committed("b", 1)
    assert ledger.states_for_commit("a", 0) == [CoveredState(2, b"s")]


def test_commit_of_a_batch_does_not_cover_the_open_batch():
    ledger = OpenLedger()
    ledger.record_rows("a", 0)
    ledger.close_batch("a")
    ledger.record_rows("a", 1)
    ledger.record_rows("a", 5)
    ledger.add_state(CoveredState(6, b"s"))
    ledger.mark_committed("a", 0)
    assert ledger.releasable() == []
    with pytest.raises(ValueError, match="no batch of stream a"):
        ledger.mark_committed("a", 5)
    ledger.close_batch("a")
    with pytest.raises(ValueError, match="no batch of stream a"):
        ledger.mark_committed("a", 0)
    ledger.mark_committed("a", 5)
    assert ledger.releasable() == [CoveredState(6, b"s")]


def test_ordinals_out_of_order_raise_an_error():
    ledger = OpenLedger()
    ledger.record_rows("a", 5)
    with pytest.raises(ValueError, match="out of order"):
        ledger.add_state(CoveredState(4, b"s"))
    with pytest.raises(ValueError, match="out of order"):
        ledger.record_rows("b", 4)


def test_closing_a_batch_without_rows_creates_none():
    ledger = OpenLedger()
    ledger.close_batch("a")
    ledger.record_rows("a", 0)
    ledger.close_batch("a")
    ledger.close_batch("a")
    ledger.mark_committed("a", 0)
    with pytest.raises(ValueError, match="no batch"):
        ledger.mark_committed("a", 0)


# ------------------------------------------------------------------------------ markers

MARKERS = st.builds(
    CommitMetadata,
    job=st.text(),
    run=st.text(),
    run_started=st.integers(0, 5),
    batch=st.integers(1, 5),
    ordinal=st.integers(0, 5),
    state=st.none() | st.text(),
)


@given(MARKERS)
def test_commit_metadata_round_trips_through_json(marker):
    text = marker.to_json()
    assert "\n" not in text
    assert CommitMetadata.from_json(text) == marker


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "1",
        "null",
        "{}",
        '{"target_spark": 1}',
        '{"target_spark": {"job": "a"}}',
    ],
)
def test_foreign_metadata_is_ignored(text):
    assert CommitMetadata.from_json(text) is None


@given(st.lists(MARKERS | st.none()))
def test_recovery_uses_the_latest_metadata_with_a_state(markers):
    latest = find_latest_metadata(markers)
    existing = [marker for marker in markers if marker is not None]
    if not existing:
        assert latest is None
        return
    assert latest in existing
    stated = [m for m in existing if m.state is not None] or existing
    assert (latest.run_started, latest.ordinal) == max((m.run_started, m.ordinal) for m in stated)


@given(MARKERS, MARKERS | st.none())
def test_metadata_without_a_state_takes_the_earlier_one(marker, before):
    carried = marker.with_earlier_state(before)
    assert carried.has_same_batch(marker)
    if marker.state is not None or before is None or before.state is None:
        assert carried == marker
    else:
        position = (carried.run_started, carried.ordinal, carried.state)
        assert position == (before.run_started, before.ordinal, before.state)


def test_batches_are_identified_by_job_run_and_number():
    marker = CommitMetadata("j", "r", 1, 1, 1, "{}")
    assert marker.has_same_batch(replace(marker, ordinal=9, state=None, run_started=3))
    assert not marker.has_same_batch(None)
    for other in (replace(marker, job="x"), replace(marker, run="x"), replace(marker, batch=2)):
        assert not marker.has_same_batch(other)


def test_transaction_id_contains_job_table_and_run():
    assert txn_app_id("j", "s", "r") == "target-spark:j:s:r"
    assert json.loads(CommitMetadata("j", "r", 1, 1, 1).to_json())["target_spark"]["state"] is None


def test_discarded_open_batch_does_not_hold_states_but_a_closed_one_does() -> None:
    ledger = OpenLedger()
    ledger.record_rows("a", 0)
    ledger.close_batch("a")
    ledger.record_rows("a", 1)
    ledger.add_state(CoveredState(2, b"2"))
    ledger.discard_open_batch("a")
    ledger.discard_open_batch("b")
    assert ledger.releasable() == []
    ledger.mark_committed("a", 0)
    assert ledger.releasable() == [CoveredState(2, b"2")]


def test_commit_without_own_state_after_another_job_is_an_error() -> None:
    table = Table("/tables/a", "a")
    theirs = CommitMetadata("b", "r1", 1, 1, 5, '{"at": 1}')
    ours = CommitMetadata("a", "r2", 1, 1, 0)
    with pytest.raises(TableOwnerError, match=r"Table a .* is loaded by job 'b', and this run"):
        next_metadata(theirs, ours, table, acknowledged=False)
    renamed = replace(ours, former=("b",))
    assert next_metadata(theirs, renamed, table, acknowledged=False).state == '{"at": 1}'
    renamed = replace(renamed, earlier=theirs)
    assert not {"former", "earlier"} & renamed.as_dict().keys()
    assert CommitMetadata.from_json(renamed.to_json()) == ours
