"""Records that were set aside, loaded again: none lost, none twice, none over a newer one."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.events import SchemaEvent, StreamId
from tap_core.protocols.singer.reader import SingerReader
from target_spark.cli.replay import ReplayResult, ReplayWriter, reload_records
from target_spark.cli.schema_input import parse_schemas, select_one
from target_spark.config import settings
from target_spark.config.options import RunInfo
from target_spark.errors import QuarantineError, TableOwnerError, UnsupportedError
from target_spark.storage.spool import SpoolFolder
from target_spark.target import TargetSpark
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


def described(properties: dict[str, Any], *keys: str) -> SchemaEvent:
    return SchemaEvent(StreamId("a"), {"type": "object", "properties": properties}, keys)


def again(
    warehouse: Warehouse, wanted: SchemaEvent, *, overwrite: bool = False, **config: Any
) -> ReplayResult:
    """Replay the quarantine of stream a in a run of its own."""
    warehouse.runs += 1
    engine = SharedEngine(warehouse.session)
    given = {"path": str(warehouse.folder), "format": warehouse.format, **config}
    options = settings.load_options(given)
    run = RunInfo("job", f"run{warehouse.runs}", warehouse.runs, replays=True)
    folder = SpoolFolder(warehouse.folder.parent / "spool")
    try:
        return reload_records(engine, options, run, folder, wanted, overwrite=overwrite)
    finally:
        folder.close()


def load_unfit(warehouse: Warehouse, *messages: dict[str, Any], **config: Any) -> None:
    """Load rows none of which fits."""
    with pytest.raises(QuarantineError):
        warehouse.load(*messages, **config)


def aside(warehouse: Warehouse) -> list[str]:
    return [row[0] for row in warehouse.rows("a__quarantine", "raw")]


def texts(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """Return the rows of table a, numbers and texts in one column."""
    rows = warehouse.read("a").selectExpr("id", "coalesce(n__string, cast(n as string)) AS n")
    return sorted(tuple(row) for row in rows.collect())


def test_records_that_fit_a_mended_schema_leave_the_quarantine_for_the_table(
    warehouse: Warehouse,
) -> None:
    warehouse.load(
        schema("a", NUMBERS),
        record("a", id=1, n=1),
        record("a", id=2, n="two"),
        record("a", id="x", n=3),
        state(1),
    )
    found = again(warehouse, described(TEXTS))
    assert found == ReplayResult("a", "a", found=2, loaded=1, unfit=1, kept=0)
    assert texts(warehouse) == [(1, "1"), (2, "two")]
    assert aside(warehouse) == ['{"id": "x", "n": 3}']
    marker = warehouse.marker("a")
    assert marker is not None
    assert (marker.state, marker.replay) == ('{"at": 1}', "run2")  # the state is kept
    assert "1 of 2 records are now in a; 1 still do not fit" in found.describe()
    assert again(warehouse, described(TEXTS)).unfit == 1
    assert texts(warehouse) == [(1, "1"), (2, "two")]
    assert len(aside(warehouse)) == 1


def test_nothing_set_aside_is_nothing_to_replay(parquet: Warehouse) -> None:
    parquet.load(schema("a", NUMBERS), record("a", id=1, n=1))
    assert "the quarantine of table" in again(parquet, described(TEXTS)).describe()


def die(*_args: Any, **_kwargs: Any) -> None:
    raise KeyboardInterrupt("dead")


commit = ReplayWriter._commit


def die_when_staged(writer: Any, attempt: Any, *more: Any, **options: Any) -> Any:
    """Die where the rows that do not fit are set aside, and the others are not in the table."""
    if attempt.bad is not None and attempt.bad.are_quarantined:
        die()
    return commit(writer, attempt, *more, **options)


def test_a_replay_that_dies_after_the_commit_loads_nothing_twice(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = () if warehouse.format == "parquet" else ("id",)
    messages = [record("a", id=1, n="one"), record("a", id="x", n=0), record("a", id=2, n=2)]
    warehouse.load(schema("a", NUMBERS, *keys), *messages)
    with monkeypatch.context() as broken:
        broken.setattr(ReplayWriter, "_remove", die)
        with pytest.raises(KeyboardInterrupt):
            again(warehouse, described(TEXTS, *keys))
    assert texts(warehouse) == [(1, "one"), (2, "2")]
    assert len(aside(warehouse)) == 3  # the two, and one of them set aside once more
    # Whatever comes between, the table still says which replay it has.
    warehouse.load(schema("a", TEXTS, *keys), record("a", id=3, n=3))
    assert again(warehouse, described(TEXTS, *keys)).found == 1
    assert texts(warehouse) == [(1, "one"), (2, "2"), (3, "3")]
    assert aside(warehouse) == ['{"id": "x", "n": 0}']


def test_a_replay_that_dies_before_the_commit_loses_nothing(
    parquet: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_unfit(parquet, schema("a", NUMBERS), record("a", id=1, n="one"), record("a", id="x", n=0))
    with monkeypatch.context() as broken:
        broken.setattr(ReplayWriter, "_commit", die_when_staged)
        with pytest.raises(KeyboardInterrupt):
            again(parquet, described(TEXTS))
    assert parquet.rows("a") == []
    assert len(aside(parquet)) == 3
    assert again(parquet, described(TEXTS)) == ReplayResult("a", "a", found=2, loaded=1, unfit=1)
    assert texts(parquet) == [(1, "one")]
    assert aside(parquet) == ['{"id": "x", "n": 0}']


def test_a_row_that_may_be_newer_stays_unless_it_shall_be_overwritten(keyed: Warehouse) -> None:
    load_unfit(
        keyed,
        schema("a", NUMBERS, "id"),
        record("a", id=1, n="old"),
        record("a", id=2, n="older"),
        record("a", id=2, n="two"),
    )
    keyed.load(schema("a", TEXTS, "id"), record("a", id=1, n="new"))
    found = again(keyed, described(TEXTS, "id"))
    assert found == ReplayResult("a", "a", found=3, loaded=2, unfit=0, kept=1)
    assert texts(keyed) == [(1, "new"), (2, "two")]
    assert aside(keyed) == ['{"id": 1, "n": "old"}']
    assert "--overwrite" in found.describe()
    assert again(keyed, described(TEXTS, "id")).kept == 1
    assert again(keyed, described(TEXTS, "id"), overwrite=True).loaded == 1
    assert texts(keyed) == [(1, "old"), (2, "two")]
    assert aside(keyed) == []
    assert again(keyed, described(TEXTS, "id")).found == 0


def test_a_history_takes_back_what_was_set_aside(delta: Warehouse) -> None:
    """A record of a new key is its first version; one whose key has gone on stays aside."""
    modes = {"write_mode": "scd2"}
    rows = [record("a", id=1, n="old"), record("a", id=2, n="two")]
    load_unfit(delta, schema("a", NUMBERS, "id"), *rows, **modes)
    delta.load(schema("a", TEXTS, "id"), record("a", id=1, n="new"), **modes)
    found = again(delta, described(TEXTS, "id"), **modes)
    assert found == ReplayResult("a", "a", found=2, loaded=1, unfit=0, kept=1)
    current = delta.read("a").where("_sdc_is_current").selectExpr("id", "n__string")
    assert sorted(tuple(row) for row in current.collect()) == [(1, "new"), (2, "two")]
    assert aside(delta) == ['{"id": 1, "n": "old"}']


def test_the_version_of_a_row_and_when_it_was_extracted_survive(parquet: Warehouse) -> None:
    bad = {**versioned("a", 7, id=1, n="one"), "time_extracted": "2024-05-06T07:08:09.000001Z"}
    parquet.load(schema("a", NUMBERS), versioned("a", 7, id=0, n=0), bad, add_record_metadata=True)
    again(parquet, described(TEXTS), add_record_metadata=True)
    rows = parquet.rows("a", "id", "_sdc_table_version")
    assert rows == [(0, 7), (1, 7)]
    (at,) = [
        row[0]
        for row in parquet.read("a")
        .where("id = 1")
        .selectExpr("cast(_sdc_extracted_at AS string)")
        .collect()
    ]
    assert at == "2024-05-06 07:08:09.000001"


def test_half_a_letter_does_not_become_a_question_mark(parquet: Warehouse) -> None:
    parquet.load(schema("a", TEXTS), record("a", id=1, n="\ud83d"), record("a", id=2, n="b"))
    assert again(parquet, described(TEXTS)).unfit == 1
    assert len(aside(parquet)) == 1


def test_a_quarantine_made_before_replays_is_read_too(delta: Warehouse) -> None:
    delta.load(schema("a", NUMBERS), record("a", id=1, n="one"), record("a", id=2, n=2))
    kept = delta.read("a__quarantine").drop("version", "replay").collect()
    types = delta.read("a__quarantine").drop("version", "replay").schema
    place = f"{delta.folder}/a__quarantine"
    old = delta.spark.createDataFrame(kept, types)
    old.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(place)
    assert again(delta, described(TEXTS)).loaded == 1
    assert texts(delta) == [(1, "one"), (2, "2")]


def test_a_stream_that_each_run_overwrites_is_not_replayed(delta: Warehouse) -> None:
    with pytest.raises(UnsupportedError, match="run the tap again"):
        again(delta, described(TEXTS), write_mode="overwrite")


# Where the schema comes from


def described_in(text: str, stream: str) -> SchemaEvent:
    return select_one(parse_schemas(text), stream)


def test_the_schema_is_found_in_a_catalog_or_in_messages() -> None:
    properties = {"type": "object", "properties": NUMBERS}
    entry = {"tap_stream_id": "a", "stream": "a", "schema": properties}
    root = {"breadcrumb": [], "metadata": {"table-key-properties": ["id"]}}
    inner = {"breadcrumb": ["properties", "n"], "metadata": {}}
    for catalog in (
        {"streams": [{"stream": "b"}, {**entry, "key_properties": ["id"]}]},
        {"streams": [{**entry, "metadata": [inner, root]}]},
    ):
        assert described_in(json.dumps(catalog, indent=2), "a") == described(NUMBERS, "id")
    assert described_in(json.dumps({"streams": [entry]}), "a") == described(NUMBERS)
    messages = [schema("a", NUMBERS), record("a", id=1), schema("b", NUMBERS), schema("a", TEXTS)]
    text = "\n".join(map(json.dumps, messages))
    assert described_in(text, "a") == described(TEXTS)


@pytest.mark.parametrize(
    "text",
    ['{"type": "object", "properties": {}}', "", '{"streams": []}', '{"type":"SCHEMA"\n', "[]"],
)
def test_what_holds_no_schema_of_the_stream_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match="schema"):
        described_in(text, "a")


def commanded(
    folder: Path, capsys: pytest.CaptureFixture[str], *words: str, **config: Any
) -> tuple[int, str]:
    """Run ``target-spark replay a`` where it does not come as far as Spark."""
    given = {"path": str(folder / "tables"), "format": "parquet", **config}
    (folder / "config.json").write_text(json.dumps(given))
    line = ["replay", "a", "--config", str(folder / "config.json"), *words]
    code = TargetSpark.cli.main(line, standalone_mode=False)
    said = capsys.readouterr()
    assert said.out == ""
    return code, said.err


def test_what_a_replay_cannot_be_made_of_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = commanded(tmp_path, capsys, "--schema", str(tmp_path / "none.json"))
    assert (code, "The schema cannot be read" in said) == (1, True)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(schema("a", NUMBERS))))
    code, said = commanded(tmp_path, capsys, "--schema", "-", dry_run=True)
    assert (code, "dry run" in said) == (1, True)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(schema("b", NUMBERS))))
    maps = {"b": {"__alias__": "a", "id": "id"}, "a": None}
    code, said = commanded(tmp_path, capsys, "--schema", "-", stream_maps=maps, dry_run=True)
    assert (code, "dry run" in said) == (1, True)  # it found b, which the maps call a
    assert not (tmp_path / "tables").exists()


# Tables of another job


@pytest.mark.parametrize("table", ["a", "a__quarantine"])
def test_a_table_that_another_job_loads_is_refused(parquet: Warehouse, table: str) -> None:
    parquet.load(schema("a", NUMBERS), record("a", id=1, n="one"), record("a", id=2, n=2))
    if table == "a__quarantine":
        shutil.rmtree(parquet.folder / "a")
    messages = [schema("a", NUMBERS), record("a", id=3, n="three"), state(2)]
    states: list[bytes] = []
    with pytest.raises(TableOwnerError, match=f"{table} .* job 'job', and this run is job 'other'"):
        load_as("other", parquet, messages, states.append)
    assert states == []
    assert aside(parquet) == ['{"id": 1, "n": "one"}']


def test_a_table_under_a_former_name_of_the_job_is_its_own(parquet: Warehouse) -> None:
    """The next commit has the name of now, and states are found under both."""
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
    from target_spark.loader.batch_writer import BatchWriter
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
def test_a_record_that_is_nested_too_deeply_is_set_aside_as_it_came(
    parquet: Warehouse, declared: str
) -> None:
    """However deep it is; the records around it are loaded, and the state leaves."""
    kinds: dict[str, Any] = {
        "free": {"type": "object"},
        "object": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "array": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    }
    properties = {"id": {"type": "integer"}, "o": kinds.get(declared, {})}
    described = schema("a", properties if declared != "nothing" else {})
    around = [record("a", id=1), record("a", id=2), state(5)]
    deep = [
        f'{{"id": 3, "o": {opened * depth}1{closed * depth}, "x": 1.10}}'
        for depth in (1_100, 9_000, 200_000)
        for opened, closed in (('{"a":', "}"), ("[", "]"))
    ]
    lines = [
        json.dumps(described),
        json.dumps(around[0]),
        *(f'{{"type": "RECORD", "stream": "a", "record": {each}}}' for each in deep),
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
    if declared == "nothing":  # a whole record is a text, in which all of it stands
        kept = {row[0] for row in parquet.rows("a", "record")}
        assert kept == {*deep, '{"id": 1}', '{"id": 2}'}
    else:
        assert parquet.rows("a", "id") == [(1,), (2,)]
        assert sorted(aside(parquet)) == sorted(deep)
