"""A state is released exactly when all records before it are drained."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tap_core.sinks.state_watermark import StateWatermark

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.sampled_from("abc")),
        st.tuples(st.just("drain"), st.sampled_from("abc")),
        st.just(("state", "")),
        st.just(("take", "")),
    ),
    max_size=60,
)


class ReferenceWatermark:
    """A slow reference implementation that keeps every record and state."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []
        self.covered = 0

    def take(self) -> bytes | None:
        last_covered = 0
        state_number = 0
        for kind, _ in self.log:
            if kind == "record":
                break
            if kind == "state":
                state_number += 1
                last_covered = state_number
        if last_covered <= self.covered:
            return None
        self.covered = last_covered
        return b"%d" % last_covered


@given(STEPS)
def test_state_is_released_once_all_earlier_records_are_drained(steps):
    watermark: StateWatermark[str] = StateWatermark()
    reference = ReferenceWatermark()
    states = 0
    for kind, holder in steps:
        if kind == "record":
            watermark.add_holder(holder)
            reference.log.append((kind, holder))
        elif kind == "drain":
            watermark.remove_holder(holder)
            reference.log = [entry for entry in reference.log if entry != ("record", holder)]
        elif kind == "state":
            states += 1
            watermark.add_state(b"%d" % states)
            reference.log.append((kind, ""))
        else:
            assert watermark.take() == reference.take()
            assert len(watermark._waiting) <= len(watermark.holders) + 1


def test_only_the_latest_pending_state_is_kept():
    watermark: StateWatermark[str] = StateWatermark()
    watermark.add_holder("a")
    for number in range(1000):
        watermark.add_holder("b")
        watermark.add_state(b"%d" % number)
        watermark.remove_holder("b")
        assert watermark.take() is None
    assert len(watermark._waiting) == 1
    watermark.remove_holder("a")
    assert watermark.take() == b"999"
    assert not watermark.is_waiting
