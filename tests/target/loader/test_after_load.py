"""Actions after a load: programs and SQL statements, their errors, and the exit code."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tap_core.redaction import Secrets
from target_spark.config.settings import find_faults
from target_spark.errors import AfterLoadError
from target_spark.loader.after_load import LoadedTables, parse_actions, run_actions
from target_spark.loader.report import COMPLETE, STOPPED, Report
from target_spark.tables.table import Table
from tests.ended_processes import wait_for_end
from tests.target.cli.test_target_cli import (
    config,
    environment,
    record,
    run,
    running,
    schema,
    state,
)
from tests.target.warehouse import ID, Warehouse, feed
from tests.target.warehouse import record as record_message
from tests.target.warehouse import schema as schema_message

if TYPE_CHECKING:
    from target_spark.spark.spark_provider import SparkProvider

MESSAGES = b"".join([schema("a", "id"), record(1), record(2), state(1)])
WITHOUT_SPARK: dict[str, Any] = {"format": "delta", "small_batches": "delta-rs"}


def make_python_action(code: str, **options: Any) -> dict[str, Any]:
    """Return an action that runs Python code."""
    return {"command": [sys.executable, "-c", code], **options}


def run_after_load(
    *actions: dict[str, Any],
    outcome: str = COMPLETE,
    loaded_tables: LoadedTables | None = None,
    interrupted: threading.Event | None = None,
) -> tuple[list[AfterLoadError], dict[str, Any]]:
    """Run actions as after a load with this outcome; return their errors and the report."""
    report = Report()
    report.record_outcome(outcome)
    parsed = parse_actions({"after_load": list(actions)})
    redact = lambda text: text.replace("hunter2", "***")  # noqa: E731
    errors = run_actions(parsed, report, loaded_tables, redact, interrupted or threading.Event())
    return errors, report.as_dict()


def test_program_gets_the_report_after_the_states_are_emitted(tmp_path: Path) -> None:
    """The report is on standard input, and no setting is in the program's environment."""
    code = (
        "import os, sys; open('input.json', 'w').write(sys.stdin.read());"
        " open('variables', 'w').write(' '.join(os.environ)); print('built 3 models')"
    )
    report = tmp_path / "report.json"
    process = run(
        tmp_path,
        MESSAGES,
        env=environment(TARGET_SPARK_JOB="x", VARIABLE_OF_DBT="1"),
        after_load=[make_python_action(code)],
        report=str(report),
        **WITHOUT_SPARK,
    )
    assert process.returncode == 0, process.stderr.decode()
    assert process.stdout == b"1\n"
    standard_input = json.loads((tmp_path / "input.json").read_bytes())
    assert standard_input["outcome"] == "complete"
    assert standard_input["streams"]["a"]["written"] == 2
    variables = (tmp_path / "variables").read_text().split()
    assert "VARIABLE_OF_DBT" in variables
    assert not any(name.startswith("TARGET_SPARK_") for name in variables)
    assert b"after_load.0: built 3 models" in process.stderr
    assert json.loads(report.read_bytes())["after_load"][0]["error"] is None


def test_failed_program_ends_a_complete_load_with_exit_code_1(tmp_path: Path) -> None:
    """SEC5: the message has the end of standard error, without secrets; the state is emitted."""
    code = "import sys; print('bad model, password=hunter2', file=sys.stderr); sys.exit(3)"
    report = tmp_path / "report.json"
    process = run(
        tmp_path,
        MESSAGES,
        after_load=[make_python_action(code)],
        report=str(report),
        **WITHOUT_SPARK,
    )
    assert process.returncode == 1
    assert process.stdout == b"1\n"
    errors = process.stderr.decode()
    assert "failed: exit code 3; its standard error ends: bad model, password=" in errors
    assert "hunter2" not in errors.replace("password=hunter2', file", "")
    report_document = json.loads(report.read_bytes())
    assert report_document["complete"]
    assert "exit code 3" in report_document["remarks"][0]


