"""Extra states are limited to a share of the output, but a slow source still gets them."""

from __future__ import annotations

import pytest

from tap_core.state.checkpoint_policy import CheckpointPolicy


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def bytes_of_state(partitions: int, *, rows: int, entry: int, policy: CheckpointPolicy) -> int:
    written = 0
    for n in range(1, partitions + 1):
        policy.record_rows(rows)
        if policy.is_due(n * entry):
            policy.record_state(n * entry)
            written += n * entry
    return written


@pytest.mark.parametrize("partitions", [100, 1_000, 10_000])
def test_extra_states_are_limited_to_a_share_of_the_rows(partitions) -> None:
    policy = CheckpointPolicy(0.02, allowance=65_536, clock=Clock())
    rows = 3_500
    written = bytes_of_state(partitions, rows=rows, entry=100, policy=policy)
    assert 0 < written <= 0.02 * partitions * rows + 65_536


def test_small_sync_gets_every_extra_state() -> None:
    policy = CheckpointPolicy(clock=Clock())
    assert all(policy.is_due(200) and policy.record_state(200) is None for _ in range(300))


def test_large_partitions_get_every_extra_state() -> None:
    policy = CheckpointPolicy(allowance=0, clock=Clock())
    for n in range(1, 50):
        policy.record_rows(35_000_000)
        assert policy.is_due(n * 1_000)
        policy.record_state(n * 1_000)


def test_slow_source_gets_a_state_every_few_seconds() -> None:
    clock = Clock()
    policy = CheckpointPolicy(allowance=0, seconds=5, clock=clock)
    assert not policy.is_due(1_000)
    clock.now = 5
    assert policy.is_due(1_000)
    policy.record_state(1_000)
    assert not policy.is_due(1_000)
    clock.now = 9.9
    assert not policy.is_due(1_000)
    clock.now = 10
    assert policy.is_due(1_000)


def test_required_states_do_not_delay_extra_states() -> None:
    policy = CheckpointPolicy(0.02, allowance=0, clock=Clock())
    policy.record_state(10_000_000)
    policy.record_rows(100_000)
    assert policy.is_due(2_000)
    assert not policy.is_due(2_001)
