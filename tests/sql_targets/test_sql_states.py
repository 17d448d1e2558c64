"""A state is written once the rows before it are committed, also if the process is stopped."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.sql_targets.small_target import SmallTarget, load, read_rows
from tests.target_base.messages import record, schema, state
from tests.target_base.running import TargetProcess, run_pausing_target

PROGRAM = """
import time
from pathlib import Path
from sqlalchemy import event
from tests.sql_targets.small_target import SmallConnector, SmallSink, SmallTarget

class HoldConnector(SmallConnector):
    def create_engine(self):
        engine = super().create_engine()

        @event.listens_for(engine, "commit")
        def hold(connection):
            out = Path(self.config["out"])
            (out / "draining").touch()
            while (out / "hold").exists():
                time.sleep(0.01)
            (out / "draining").unlink()

        return engine

class HoldSink(SmallSink):
    connector_class = HoldConnector
    max_size = 3

class HoldTarget(SmallTarget):
    name = "target-hold"
    default_sink_class = HoldSink

HoldTarget.cli()
"""


def read_ids(url: str) -> list[int]:
    return [row[0] for row in read_rows(url, "SELECT id FROM a ORDER BY id")]


def has_empty_table(url: str) -> bool:
    with suppress(Exception):
        return read_ids(url) == []
    return False


def make_batch(start: int) -> list[str]:
    return [record(id=number) for number in range(start, start + 3)]


@contextmanager
def run_until_second_commit(url: str, out: Path) -> Iterator[TargetProcess]:
    """Run a target until it has committed three rows and has three in an open transaction."""
    with run_pausing_target(out, PROGRAM, sqlalchemy_url=url) as target:
        target.send(schema(), *make_batch(1), state({"n": 3}))
        target.wait_until(lambda: target.states)
        (out / "hold").touch()
        rows = make_batch(4)
        target.send(*rows[:2], state({"n": 5}), *rows[2:], state({"n": 6}), record(id=7))
        target.send(state({"n": 7}))
        target.wait_until(lambda: target.is_draining)
        yield target


@pytest.fixture
def paused_target(sqlite_url, tmp_path) -> Iterator[TargetProcess]:
    with run_until_second_commit(sqlite_url, tmp_path) as target:
        yield target


def finish_commit(target: TargetProcess) -> None:
    (target.out / "hold").unlink()


def test_state_is_written_after_the_commit_of_its_rows(paused_target, sqlite_url):
    assert (paused_target.states, read_ids(sqlite_url)) == ([{"n": 3}], [1, 2, 3])
    finish_commit(paused_target)
    paused_target.wait_until(lambda: {"n": 6} in paused_target.states)
    assert read_ids(sqlite_url) == [1, 2, 3, 4, 5, 6]
    paused_target.process.stdin.close()
    assert paused_target.end() == 0, paused_target.errors
    assert (paused_target.states[-1], read_ids(sqlite_url)[-1]) == ({"n": 7}, 7)


def test_killed_process_leaves_no_partial_batch(url, tmp_path):
    with run_until_second_commit(url, tmp_path) as target:
        target.process.kill()
        target.end()
        assert (target.states, read_ids(url)) == ([{"n": 3}], [1, 2, 3])


def test_sigterm_commits_the_open_transaction_and_begins_no_other(paused_target, sqlite_url):
    paused_target.process.send_signal(signal.SIGTERM)
    finish_commit(paused_target)
    assert paused_target.end() == 0, paused_target.errors
    assert (paused_target.states[-1], read_ids(sqlite_url)) == ({"n": 5}, [1, 2, 3, 4, 5, 6])


def test_failed_batch_is_rolled_back(url, capsys):
    lines = [schema(), *make_batch(1), state({"n": 3}), record(id=4), record(id=5), record(id=1)]
    with pytest.raises(sa.exc.IntegrityError):
        load(SmallTarget, url, *lines, state({"n": 6}), batch_size_rows=3)
    assert read_ids(url) == [1, 2, 3]


def test_sigterm_discards_pending_rows_and_their_state(sqlite_url, tmp_path):
    with run_pausing_target(tmp_path, PROGRAM, sqlalchemy_url=sqlite_url) as target:
        target.send(schema(), record(id=1), state({"n": 1}))
        target.wait_until(lambda: has_empty_table(sqlite_url))
        target.process.send_signal(signal.SIGTERM)
        assert target.end() == 0, target.errors
        states: list[Any] = target.states
        assert (states, read_ids(sqlite_url)) == ([], [])
