"""The Airbyte commands `spec`, `check` and `write` of target-spark as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.airbyte.running import Run, airbyte, environment
from tests.target.airbyte.test_airbyte_sync_modes import ERROR, record, state, status, stream
from tests.target.loader.crash_run import left_behind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET = (sys.executable, "-m", "target_spark")
PATIENCE = 120


def lines(*messages: Any) -> bytes:
    """Encode messages as lines; bytes among them are included unchanged."""
    return b"".join(
        message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        for message in messages
    )


def write(folder: Path, feed: bytes, *streams: Any, **config: Any) -> Run:
    config = {"path": str(folder / "tables"), **config}
    catalog = {"streams": list(streams or [stream("s", "append")])}
    return airbyte(TARGET, "write", folder, feed=feed, config=config, catalog=catalog)


def values(run: Run) -> list[Any]:
    return [emitted["stream"]["stream_state"] for emitted in run.states]


def failure(run: Run) -> dict[str, Any]:
    """Return the first ERROR trace of a run that failed."""
    assert run.code == 1, run.output
    trace: dict[str, Any] = run.traces("ERROR")[0]
    return trace


# spec


def test_spec_lists_settings_and_destination_sync_modes(tmp_path: Path) -> None:
    """Rules SP1 to SP6, SP11: one SPEC message with the supported modes; secrets are marked."""
    run = airbyte(TARGET, "spec", tmp_path)
    assert run.code == 0
    (spec,) = run.of_type("SPEC")
    assert len(run.messages) == 1
    assert set(spec["supported_destination_sync_modes"]) == {"overwrite", "append", "append_dedup"}
    assert spec["connectionSpecification"]["properties"]["path"]["type"] == ["string", "null"]
    assert "protocol_version" in spec
    settings = spec["connectionSpecification"]["properties"]
    secret = {
        name: property_["type"]
        for name, property_ in settings.items()
        if property_.get("airbyte_secret")
    }
    assert secret == {"spark": ["string", "null"], "webhook": ["string", "null"]}


def test_spec_and_usage_errors_do_not_import_pyspark(tmp_path: Path) -> None:
    """The import of pyspark takes half a second."""
    program = (
        "import sys; from target_spark.target import TargetSpark as T\n"
        "for args in (['spec'], ['write', '--config', 'x'], ['write', '--config', 'x',"
        " '--catalog', 'y']):\n"
        "    T.cli.main(args, standalone_mode=False)\n"
        "sys.exit('pyspark' in sys.modules)"
    )
    run = airbyte((sys.executable, "-c", program), "", tmp_path)
    assert (run.code, len(run.traces("ERROR"))) == (0, 2)


# Invalid arguments and settings


@pytest.mark.every_nth_case(2)
@pytest.mark.parametrize(
    "arguments,expected",
    [
        ([], "--config, --catalog"),
        (["--config", "c.json"], "--catalog"),
        (["--config", "gone.json", "--catalog", "c.json"], "gone.json"),
        (["--config", "c.json", "--catalog", "gone.json"], "'gone.json' cannot be read"),
        (["--config", "c.json", "--catalog", "c.json"], "a list of 'streams'"),
        (["--config", "bad.json", "--catalog", "c.json"], "format"),
        (["--config", "c.json", "--catalog", "c.json", "--what"], "--what"),
    ],
)
def test_invalid_arguments_and_settings_are_a_config_error(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    """Rules E10, RD9 and D16: an ERROR trace names the problem and the exit code is not 0."""
    (tmp_path / "c.json").write_text(json.dumps({"path": str(tmp_path / "t")}))
    (tmp_path / "bad.json").write_text(json.dumps({"path": "x", "format": "csv"}))
    process = subprocess.run(
        [*TARGET, "write", *arguments],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    error = failure(Run(process.returncode, process.stdout, ""))
    assert expected in error["message"]
    assert error["failure_type"] == "config_error"
    assert not (tmp_path / "t").exists()


def test_error_about_an_invalid_setting_shows_no_secret(tmp_path: Path) -> None:
    """The secret is absent from the output and the log, also if it is the invalid value."""
    secret = "s3cr3t-value"
    run = write(tmp_path, b"", format=secret, spark={"spark.hadoop.fs.s3a.secret.key": secret})
    assert "format" in failure(run)["message"]
    assert secret not in run.log + run.output.decode()


# write without rows, which starts no Spark


def test_states_without_rows_are_emitted_and_other_messages_ignored(tmp_path: Path) -> None:
    """Rules D4, D7, E6: states are emitted unchanged; invalid lines are dropped and counted."""
    dumped = (
        b'{"type":"STATE","log":null,"record":null,"state":{"type":"GLOBAL","stream":null,'
        b'"global":{"shared_state":{"x":1.10},"stream_states":[]},"global_":null,"data":null,'
        b'"destinationStats":null,"global_":null}}\n'
    )
    legacy = {"type": "STATE", "state": {"data": {"bookmarks": {}}, "new": True}}
    fields = {"type": "LOG", "log": {"level": "INFO", "message": "hello"}}
    first = [fields, b"junk\n", {"type": "NEW"}, status("s", "STARTED"), legacy]
    later = [state("s", 1), state("other", 1), state("s", 2), record("nobody"), dumped]
    run = write(tmp_path, lines(*first, *later))
    assert run.code == 0
    stats = {"destinationStats": {"recordCount": 0}}
    assert run.states[-3:] == [
        state("other", 1)["state"] | stats,
        state("s", 2)["state"] | stats,
        json.loads(dumped)["state"] | stats,
    ]
    assert {message["type"] for message in run.messages} == {"LOG", "STATE", "TRACE"}
    text = " ".join(log["message"] for log in run.of_type("LOG"))
    assert "hello" not in text
    assert "input that are not messages: 1" in text
    assert "Skipped records of stream nobody, which is not in the catalog: 1" in text


def test_record_outside_the_catalog_is_an_error_if_configured(tmp_path: Path) -> None:
    """The setting `outside_catalog` is "fail"; the state before the record is emitted."""
    feed = lines(state("s", 1), record("nobody"), state("s", 2))
    run = write(tmp_path, feed, outside_catalog="fail")
    assert "record of stream nobody" in failure(run)["message"]
    assert values(run) == [1]


def test_truncated_input_line_is_an_error(tmp_path: Path) -> None:
    run = write(tmp_path, lines(state("s", 1), b'{"type":"STATE","sta'))
    assert "The input ended within a message" in failure(run)["message"]
    assert values(run) == [1]


def test_error_trace_of_the_source_does_not_fail_the_destination(tmp_path: Path) -> None:
    """Rule E9: everything received before it is committed."""
    run = write(tmp_path, lines(state("s", 1), ERROR))
    assert (run.code, values(run), run.traces("ERROR")) == (0, [1], [])


def test_closed_standard_output_is_an_error(tmp_path: Path) -> None:
    config, catalog = tmp_path / "config.json", tmp_path / "catalog.json"
    config.write_text(json.dumps({"path": str(tmp_path / "t")}))
    catalog.write_text(json.dumps({"streams": [stream("s")]}))
    reader, writer = os.pipe()
    os.close(reader)
    try:
        process = subprocess.run(
            [*TARGET, "write", "--config", str(config), "--catalog", str(catalog)],
            input=lines(state("s", 1)),
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
            env=environment(),
            timeout=PATIENCE,
        )
    finally:
        os.close(writer)
    assert process.returncode == 1
    assert b"process that reads the states may have ended" in process.stderr


@contextmanager
def running(folder: Path, *streams: Any, **config: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run `write` in a process whose standard input stays open."""
    files = {"config": {"path": str(folder / "tables"), **config}}
    files["catalog"] = {"streams": list(streams or [stream("s", "append")])}
    arguments = []
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
        arguments += [f"--{name}", str(folder / f"{name}.json")]
    pipe = subprocess.PIPE
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [*TARGET, "write", *arguments], stdin=pipe, stdout=pipe, stderr=log, env=environment()
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def read_message(process: subprocess.Popen[bytes], kind: str = "STATE") -> dict[str, Any]:
    """Wait for the next message of a type, and return it."""
    assert process.stdout is not None
    for line in process.stdout:
        message = json.loads(line)
        if message["type"] == kind:
            return dict(message)
    raise AssertionError


