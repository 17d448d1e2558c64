"""Signals, kills and silence: a real process, and states that are never ahead of the rows."""

from __future__ import annotations

import signal

import pytest

from tests.target_base.messages import record, schema, state
from tests.target_base.running import running

SIGNALS = [signal.SIGTERM, signal.SIGINT]


def rows(*numbers, stream="a"):
    return [record(stream, id=n, name="x") for n in numbers]


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_while_input_is_awaited_ends_the_run_in_order(tmp_path, signum):
    with running(tmp_path) as target:
        target.send(schema(), *rows(1, 2, 3), state(3), *rows(4), state(4))
        target.until(lambda: target.states)
        target.process.send_signal(signum)
        assert target.end() == 0
        assert target.states == [3]
        assert target.rows() == [["a", 1], ["a", 2], ["a", 3], "clean"]


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_during_a_drain_lets_it_end_and_begins_no_other(tmp_path, signum):
    (tmp_path / "hold").touch()
    with running(tmp_path) as target:
        target.send(schema(), schema("b"), *rows(9, stream="b"), state(0), *rows(1, 2, 3))
        target.until(lambda: target.is_draining)
        target.send(state(3), *rows(4, 5, 6), state(6))
        target.process.send_signal(signum)
        (tmp_path / "hold").unlink()
        assert target.end() == 0
        assert "entered again" not in target.errors
        assert target.states == []  # the row of the other stream was never drained
        assert target.rows() == [["a", 1], ["a", 2], ["a", 3], "clean", "clean"]


def test_the_newest_covered_state_leaves_after_the_drain_in_flight(tmp_path):
    (tmp_path / "hold").touch()
    with running(tmp_path) as target:
        target.send(schema(), *rows(1), state(1), *rows(2), state(2), *rows(3, 4), state(4))
        target.until(lambda: target.is_draining)
        target.process.send_signal(signal.SIGTERM)
        (tmp_path / "hold").unlink()
        assert target.end() == 0
        assert target.states == [2]
        assert target.rows() == [["a", 1], ["a", 2], ["a", 3], "clean"]


def test_a_signal_in_the_last_drain_begins_no_other(tmp_path):
    (tmp_path / "hold").touch()
    with running(tmp_path) as target:
        target.send(schema(), schema("b"), *rows(1), *rows(2, stream="b"), state(2))
        target.process.stdin.close()
        target.until(lambda: target.is_draining)
        target.process.send_signal(signal.SIGTERM)
        (tmp_path / "hold").unlink()
        assert target.end() == 0
        assert target.states == []
        assert target.rows() == [["a", 1], "clean", "clean"]


def test_a_second_signal_ends_the_process_at_once(tmp_path):
    (tmp_path / "hold").touch()
    with running(tmp_path) as target:
        target.send(schema(), *rows(1, 2, 3), state(3))
        target.until(lambda: target.is_draining)
        # Two that wait together reach Python by their numbers: three, to be two in any order.
        target.process.send_signal(signal.SIGTERM)
        target.process.send_signal(signal.SIGINT)
        while target.process.poll() is None:
            target.process.send_signal(signal.SIGTERM)
        assert target.end() in {128 + signal.SIGINT, 128 + signal.SIGTERM}
        assert target.states == []
        assert target.rows() == []


def test_ctrl_c_that_an_orchestrator_hands_on_as_a_second_signal_is_one_wish(tmp_path):
    (tmp_path / "hold").touch()
    with running(tmp_path) as target:
        target.send(schema(), *rows(1, 2, 3), state(3))
        target.until(lambda: target.is_draining)
        target.process.send_signal(signal.SIGINT)
        target.process.send_signal(signal.SIGTERM)
        (tmp_path / "hold").unlink()
        assert target.end() == 0
        assert target.states == []  # it was behind the drain, and nothing new was read
        assert target.rows() == [["a", 1], ["a", 2], ["a", 3], "clean"]


def test_a_kill_acknowledges_nothing_that_is_not_written(tmp_path):
    (tmp_path / "hold").touch()
    with running(tmp_path) as target:
        target.send(schema(), *rows(1, 2, 3), state(3))
        target.until(lambda: target.is_draining)
        target.process.kill()
        target.end()
        assert target.states == []


def test_old_records_are_drained_while_no_input_comes(tmp_path):
    with running(tmp_path, age=0.002) as target:
        target.send(schema(), *rows(1), state(1))
        target.until(lambda: target.states)
        assert target.rows() == [["a", 1]]
        target.process.stdin.close()
        assert target.end() == 0
        assert target.states == [1]
        assert "exceeded the max age" in target.errors


def test_a_broken_line_keeps_what_came_whole_before_it(tmp_path):
    with running(tmp_path) as target:
        target.send(schema(), *rows(1), state(1), *rows(2), '{"type":"RECORD"\n')
        target.process.stdin.close()
        assert target.end() == 1
        assert target.states == [1]
        assert target.rows() == [["a", 1], ["a", 2]]
        assert "Line 5 is not a Singer message" in target.errors
