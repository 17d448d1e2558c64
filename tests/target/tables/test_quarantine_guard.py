"""A stream none of whose rows could be written is incomplete, and no state covers it."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tap_core.events import SchemaEvent, StreamId
from target_spark.errors import QuarantineError, UnsupportedError
from target_spark.storage import commit_retry
from target_spark.writers.delta.writer import DeltaWriter
from tests.target.cli.test_target_cli import line, run
from tests.target.tables.test_quarantine import replay_quarantine
from tests.target.warehouse import (
    ID,
    ID_AND_NAME,
    Warehouse,
    activate,
    feed,
    record,
    schema,
    state,
    versioned,
)

pytestmark = pytest.mark.spark

KEYED = schema("a", ID_AND_NAME, "id")


def bad(*numbers: int, stream: str = "a") -> list[dict[str, Any]]:
    """Return records that do not fit."""
    return [record(stream, id=f"x{number}") for number in numbers]


def incomplete(warehouse: Warehouse, *messages: dict[str, Any], **config: Any) -> str:
    """Load messages that leave a stream incomplete; return the error's text."""
    with pytest.raises(QuarantineError) as error:
        warehouse.load(*messages, **config)
    return str(error.value)


def state_in(warehouse: Warehouse, table: str) -> str | None:
    marker = warehouse.marker(table)
    return None if marker is None else marker.state


def test_stream_with_only_bad_rows_emits_no_state(warehouse: Warehouse) -> None:
    message = incomplete(warehouse, state(0), schema("a", ID), *bad(1, 2), state(1))
    assert warehouse.states == [0]
    assert state_in(warehouse, "a") == '{"at": 0}'
    assert len(warehouse.rows("a__quarantine")) == 2
    path = f"{warehouse.folder}/a__quarantine"
    assert message == (
        "Stream a is not complete: none of its rows could be written; no state that covers"
        " its rows is emitted. 2 of 2 rows do not fit their columns and are in table a__quarantine"
        f' ({path}). Why: 2 rows: id: not an integer of 64 bits (for example "x1"). Fix the'
        " schema in the tap and run again: the tap sends these rows again. Rows that it cannot"
        " send again are loaded by: target-spark replay a --config config.json --schema"
        " catalog.json (catalog.json: the corrected schema, as tap --discover prints it)"
    )
    counts = warehouse.counts("a")
    assert counts["withheld"] == "none of its rows could be written"
    assert counts["quarantine"]["reasons"][0]["rows"] == 2
    # The next run, with a corrected schema, resumes where the last one stopped.
    mended = schema("a", {"id": {"type": "string"}})
    assert warehouse.load(mended, *bad(1, 2), state(1)) == [1]
    assert state_in(warehouse, "a") == '{"at": 1}'


