"""Signals, kills and idle input of a target process: states are never ahead of the rows."""

from __future__ import annotations

import signal

import pytest

from tests.target_base.messages import record, schema, state
from tests.target_base.running import run_pausing_target

SIGNALS = [signal.SIGTERM, signal.SIGINT]


def rows(*numbers, stream="a"):
    return [record(stream, id=n, name="x") for n in numbers]


@pytest.mark.parametrize("signum", SIGNALS)
def test_signal_while_waiting_for_input_ends_the_run_cleanly(tmp_path, signum):
    with run_pausing_target(tmp_path) as target:
        target.send(schema(), *rows(1, 2, 3), state(3), *rows(4), state(4))
        target.wait_until(lambda: target.states)
        target.process.send_signal(signum)
        assert target.end() == 0
        assert target.states == [3]
        assert target.rows() == [["a", 1], ["a", 2], ["a", 3], "clean"]


@pytest.mark.parametrize("signum", SIGNALS)
def test_signal_during_a_drain_lets_it_finish_and_starts_no_other(tmp_path, signum):
    (tmp_path / "hold").touch()
    with run_pausing_target(tmp_path) as target:
        target.send(schema(), schema("b"), *rows(9, stream="b"), state(0), *rows(1, 2, 3))
        target.wait_until(lambda: target.is_draining)
        target.send(state(3), *rows(4, 5, 6), state(6))
        target.process.send_signal(signum)
        (tmp_path / "hold").unlink()
        assert target.end() == 0
        assert "entered again" not in target.errors
        assert target.states == []  # the row of the other stream was never drained
        assert target.rows() == [["a", 1], ["a", 2], ["a", 3], "clean", "clean"]


def test_newest_covered_state_is_written_after_the_running_drain(tmp_path):
    (tmp_path / "hold").touch()
    with run_pausing_target(tmp_path) as target:
        target.send(schema(), *rows(1), state(1), *rows(2), state(2), *rows(3, 4), state(4))
        target.wait_until(lambda: target.is_draining)
        target.process.send_signal(signal.SIGTERM)
        (tmp_path / "hold").unlink()
        assert target.end() == 0
        assert target.states == [2]
        assert target.rows() == [["a", 1], ["a", 2], ["a", 3], "clean"]


def test_signal_during_the_final_drain_starts_no_other(tmp_path):
    (tmp_path / "hold").touch()
    with run_pausing_target(tmp_path) as target:
        target.send(schema(), schema("b"), *rows(1), *rows(2, stream="b"), state(2))
        target.process.stdin.close()
        target.wait_until(lambda: target.is_draining)
        target.process.send_signal(signal.SIGTERM)
        (tmp_path / "hold").unlink()
        assert target.end() == 0
        assert target.states == []
        assert target.rows() == [["a", 1], "clean", "clean"]


def test_second_signal_ends_the_process_immediately(tmp_path):
    (tmp_path / "hold").touch()
    with run_pausing_target(tmp_path) as target:
        target.send(schema(), *rows(1, 2, 3), state(3))
        target.wait_until(lambda: target.is_draining)
        # Pending signals reach Python ordered by number: three ensure two in any order.
        target.process.send_signal(signal.SIGTERM)
        target.process.send_signal(signal.SIGINT)
        while target.process.poll() is None:
            target.process.send_signal(signal.SIGTERM)
        assert target.end() in {128 + signal.SIGINT, 128 + signal.SIGTERM}
        assert target.states == []
        assert target.rows() == []


def test_sigint_and_sigterm_together_count_as_one_signal(tmp_path):
    (tmp_path / "hold").touch()
    with run_pausing_target(tmp_path) as target:
        target.send(schema(), *rows(1, 2, 3), state(3))
        target.wait_until(lambda: target.is_draining)
        target.process.send_signal(signal.SIGINT)
        target.process.send_signal(signal.SIGTERM)
        (tmp_path / "hold").unlink()
        assert target.end() == 0
        assert target.states == []  # the state followed the drain, and no further input was read
        assert target.rows() == [["a", 1], ["a", 2], ["a", 3], "clean"]


def test_sigkill_during_a_drain_writes_no_state(tmp_path):
    (tmp_path / "hold").touch()
    with run_pausing_target(tmp_path) as target:
        target.send(schema(), *rows(1, 2, 3), state(3))
        target.wait_until(lambda: target.is_draining)
        target.process.kill()
        target.end()
        assert target.states == []


def test_old_records_are_drained_while_input_is_idle(tmp_path):
    with run_pausing_target(tmp_path, age=0.002) as target:
        target.send(schema(), *rows(1), state(1))
        target.wait_until(lambda: target.states)
        assert target.rows() == [["a", 1]]
        target.process.stdin.close()
        assert target.end() == 0
        assert target.states == [1]
        assert "exceeded the max age" in target.errors


def test_malformed_line_ends_the_run_after_loading_earlier_records(tmp_path):
    with run_pausing_target(tmp_path) as target:
        target.send(schema(), *rows(1), state(1), *rows(2), '{"type":"RECORD"\n')
        target.process.stdin.close()
        assert target.end() == 1
        assert target.states == [1]
        assert target.rows() == [["a", 1], ["a", 2]]
        assert "Line 5 is not a Singer message" in target.errors
