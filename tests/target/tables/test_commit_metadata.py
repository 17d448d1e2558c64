"""Tests of the state that a job's tables hold and of the commits that it does not cover."""

from __future__ import annotations

from dataclasses import replace

from target_spark.tables.commit_metadata import CommitMetadata, find_latest_metadata


def commit(run: int, batch: int, state: str | None = None) -> CommitMetadata:
    return CommitMetadata("job", f"run{run}", run, batch, batch * 10 if state else 0, state)


def test_repeated_state_names_the_later_run_whose_commits_follow_it() -> None:
    stored = commit(1, 5, '{"n": 240}')
    first = commit(2, 1).with_earlier_state(stored)
    assert (first.state, first.run_started, first.uncovered_since) == ('{"n": 240}', 1, 2)
    second = commit(2, 2).with_earlier_state(first)
    assert (second.state, second.uncovered_since) == ('{"n": 240}', 2)
    assert CommitMetadata.from_json(second.to_json()) == second


def test_state_covers_the_rows_of_a_replay() -> None:
    first = replace(commit(2, 1), replay="run2").with_earlier_state(commit(1, 5, "{}"))
    assert (first.state, first.run_started, first.uncovered_since) == ("{}", 1, None)
    second = replace(commit(2, 2), replay="run2").with_earlier_state(first)
    assert second.uncovered_since is None
    assert commit(3, 1).with_earlier_state(second).uncovered_since == 3


def test_state_of_the_run_itself_covers_its_commits() -> None:
    repeated = commit(2, 1).with_earlier_state(commit(1, 5, '{"n": 240}'))
    covered = commit(2, 2, '{"n": 113}').with_earlier_state(repeated)
    assert (covered.state, covered.uncovered_since) == ('{"n": 113}', None)
    same_run = commit(2, 3).with_earlier_state(covered)
    assert (same_run.state, same_run.uncovered_since) == ('{"n": 113}', None)


def test_uncovered_commits_of_one_table_count_for_the_job_until_a_newer_state() -> None:
    stored = commit(1, 5, '{"n": 240}')
    repeated = commit(2, 1).with_earlier_state(stored)
    latest = find_latest_metadata([repeated, stored])
    assert latest is not None
    assert (latest.state, latest.uncovered_since) == ('{"n": 240}', 2)
    newer = find_latest_metadata([repeated, commit(2, 1, '{"n": 113}')])
    assert newer is not None
    assert (newer.state, newer.uncovered_since) == ('{"n": 113}', None)


def test_metadata_of_earlier_releases_is_read() -> None:
    text = (
        '{"target_spark":{"job":"j","run":"r","run_started":1,"batch":2,"ordinal":3,'
        '"state":"{}","replay":null}}'
    )
    assert CommitMetadata.from_json(text) == CommitMetadata("j", "r", 1, 2, 3, "{}")
