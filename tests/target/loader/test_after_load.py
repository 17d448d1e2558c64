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

LOAD = b"".join([schema("a", "id"), record(1), record(2), state(1)])
WITHOUT_SPARK: dict[str, Any] = {"format": "delta", "small_batches": "delta-rs"}


def python(code: str, **options: Any) -> dict[str, Any]:
    """Return an action that runs Python code."""
    return {"command": [sys.executable, "-c", code], **options}


def act(
    *actions: dict[str, Any],
    outcome: str = COMPLETE,
    loaded: LoadedTables | None = None,
    interrupted: threading.Event | None = None,
) -> tuple[list[AfterLoadError], dict[str, Any]]:
    """Run actions after a load with an outcome; return their errors and the report."""
    report = Report()
    report.record_outcome(outcome)
    parsed = parse_actions({"after_load": list(actions)})
    hide = lambda text: text.replace("hunter2", "***")  # noqa: E731
    faults = run_actions(parsed, report, loaded, hide, interrupted or threading.Event())
    return faults, report.as_dict()


def test_program_gets_the_report_after_the_states_are_emitted(tmp_path: Path) -> None:
    """The report is on standard input, and no setting is in the program's environment."""
    code = (
        "import os, sys; open('seen.json', 'w').write(sys.stdin.read());"
        " open('variables', 'w').write(' '.join(os.environ)); print('built 3 models')"
    )
    report = tmp_path / "report.json"
    process = run(
        tmp_path,
        LOAD,
        env=environment(TARGET_SPARK_JOB="x", KEPT_FOR_DBT="1"),
        after_load=[python(code)],
        report=str(report),
        **WITHOUT_SPARK,
    )
    assert process.returncode == 0, process.stderr.decode()
    assert process.stdout == b"1\n"
    received = json.loads((tmp_path / "seen.json").read_bytes())
    assert received["outcome"] == "complete"
    assert received["streams"]["a"]["written"] == 2
    variables = (tmp_path / "variables").read_text().split()
    assert "KEPT_FOR_DBT" in variables
    assert not any(name.startswith("TARGET_SPARK_") for name in variables)
    assert b"after_load.0: built 3 models" in process.stderr
    assert json.loads(report.read_bytes())["after_load"][0]["error"] is None


def test_failed_program_ends_a_complete_load_with_exit_code_1(tmp_path: Path) -> None:
    """SEC5: the message has the end of standard error, without secrets; the state is emitted."""
    code = "import sys; print('bad model, password=hunter2', file=sys.stderr); sys.exit(3)"
    report = tmp_path / "report.json"
    process = run(tmp_path, LOAD, after_load=[python(code)], report=str(report), **WITHOUT_SPARK)
    assert process.returncode == 1
    assert process.stdout == b"1\n"
    errors = process.stderr.decode()
    assert "failed: exit code 3; its standard error ends: bad model, password=" in errors
    assert "hunter2" not in errors.replace("password=hunter2', file", "")
    content = json.loads(report.read_bytes())
    assert content["complete"]
    assert "exit code 3" in content["remarks"][0]


@pytest.mark.thorough
def test_failed_load_runs_only_the_actions_for_it(tmp_path: Path) -> None:
    actions = [
        python("open('complete', 'w')"),
        python("import sys; open('failed', 'w').write(sys.stdin.read())", on="failed"),
        python("open('always', 'w')", on="always"),
    ]
    process = run(tmp_path, LOAD + b"no message\n", after_load=actions, **WITHOUT_SPARK)
    assert process.returncode == 1
    assert not (tmp_path / "complete").exists()
    assert (tmp_path / "always").exists()
    assert "no message" in json.loads((tmp_path / "failed").read_bytes())["outcome"]


def test_dry_run_runs_no_action() -> None:
    assert parse_actions({"dry_run": True, "after_load": [python("")]}) == ()


@pytest.mark.thorough
def test_run_that_could_not_begin_runs_its_actions(tmp_path: Path) -> None:
    """The folder of the spool cannot be created, so the run has neither lock nor Spark."""
    (tmp_path / "file").touch()
    process = run(
        tmp_path,
        LOAD,
        staging=str(tmp_path / "file"),
        after_load=[python("open('called', 'w')", on="failed")],
        **WITHOUT_SPARK,
    )
    assert process.returncode == 1
    assert (tmp_path / "called").exists()


def test_stopped_run_runs_only_actions_that_always_run(tmp_path: Path) -> None:
    marks = [tmp_path / name for name in ("complete", "failed", "always")]
    faults, _ = act(*(python(f"open({str(m)!r}, 'w')", on=m.name) for m in marks), outcome=STOPPED)
    assert not faults
    assert [mark.exists() for mark in marks] == [False, False, True]