@pytest.mark.thorough
def test_failed_load_runs_only_the_actions_for_it(tmp_path: Path) -> None:
    actions = [
        make_python_action("open('complete', 'w')"),
        make_python_action("import sys; open('failed', 'w').write(sys.stdin.read())", on="failed"),
        make_python_action("open('always', 'w')", on="always"),
    ]
    process = run(tmp_path, MESSAGES + b"no message\n", after_load=actions, **WITHOUT_SPARK)
    assert process.returncode == 1
    assert not (tmp_path / "complete").exists()
    assert (tmp_path / "always").exists()
    assert "no message" in json.loads((tmp_path / "failed").read_bytes())["outcome"]


def test_dry_run_runs_no_action() -> None:
    assert parse_actions({"dry_run": True, "after_load": [make_python_action("")]}) == ()


@pytest.mark.thorough
def test_run_that_could_not_begin_runs_its_actions(tmp_path: Path) -> None:
    """The folder of the spool cannot be created, so the run has neither lock nor Spark."""
    (tmp_path / "file").touch()
    process = run(
        tmp_path,
        MESSAGES,
        staging=str(tmp_path / "file"),
        after_load=[make_python_action("open('called', 'w')", on="failed")],
        **WITHOUT_SPARK,
    )
    assert process.returncode == 1
    assert (tmp_path / "called").exists()


def test_stopped_run_runs_only_actions_that_always_run(tmp_path: Path) -> None:
    marker_files = [tmp_path / name for name in ("complete", "failed", "always")]
    errors, _ = run_after_load(
        *(make_python_action(f"open({str(m)!r}, 'w')", on=m.name) for m in marker_files),
        outcome=STOPPED,
    )
    assert not errors
    assert [marker_file.exists() for marker_file in marker_files] == [False, False, True]


def test_actions_after_a_failed_one_are_skipped_unless_they_always_run(tmp_path: Path) -> None:
    marker_file = tmp_path / "always"
    errors, report = run_after_load(
        make_python_action("raise SystemExit(1)"),
        make_python_action("print(1)"),
        make_python_action(f"open({str(marker_file)!r}, 'w')", on="always"),
    )
    assert marker_file.exists()
    assert "after_load.1" in str(errors[1])
    assert "an earlier action failed" in str(errors[1])
    assert [bool(action["error"]) for action in report["after_load"]] == [True, True, False]


def test_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    (error,), _ = run_after_load({"command": ["no-such-program", "--token=x1234567890"]})
    assert "No such file or directory" in str(error)
    assert "no-such-program" in str(error)


