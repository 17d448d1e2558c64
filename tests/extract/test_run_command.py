"""`target-spark run` on one machine: invalid arguments, failed contexts and loaded rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from tap_core import Stream, Tap
from tap_core.events import Event, Rows, SchemaEvent, StreamId
from tap_core.types import Context, Record
from target_spark.errors import ReadingError
from target_spark.target import TargetSpark
from tests.extract.many_taps import CONTEXTS, Shops

TAP = "tests.extract.sample_taps:SampleTap"
MANY = "tests.extract.many_taps:ManyTap"
ROOT = Path(__file__).parents[2]


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a separate process."""
    return subprocess.run(
        [sys.executable, "-m", "target_spark", "run", *arguments],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def write_settings(folder: Path, name: str, **settings: Any) -> str:
    path = folder / name
    path.write_text(json.dumps(settings))
    return str(path)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--tap", "tests.nowhere:Tap"], "cannot be imported"),
        (["--tap", ":Tap"], "cannot be imported"),
        (["--tap", "json:dumps"], "is not a tap"),
        (
            ["--tap", "tap_flights.tap:TapFlight"],
            "as in tap_x.tap:TapX. This module has tap_flights.tap:TapFlights.",
        ),
        (["--tap", TAP, "--catalog", "nowhere.json"], "'nowhere.json' cannot be read: No such"),
        (["--tap", TAP, "--state", "nowhere.json"], "State file 'nowhere.json' cannot be read: No"),
        (
            ["--tap", "tap_flights.tap:TapFlights", "--here", "flight"],
            "--here names 'flight', which is no stream of the tap. Did you mean 'flights'? Its",
        ),
        (
            ["--tap", TAP],
            "The settings of the tap, which --config passes, are not valid: 'visits' is a required",
        ),
        (["--tap", "tap_flights.tap:TapFlights"], "'path' is a required property"),
    ],
)
def test_invalid_argument_is_named_in_the_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is printed before Spark is started."""
    code = TargetSpark.get_command(["run"]).main(["run", *arguments], standalone_mode=False)
    assert code == 1
    assert message in capsys.readouterr().err


def test_state_may_be_the_output_of_earlier_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with one state per line is accepted, so the error is that of the tap's settings."""
    states = tmp_path / "states.jsonl"
    states.write_text('{"bookmarks": {}}\n{"bookmarks": {"a": {}}}\n')
    arguments = ["run", "--tap", TAP, "--state", str(states)]
    assert TargetSpark.get_command(["run"]).main(arguments, standalone_mode=False) == 1
    assert "'visits' is a required property" in capsys.readouterr().err


def test_tap_option_is_required() -> None:
    """Without --tap the command exits with code 2."""
    with pytest.raises(SystemExit) as ended:
        TargetSpark.get_command(["run"]).main(["run"])
    assert ended.value.code == 2


class Leaving(Stream):
    """A stream that ends the process."""

    name = "leaving"
    schema: ClassVar = {"properties": {"id": {"type": "integer"}}}

    def get_records(self, context: Context | None) -> Iterator[Record]:
        """Yield a record, and exit."""
        del context
        yield {"id": 1}
        sys.exit(self.config["status"])


class LeavingTap(Tap):
    """The tap with this stream."""

    name = "tap-leaving"
    config_jsonschema: ClassVar = {"properties": {"status": {"type": ["integer", "string"]}}}

    def discover_streams(self) -> list[Stream]:
        """Return the stream."""
        return [Leaving(self)]


class Orders(Stream):
    """A stream with a namespace, such as the schema of a database."""

    name = "shop-orders"
    replication_key = "id"
    schema: ClassVar = {"properties": {"id": {"type": "integer"}}}

    @property
    def namespace(self) -> str:
        return "shop"

    def get_records(self, context: Context | None) -> Iterator[Record]:
        """Yield the records from the bookmark on."""
        for number in range(self.get_starting_replication_key_value(context) or 0, 9):
            yield {"id": number}


