"""Tables that another run of the job loads, or that are restored or removed, before a commit.

All commits are made without Spark.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from target_spark.columns import Column, Integer, SchemaChange, TableSchema
from target_spark.config import settings
from target_spark.config.options import RunInfo
from target_spark.errors import CommitLostError, TableError
from target_spark.extract.cli import _TapSync
from target_spark.loader.loader import Loader
from target_spark.tables.commit_metadata import NO_METADATA, CommitMetadata, ExpectedMetadata
from target_spark.tables.table import Table, TableLayout
from target_spark.writers.delta import writer as delta
from target_spark.writers.delta.deltalake_snapshot import DeltaSnapshot
from target_spark.writers.delta.log_reader import (
    Commit,
    find_newest_metadata,
    read_last_metadata,
)
from target_spark.writers.delta.writer import DeltaWriter
from tests.target.warehouse import ID, Warehouse, feed, record, schema, state

MOVED = (
    "Table t .* is not as this run found it: the newest commit of target-spark in it was {}, and"
)


class NoSpark:
    """A session of Spark that is never used."""

    def thread_session(self) -> None:
        return None


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    no_spark: Any = NoSpark()
    return Warehouse(no_spark, no_spark, tmp_path / "tables", small_batches="delta-rs")


@contextmanager
def loading(warehouse: Warehouse) -> Iterator[Loader]:
    loader, spool = warehouse.open(flush_rows=1)
    with closing(spool), closing(loader):
        yield loader


def commit(loader: Loader, number: int) -> None:
    feed(loader, record("t", id=number), state(number))
    loader._pipeline.wait()
    loader.poll()


def read_ids(warehouse: Warehouse) -> list[int]:
    ids: list[int] = DeltaTable(warehouse.folder / "t").to_pyarrow_table()["id"].to_pylist()
    return sorted(ids)


def resume(warehouse: Warehouse, loader: Loader) -> bytes | None:
    """Return the state from which `target-spark run` resumes, read as this command reads it."""

    def no_spark() -> NoReturn:
        raise AssertionError("the tables can be read without Spark")

    tap: Any = SimpleNamespace(logger=logging.getLogger(__name__))
    session: Any = SimpleNamespace(
        run=RunInfo("job", "", 0), engine=SimpleNamespace(spark=no_spark), loader=loader
    )
    unused: Any = None
    options = settings.load_options({"path": str(warehouse.folder)})
    return _TapSync(unused, tap, unused, options, (), None)._find_last_state(session)


@pytest.mark.parametrize("keys", [(), ("id",)])
def test_second_run_of_a_job_at_the_same_time_is_an_error(
    warehouse: Warehouse, keys: tuple[str, ...]
) -> None:
    """Runs on two machines do not share the lock of their job."""
    schema_message = schema("t", ID, *keys)
    with loading(warehouse) as first:
        feed(first, schema_message)
        commit(first, 1)
        states = warehouse.states
        with loading(warehouse) as second:
            feed(second, schema_message)
            commit(second, 2)
            assert warehouse.states == [2]
            with pytest.raises(TableError, match=MOVED.format("none") + " is now commit 1 of run"):
                commit(first, 3)
            commit(second, 4)
            second.finish(whole=True)
            assert warehouse.states == [2, 4]
    assert states == [1]
    assert read_ids(warehouse) == [1, 2, 4]


def restore(folder: Path) -> None:
    DeltaTable(folder).restore(1)


@pytest.mark.parametrize(
    ("change", "newest"), [(restore, "commit 1 of run run1"), (shutil.rmtree, "none")]
)
def test_table_restored_or_removed_after_the_state_was_read_is_an_error(
    warehouse: Warehouse, change: Callable[[Path], None], newest: str
) -> None:
    """The rows between the restored version and the state of the run would be missing."""
    for number in (1, 2):
        warehouse.load(schema("t", ID), record("t", id=number), state(number))
    with loading(warehouse) as loader:
        assert resume(warehouse, loader) == b'{"at": 2}'
        change(warehouse.folder / "t")
        feed(loader, schema("t", ID))
        expected = MOVED.format("commit 1 of run run2") + f" is now {newest}[.]"
        with pytest.raises(TableError, match=expected):
            commit(loader, 3)
    assert warehouse.states == []


@pytest.mark.parametrize("earlier", [[], ["u"]])
def test_table_created_by_another_run_after_the_state_was_read_is_an_error(
    warehouse: Warehouse, earlier: list[str]
) -> None:
    """Rows of this run could otherwise replace newer rows of the other run."""
    for stream in earlier:
        warehouse.load(schema(stream, ID), record(stream, id=1), state(1))
    with loading(warehouse) as loader:
        resume(warehouse, loader)
        warehouse.load(schema("t", ID), record("t", id=2), state(2))
        feed(loader, schema("t", ID))
        with pytest.raises(TableError, match=MOVED.format("none") + " is now commit 1 of run"):
            commit(loader, 3)
    assert read_ids(warehouse) == [2]


def test_state_of_a_new_table_is_the_newest_although_the_clock_is_behind_that_of_the_last_run(
    warehouse: Warehouse,
) -> None:
    """The runs are on machines that do not share the file with the start of the last run."""
    warehouse.runs = 1000
    warehouse.load(schema("u", ID), record("u", id=1), state(1))
    warehouse.runs = 0
    with loading(warehouse) as loader:
        assert resume(warehouse, loader) == b'{"at": 1}'
        feed(loader, schema("t", ID))
        commit(loader, 2)
        loader.finish(whole=True)
    assert warehouse.states == [2]
    with loading(warehouse) as loader:
        assert resume(warehouse, loader) == b'{"at": 2}'


def test_expected_metadata_is_unknown_for_a_table_listed_in_another_case() -> None:
    """Catalogs such as Hive's list names in lower case."""
    run = CommitMetadata("job", "run1", 1, 1, 1)
    expected = ExpectedMetadata({"/tables/orders": run, "/tables/t": None})
    assert expected.get(Table("/tables/orders", "orders")) == run
    assert expected.get(Table("/tables/Orders", "Orders")) is None
    assert expected.get(Table("/tables/t", "t")) is None
    assert expected.get(Table("/tables/u", "u")) == NO_METADATA