@pytest.mark.parametrize("secret", ["hunter2-0123456789", "hunter2'-'456789"])
def test_no_part_of_a_secret_is_shown_where_a_text_is_shortened(
    secret: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC5: labels and lines of output are shortened after the secrets in them are removed."""
    caplog.set_level("INFO")
    monkeypatch.setenv("MARK", secret)
    code = "import os; m = os.environ['MARK']; print('x' * 8185 + m); print('y' * (2**20 - 9) + m)"
    actions = parse_actions(
        {
            "after_load": [
                make_python_action(code),
                {"command": ["no-such-program", "z" * 57, secret]},
            ]
        }
    )
    report = Report()
    report.record_outcome(COMPLETE)
    run_actions(actions, report, None, Secrets.from_values([secret]).hide, threading.Event())
    output = f"{caplog.text} {report.as_dict()}"
    assert "xxx***" in output
    assert "z '***'" in output
    assert "hunter" not in output
    assert "456789" not in output


def test_program_that_reads_no_input_and_writes_much_is_not_blocked() -> None:
    code = "import sys; [print('x' * 100_000, file=f) for f in (sys.stdout, sys.stderr)]"
    assert run_after_load(make_python_action(code))[0] == []


def test_words_of_a_command_are_not_read_by_a_shell(tmp_path: Path) -> None:
    marker_file = tmp_path / "mark"
    errors, _ = run_after_load(
        {"command": ["true", f"; touch {marker_file}", f"$(touch {marker_file})"]}
    )
    assert not errors
    assert not marker_file.exists()


def test_program_and_its_processes_end_at_the_time_limit(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = ["sh", "-c", f"sleep 300 & echo $! > {pid}; wait"]
    for seconds in (0.5, 5, 60):  # on a busy machine, the program may begin late
        (error,), _ = run_after_load({"command": command, "timeout_seconds": seconds})
        assert f"was ended after its timeout_seconds of {seconds} s" in str(error)
        if pid.exists() and pid.read_text():
            break
    assert wait_for_end(int(pid.read_text()))


@pytest.mark.thorough
def test_signal_ends_the_program_but_not_the_outcome(tmp_path: Path) -> None:
    """The load is over, so it stays complete; only the actions are ended."""
    report, marker_file = tmp_path / "report.json", tmp_path / "started"
    code = f"import time; open({str(marker_file)!r}, 'w').close(); time.sleep(300)"
    actions = [make_python_action(code), make_python_action("open('later', 'w')", on="always")]
    with running(tmp_path, after_load=actions, report=str(report), **WITHOUT_SPARK) as target:
        target.send(MESSAGES)
        target.stdin.close()
        target.until(marker_file.exists)
        target.process.send_signal(signal.SIGTERM)
        assert target.end() == 1
    report_document = json.loads(report.read_bytes())
    assert report_document["complete"]
    assert "ended by a signal" in report_document["remarks"][0]
    assert not (tmp_path / "later").exists()


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ({"on": "always"}, "after_load.0: set either sql or command"),
        ({"sql": "SELECT 1", "command": ["ls"]}, "after_load.0: set either sql or command"),
        ({"sql": "SELECT 1", "timeout_seconds": 1}, "after_load.0: timeout_seconds"),
    ],
)
def test_faulty_action_is_rejected_before_the_load(action: dict[str, Any], message: str) -> None:
    assert [
        fault for fault in find_faults({"path": "x", "after_load": [action]}) if message in fault
    ]


def test_airbyte_configuration_starts_no_program_unless_the_operator_allows_it(
    tmp_path: Path,
) -> None:
    """SEC1: ``check`` refuses the setting, and names the variable that allows it."""
    arguments = ("check", "--config", str(config(tmp_path, after_load=[make_python_action("")])))
    process = run(tmp_path, b"", *arguments)
    assert b"TARGET_SPARK_ALLOW_SETTINGS=after_load" in process.stdout
    assert b"FAILED" in process.stdout


def test_unknown_stream_in_a_statement_is_refused() -> None:
    loaded_tables = LoadedTables(cast("SparkProvider", None), "delta", {"a": Table("/x/a", "a")})
    (error,), _ = run_after_load({"sql": "OPTIMIZE {table:b}"}, loaded_tables=loaded_tables)
    assert "b is not a stream of this run; its streams: a" in str(error)


@pytest.mark.spark
def test_statement_reads_and_changes_the_table_of_a_stream(warehouse: Warehouse) -> None:
    """The name is quoted as each format needs it; a check in a query is computed."""
    loader, spool = warehouse.open()
    with closing(spool), closing(loader):
        feed(loader, schema_message("odd `a`", ID), record_message("odd `a`", id=7))
        loader.finish(whole=True)
        tables = loader.get_tables()
    loaded_tables = LoadedTables(cast("SparkProvider", warehouse.engine), warehouse.format, tables)
    statement = "SELECT assert_true(count(*) = {n}) FROM {{table:odd `a`}}"
    errors, _ = run_after_load(
        {"sql": statement.format(n=1)}, {"sql": "SET spark.x.y=1"}, loaded_tables=loaded_tables
    )
    assert not errors
    (error,), _ = run_after_load({"sql": statement.format(n=2)}, loaded_tables=loaded_tables)
    assert "is not true" in str(error)