class OrderTap(Tap):
    """The tap with this stream."""

    name = "tap-orders"
    config_jsonschema: ClassVar = {"properties": {}}

    def discover_streams(self) -> list[Stream]:
        """Return the stream."""
        return [Orders(self)]


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Let `run` work without Spark; return a list that gets the events for the loader."""
    events: list[Event] = []

    def sync(_target: TargetSpark, _binding: object, feed: Callable[..., None], **_: bool) -> Any:
        engine = SimpleNamespace(begin=lambda: None, spark=lambda: None)
        loader = SimpleNamespace(process_event=events.append, poll=lambda: None, failures=())
        try:
            feed(SimpleNamespace(engine=engine, loader=loader))
        except ReadingError as error:
            return [error]
        return []

    monkeypatch.setattr(TargetSpark, "run_load", sync)
    return events


def run_without_spark(
    folder: Path, tap: str, state: dict[str, Any] | None = None, **config: Any
) -> Any:
    """Run the command in this process with the fixture `loaded`, and return its exit code."""
    folders = {"path": str(folder), "staging": str(folder)}
    file = write_settings(folder, "c.json", remote="sc://localhost", **folders, **config)
    arguments = ["run", "--tap", f"{__name__}:{tap}", "--config", file]
    arguments += ["--state", write_settings(folder, "state.json", **(state or {}))]
    return TargetSpark.get_command(["run"]).main(arguments, standalone_mode=False)


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("status, code", [(3, 1), ("no token", 1), ("", 1), (0, 0)])
def test_tap_that_exits_with_an_error_fails_the_run(
    tmp_path: Path, status: int | str, code: int
) -> None:
    """As in a shell, where the exit code of the tap tells that it has failed."""
    assert run_without_spark(tmp_path, "LeavingTap", status=status) == code


@pytest.mark.parametrize(("settings", "count"), [({}, 2), ({"write_mode": "overwrite"}, 9)])
def test_stream_with_a_namespace_is_loaded_as_by_a_pipe(
    tmp_path: Path, loaded: list[Event], settings: dict[str, Any], count: int
) -> None:
    """Its table and settings are those of its name, because Singer messages have no namespace."""
    bookmark = {"replication_key": "id", "replication_key_value": 7}
    state = {"bookmarks": {"shop-orders": bookmark}}
    streams = {"shop-orders": settings}
    assert run_without_spark(tmp_path, "OrderTap", state, streams=streams) == 0
    schemas = [event for event in loaded if isinstance(event, SchemaEvent)]
    rows = [event for event in loaded if isinstance(event, Rows)]
    assert {event.stream for event in (*schemas, *rows)} == {StreamId("shop-orders")}
    assert sum(len(event.rows) for event in rows) == count


@pytest.mark.spark
@pytest.mark.thorough
def test_signal_during_the_start_of_spark_ends_the_run_before_anything_is_read(
    tmp_path: Path,
) -> None:
    (visits := tmp_path / "visits").mkdir()
    tap = write_settings(tmp_path, "tap.json", visits=str(visits), rows=3)
    target = write_settings(
        tmp_path, "target.json", path=str(tmp_path / "tables"), format="parquet"
    )
    command = [sys.executable, "-m", "target_spark", "run"]
    command += ["--tap", TAP, "--tap-config", tap, "--config", target]
    with (
        (tmp_path / "errors").open("w+b") as errors,
        subprocess.Popen(command, cwd=ROOT, stderr=errors, stdout=subprocess.PIPE) as process,
    ):
        locks = tmp_path / "tables" / "_target_spark"
        while not any(locks.glob("*.lease")):  # acquired before Spark is started
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) == 0
        errors.seek(0)
        assert b"stopped by a signal" in errors.read()
    assert not list(visits.iterdir())


@pytest.mark.spark
@pytest.mark.thorough
def test_context_that_kills_its_process_counts_as_failed(tmp_path: Path) -> None:
    """The other contexts are committed; the next run loads the failed one."""
    import pyarrow.parquet

    (visits := tmp_path / "visits").mkdir()
    tables = tmp_path / "tables"
    target = write_settings(tmp_path, "target.json", path=str(tables), format="parquet")

    def once(**settings: Any) -> tuple[subprocess.CompletedProcess[str], set[str]]:
        tap = write_settings(tmp_path, "tap.json", visits=str(visits), rows=3, **settings)
        process = run("--tap", TAP, "--tap-config", tap, "--config", target)
        table = pyarrow.parquet.read_table(tables / "orders", columns=["region"])
        return process, set(table["region"].to_pylist())

    process, regions = once(fails="south", how="kill")
    assert process.returncode == 1, process.stderr
    assert "SIGKILL" in process.stderr
    assert regions == {"north", "east", "west"}
    process, regions = once()
    assert process.returncode == 0, process.stderr
    assert regions == {"north", "south", "east", "west"}


@pytest.mark.spark
@pytest.mark.thorough
def test_sdc_sequence_of_a_run_is_lower_than_that_of_a_later_load(tmp_path: Path) -> None:
    """``_sdc_sequence`` is never ahead of the clock, however many contexts there are.

    Within a run each row has a different one, also if a context was read twice.
    """
    import pyarrow.parquet

    (visits := tmp_path / "visits").mkdir()
    tables = tmp_path / "tables"
    tap = write_settings(tmp_path, "tap.json", visits=str(visits))
    settings = {"path": str(tables), "format": "parquet", "add_record_metadata": True}
    target = write_settings(tmp_path, "target.json", **settings)
    process = run("--tap", MANY, "--tap-config", tap, "--config", target)
    assert process.returncode == 0, process.stderr
    assert len(list(visits.iterdir())) == 8
    ended = time.time() * 1000
    first = pyarrow.parquet.read_table(tables / "shops").to_pylist()
    assert sorted((row["shop"], row["id"]) for row in first) == [
        (shop, number) for shop in range(CONTEXTS) for number in range(1 + shop % 3)
    ]
    sequences = [row["_sdc_sequence"] for row in first]
    assert len(set(sequences)) == len(sequences)
    assert max(sequences) < ended * 2**20

    piped = "".join(
        f"{json.dumps(message)}\n"
        for message in (
            {"type": "SCHEMA", "stream": "shops", "schema": Shops.schema},
            *(
                {"type": "RECORD", "stream": "shops", "record": {"shop": shop, "id": 0}}
                for shop in range(CONTEXTS)
            ),
        )
    )
    loaded = subprocess.run(
        [sys.executable, "-m", "target_spark", "--config", target],
        cwd=ROOT,
        input=piped,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert loaded.returncode == 0, loaded.stderr
    later = pyarrow.parquet.read_table(tables / "shops")["_sdc_sequence"].to_pylist()
    assert min(set(later) - set(sequences)) > max(sequences)
    assert len(later) == len(first) + CONTEXTS
