"""The command `target-spark last-state`, and loads that are resumed from its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.config.loading import ConfigInput
from tap_core.protocols.singer.reader import SingerReader
from target_spark.cli.commands import _create_target
from target_spark.cli.last_state import find_recoverable_tables, get_job_metadata
from target_spark.config import settings
from target_spark.errors import TableError
from target_spark.target import TargetSpark
from tests.target.warehouse import ID, Warehouse, feed, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

ROOT = Path(__file__).parents[3]


def refuse_spark() -> Any:
    raise AssertionError("these tables can be read without Spark")


def run_last_state(
    folder: Path, *arguments: str, **config: Any
) -> subprocess.CompletedProcess[str]:
    """Run ``target-spark last-state`` in a process that has no Java on its PATH."""
    options = {"path": str(folder / "tables"), "format": "parquet", "job": "job", **config}
    (folder / "config.json").write_text(json.dumps(options))
    program = "from target_spark.target import TargetSpark; TargetSpark.cli()"
    return subprocess.run(
        [sys.executable, "-c", program, "last-state", "--config", "config.json", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/nowhere"},
        check=False,
    )


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command in this process; return exit code, standard output and standard error."""
    try:
        code = TargetSpark.cli.main(list(arguments), standalone_mode=False)
    except SystemExit as error:
        code = error.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_lists_the_commands_without_importing_pyspark() -> None:
    script = (
        "import sys; from target_spark.target import TargetSpark\n"
        "for words in (['--help'], ['last-state', '--help'], ['doctor', '-h'], ['replay', '-h']):\n"
        "    try: TargetSpark.cli.main(words)\n"
        "    except SystemExit as end: print('code', end.code)\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j', 'rich')])"
    )
    env = {"PYTHONPATH": str(ROOT), "PATH": "/nowhere"}
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=env, check=True
    )
    assert process.stdout.endswith("[]\n")
    assert process.stdout.count("code 0") == 4
    help_text = process.stdout.partition("code")[0]
    assert all(word in help_text for word in ("doctor", "last-state", "replay"))


def test_without_tables_last_state_fails_with_a_message(tmp_path: Path) -> None:
    process = run_last_state(tmp_path)
    assert (process.returncode, process.stdout) == (1, "")
    assert "No table holds a state of job job (there are no tables)" in process.stderr


def test_invalid_settings_are_reported_without_a_traceback(tmp_path: Path) -> None:
    process = run_last_state(tmp_path, flush_rows=0, report="report.json")
    assert (process.returncode, process.stdout) == (1, "")
    assert "flush_rows" in process.stderr
    assert "Traceback" not in process.stderr
    assert not (tmp_path / "report.json").exists()  # that of the last run would be lost


def test_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exc_info:
        TargetSpark.cli.main(["last-state", "--wrong"])
    captured = capsys.readouterr()
    assert (exc_info.value.code, captured.out) == (2, "")
    assert "target-spark last-state" in captured.err
    assert "No such option: --wrong" in captured.err


