"""States per stream: which may be emitted, in which form, and which are stored in commits."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.events import StreamId
from target_spark.airbyte.state_format import PerStreamStateFormat
from target_spark.loader.pending_states import CoveredState
from target_spark.tables.commit_metadata import CommitMetadata, find_latest_metadata, merge_states
from tests.target.loader.test_state_release import OpenLedger

STREAM_NAMES = ("a", "b", "c")
SCOPES = ("a", "b", None)


def state(name: str, value: Any = 1, **descriptor: Any) -> dict[str, Any]:
    stream = {"stream_descriptor": {"name": name, **descriptor}, "stream_state": value}
    return {"type": "STREAM", "stream": stream}


def global_state(value: Any) -> dict[str, Any]:
    return {"type": "GLOBAL", "global": {"shared_state": value, "stream_states": []}}


# The ledger


@dataclass
class Model:
    """The expected ledger: the first row of each batch, all states, and the emitted ones."""

    firsts: list[tuple[str, int, bool]] = field(default_factory=list)
    states: list[tuple[int, str | None]] = field(default_factory=list)
    emitted: list[int] = field(default_factory=list)

    def covered(self) -> list[int]:
        """Return all states that may be emitted."""
        waiting = [first for _, first, safe in self.firsts if not safe]
        frontier = min(waiting, default=10_000)
        return [ordinal for ordinal, _ in self.states if ordinal < frontier]

    def last_of_each(self) -> dict[str | None, int]:
        return {scope: ordinal for ordinal, scope in self.states if ordinal in set(self.covered())}


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("rows"), st.sampled_from(STREAM_NAMES)),
            st.tuples(st.just("state"), st.sampled_from(SCOPES)),
            st.tuples(st.just("commit"), st.sampled_from(STREAM_NAMES)),
            st.tuples(st.just("release"), st.none()),
        ),
        max_size=50,
    ),
    order=st.randoms(use_true_random=False),
)
def test_newest_covered_state_of_each_stream_is_emitted_and_no_uncovered_one(
    steps: list[tuple[str, str | None]], order: random.Random
) -> None:
    """Rules D4 and D5: an emitted state covers all rows before it, of every stream.

    The states of a stream are emitted in their order, and the last one always.
    """
    ledger, model = OpenLedger(), Model()
    ends = [("commit", stream_name) for stream_name in STREAM_NAMES] * 2
    order.shuffle(ends)
    for ordinal, (kind, name) in enumerate([*steps, *ends, ("release", None)]):
        if kind == "rows" and name:
            if not any(stream_name == name and not safe for stream_name, _, safe in model.firsts):
                model.firsts.append((name, ordinal, False))
            ledger.record_rows(name, ordinal)
        elif kind == "state":
            model.states.append((ordinal, name))
            ledger.add_state(CoveredState(ordinal, b"%d" % ordinal, name))
        elif kind == "commit" and name:
            commit(ledger, model, name, ordinal)
        else:
            emitted = [covered.ordinal for covered in ledger.releasable()]
            assert emitted == sorted(emitted)
            assert set(emitted) <= set(model.covered())
            model.emitted += emitted
            for scope, last in model.last_of_each().items():
                of_scope = [
                    number for number in model.emitted if dict(model.states)[number] == scope
                ]
                assert of_scope == sorted(of_scope)
                assert of_scope[-1] == last
    assert ledger.held() == 0


def commit(ledger: OpenLedger, model: Model, stream_name: str, upto: int) -> None:
    waiting = [first for other, first, safe in model.firsts if other == stream_name and not safe]
    if not waiting:
        return
    ledger.close_batch(stream_name)
    model.firsts = [
        (other, first, safe or other == stream_name) for other, first, safe in model.firsts
    ]
    carried = ledger.states_for_commit(stream_name, upto)
    newest_of_all = max((number for number, scope in model.states if scope is None), default=-1)
    expected = {
        scope: last
        for scope, last in model.last_of_each().items()
        if last
        >= max(
            (
                number
                for number in model.covered()
                if number <= newest_of_all and dict(model.states)[number] is None
            ),
            default=-1,
        )
    }
    assert {other.scope: other.ordinal for other in carried} == expected
    ledger.mark_committed(stream_name, upto)


def test_ledger_keeps_one_state_per_stream_between_two_batches() -> None:
    ledger = OpenLedger()
    ledger.record_rows("slow", 0)
    for ordinal in range(1, 10_000):
        ledger.add_state(CoveredState(ordinal, b"x", ordinal % 50))
    assert ledger.held() == 50
    ledger.record_rows("fast", 10_000)
    ledger.add_state(CoveredState(10_001, b"y", 1))
    assert ledger.held() == 51
    ledger.close_batch("fast")
    ledger.mark_committed("fast", 10_000)
    assert ledger.held() == 50


# Emitted form


def format_emitted(
    form: PerStreamStateFormat, text: bytes, scope: Any, rows: int
) -> dict[str, Any]:
    line = form.format_output(CoveredState(1, text, scope, rows))
    assert b"\n" not in line
    message = json.loads(line)
    assert message["type"] == "STATE"
    state_: dict[str, Any] = message["state"]
    return state_


@pytest.mark.parametrize(
    "body",
    [
        state("a", {"n": 1}),
        global_state(None),
        {"type": "LEGACY", "data": {"bookmarks": {}}},
        {},
        {"type": 5, "odd": [1, {"destinationStats": 3}]},
        {"type": "STREAM", "destinationStats": {"recordCount": 1.0}, "global_": None},
        {"destinationStats": None},
    ],
)
def test_state_is_emitted_unchanged_except_for_destination_stats(body: dict[str, Any]) -> None:
    """Rules D4 and ST9."""
    for text in (
        json.dumps(body),
        json.dumps(body, separators=(",", ":")),
        f" {json.dumps(body)} ",
    ):
        emitted = format_emitted(PerStreamStateFormat(), text.strip().encode(), None, 4)
        assert emitted == {**body, "destinationStats": {"recordCount": 4}}


def test_bytes_of_a_state_are_not_reformatted() -> None:
    text = b'{ "type":"STREAM", "x": 1.10, "x": 1e400, "y": "\\ud83d" }'
    line = PerStreamStateFormat().format_output(CoveredState(1, text, None, 0))
    assert line.startswith(b'{"type":"STATE","state":' + text[:-2])
    second_line = PerStreamStateFormat().format_output(
        CoveredState(1, b'{"x":1e400,"destinationStats":null}', None, 0)
    )
    assert b'"x":1e400' in second_line
    assert second_line.count(b"destinationStats") == 1


def test_record_count_starts_at_the_last_state_of_the_stream() -> None:
    form, a, b = PerStreamStateFormat(), StreamId("a"), StreamId("b")
    counts = [
        format_emitted(form, b"{}", scope, rows)["destinationStats"]
        for scope, rows in [(a, 3), (b, 5), (a, 10), (a, 10), (None, 20), (None, 21)]
    ]
    assert [stats["recordCount"] for stats in counts] == [3, 5, 7, 0, 20, 1]
    assert not any("rejectedRecordCount" in stats for stats in counts)


def test_quarantined_rows_count_as_rejected() -> None:
    form, a = PerStreamStateFormat(), StreamId("a")
    form.count_rejected(a, 4)
    stats = [
        format_emitted(form, b"{}", scope, rows)["destinationStats"]
        for scope, rows in [(a, 3), (a, 10), (a, 12), (None, 20)]
    ]
    assert stats == [
        {"recordCount": 0, "rejectedRecordCount": 3},
        {"recordCount": 6, "rejectedRecordCount": 1},
        {"recordCount": 2},
        {"recordCount": 16, "rejectedRecordCount": 4},
    ]


# Stored form


def as_list(states: Iterable[Any]) -> str:
    return json.dumps(list(states))


def test_commit_stores_a_list_of_the_newest_states() -> None:
    stored = PerStreamStateFormat().format_stored(
        [CoveredState(1, b'{"a":1}', "a"), CoveredState(2, b'{"b":2}', "b")]
    )
    assert stored == b'[{"a":1},{"b":2}]'


def test_merge_keeps_the_states_of_streams_absent_from_the_run() -> None:
    before = as_list([state("a", 1), state("b", 1), state("b", 2, namespace="x")])
    after = as_list([state("b", 3)])
    assert json.loads(merge_states(before, after)) == [
        state("a", 1),
        state("b", 2, namespace="x"),
        state("b", 3),
    ]


def test_global_state_replaces_all_earlier_states() -> None:
    """Rule ST4: GLOBAL and LEGACY contain the states of all streams."""
    before = as_list([state("a"), global_state(1), state("b")])
    assert json.loads(merge_states(before, as_list([state("a", 2)]))) == [
        global_state(1),
        state("b"),
        state("a", 2),
    ]
    assert json.loads(merge_states(before, as_list([global_state(2)]))) == [global_state(2)]


def test_stored_state_of_another_protocol_is_replaced() -> None:
    lists, whole_ones = as_list([state("a")]), '{"bookmarks":{}}'
    markers = [
        CommitMetadata("j", "r", run, 1, 1, text) for run, text in enumerate([whole_ones, lists])
    ]
    assert markers[1].with_earlier_state(markers[0]).state == lists
    assert markers[0].with_earlier_state(markers[1]).state == whole_ones
    assert merge_states("[broken", lists) == lists


def test_recovery_combines_the_newest_state_of_each_stream_from_all_tables() -> None:
    """After a run of one of two streams, the other's state is in the other's table."""
    old = CommitMetadata("j", "r1", 1, 1, 5, as_list([state("a", 1), state("b", 1)]))
    new = CommitMetadata("j", "r2", 2, 1, 3, as_list([state("a", 2)]))
    latest = find_latest_metadata([new, None, old])
    assert latest is not None
    assert (latest.run, latest.ordinal) == ("r2", 3)
    assert json.loads(latest.state or "") == [state("b", 1), state("a", 2)]
    assert json.loads(new.with_earlier_state(old).state or "") == [state("b", 1), state("a", 2)]
