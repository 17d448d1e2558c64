"""The replay of quarantined records: none is lost, duplicated, or written over a newer one."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.events import SchemaEvent, StreamId
from tap_core.protocols.singer.reader import SingerReader
from target_spark.cli.replay import ReplayResult, ReplayWriter, reload_records
from target_spark.config import settings
from target_spark.config.options import RunInfo
from target_spark.errors import (
    QuarantineError,
    SchemaChangeError,
    StorageError,
    TableOwnerError,
    UnsupportedError,
)
from target_spark.storage.spool import SpoolFolder
from tests.target.warehouse import (
    FORMATS,
    SharedEngine,
    Warehouse,
    record,
    schema,
    state,
    versioned,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

ID = {"type": "integer"}
NUMBERS = {"id": ID, "n": {"type": ["null", "integer"]}}
TEXTS = {"id": ID, "n": {"type": ["null", "integer", "string"]}}


@pytest.fixture(params=FORMATS)
def warehouse(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables", request.param)


@pytest.fixture(params=["delta", "iceberg"])
def keyed(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables", request.param)


@pytest.fixture
def parquet(spark_session: Session, spark: SparkSession, tmp_path: Path) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables", "parquet")


def make_schema_event(properties: dict[str, Any], *keys: str) -> SchemaEvent:
    return SchemaEvent(StreamId("a"), {"type": "object", "properties": properties}, keys)


def replay_quarantine(
    warehouse: Warehouse, schema_event: SchemaEvent, *, overwrite: bool = False, **config: Any
) -> ReplayResult:
    """Replay the quarantine of stream a in a new run."""
    warehouse.runs += 1
    engine = SharedEngine(warehouse.session)
    settings_of_load = {"path": str(warehouse.folder), "format": warehouse.format, **config}
    options = settings.load_options(settings_of_load)
    run = RunInfo("job", f"run{warehouse.runs}", warehouse.runs, replays=True)
    folder = SpoolFolder(warehouse.folder.parent / "spool")
    try:
        return reload_records(engine, options, run, folder, schema_event, overwrite=overwrite)
    finally:
        folder.close()


def load_unfit(warehouse: Warehouse, *messages: dict[str, Any], **config: Any) -> None:
    """Load messages whose rows are all quarantined."""
    with pytest.raises(QuarantineError):
        warehouse.load(*messages, **config)


def read_quarantine(warehouse: Warehouse) -> list[str]:
    return [row[0] for row in warehouse.rows("a__quarantine", "raw")]


def texts(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """Return the rows of table a, with numbers and texts in one column."""
    rows = warehouse.read("a").selectExpr("id", "coalesce(n__string, cast(n as string)) AS n")
    return sorted(tuple(row) for row in rows.collect())


def test_replay_moves_records_that_fit_the_corrected_schema(
    warehouse: Warehouse,
) -> None:
    warehouse.load(
        schema("a", NUMBERS),
        record("a", id=1, n=1),
        record("a", id=2, n="two"),
        record("a", id="x", n=3),
        state(1),
    )
    replay = replay_quarantine(warehouse, make_schema_event(TEXTS))
    assert replay == ReplayResult("a", "a", found=2, loaded=1, unfit=1, kept=0)
    assert texts(warehouse) == [(1, "1"), (2, "two")]
    assert read_quarantine(warehouse) == ['{"id": "x", "n": 3}']
    marker = warehouse.marker("a")
    assert marker is not None
    assert (marker.state, marker.replay) == ('{"at": 1}', "run2")  # the state is kept
    assert "1 of 2 records are now in a; 1 still do not fit" in replay.describe()
    assert replay_quarantine(warehouse, make_schema_event(TEXTS)).unfit == 1
    assert texts(warehouse) == [(1, "1"), (2, "two")]
    assert len(read_quarantine(warehouse)) == 1


@pytest.mark.thorough
def test_records_of_a_replay_that_is_refused_stay_in_the_quarantine(warehouse: Warehouse) -> None:
    warehouse.load(schema("a", NUMBERS), record("a", id=1, n=1), record("a", id=2, n="two"))
    with pytest.raises(SchemaChangeError, match="column n is bigint in the table and string"):
        replay_quarantine(warehouse, make_schema_event(TEXTS), on_schema_change="fail")
    assert read_quarantine(warehouse) == ['{"id": 2, "n": "two"}']
    assert replay_quarantine(warehouse, make_schema_event(TEXTS)).loaded == 1
    assert texts(warehouse) == [(1, "1"), (2, "two")]
    assert read_quarantine(warehouse) == []


def test_replay_without_a_quarantine_reports_it(parquet: Warehouse) -> None:
    parquet.load(schema("a", NUMBERS), record("a", id=1, n=1))
    assert (
        "the quarantine of table" in replay_quarantine(parquet, make_schema_event(TEXTS)).describe()
    )


def test_storage_errors_are_retried_and_reported_when_the_quarantine_is_read(
    parquet: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_unfit(parquet, schema("a", NUMBERS), record("a", id=1, n="one"))
    read, failures = ReplayWriter._get_unloaded_records, [errno.EIO, errno.EACCES]

    def fail(*args: Any) -> Any:
        if not failures:
            return read(*args)
        number = failures.pop(0)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(ReplayWriter, "_get_unloaded_records", fail)
    with pytest.raises(StorageError, match=r"^Table a__quarantine: .*Permission denied"):
        replay_quarantine(parquet, make_schema_event(TEXTS))
    assert replay_quarantine(parquet, make_schema_event(TEXTS)).loaded == 1


def die(*_args: Any, **_kwargs: Any) -> None:
    raise KeyboardInterrupt("dead")


commit = ReplayWriter._commit


def die_when_staged(writer: Any, attempt: Any, *args: Any, **options: Any) -> Any:
    """End the process after the bad rows are quarantined and before the others are committed."""
    if attempt.bad is not None and attempt.bad.are_quarantined:
        die()
    return commit(writer, attempt, *args, **options)


def test_replay_interrupted_after_the_commit_duplicates_nothing(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = () if warehouse.format == "parquet" else ("id",)
    messages = [record("a", id=1, n="one"), record("a", id="x", n=0), record("a", id=2, n=2)]
    warehouse.load(schema("a", NUMBERS, *keys), *messages)
    with monkeypatch.context() as broken:
        broken.setattr(ReplayWriter, "_remove", die)
        with pytest.raises(KeyboardInterrupt):
            replay_quarantine(warehouse, make_schema_event(TEXTS, *keys))
    assert texts(warehouse) == [(1, "one"), (2, "2")]
    assert len(read_quarantine(warehouse)) == 3  # the two, and one of them quarantined again
    # After another commit, the table still names the replay that it has.
    warehouse.load(schema("a", TEXTS, *keys), record("a", id=3, n=3))
    assert replay_quarantine(warehouse, make_schema_event(TEXTS, *keys)).found == 1
    assert texts(warehouse) == [(1, "one"), (2, "2"), (3, "3")]
    assert read_quarantine(warehouse) == ['{"id": "x", "n": 0}']


def test_replay_interrupted_before_the_commit_loses_nothing(
    parquet: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_unfit(parquet, schema("a", NUMBERS), record("a", id=1, n="one"), record("a", id="x", n=0))
    with monkeypatch.context() as broken:
        broken.setattr(ReplayWriter, "_commit", die_when_staged)
        with pytest.raises(KeyboardInterrupt):
            replay_quarantine(parquet, make_schema_event(TEXTS))
    assert parquet.rows("a") == []
    assert len(read_quarantine(parquet)) == 3
    assert replay_quarantine(parquet, make_schema_event(TEXTS)) == ReplayResult(
        "a", "a", found=2, loaded=1, unfit=1
    )
    assert texts(parquet) == [(1, "one")]
    assert read_quarantine(parquet) == ['{"id": "x", "n": 0}']


def test_replay_keeps_newer_rows_unless_overwrite_is_set(keyed: Warehouse) -> None:
    load_unfit(
        keyed,
        schema("a", NUMBERS, "id"),
        record("a", id=1, n="old"),
        record("a", id=2, n="older"),
        record("a", id=2, n="two"),
    )
    keyed.load(schema("a", TEXTS, "id"), record("a", id=1, n="new"))
    replay = replay_quarantine(keyed, make_schema_event(TEXTS, "id"))
    assert replay == ReplayResult("a", "a", found=3, loaded=2, unfit=0, kept=1)
    assert texts(keyed) == [(1, "new"), (2, "two")]
    assert read_quarantine(keyed) == ['{"id": 1, "n": "old"}']
    assert "--overwrite" in replay.describe()
    assert replay_quarantine(keyed, make_schema_event(TEXTS, "id")).kept == 1
    assert replay_quarantine(keyed, make_schema_event(TEXTS, "id"), overwrite=True).loaded == 1
    assert texts(keyed) == [(1, "old"), (2, "two")]
    assert read_quarantine(keyed) == []
    assert replay_quarantine(keyed, make_schema_event(TEXTS, "id")).found == 0


def test_replay_into_a_history_adds_first_versions_only(delta: Warehouse) -> None:
    """A record whose key has versions since stays in the quarantine."""
    modes = {"write_mode": "scd2"}
    rows = [record("a", id=1, n="old"), record("a", id=2, n="two")]
    load_unfit(delta, schema("a", NUMBERS, "id"), *rows, **modes)
    delta.load(schema("a", TEXTS, "id"), record("a", id=1, n="new"), **modes)
    replay = replay_quarantine(delta, make_schema_event(TEXTS, "id"), **modes)
    assert replay == ReplayResult("a", "a", found=2, loaded=1, unfit=0, kept=1)
    current = delta.read("a").where("_sdc_is_current").selectExpr("id", "n__string")
    assert sorted(tuple(row) for row in current.collect()) == [(1, "new"), (2, "two")]
    assert read_quarantine(delta) == ['{"id": 1, "n": "old"}']


def test_replay_keeps_version_and_extraction_time(parquet: Warehouse) -> None:
    bad = {**versioned("a", 7, id=1, n="one"), "time_extracted": "2024-05-06T07:08:09.000001Z"}
    parquet.load(schema("a", NUMBERS), versioned("a", 7, id=0, n=0), bad, add_record_metadata=True)
    replay_quarantine(parquet, make_schema_event(TEXTS), add_record_metadata=True)
    rows = parquet.rows("a", "id", "_sdc_table_version")
    assert rows == [(0, 7), (1, 7)]
    (extracted_at,) = [
        row[0]
        for row in parquet.read("a")
        .where("id = 1")
        .selectExpr("cast(_sdc_extracted_at AS string)")
        .collect()
    ]
    assert extracted_at == "2024-05-06 07:08:09.000001"


def test_replay_keeps_a_record_with_a_lone_surrogate_in_quarantine(parquet: Warehouse) -> None:
    parquet.load(schema("a", TEXTS), record("a", id=1, n="\ud83d"), record("a", id=2, n="b"))
    assert replay_quarantine(parquet, make_schema_event(TEXTS)).unfit == 1
    assert len(read_quarantine(parquet)) == 1


def test_quarantine_of_an_earlier_release_is_replayed(delta: Warehouse) -> None:
    delta.load(schema("a", NUMBERS), record("a", id=1, n="one"), record("a", id=2, n=2))
    rows = delta.read("a__quarantine").drop("version", "replay").collect()
    types = delta.read("a__quarantine").drop("version", "replay").schema
    path = f"{delta.folder}/a__quarantine"
    old = delta.spark.createDataFrame(rows, types)
    old.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    assert replay_quarantine(delta, make_schema_event(TEXTS)).loaded == 1
    assert texts(delta) == [(1, "one"), (2, "2")]


def test_replay_of_an_overwritten_stream_is_rejected(delta: Warehouse) -> None:
    with pytest.raises(UnsupportedError, match="run the tap again"):
        replay_quarantine(delta, make_schema_event(TEXTS), write_mode="overwrite")


# Tables of another job


@pytest.mark.parametrize("table", ["a", "a__quarantine"])
def test_table_of_another_job_is_rejected(parquet: Warehouse, table: str) -> None:
    parquet.load(schema("a", NUMBERS), record("a", id=1, n="one"), record("a", id=2, n=2))
    if table == "a__quarantine":
        shutil.rmtree(parquet.folder / "a")
    messages = [schema("a", NUMBERS), record("a", id=3, n="three"), state(2)]
    states: list[bytes] = []
    with pytest.raises(TableOwnerError, match=f"{table} .* job 'job', and this run is job 'other'"):
        load_as("other", parquet, messages, states.append)
    assert states == []
    assert read_quarantine(parquet) == ['{"id": 1, "n": "one"}']


def test_table_under_a_former_job_name_is_accepted(parquet: Warehouse) -> None:
    """The next commit has the current name, and states are found under both."""
    parquet.load(schema("a", NUMBERS), record("a", id=1, n=1), state(1))
    states: list[bytes] = []
    messages = [schema("a", NUMBERS), record("a", id=2, n=2)]
    load_as("resolved", parquet, messages, states.append, former=("spelled", "job"))
    assert parquet.rows("a", "id") == [(1,), (2,)]
    marker = parquet.marker("a")
    assert marker is not None
    assert (marker.job, marker.state) == ("resolved", '{"at": 1}')


def load_as(
    job: str,
    warehouse: Warehouse,
    messages: list[dict[str, Any]],
    emit: Callable[[bytes], None],
    former: tuple[str, ...] = (),
) -> None:
    from target_spark.loader.batch_commit import BatchWriter
    from target_spark.loader.loader import Loader
    from target_spark.loader.report import Report
    from tests.target.warehouse import feed

    engine = SharedEngine(warehouse.session)
    options = settings.load_options({"path": str(warehouse.folder), "format": warehouse.format})
    spool = SpoolFolder(warehouse.folder.parent / "spool")
    run = RunInfo(job, "run9", 9, former=former)
    loader = Loader(
        options, engine, spool, lambda: BatchWriter(engine, options, run, spool), Report(), emit
    )
    try:
        feed(loader, *messages)
        loader.finish(whole=True)
    finally:
        loader.close()
        spool.close()


# Records that are nested too deeply


@pytest.mark.parametrize("declared", ["free", "object", "array", "nothing"])
def test_too_deeply_nested_record_is_quarantined_unchanged(
    parquet: Warehouse, declared: str
) -> None:
    """At any depth the other records are loaded, and the state is emitted."""
    kinds: dict[str, Any] = {
        "free": {"type": "object"},
        "object": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "array": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    }
    properties = {"id": {"type": "integer"}, "o": kinds.get(declared, {})}
    schema_message = schema("a", properties if declared != "nothing" else {})
    around = [record("a", id=1), record("a", id=2), state(5)]
    deep = [
        f'{{"id": 3, "o": {opened * depth}1{closed * depth}, "x": 1.10}}'
        for depth in (1_100, 9_000, 200_000)
        for opened, closed in (('{"a":', "}"), ("[", "]"))
    ]
    lines = [
        json.dumps(schema_message),
        json.dumps(around[0]),
        *(f'{{"type": "RECORD", "stream": "a", "record": {nested}}}' for nested in deep),
        *map(json.dumps, around[1:]),
    ]
    loader, spool = parquet.open()
    try:
        decoder = SingerReader()
        for event in decoder.feed("".join(f"{line}\n" for line in lines).encode()):
            loader.process_event(event)
        loader.finish(whole=True)
    finally:
        loader.close()
        spool.close()
    assert parquet.states == [5]
    if declared == "nothing":  # whole records are text, which has no depth limit
        records = {row[0] for row in parquet.rows("a", "record")}
        assert records == {*deep, '{"id": 1}', '{"id": 2}'}
    else:
        assert parquet.rows("a", "id") == [(1,), (2,)]
        assert sorted(read_quarantine(parquet)) == sorted(deep)
