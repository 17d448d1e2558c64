"""Extra states stay a small share of what is written, and a slow source still gets them."""

from __future__ import annotations

import pytest

from tap_core.state.checkpoint_policy import CheckpointPolicy


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def bytes_of_state(partitions: int, *, rows: int, entry: int, cadence: CheckpointPolicy) -> int:
    written = 0
    for n in range(1, partitions + 1):
        cadence.rows(rows)
        if cadence.due(n * entry):
            cadence.wrote(n * entry)
            written += n * entry
    return written


@pytest.mark.parametrize("partitions", [100, 1_000, 10_000])
def test_extra_states_are_a_share_of_the_rows(partitions) -> None:
    cadence = CheckpointPolicy(0.02, allowance=65_536, clock=Clock())
    rows = 3_500
    written = bytes_of_state(partitions, rows=rows, entry=100, cadence=cadence)
    assert 0 < written <= 0.02 * partitions * rows + 65_536


def test_a_small_sync_gets_all_of_them() -> None:
    cadence = CheckpointPolicy(clock=Clock())
    assert all(cadence.due(200) and cadence.wrote(200) is None for _ in range(300))


def test_big_partitions_get_all_of_them() -> None:
    cadence = CheckpointPolicy(allowance=0, clock=Clock())
    for n in range(1, 50):
        cadence.rows(35_000_000)
        assert cadence.due(n * 1_000)
        cadence.wrote(n * 1_000)


def test_a_slow_source_gets_one_every_few_seconds() -> None:
    clock = Clock()
    cadence = CheckpointPolicy(allowance=0, seconds=5, clock=clock)
    assert not cadence.due(1_000)
    clock.now = 5
    assert cadence.due(1_000)
    cadence.wrote(1_000)
    assert not cadence.due(1_000)
    clock.now = 9.9
    assert not cadence.due(1_000)
    clock.now = 10
    assert cadence.due(1_000)


def test_states_that_had_to_go_out_leave_no_debt() -> None:
    cadence = CheckpointPolicy(0.02, allowance=0, clock=Clock())
    cadence.wrote(10_000_000)
    cadence.rows(100_000)
    assert cadence.due(2_000)
    assert not cadence.due(2_001)
