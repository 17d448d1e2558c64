"""A JVM that is killed during a call: the log has the loader's message and none of py4j's."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from target_spark.spark.py4j_logging import restore, silence_disconnects
from tests.target.cli.test_signals import get_jvm, wait_for_no_processes
from tests.target.cli.test_target_cli import record, running, schema, state

WORDS = "Spark's JVM ended in the middle of the run: it was killed"


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_killed_jvm_logs_one_message_without_stack_traces(tmp_path: Path, form: str) -> None:
    rows = [record(n) for n in range(1, 60_001)]
    with running(tmp_path, flush_rows=60_000, format=form) as target:
        target.send(schema(), *rows, state(1))
        target.until((tmp_path / "tables" / "a").is_dir)
        jvm = get_jvm(tmp_path)
        assert jvm is not None
        os.kill(jvm, signal.SIGKILL)
        assert target.end() == 1
        errors = target.errors.decode()
    assert errors.count(WORDS) >= 1
    for noise in ("Traceback", "py4j", "Py4J", "Errno", "Connection refused", "Unable to cleanly"):
        assert noise not in errors, errors
    wait_for_no_processes(tmp_path)


# Without Spark


@pytest.fixture
def no_other_jvm() -> Iterator[None]:
    """Remove the log filters of another test's session, which would wait for its JVM."""
    loggers = [logging.getLogger(name) for name in ("", "py4j.java_gateway", "py4j.clientserver")]
    saved = [(logger, logger.filters) for logger in loggers]
    for logger in loggers:
        logger.filters = []
    yield
    for logger, filters in saved:
        logger.filters = filters


@pytest.fixture
def has_ended_answers(no_other_jvm: None) -> Iterator[list[bool]]:
    """Return the queue of answers to the question whether the JVM has ended."""
    answers: list[bool] = []
    filters = silence_disconnects(lambda: answers.pop(0))
    yield answers
    restore(filters)


def log_error(error: Exception, path: str = "/lib/py4j/java_gateway.py", name: str = "") -> None:
    """Log an error as py4j does, with the root logger or its own."""
    raised = (type(error), error, None)
    record = logging.LogRecord(name, logging.ERROR, path, 1, "while sending", None, raised)
    logging.getLogger(name).handle(record)


def test_only_connection_errors_of_an_ended_jvm_are_suppressed(
    has_ended_answers: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    broken = [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "x")]
    for error in broken:
        for name in ("", "py4j.java_gateway", "py4j.clientserver"):
            has_ended_answers.append(True)
            log_error(error, name=name)
    assert (has_ended_answers, caplog.messages) == ([], [])
    has_ended_answers.append(False)
    log_error(broken[0])
    log_error(ValueError("of the bridge, but no connection"))
    log_error(broken[0], path="/lib/elsewhere/client.py")
    logging.getLogger().error("a word without an exception")
    assert (has_ended_answers, len(caplog.messages)) == ([], 4)


@pytest.mark.usefixtures("no_other_jvm")
def test_no_log_record_is_suppressed_after_the_session(caplog: pytest.LogCaptureFixture) -> None:
    restore(silence_disconnects(lambda: True))
    log_error(Py4JNetworkError("x"))
    assert len(caplog.messages) == 1