def test_retried_batch_of_bad_rows_carries_no_state(
    delta: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try had chosen its state before a bad row was known."""
    append, failures = DeltaWriter.append, [TimeoutError(110, "Connection timed out")]

    def failing(self: Any, table: Any, *rows: Any, **options: Any) -> Any:
        if table.name == "a" and failures:
            raise failures.pop()
        return append(self, table, *rows, **options)

    monkeypatch.setattr(DeltaWriter, "append", failing)
    monkeypatch.setattr(commit_retry, "_sleep", lambda *_: None)
    incomplete(delta, state(0), schema("a", ID), *bad(1, 2), state(1))
    assert not failures
    assert delta.states == [0]
    assert state_in(delta, "a") == '{"at": 0}'


def test_single_bad_row_alone_makes_the_stream_incomplete(delta: Warehouse) -> None:
    incomplete(delta, KEYED, record("a", name="no key"), state(1))
    assert delta.states == []
    assert state_in(delta, "a") is None


def test_states_wait_until_a_good_row_is_written(warehouse: Warehouse) -> None:
    loader, spool = warehouse.open(flush_rows=2)
    feed(loader, state(0), schema("a", ID), *bad(1, 2), state(1), *bad(3, 4), state(2))
    loader._pipeline.wait()
    loader.poll()
    assert len(warehouse.rows("a__quarantine")) == 4
    assert warehouse.states == [0]
    assert state_in(warehouse, "a") == '{"at": 0}'
    feed(loader, *bad(5), record("a", id=6), state(3))
    loader.finish(whole=True)
    loader.close()
    spool.close()
    assert warehouse.states == [0, 3]
    assert state_in(warehouse, "a") == '{"at": 3}'
    assert warehouse.counts("a")["withheld"] is None
    (line,) = warehouse.report.describe_quarantines()
    assert line.startswith("Stream a: 5 of 6 rows do not fit")


def test_bad_batches_after_a_written_row_hold_no_states(delta: Warehouse) -> None:
    messages = [record("a", id=1), state(1), *bad(2, 3), state(2)]
    assert delta.load(schema("a", ID), *messages, flush_rows=1)[-1] == 2


def test_states_before_the_first_bad_row_are_emitted(delta: Warehouse) -> None:
    """A later run without rows of the stream does not change the state of the tables."""
    schemas = [schema("a", ID), schema("b", ID)]
    messages = [record("b", id=1), state(1), *bad(1), record("b", id=2), state(2)]
    message = incomplete(delta, *schemas, *messages, flush_rows=1)
    assert "Stream a is not complete" in message
    assert "Stream b" not in message
    assert delta.states == [1]
    assert delta.rows("b") == [(1,), (2,)]
    assert {state_in(delta, "a"), state_in(delta, "b")} <= {None, '{"at": 1}'}


@pytest.mark.thorough
def test_overwrite_with_only_bad_rows_leaves_the_table(delta: Warehouse) -> None:
    delta.load(schema("a", ID), record("a", id=1), state(1))
    message = incomplete(delta, schema("a", ID), *bad(1), state(2), write_mode="overwrite")
    assert delta.rows("a") == [(1,)]
    assert state_in(delta, "a") == '{"at": 1}'
    assert delta.states == []
    assert len(delta.rows("a__quarantine")) == 1
    assert message.endswith(
        "run again: the whole stream is loaded again."
    )  # a replay would be refused


def test_full_refresh_with_only_bad_rows_emits_no_state(delta: Warehouse) -> None:
    incomplete(delta, state(0), schema("a", ID), *bad(1), state(1), full_refresh=["a"])
    assert delta.states == [0]


@pytest.mark.parametrize(
    "after",
    [True, pytest.param(False, marks=pytest.mark.thorough)],
    ids=["after its rows", "before them"],
)
def test_old_versions_are_kept_if_no_row_of_the_run_fits(delta: Warehouse, after: bool) -> None:
    numbered = {**ID, "n": {"type": "integer"}}
    delta.load(schema("a", numbered), versioned("a", 1, id=1), activate("a", 1), state(1))
    rows = [versioned("a", 2, id="x")]
    messages = [*rows, activate("a", 2)] if after else [activate("a", 2), *rows]
    for hard in (False, True):
        incomplete(delta, schema("a", numbered), *messages, state(2), hard_delete=hard)
        assert delta.states == []
        assert delta.rows("a", "id") == [(1,)]
        assert state_in(delta, "a") == '{"at": 1}'
        assert any(
            "rows of other versions are not deleted" in note for note in delta.counts("a")["notes"]
        )


@pytest.mark.thorough
def test_skipped_version_deletion_is_reported_although_later_rows_fit(delta: Warehouse) -> None:
    delta.load(schema("a", ID), versioned("a", 1, id=1), activate("a", 1), state(1))
    loader, spool = delta.open(flush_rows=1)
    feed(loader, schema("a", ID), versioned("a", 2, id="x"), activate("a", 2), state(2))
    feed(loader, versioned("a", 2, id=2), state(3))
    with pytest.raises(QuarantineError, match="rows of other versions stay"):
        loader.finish(whole=True)
    loader.close()
    spool.close()
    assert delta.states == []
    delta.load(schema("a", ID), versioned("a", 2, id=2), activate("a", 2), state(4))
    assert delta.states == [4]


def test_dry_run_fails_as_the_run_would(delta: Warehouse) -> None:
    delta.load(schema("a", ID), record("a", id=1), state(1))
    loader, spool = delta.open(dry_run=True)
    delta.report.add_facts(dry_run=True)
    feed(loader, schema("a", ID), *bad(1), state(2))
    with pytest.raises(QuarantineError, match=r"1 of 1 rows do not fit .* would go to table"):
        loader.finish(whole=True)
    loader.close()
    spool.close()
    assert not delta.exists("a__quarantine")


def test_truncated_input_with_only_bad_rows_fails(delta: Warehouse) -> None:
    incomplete(delta, schema("a", ID), *bad(1), state(2), whole=False)
    assert delta.states == []


@pytest.mark.thorough
def test_replay_of_rows_that_still_do_not_fit_succeeds(delta: Warehouse) -> None:
    incomplete(delta, schema("a", ID), *bad(1, 2), state(1))
    schema_event = SchemaEvent(StreamId("a"), {"type": "object", "properties": ID}, ())
    assert replay_quarantine(delta, schema_event).unfit == 2
    assert len(delta.rows("a__quarantine")) == 2
    texts = SchemaEvent(StreamId("a"), {"properties": {"id": {"type": ["integer", "string"]}}}, ())
    assert replay_quarantine(delta, texts).loaded == 2


# A percentage of the rows


def test_stream_within_the_percentage_is_complete(delta: Warehouse) -> None:
    rows = [record("a", id=number) for number in range(98)]
    # The bad ones come first, and states wait until there are enough good ones.
    states = delta.load(
        schema("a", ID), *bad(1, 2), state(1), *rows, state(2), flush_rows=50, max_quarantined="2%"
    )
    assert states == [2]


def test_stream_beyond_the_percentage_emits_no_state(warehouse: Warehouse) -> None:
    rows = [record("a", id=number) for number in range(98)]
    message = incomplete(
        warehouse, schema("a", ID), *rows, *bad(1, 2), state(1), max_quarantined="1.9%"
    )
    assert "more of its rows do not fit than max_quarantined (1.9%) allows" in message
    assert "2 of 100 rows" in message
    assert warehouse.states == []
    assert state_in(warehouse, "a") is None
    assert len(warehouse.rows("a")) == 98


@pytest.mark.thorough
def test_percentage_applies_per_stream(delta: Warehouse) -> None:
    rows = [record("b", id=number) for number in range(100)]
    messages = [schema("a", ID), schema("b", ID), *rows, record("a", id=1), *bad(1), state(1)]
    message = incomplete(delta, *messages, max_quarantined="10%")
    assert "Stream a is not complete" in message
    assert delta.load(*messages, max_quarantined="50%") == [1]


def test_large_stream_beyond_the_percentage_stops_the_run(delta: Warehouse) -> None:
    rows = [record("a", id=number) for number in range(1000)]
    loader, spool = delta.open(flush_rows=1200, max_quarantined="10%")
    feed(loader, schema("a", ID), *rows, *bad(*range(200)))
    loader._pipeline.wait()
    with pytest.raises(QuarantineError, match=r"200 of 1200 rows of this stream.*is 10%; nothing"):
        loader.poll()
    loader.close()
    spool.close()
    assert not delta.exists("a__quarantine")


@pytest.mark.thorough
def test_overwrite_beyond_the_percentage_leaves_the_table(delta: Warehouse) -> None:
    delta.load(schema("a", ID), record("a", id=1), state(1))
    rows = [record("a", id=2), *bad(1)]
    incomplete(
        delta, schema("a", ID), *rows, state(2), write_mode="overwrite", max_quarantined="10%"
    )
    assert delta.rows("a") == [(1,)]
    assert delta.counts("a")["written"] == 0


# Undeclared keys


@pytest.mark.every_nth_case(4)
@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("idd", "Did you mean 'id'?"),
        ("ID", "Did you mean 'id'?"),
        ("other", ""),
        ("nam", "Did you mean 'name'"),
    ],
)
def test_undeclared_key_is_rejected(delta: Warehouse, key: str, hint: str) -> None:
    loader, spool = delta.open()
    feed(loader, schema("b", ID), record("b", id=1), state(1))
    with pytest.raises(
        UnsupportedError, match=f"Stream a: .* does not declare the key '{key}'"
    ) as e:
        feed(loader, schema("a", ID_AND_NAME, "id", key))
    assert hint in str(e.value)
    assert ("Did you mean" in str(e.value)) == bool(hint)
    assert "It declares id, name." in str(e.value)
    loader.finish(whole=False)  # earlier rows are valid
    loader.close()
    spool.close()
    assert delta.states == [1]
    assert delta.rows("b") == [(1,)]


def test_undeclared_key_in_a_repeated_schema_is_rejected(delta: Warehouse) -> None:
    loader, spool = delta.open()
    feed(loader, schema("a", ID, "id"), record("a", id=1))
    with pytest.raises(UnsupportedError, match="'lost'"):
        feed(loader, schema("a", ID, "lost"))
    loader.close()
    spool.close()


def test_schema_without_properties_may_have_any_key(delta: Warehouse) -> None:
    delta.load(schema("a", {}, "id"), record("a", id="one"), state(1))
    assert delta.states == [1]


# The command


def run_with_report(
    folder: Path, *messages: dict[str, Any], **config: Any
) -> subprocess.CompletedProcess[bytes]:
    settings = {"path": "tables", "format": "parquet", "report": "report.json", "small_runs": True}
    settings |= config
    (folder / "my config.json").write_text(json.dumps(settings))
    return run(folder, b"".join(map(line, messages)), "--config", "my config.json")


@pytest.mark.thorough
def test_failed_command_prints_the_replay_command(tmp_path: Path) -> None:
    process = run_with_report(tmp_path, schema("a b", ID), *bad(1, 2, stream="a b"), state(1))
    errors = process.stderr.decode()
    assert process.returncode == 1, errors
    assert process.stdout == b""
    (error,) = (
        line for line in errors.splitlines() if "is not complete" in line and "ERROR" in line
    )
    (warning,) = (
        line for line in errors.splitlines() if "WARNING" in line and "2 of 2 rows" in line
    )
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["complete"] is False
    replay = report["streams"]["a b"]["quarantine"]["replay"]
    assert replay in error
    assert replay in warning
    mended = {"id": {"type": ["string", "integer"]}}
    for properties, code, text in ((ID, 1, "2 still do not fit"), (mended, 0, "2 of 2 records")):
        (tmp_path / "catalog.json").write_text(json.dumps(schema("a b", properties)))
        replay_process = run(tmp_path, b"", *shlex.split(replay)[1:])
        assert (replay_process.returncode, text in replay_process.stdout.decode()) == (
            code,
            True,
        ), replay_process.stderr


def test_misspelt_key_ends_the_command_before_its_rows(tmp_path: Path) -> None:
    process = run_with_report(tmp_path, schema("a", ID, "idd"), record("a", id=1), state(1))
    assert (process.returncode, process.stdout) == (1, b"")
    [error] = (line for line in process.stderr.decode().splitlines() if "| ERROR " in line)
    assert "Stream a: " in error
    assert "'idd'" in error
    assert "Did you mean 'id'?" in error
    assert b"Traceback" not in process.stderr


@pytest.mark.thorough
def test_run_with_quarantined_rows_logs_a_summary(tmp_path: Path) -> None:
    rows = [record("a", id=1), record("a", id="\u001b[31mtwo"), record("a", id=None)]
    process = run_with_report(tmp_path, schema("a", ID, "id"), *rows, state(1))
    errors = process.stderr.decode()
    assert process.returncode == 0, errors
    assert json.loads(process.stdout) == {"at": 1}
    (warning,) = (
        line for line in errors.splitlines() if "WARNING" in line and "2 of 3 rows" in line
    )
    assert r"\u001b[31mtwo" in warning
    assert "\x1b" not in warning
    assert "id: a key must have a value (for example null)" in warning
    assert "target-spark replay a --config 'my config.json' --schema catalog.json" in warning
    assert "a__quarantine" in warning