@pytest.fixture(params=["delta", "iceberg", "parquet"])
def warehouse(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables", request.param)


@pytest.mark.thorough
@pytest.mark.spark
def test_last_state_is_that_of_the_newest_run_at_the_path(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse.load(schema("a", ID), record("a", id=1), state("first run"))
    warehouse.load(
        schema("a", ID),
        schema("b", ID),
        schema("c", ID),
        record("a", id=2),
        record("b", id="x"),
        record("b", id=3),
        state("second run"),
    )
    foreign = warehouse.folder / "foreign"
    if warehouse.format != "iceberg":
        warehouse.spark.range(3).write.format(warehouse.format).save(str(foreign))
    (warehouse.folder / "notes.txt").write_text("no table")
    (warehouse.folder / "empty").mkdir()
    path = warehouse.folder.parent / "config.json"
    options = {"path": str(warehouse.folder), "format": warehouse.format, "job": "job"}
    path.write_text(json.dumps(options))
    code, out, err = run_command(capsys, "last-state", "--config", str(path))
    assert (code, out) == (0, '{"at": "second run"}\n')
    assert "of run run2" in err
    assert ("Unknown: foreign have rows" in err) == foreign.exists()
    code, out, err = run_command(capsys, "last-state", "--config", str(path), "--job", "other")
    assert (code, out) == (1, "")
    assert "to the jobs job: name one with --job" in err
    tables = find_recoverable_tables(
        settings.load_options({**options, "path": f"{warehouse.folder}/"}), refuse_spark
    )
    assert {recovered.table.name for recovered in tables} - {"foreign"} == {
        "a",
        "b",
        "b__quarantine",
        "c",
    }
    if warehouse.format != "parquet":
        # By Spark, as for tables that are not on this machine, the answer is the same.
        assert tables == read_tables_by_spark(warehouse, options["path"])


def read_tables_by_spark(warehouse: Warehouse, path: str) -> Any:
    from target_spark.cli import last_state

    options = settings.load_options({"path": path, "format": warehouse.format})
    assert list(last_state._list_folder_tables(f"{path}/nothing", warehouse.spark)) == []
    tables = last_state._list_folder_tables(path, warehouse.spark)
    return list(last_state._read_with_writer(options, warehouse.spark, tables))


@pytest.mark.thorough
@pytest.mark.spark
def test_table_that_never_had_rows_is_not_unknown(warehouse: Warehouse) -> None:
    if warehouse.format == "delta":
        warehouse.spark.sql(
            f"CREATE TABLE delta.`{warehouse.folder}/created` (id BIGINT) USING delta"
        )
    else:
        warehouse.load(schema("created", ID), schema("b", ID), record("b", id=1))
    options = {"path": str(warehouse.folder), "format": warehouse.format}
    tables = {
        recovered.table.name: recovered
        for recovered in find_recoverable_tables(settings.load_options(options), refuse_spark)
    }
    assert not tables["created"].unknown  # it never had a row
    assert get_job_metadata(["job"], tables.values()) is None


def test_unreadable_lost_and_found_of_a_volume_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a folder in it would be a PermissionError, which root does not get."""
    for name in ("lost+found", "orders"):
        (tmp_path / name / "_delta_log").mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path).name != "lost+found")
    options = settings.load_options({"path": str(tmp_path)})
    tables = find_recoverable_tables(options, refuse_spark)
    assert [recovered.table.name for recovered in tables] == ["orders"]


@pytest.mark.thorough
@pytest.mark.spark
def test_tables_of_a_database_are_found_by_name(delta: Warehouse) -> None:
    spark = delta.session.spark()
    spark.sql("CREATE DATABASE last_state")
    try:
        spark.sql("CREATE TABLE last_state.foreign (id BIGINT) USING delta")
        spark.sql("INSERT INTO last_state.foreign VALUES (1)")
        spark.sql("CREATE TABLE last_state.empty (id BIGINT) USING delta")
        spark.sql("CREATE TABLE last_state.text (id BIGINT) USING parquet")
        spark.sql("CREATE TABLE last_state.`_target_spark_runs` (id BIGINT) USING delta")
        database_options = {"path": str(delta.folder), "database": "last_state"}
        delta.load(schema("a", ID), record("a", id=1), state("named"), database="last_state")
        tables = find_recoverable_tables(settings.load_options(database_options), lambda: spark)
        marker = get_job_metadata(["job"], tables)
        assert marker is not None
        assert marker.state == '{"at": "named"}'
        assert {recovered.table.name: recovered.unknown for recovered in tables} == {
            "a": False,
            "empty": False,
            "foreign": True,
        }
    finally:
        spark.sql("DROP DATABASE last_state CASCADE")
    options = {"path": str(delta.folder), "database": "last_state"}
    assert find_recoverable_tables(settings.load_options(options), lambda: spark) == []
    options["catalog"] = "nowhere"
    with pytest.raises(TableError, match=r"nowhere\.last_state cannot be listed"):
        find_recoverable_tables(settings.load_options(options), lambda: spark)


@pytest.mark.thorough
@pytest.mark.spark
def test_database_that_an_iceberg_catalog_does_not_have_has_no_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Iceberg's catalogs raise an Iceberg exception, unlike Spark's own catalog."""
    catalog = "spark.sql.catalog.unused"
    spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{catalog}.type", "hadoop")
    spark.conf.set(f"{catalog}.warehouse", str(tmp_path))
    options = {"format": "iceberg", "catalog": "unused", "database": "not_there"}
    assert find_recoverable_tables(settings.load_options(options), lambda: spark) == []
    spark.conf.set("spark.sql.catalog.closed", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.closed.type", "rest")
    spark.conf.set("spark.sql.catalog.closed.uri", "http://127.0.0.1:1")
    options["catalog"] = "closed"
    with pytest.raises(TableError, match=r"closed\.not_there cannot be listed.*Connection refused"):
        find_recoverable_tables(settings.load_options(options), lambda: spark)


def test_unexpected_error_shows_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: Any) -> None:
        raise ValueError("the server said s3cr3t")

    monkeypatch.setattr("target_spark.cli.last_state.find_recoverable_tables", fail)
    options = {"path": "x", "format": "parquet", "spark": {"spark.x.secret": "s3cr3t"}}
    (tmp_path / "config.json").write_text(json.dumps(options))
    code, out, err = run_command(capsys, "last-state", "--config", str(tmp_path / "config.json"))
    assert (code, out) == (1, "")
    assert "the server said ***" in err
    assert "s3cr3t" not in err


# Resumed loads


def run_tap(folder: Path, *arguments: str) -> list[bytes]:
    """Run the sample tap; return its lines of stream weather, and its states."""
    (folder / "tap.json").write_text(json.dumps({"until": "2013-01-03T00:00:00Z"}))
    program = "from tap_flights.tap import TapFlights; TapFlights.cli()"
    process = subprocess.run(
        [sys.executable, "-c", program, "--config", "tap.json", *arguments],
        capture_output=True,
        cwd=folder,
        env={"PYTHONPATH": f"{ROOT}:{ROOT}/samples/tap_flights", "PATH": "/nowhere"},
        check=True,
    )
    lines = (line for line in process.stdout.splitlines(keepends=True) if _is_weather(line))
    return list(lines)


def _is_weather(line: bytes) -> bool:
    message = json.loads(line)
    return message["type"] == "STATE" or message["stream"] == "weather"


def list_record_keys(lines: Iterable[bytes]) -> Iterator[str]:
    for line in lines:
        message = json.loads(line)
        if message["type"] == "RECORD":
            yield f"{message['record']['origin']} {message['record']['time_hour']}"


@pytest.mark.thorough
@pytest.mark.spark
def test_load_without_a_state_file_resumes_from_its_table(
    warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    all_lines = run_tap(tmp_path)
    state_positions = [n for n, line in enumerate(all_lines) if json.loads(line)["type"] == "STATE"]
    last_position = state_positions[len(state_positions) // 2]
    config: dict[str, Any] = {"write_mode": "append", "flush_rows": 20, "emit": lambda _state: None}
    loader, spool = warehouse.open(**config)
    decoder = SingerReader()
    for line in all_lines[:last_position]:
        for event in decoder.feed(line):
            loader.process_event(event)
    loader._pipeline.wait()
    loader.close()  # like a crash: spooled rows and emitted states are lost
    spool.close()
    committed = Counter(f"{origin} {hour}" for origin, hour in read_weather_keys(warehouse))
    assert 0 < sum(committed.values()) < len(list(list_record_keys(all_lines)))

    options = {"path": str(warehouse.folder), "format": warehouse.format, "job": "job"}
    (tmp_path / "config.json").write_text(json.dumps(options))
    code, out, _ = run_command(capsys, "last-state", "--config", str(tmp_path / "config.json"))
    assert code == 0
    (tmp_path / "state.json").write_text(out)
    resumed_lines = run_tap(tmp_path, "--state", "state.json")
    warehouse.load(*map(json.loads, resumed_lines), **config)
    rows = Counter(f"{origin} {hour}" for origin, hour in read_weather_keys(warehouse))
    resent = Counter(list_record_keys(resumed_lines))
    assert set(rows) == set(list_record_keys(all_lines))  # none is missing
    assert rows == committed + resent  # and no unexpected row was loaded


def read_weather_keys(warehouse: Warehouse) -> list[tuple[str, str]]:
    hour = "date_format(time_hour, \"yyyy-MM-dd'T'HH:mm:ss'Z'\")"
    return [tuple(row) for row in warehouse.read("weather").selectExpr("origin", hour).collect()]


class CountingTap:
    """A tap that sends each row once, and a state after every tenth row."""

    def __init__(self, first: int) -> None:
        self._first = first

    def messages(self) -> Iterator[dict[str, Any]]:
        yield schema("a", ID)
        for number in range(self._first, 101):
            yield record("a", id=number)
            if number % 10 == 0:
                yield state(number)


@pytest.mark.thorough
@pytest.mark.spark
def test_appended_stream_has_no_duplicates_after_a_resume(
    spark_session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    warehouse = Warehouse(spark_session, spark, tmp_path / "tables", "parquet")
    loader, spool = warehouse.open(write_mode="append", flush_rows=15)
    feed(loader, *list(CountingTap(1).messages())[:70])
    loader._pipeline.wait()
    loader.close()
    spool.close()
    before = sorted(row[0] for row in warehouse.rows("a"))
    options = {"path": str(warehouse.folder), "format": warehouse.format}
    marker = get_job_metadata(
        ["job"], find_recoverable_tables(settings.load_options(options), refuse_spark)
    )
    assert marker is not None
    last_number = json.loads(marker.state or "")["at"]
    assert before == list(range(1, last_number + 1))  # a full batch ends at a STATE message
    assert last_number >= 40
    warehouse.load(*CountingTap(last_number + 1).messages(), write_mode="append")
    assert sorted(row[0] for row in warehouse.rows("a")) == list(range(1, 101))


@pytest.mark.thorough
@pytest.mark.spark
def test_state_that_a_later_run_has_not_covered_is_printed_with_a_warning(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse.load(schema("a", ID, "id"), record("a", id=1), state("first run"))
    warehouse.load(schema("a", ID, "id"), record("a", id=1))
    path = warehouse.folder.parent / "config.json"
    options = {"path": str(warehouse.folder), "format": warehouse.format, "job": "job"}
    path.write_text(json.dumps(options))
    code, out, err = run_command(capsys, "last-state", "--config", str(path))
    assert (code, out) == (0, '{"at": "first run"}\n')
    assert "resume from the state with which that run began" in err
    warehouse.load(schema("a", ID, "id"), record("a", id=1), state("third run"))
    code, out, err = run_command(capsys, "last-state", "--config", str(path))
    assert (code, out) == (0, '{"at": "third run"}\n')
    assert "resume from" not in err


class SignalOnDelete:
    """An object during whose deletion a signal arrives."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def delete_and_wait() -> None:
    SignalOnDelete()
    time.sleep(20)


def test_signal_during_a_finalizer_ends_a_command_after_it(tmp_path: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    try:
        _create_target(TargetSpark, ConfigInput({"path": str(tmp_path), "format": "parquet"}))
        with pytest.raises(SystemExit) as exc_info:
            delete_and_wait()
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    assert exc_info.value.code == -signal.SIGTERM