def test_actions_after_a_failed_one_are_skipped_unless_they_always_run(tmp_path: Path) -> None:
    mark = tmp_path / "always"
    faults, report = act(
        python("raise SystemExit(1)"),
        python("print(1)"),
        python(f"open({str(mark)!r}, 'w')", on="always"),
    )
    assert mark.exists()
    assert "after_load.1" in str(faults[1])
    assert "an earlier action failed" in str(faults[1])
    assert [bool(action["error"]) for action in report["after_load"]] == [True, True, False]


def test_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    (fault,), _ = act({"command": ["no-such-program", "--token=x1234567890"]})
    assert "No such file or directory" in str(fault)
    assert "no-such-program" in str(fault)


@pytest.mark.parametrize("secret", ["hunter2-0123456789", "hunter2'-'456789"])
def test_no_part_of_a_secret_is_shown_where_a_text_is_shortened(
    secret: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC5: labels and lines of output are shortened after the secrets in them are removed."""
    caplog.set_level("INFO")
    monkeypatch.setenv("MARK", secret)
    code = "import os; m = os.environ['MARK']; print('x' * 8185 + m); print('y' * (2**20 - 9) + m)"
    actions = parse_actions(
        {"after_load": [python(code), {"command": ["no-such-program", "z" * 57, secret]}]}
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
    assert act(python(code))[0] == []


def test_words_of_a_command_are_not_read_by_a_shell(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    faults, _ = act({"command": ["true", f"; touch {mark}", f"$(touch {mark})"]})
    assert not faults
    assert not mark.exists()


def test_program_and_its_processes_end_at_the_time_limit(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = ["sh", "-c", f"sleep 300 & echo $! > {pid}; wait"]
    for seconds in (0.5, 5, 60):  # on a busy machine, the program may begin late
        (fault,), _ = act({"command": command, "timeout_seconds": seconds})
        assert f"was ended after its timeout_seconds of {seconds} s" in str(fault)
        if pid.exists() and pid.read_text():
            break
    assert wait_for_end(int(pid.read_text()))


@pytest.mark.thorough
def test_signal_ends_the_program_but_not_the_outcome(tmp_path: Path) -> None:
    """The load is over, so it stays complete; only the actions are ended."""
    report, mark = tmp_path / "report.json", tmp_path / "begun"
    code = f"import time; open({str(mark)!r}, 'w').close(); time.sleep(300)"
    actions = [python(code), python("open('later', 'w')", on="always")]
    with running(tmp_path, after_load=actions, report=str(report), **WITHOUT_SPARK) as target:
        target.send(LOAD)
        target.stdin.close()
        target.until(mark.exists)
        target.process.send_signal(signal.SIGTERM)
        assert target.end() == 1
    content = json.loads(report.read_bytes())
    assert content["complete"]
    assert "ended by a signal" in content["remarks"][0]
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
    assert [f for f in find_faults({"path": "x", "after_load": [action]}) if message in f]


def test_airbyte_configuration_starts_no_program_unless_the_operator_allows_it(
    tmp_path: Path,
) -> None:
    """SEC1: ``check`` refuses the setting, and names the variable that allows it."""
    args = ("check", "--config", str(config(tmp_path, after_load=[python("")])))
    process = run(tmp_path, b"", *args)
    assert b"TARGET_SPARK_ALLOW_SETTINGS=after_load" in process.stdout
    assert b"FAILED" in process.stdout


def test_unknown_stream_in_a_statement_is_refused() -> None:
    loaded = LoadedTables(cast("SparkProvider", None), "delta", {"a": Table("/x/a", "a")})
    (fault,), _ = act({"sql": "OPTIMIZE {table:b}"}, loaded=loaded)
    assert "b is not a stream of this run; its streams: a" in str(fault)


@pytest.mark.spark
def test_statement_reads_and_changes_the_table_of_a_stream(warehouse: Warehouse) -> None:
    """The name is quoted as each format needs it; a check in a query is computed."""
    loader, spool = warehouse.open()
    with closing(spool), closing(loader):
        feed(loader, schema_message("odd `a`", ID), record_message("odd `a`", id=7))
        loader.finish(whole=True)
        tables = loader.get_tables()
    loaded = LoadedTables(cast("SparkProvider", warehouse.engine), warehouse.format, tables)
    check = "SELECT assert_true(count(*) = {n}) FROM {{table:odd `a`}}"
    faults, _ = act({"sql": check.format(n=1)}, {"sql": "SET spark.x.y=1"}, loaded=loaded)
    assert not faults
    (fault,), _ = act({"sql": check.format(n=2)}, loaded=loaded)
    assert "is not true" in str(fault)
