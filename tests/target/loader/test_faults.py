"""Commits whose response is lost, storage that is unavailable for a while, clocks that jump."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.errors import StorageError
from target_spark.loader.commit_attempt import Written
from target_spark.storage import commit_retry
from target_spark.storage.commit_retry import FailureKind
from target_spark.tables.commit_metadata import find_latest_metadata
from target_spark.tables.parquet_manifest import CommitManifest
from target_spark.tables.table import Table
from target_spark.writers import get_writer
from target_spark.writers.delta import writer as delta_writer
from tests.target.loader.crash import MODES
from tests.target.warehouse import ID, Warehouse, feed, make_warehouse, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

TIMEOUT = (
    "An error occurred while calling o1.save.\n: java.net.SocketTimeoutException: Read timed out"
    "\n\tat x"
)


class CommitTimeoutError(Exception):
    """An error with a message as Spark's."""


@pytest.fixture
def open_warehouse(
    spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Callable[[str], Warehouse]:
    return lambda form: make_warehouse(form, spark_session, spark, tmp_path)


@pytest.fixture
def delta(open_warehouse: Callable[[str], Warehouse]) -> Warehouse:
    return open_warehouse("delta")


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses before retries."""
    for fault, pauses in commit_retry.BACKOFF_SECONDS.items():
        monkeypatch.setitem(commit_retry.BACKOFF_SECONDS, fault, tuple(0.01 for _ in pauses))


class Storage:
    """Storage that fails some commits, after they were made or instead of making them."""

    def __init__(self) -> None:
        self.commits = 0
        self.after: set[int] = set()
        self.instead: set[int] = set()

    def fail_some(
        self, real: Callable[..., Any], counts: Callable[..., bool]
    ) -> Callable[..., Any]:
        def commit(*args: Any, **options: Any) -> Any:
            if not counts(*args):
                return real(*args, **options)
            self.commits += 1
            number = self.commits
            if number in self.instead:
                raise CommitTimeoutError(TIMEOUT)
            answer = real(*args, **options)
            if number in self.after:
                raise CommitTimeoutError(TIMEOUT)
            return answer

        return commit


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Storage:
    """Intercept every way in which a format commits rows."""
    from pyspark.sql import DataFrameWriterV2, MergeIntoWriter

    storage = Storage()

    def always(*_args: Any) -> bool:
        return True

    for kind, name in (
        (DataFrameWriterV2, "append"),
        (DataFrameWriterV2, "overwrite"),
        (MergeIntoWriter, "merge"),
        (CommitManifest, "write"),
    ):
        monkeypatch.setattr(kind, name, storage.fail_some(getattr(kind, name), always))
    for commit in (delta_writer.commit_files, delta_writer.merge_rows):
        monkeypatch.setattr(delta_writer, commit.__name__, storage.fail_some(commit, always))
    return storage


def rows(warehouse: Warehouse, name: str, column: str = "id") -> list[Any]:
    table = Table(f"{warehouse.folder}/{name}", name)
    table_rows = get_writer(warehouse.format).rows(warehouse.spark, table)
    return sorted(row[0] for row in table_rows.select(column).collect())


def batches() -> Iterator[list[dict[str, Any]]]:
    """Yield the messages of three batches."""
    for start in (1, 3, 5):
        yield [record("a", id=start), record("a", id=start + 1), state(start + 1)]


@pytest.mark.parametrize(
    "form, mode", [(form, mode) for form, modes in MODES.items() for mode in modes]
)
def test_commit_with_a_lost_response_is_recognized_and_not_repeated(
    open_warehouse: Callable[[str], Warehouse], storage: Storage, form: str, mode: str
) -> None:
    warehouse = open_warehouse(form)
    first = [] if mode != "overwrite" else [record("a", id=99), state(0)]
    if first:
        warehouse.load(schema("a", ID, "id"), *first, write_mode=mode)
    storage.commits, storage.after = 0, {1, 2, 4}
    messages = [message for batch in batches() for message in batch]
    states = warehouse.load(schema("a", ID, "id"), *messages, write_mode=mode, flush_rows=2)
    assert states[-1] == 6
    assert storage.commits >= (1 if mode == "overwrite" else 3)
    assert rows(warehouse, "a") == [*range(1, 7)]
    marker = warehouse.marker("a")
    assert marker is not None
    assert marker.state == '{"at": 6}'
    assert warehouse.counts("a")["written"] == 6
    assert not list((warehouse.folder.parent / "spool").iterdir())


@pytest.mark.parametrize("form", [*MODES])
def test_lost_response_duplicates_no_quarantined_row(
    open_warehouse: Callable[[str], Warehouse], storage: Storage, form: str
) -> None:
    warehouse = open_warehouse(form)
    for lost in (1, 2):  # the quarantine's own commit, then the good rows' commit after it
        storage.commits, storage.after = 0, {lost + (form != "parquet")}
        table = f"t{lost}"
        messages = [schema(table, ID), record(table, id=1), record(table, id="x"), state(1)]
        assert warehouse.load(*messages) == [1]
        assert rows(warehouse, table) == [1]
        assert rows(warehouse, f"{table}__quarantine", "raw") == ['{"id": "x"}']
        assert warehouse.counts(table)["quarantined"] == 1


def test_commit_is_retried_while_storage_is_unavailable(
    delta: Warehouse, storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    storage.instead = {1, 2, 3, 4}
    assert delta.load(schema("a", ID), record("a", id=1), state(1)) == [1]
    assert delta.rows("a") == [(1,)]
    tries = [text for text in caplog.messages if "is repeated in" in text]
    assert len(tries) == 4
    assert all("Table a: attempt" in text and "Read timed out" in text for text in tries)


def test_unavailable_storage_is_an_error_after_five_tries(
    delta: Warehouse, storage: Storage
) -> None:
    storage.instead = set(range(1, 9))
    with pytest.raises(StorageError, match=r"Table a.*Tried 5 times.*Read timed out"):
        delta.load(schema("a", ID), record("a", id=1), state(1))
    assert delta.states == []
    assert storage.commits == 5
    storage.instead = set()
    assert delta.load(schema("a", ID), record("a", id=1), state(1)) == [1]
    assert delta.rows("a") == [(1,)]


def test_signal_ends_the_retries(
    delta: Warehouse, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(commit_retry.BACKOFF_SECONDS, FailureKind.TRANSIENT, (600.0,))
    storage.instead = set(range(1, 99))
    signalled = threading.Event()
    loader, spool = delta.open(flush_rows=1)
    loader._pipeline.writer._stopping = signalled  # type: ignore[attr-defined]
    feed(loader, schema("a", ID), record("a", id=1))
    while not storage.commits:
        time.sleep(0.01)
    signalled.set()
    with pytest.raises(StorageError, match=r"Tried (once|2 times)"):
        loader.stop()
    loader.close()
    spool.close()


def test_error_after_a_lost_response_does_not_claim_that_nothing_is_committed(
    delta: Warehouse, storage: Storage
) -> None:
    storage.after = {1}
    signalled = threading.Event()
    signalled.set()
    loader, spool = delta.open()
    loader._pipeline.writer._stopping = signalled  # type: ignore[attr-defined]
    feed(loader, schema("a", ID), record("a", id=1), state(1))
    with pytest.raises(StorageError, match=r"Tried once.*commit of this batch is not confirmed"):
        loader.finish(whole=True)
    loader.close()
    spool.close()
    assert delta.states == []
    assert delta.rows("a") == [(1,)]


def test_permanent_failure_is_not_retried(
    delta: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def refuse(*_args: Any, **_options: Any) -> None:
        tries.append(1)
        raise CommitTimeoutError("java.lang.IllegalStateException: no")

    monkeypatch.setattr(delta_writer, "commit_files", refuse)
    with pytest.raises(CommitTimeoutError):
        delta.load(schema("a", ID), record("a", id=1), state(1))
    assert tries == [1]
    assert delta.states == []


def test_failure_after_the_commit_does_not_repeat_the_commit(
    delta: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even a transient failure must not repeat it under a new number."""

    def late(*_args: Any) -> None:
        raise CommitTimeoutError(TIMEOUT)

    monkeypatch.setattr(Written, "verify", late)
    with pytest.raises(CommitTimeoutError):
        delta.load(schema("a", ID), record("a", id=1), state(1), write_mode="append")
    assert delta.states == []
    assert delta.rows("a") == [(1,)]


# The clock


def test_run_with_a_clock_set_back_is_still_the_newest(delta: Warehouse) -> None:
    options = {"add_record_metadata": True}
    delta.runs = 10_000
    messages = [schema("a", ID), schema("b", ID), record("a", id=1), record("b", id=1), state(1)]
    delta.load(*messages, **options)
    delta.runs = 3
    assert delta.load(schema("a", ID), record("a", id=2), state(2), **options) == [2]
    newest = find_latest_metadata([delta.marker("a"), delta.marker("b")])
    assert newest is not None
    assert (newest.state, newest.run) == ('{"at": 2}', "run4")
    sequences = [row[0] for row in delta.read("a").orderBy("id").select("_sdc_sequence").collect()]
    assert sequences == sorted(sequences)


def test_clock_jump_during_a_run_does_not_affect_timeouts(
    delta: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(2_000_000_000, 0, -1_000_000))
    monkeypatch.setattr(time, "time", lambda: next(now))
    loader, spool = delta.open(flush_seconds=0.2, add_record_metadata=True)
    feed(loader, schema("a", ID))
    for number in (1, 2):
        feed(loader, record("a", id=number), state(number))
        end = time.monotonic() + 100
        while number not in delta.states:
            loader.poll()
            assert time.monotonic() < end
            time.sleep(0.02)
    loader.finish(whole=True)
    loader.close()
    spool.close()
    assert delta.rows("a", "id") == [(1,), (2,)]
