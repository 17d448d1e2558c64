"""Logging to standard error as text or JSON; logging errors never stop a run."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tap_core import metrics
from tap_core.logging import (
    ConsoleFormatter,
    StructuredFormatter,
    plugin_log_level,
    setup_console_logging,
    warn_about_log_level,
)
from tests.peers import missing_reason, peer_python
from tests.terminal import open_terminal

PEER = peer_python("singer_sdk")
ROOT = Path(__file__).parents[2]


def record(message="hello %s", args=("you",), **fields):
    log_record = logging.LogRecord("tap-x", logging.WARNING, "/x/y.py", 7, message, args, None)
    vars(log_record).update(fields)
    return log_record


# Formatters


def test_console_log_has_the_columns_of_singer_sdk():
    line = ConsoleFormatter().format(record())
    time, level, name, message = line.split(" | ")
    assert len(time) == 23
    assert (level, name, message) == ("WARNING ", "tap-x".ljust(30), "hello you")


def test_json_log_has_the_required_fields():
    log_record = record(stream_name="s", custom=1)
    assert json.loads(StructuredFormatter().format(log_record)) == {
        "level": "warning",
        "pid": os.getpid(),
        "logger_name": "tap-x",
        "ts": log_record.created,
        "thread_name": "MainThread",
        "app_name": "singer-sdk",
        "stream_name": "s",
        "message": "hello you",
        "extra": {"custom": 1},
    }


def test_default_fields_are_added_to_every_json_line():
    formatter = StructuredFormatter(defaults={"app_name": "mine", "team": "data", "custom": 0})
    line = json.loads(formatter.format(record(custom=1)))
    assert line["app_name"] == "mine"
    assert line["extra"] == {"team": "data", "custom": 1}


def test_metric_is_logged_as_a_json_object():
    point = metrics.Point("counter", metrics.Metric.RECORD_COUNT, 3, {"stream": "s"})
    line = json.loads(StructuredFormatter().format(record("METRIC: %s", (point,))))
    assert line["message"] == "METRIC"
    assert line["metric_info"] == {
        "type": "counter",
        "metric": "record_count",
        "value": 3,
        "tags": {"stream": "s"},
    }


def test_exception_is_logged_as_a_json_object_with_its_cause():
    def inner():
        raise ValueError("low")

    def outer():
        try:
            inner()
        except ValueError as error:
            raise RuntimeError("high") from error

    try:
        outer()
    except RuntimeError:
        raised = sys.exc_info()
    exception = json.loads(StructuredFormatter().format(record(exc_info=raised)))["exception"]
    assert (exception["type"], exception["module"], exception["message"]) == (
        "RuntimeError",
        "builtins",
        "high",
    )
    assert exception["traceback"][-1]["function"] == "outer"
    assert exception["traceback"][-1]["line"].strip() == 'raise RuntimeError("high") from error'
    assert exception["cause"]["message"] == "low"
    assert "context" not in exception


def test_exception_object_has_its_context():
    try:
        try:
            {}["first"]
        except KeyError:
            int("second")
    except ValueError:
        raised = sys.exc_info()
    exception = json.loads(StructuredFormatter().format(record(exc_info=raised)))["exception"]
    assert exception["context"]["type"] == "KeyError"


def test_invalid_log_record_is_still_written_as_json():
    line = StructuredFormatter().format(record(exc_info=(None, None, None)))
    assert "exception" not in json.loads(line)
    line = StructuredFormatter().format(record("%d things", ("many",)))
    assert json.loads(line)["message"] == "%d things"


PROGRAM = """
import logging, sys
from singer_sdk.logging import StructuredFormatter
made = logging.LogRecord("tap-x", logging.WARNING, "/x/y.py", 7, "hello %s", ("you",), None)
made.created, made.process, made.custom = 5.0, 6, [1]
print(StructuredFormatter(defaults={"team": "data"}).format(made))
"""


@pytest.mark.peer
@pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk"))
def test_json_log_is_that_of_singer_sdk():
    process = subprocess.run([str(PEER), "-c", PROGRAM], check=True, capture_output=True, text=True)
    log_record = record(created=5.0, process=6, custom=[1])
    ours = StructuredFormatter(defaults={"team": "data"}).format(log_record)
    assert json.loads(ours) == json.loads(process.stdout)


# Levels


@pytest.mark.parametrize(
    "variables, level",
    [
        ({}, "INFO"),
        ({"LOGLEVEL": "error"}, "ERROR"),
        ({"LOGLEVEL": "error", "TAP_X_LOGLEVEL": "debug"}, "DEBUG"),
        ({"TAP_X_LOGLEVEL": ""}, "INFO"),
        ({"LOGLEVEL": "loud"}, "INFO"),
    ],
)
def test_plugin_log_level_takes_precedence_over_the_general_one(monkeypatch, variables, level):
    for name in ("LOGLEVEL", "TAP_X_LOGLEVEL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert plugin_log_level("tap-x") == level


def test_unknown_log_level_is_named(monkeypatch, caplog):
    monkeypatch.setenv("LOGLEVEL", "error")
    monkeypatch.setenv("TAP_X_LOGLEVEL", "loud")
    warn_about_log_level("tap-y")
    assert caplog.messages == []
    warn_about_log_level("tap-x")
    assert caplog.text.count("TAP_X_LOGLEVEL: there is no log level 'loud', so INFO is used.") == 1


METRIC_PROGRAM = """
import logging, sys
from tap_core import metrics
from tap_core.logging import setup_console_logging