def feed(process: subprocess.Popen[bytes], *messages: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(lines(*messages))
    process.stdin.flush()


def test_sigterm_ends_write_without_replacing_incomplete_overwrites(tmp_path: Path) -> None:
    """An emitted state covers committed rows only."""
    with running(tmp_path, stream("s", "append"), stream("o", "overwrite")) as process:
        feed(process, state("s", 1))
        assert read_message(process)["state"]["stream"]["stream_state"] == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert not (tmp_path / "tables" / "o").exists()


# With Spark


@pytest.mark.spark
@pytest.mark.thorough
def test_check_writes_and_reads_a_table_and_removes_it(tmp_path: Path) -> None:
    """Rules CK1 to CK5: a table is created, written, read and removed."""
    run = airbyte(TARGET, "check", tmp_path, config={"path": str(tmp_path / "tables")})
    assert (run.code, run.of_type("CONNECTION_STATUS")) == (0, [{"status": "SUCCEEDED"}])
    assert not (tmp_path / "tables").exists() or not list((tmp_path / "tables").glob("[!_]*"))


@pytest.mark.every_nth_case(2)
@pytest.mark.parametrize(
    "config,expected",
    [
        ({"path": "{file}"}, "is a file. Set path to a folder that can be written"),
        ({}, "'path' is a required property"),
        ({"path": "x", "format": "csv"}, "format"),
        ({"path": "x", "jars": ["/nowhere.jar"]}, "/nowhere.jar"),
        ({"path": "x", "spark": '{"other.setting": 1}'}, "'other.setting' does not match"),
        ({"path": "x", "spark": "no object"}, "spark: the value (not shown) does not fit"),
    ],
)
def test_failed_check_is_a_status_with_a_remedy(
    tmp_path: Path, config: dict[str, Any], expected: str
) -> None:
    """Rules CK4 to CK6: FAILED, a message with a remedy, and the exit code 0."""
    file = tmp_path / "file"
    file.touch()
    filled = {key: str(file) if value == "{file}" else value for key, value in config.items()}
    if "path" in filled and filled["path"] != str(file):
        filled["path"] = str(tmp_path / "tables")
    filled |= {"jars": filled["jars"]} if "jars" in filled else {"jars": ["/nowhere.jar"]}
    run = airbyte(TARGET, "check", tmp_path, config=filled)
    (answer,) = run.of_type("CONNECTION_STATUS")
    assert (run.code, answer["status"]) == (0, "FAILED")
    assert expected in answer["message"]


@pytest.mark.spark
@pytest.mark.thorough
def test_kill_9_emits_no_uncovered_state_and_the_next_run_completes(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Rule D5, also under kill -9: the process is killed while it commits rows of two streams."""
    streams = [stream("a", "append"), stream("b", "append_dedup", primary_key=[["id"]])]
    sent = [part for start in range(0, 400, 10) for part in ten_rows(start)]
    with running(tmp_path, *streams, flush_rows=50) as process:
        feed(process, *sent)
        states = [read_message(process)["state"]["stream"] for _ in range(2)]
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
    end = time.monotonic() + PATIENCE
    while left_behind(tmp_path):
        assert time.monotonic() < end
        time.sleep(0.1)
    for emitted in states:
        for name in "ab":
            assert set(range(emitted["stream_state"])) <= set(ids(spark, tmp_path, name))
    run = write(tmp_path, lines(*sent), *streams)
    assert (run.code, sorted(values(run))) == (0, [400, 400])
    assert last_state(tmp_path) == {"a": 400, "b": 400}
    assert sorted(ids(spark, tmp_path, "b")) == list(range(400))


def ten_rows(start: int) -> Iterator[Any]:
    """Yield ten rows of each of two streams, and then a state of each."""
    yield from (record(name, number) for number in range(start, start + 10) for name in "ab")
    yield from (state(name, start + 10) for name in "ab")


def ids(spark: SparkSession, folder: Path, name: str) -> list[int]:
    table = spark.read.format("delta").load(str(folder / "tables" / name))
    return [row.id for row in table.select("id").collect()]


def last_state(folder: Path) -> dict[str, int]:
    """Return what `last-state` prints, keyed by stream."""
    config = str(folder / "config.json")
    process = subprocess.run(
        [*TARGET, "last-state", "--config", config],
        env=environment(),
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    streams = [entry["stream"] for entry in json.loads(process.stdout)]
    return {entry["stream_descriptor"]["name"]: entry["stream_state"] for entry in streams}