def test_metadata_that_delta_has_removed_from_the_log_are_those_that_the_run_has_read() -> None:
    """After a restore there are none."""
    run = CommitMetadata("job", "run1", 1, 1, 1)
    assert find_newest_metadata([Commit(9), Commit(8)], run) == run
    assert find_newest_metadata([Commit(9), Commit(0)], run) is None
    assert find_newest_metadata([Commit(9, restored=("version", 7)), Commit(7)], run) is None


def remove_old_commits(folder: Path) -> None:
    """Append a row as another program, and remove all earlier commits from the log."""
    write_deltalake(folder, pa.table({"id": [9]}), mode="append")
    table = DeltaTable(folder)
    table.create_checkpoint()
    for file in (folder / "_delta_log").glob("*.json"):
        if int(file.stem) < table.version():
            file.unlink()


def test_run_continues_after_delta_has_removed_its_commits_from_the_log(
    warehouse: Warehouse,
) -> None:
    warehouse.load(schema("t", ID), record("t", id=1), state(1))
    with loading(warehouse) as loader:
        assert resume(warehouse, loader) == b'{"at": 1}'
        for number in (2, 3):
            remove_old_commits(warehouse.folder / "t")
            feed(loader, schema("t", ID))
            commit(loader, number)
        loader.finish(whole=True)
    assert warehouse.states == [2, 3]
    assert read_ids(warehouse) == [1, 2, 3, 9, 9]


def test_columns_added_after_delta_has_removed_our_commits_repeat_their_metadata(
    tmp_path: Path,
) -> None:
    table, writer = Table(str(tmp_path), "t"), DeltaWriter(avoids_spark=True)
    run = CommitMetadata("job", "run1", 1, 1, 1, "[1]")
    unused: Any = None
    writer.create(unused, table, TableSchema((Column("id", "id", Integer()),)), TableLayout())
    writer.commit_empty(unused, table, run)
    remove_old_commits(tmp_path)
    writer.alter(unused, table, [SchemaChange("add", ("name",), "string")])
    assert read_last_metadata(tmp_path) == run


def test_files_of_a_commit_that_was_made_although_its_version_seemed_taken_are_kept(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a network file system, a hard link may be created and its creation be repeated."""
    make_commit, is_repeated = DeltaTable.create_write_transaction, [True]

    def repeated(self: DeltaTable, *args: Any, **named: Any) -> None:
        make_commit(self, *args, **named)
        if is_repeated and is_repeated.pop():
            raise CommitFailedError("Transaction failed: the version exists already")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", repeated)
    states = warehouse.load(schema("t", ID), record("t", id=1), state(1))
    assert (states, read_ids(warehouse)) == ([1], [1])


def test_files_of_a_batch_that_an_earlier_attempt_has_committed_are_removed(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.load(schema("t", ID), record("t", id=1), state(1))
    files = set((warehouse.folder / "t").glob("*.parquet"))
    monkeypatch.setattr(DeltaSnapshot, "has_batch", lambda *_batch: True)
    with pytest.raises(CommitLostError):  # the table does not have the batch after all
        warehouse.load(schema("t", ID), record("t", id=2), state(2))
    assert set((warehouse.folder / "t").glob("*.parquet")) == files


def test_commit_of_another_run_is_found_after_a_lost_response(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit of the other run came right before the commit whose response is lost."""
    run, other = (CommitMetadata("job", name, 1, 1, 1) for name in ("run1", "run2"))
    table = Table(str(warehouse.folder / "t"), "t")
    history = [Commit(1, marker=run)]
    monkeypatch.setattr(delta, "commits", lambda *_: iter(history))
    unused: Any = None
    writer = DeltaWriter()
    second = replace(run, batch=2)
    assert writer._read_newest_metadata(unused, table, second) == run
    history[:0] = [Commit(3, marker=second), Commit(2, marker=other)]
    assert writer._read_newest_metadata(unused, table, second) == second
    assert writer._tables[table.key].seen == 1


def test_rows_that_another_program_adds_after_the_state_was_read_are_kept(
    warehouse: Warehouse,
) -> None:
    warehouse.load(schema("t", ID), record("t", id=1), state(1))
    with loading(warehouse) as loader:
        assert resume(warehouse, loader) == b'{"at": 1}'
        write_deltalake(warehouse.folder / "t", pa.table({"id": [7]}), mode="append")
        feed(loader, schema("t", ID))
        commit(loader, 2)
        loader.finish(whole=True)
    assert warehouse.states == [2]
    assert read_ids(warehouse) == [1, 2, 7]