setup_console_logging(sys.argv[1])
logger = metrics.get_metrics_logger()
logger.setLevel(sys.argv[1])
metrics.log(logger, metrics.Point("counter", metrics.Metric.RECORD_COUNT, 7))
logger.info("no metric")
"""


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_metrics_are_shown_on_a_terminal_only_at_level_debug(level):
    command = [sys.executable, "-c", METRIC_PROGRAM, level]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("SINGER_SDK_LOG_CONFIG", None)
    with open_terminal(200) as session:
        assert session.start(command, env=environment).wait() == 0
    text = "\n".join(session.terminal.lines())
    assert ("METRIC: {" in text) is (level == "DEBUG")
    assert "no metric" in text

    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (
        'METRIC: {"type":"counter","metric":"record_count","value":7,"tags":{}}' in process.stderr
    )


def test_circle_of_causes_is_logged_once():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    log_record = record(exc_info=(ValueError, first, None))
    exception = json.loads(StructuredFormatter().format(log_record))["exception"]
    assert exception["cause"] == {"type": "ValueError", "module": "builtins", "message": "second"}


# Setup, in a separate process


def run_with_logging(
    program: str, config: str | None, tmp_path, **environment
) -> tuple[list[str], str]:
    """Run a program with logging set up; return the lines of its stderr, and its stdout."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    variables.pop("SINGER_SDK_LOG_CONFIG", None)
    if config is not None:
        path = tmp_path / "log.json"
        path.write_text(config)
        variables["SINGER_SDK_LOG_CONFIG"] = str(path)
    start = "import logging; early = logging.getLogger('early')\n"
    start += "from tap_core.logging import setup_console_logging; setup_console_logging('INFO')\n"
    process = subprocess.run(
        [sys.executable, "-c", start + program],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stderr.splitlines(), process.stdout


MELTANO = {
    "version": 1,
    "disable_existing_loggers": True,
    "formatters": {"default": {"()": "singer_sdk.logging.StructuredFormatter"}},
    "handlers": {
        "default": {
            "class": "logging.StreamHandler",
            "formatter": "default",
            "stream": "ext://sys.stderr",
        }
    },
    "root": {"level": "INFO", "propagate": True, "handlers": ["default"]},
}


def test_meltano_log_config_gives_json_lines_without_singer_sdk(tmp_path):
    program = "early.info('one'); logging.getLogger('late').info('two')"
    lines, stdout = run_with_logging(program, json.dumps(MELTANO), tmp_path)
    assert [json.loads(line)["message"] for line in lines] == ["one", "two"]
    assert stdout == ""


def test_singer_sdk_names_in_log_config_refer_to_tap_core(tmp_path):
    config = {
        "version": 1,
        "loggers": {"singer_sdk.metrics": {"level": "ERROR"}},
        "filters": {"few": {"()": "singer_sdk.metrics.MetricExclusionFilter", "types": ["x"]}},
        "handlers": {"h": {"class": "logging.StreamHandler", "filters": ["few"]}},
        "root": {"level": "INFO", "handlers": ["h"]},
    }
    program = "logging.getLogger('tap_core.metrics').info('no'); early.info('yes')"
    assert run_with_logging(program, json.dumps(config), tmp_path) == (["yes"], "")


def test_yaml_log_config_is_read_if_pyyaml_is_installed(tmp_path):
    pytest.importorskip("yaml")
    config = "version: 1\nhandlers: {h: {class: logging.StreamHandler}}\n"
    config += "root: {level: INFO, handlers: [h]}\n"
    assert run_with_logging("early.info('yes')", config, tmp_path) == (["yes"], "")


@pytest.mark.parametrize(
    "config",
    ['{"version": 2}', "[1]", "a: [", '{"version": 1, "formatters": {"f": {"()": "no.such"}}}'],
)
def test_invalid_log_config_causes_a_warning_and_is_ignored(tmp_path, config):
    lines, _ = run_with_logging("early.info('still here')", config, tmp_path)
    assert "cannot be used" in lines[0]
    assert lines[-1].endswith("| still here")


def test_missing_log_config_causes_a_warning_and_is_ignored(tmp_path):
    program = "import os; os.environ['SINGER_SDK_LOG_CONFIG'] = 'nowhere.json'\n"
    program += "setup_console_logging('INFO'); early.info('still here')"
    lines, _ = run_with_logging(program, None, tmp_path)
    assert "Logging config file not found: nowhere.json" in lines[0]
    assert lines[-1].endswith("| still here")


def test_logging_set_up_twice_writes_each_line_once(capsys):
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    try:
        setup_console_logging("INFO")
        setup_console_logging("INFO")
        logging.getLogger("tap-x").info("once")
    finally:
        root.setLevel(before[0])
        root.handlers[:] = before[1]
    assert capsys.readouterr().err.count("| once\n") == 1


def test_closed_standard_error_does_not_raise(monkeypatch):
    class Gone:
        def write(self, _text):
            raise OSError

    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    monkeypatch.setattr(logging, "raiseExceptions", False)
    try:
        setup_console_logging("INFO")
        monkeypatch.setattr(sys, "stderr", Gone())
        logging.getLogger("tap-x").warning("lost")
    finally:
        monkeypatch.undo()
        root.setLevel(before[0])
        root.handlers[:] = before[1]
