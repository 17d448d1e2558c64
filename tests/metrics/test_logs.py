"""The log: on standard error, as text or as JSON, and never a reason to stop."""

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
)
from tests.peers import missing_reason, peer_python

PEER = peer_python("singer_sdk")
ROOT = Path(__file__).parents[2]


def record(message="hello %s", args=("you",), **fields):
    made = logging.LogRecord("tap-x", logging.WARNING, "/x/y.py", 7, message, args, None)
    vars(made).update(fields)
    return made


# Formatters


def test_text_has_the_columns_of_the_peer():
    line = ConsoleFormatter().format(record())
    time, level, name, message = line.split(" | ")
    assert len(time) == 23
    assert (level, name, message) == ("WARNING ", "tap-x".ljust(30), "hello you")


def test_json_has_the_fields_that_readers_require():
    made = record(stream_name="s", custom=1)
    assert json.loads(StructuredFormatter().format(made)) == {
        "level": "warning",
        "pid": os.getpid(),
        "logger_name": "tap-x",
        "ts": made.created,
        "thread_name": "MainThread",
        "app_name": "singer-sdk",
        "stream_name": "s",
        "message": "hello you",
        "extra": {"custom": 1},
    }


def test_defaults_are_added_to_every_line():
    formatter = StructuredFormatter(defaults={"app_name": "mine", "team": "data", "custom": 0})
    line = json.loads(formatter.format(record(custom=1)))
    assert line["app_name"] == "mine"
    assert line["extra"] == {"team": "data", "custom": 1}


def test_a_measurement_is_an_object():
    point = metrics.Point("counter", metrics.Metric.RECORD_COUNT, 3, {"stream": "s"})
    line = json.loads(StructuredFormatter().format(record("METRIC: %s", (point,))))
    assert line["message"] == "METRIC"
    assert line["metric_info"] == {
        "type": "counter",
        "metric": "record_count",
        "value": 3,
        "tags": {"stream": "s"},
    }


def test_an_error_is_an_object_with_what_led_to_it():
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
    found = json.loads(StructuredFormatter().format(record(exc_info=raised)))["exception"]
    assert (found["type"], found["module"], found["message"]) == (
        "RuntimeError",
        "builtins",
        "high",
    )
    assert found["traceback"][-1]["function"] == "outer"
    assert found["traceback"][-1]["line"].strip() == 'raise RuntimeError("high") from error'
    assert found["cause"]["message"] == "low"
    assert "context" not in found


def test_an_error_while_another_is_handled_names_it():
    try:
        try:
            {}["first"]
        except KeyError:
            int("second")
    except ValueError:
        raised = sys.exc_info()
    found = json.loads(StructuredFormatter().format(record(exc_info=raised)))["exception"]
    assert found["context"]["type"] == "KeyError"


def test_a_line_without_an_error_or_with_wrong_arguments_is_still_a_line():
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
def test_json_is_what_the_peer_writes():
    done = subprocess.run([str(PEER), "-c", PROGRAM], check=True, capture_output=True, text=True)
    made = record(created=5.0, process=6, custom=[1])
    ours = StructuredFormatter(defaults={"team": "data"}).format(made)
    assert json.loads(ours) == json.loads(done.stdout)


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
def test_the_level_is_the_plugins_then_the_general_one(monkeypatch, variables, level):
    for name in ("LOGLEVEL", "TAP_X_LOGLEVEL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert plugin_log_level("tap-x") == level


# Setting up, in a process of its own


def logged(program: str, config: str | None, tmp_path, **environment) -> tuple[list[str], str]:
    """Run a program after the log is set up; return its lines of stderr, and its stdout."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    variables.pop("SINGER_SDK_LOG_CONFIG", None)
    if config is not None:
        path = tmp_path / "log.json"
        path.write_text(config)
        variables["SINGER_SDK_LOG_CONFIG"] = str(path)
    start = "import logging; early = logging.getLogger('early')\n"
    start += "from tap_core.logging import setup_console_logging; setup_console_logging('INFO')\n"
    done = subprocess.run(
        [sys.executable, "-c", start + program],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines(), done.stdout


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


def test_the_file_that_meltano_writes_gives_json_lines_without_singer_sdk(tmp_path):
    program = "early.info('one'); logging.getLogger('late').info('two')"
    lines, stdout = logged(program, json.dumps(MELTANO), tmp_path)
    assert [json.loads(line)["message"] for line in lines] == ["one", "two"]
    assert stdout == ""


def test_loggers_of_the_peer_mean_ours(tmp_path):
    config = {
        "version": 1,
        "loggers": {"singer_sdk.metrics": {"level": "ERROR"}},
        "filters": {"few": {"()": "singer_sdk.metrics.MetricExclusionFilter", "types": ["x"]}},
        "handlers": {"h": {"class": "logging.StreamHandler", "filters": ["few"]}},
        "root": {"level": "INFO", "handlers": ["h"]},
    }
    program = "logging.getLogger('tap_core.metrics').info('no'); early.info('yes')"
    assert logged(program, json.dumps(config), tmp_path) == (["yes"], "")


def test_yaml_is_read_where_it_can_be(tmp_path):
    pytest.importorskip("yaml")
    config = "version: 1\nhandlers: {h: {class: logging.StreamHandler}}\n"
    config += "root: {level: INFO, handlers: [h]}\n"
    assert logged("early.info('yes')", config, tmp_path) == (["yes"], "")


@pytest.mark.parametrize(
    "config", ['{"version": 2}', "[1]", '{"version": 1, "formatters": {"f": {"()": "no.such"}}}']
)
def test_a_file_that_cannot_be_used_is_said_and_left(tmp_path, config):
    lines, _ = logged("early.info('still here')", config, tmp_path)
    assert "cannot be used" in lines[0]
    assert lines[-1].endswith("| still here")


def test_a_file_that_is_missing_is_said_and_left(tmp_path):
    program = "import os; os.environ['SINGER_SDK_LOG_CONFIG'] = 'nowhere.json'\n"
    program += "setup_console_logging('INFO'); early.info('still here')"
    lines, _ = logged(program, None, tmp_path)
    assert "Logging config file not found: nowhere.json" in lines[0]
    assert lines[-1].endswith("| still here")


def test_setting_up_twice_writes_each_line_once(capsys):
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


def test_a_standard_error_that_is_gone_stops_nothing(monkeypatch):
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
