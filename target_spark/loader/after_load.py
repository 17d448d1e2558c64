"""Actions after a load: SQL statements in the run's Spark session, and programs.

All states are emitted before the first action, so a failed action never affects the load. A program
is started from a list of arguments, without a shell. It gets the run's report, without secrets, on
its standard input. It does not get the environment variables ``TARGET_SPARK_*``.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

from target_spark.errors import AfterLoadError
from target_spark.loader.report import COMPLETE, Report, split_outcome
from target_spark.spark.session import load_libraries
from target_spark.spark.spark_provider import SparkProvider
from target_spark.storage.commit_retry import first_error_line
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.identifiers import quote
from target_spark.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Action", "LoadedTables", "parse_actions", "run_actions"]

logger = logging.getLogger(__name__)

_VARIABLES: Final = "TARGET_SPARK_"
"""Prefix of the environment variables with settings. Programs do not get these variables."""

_TABLE: Final = re.compile(r"\{table:([^{}]+)\}")
_POLL_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 5.0
"""Seconds to wait for a program to end after SIGTERM, and for its last output."""

_LONGEST_LINE: Final = 1 << 20
_LONGEST_PIECE: Final = 8_192
_LONGEST_LABEL: Final = 80
_KEPT_LINES: Final = 5
_LONGEST_END: Final = 1_000


@dataclass(frozen=True, slots=True)
class Action:
    """One action of the setting ``after_load``: a SQL statement or a program.

    Attributes:
        setting: The path of the action in the settings, such as ``after_load.0``.
        on: The outcome of the load after which the action runs: ``complete``, ``failed`` or, for
            both, ``always``.
        sql: The statement; None for a program.
        command: The program and its arguments; empty for a statement.
        timeout_seconds: The longest duration of a program; None for no limit.
    """

    setting: str
    on: str = COMPLETE
    sql: str | None = None
    command: tuple[str, ...] = ()
    timeout_seconds: float | None = None

    def label(self, hide: Callable[[str], str]) -> str:
        """Return a name of the action for messages, such as ``after_load.0 (OPTIMIZE sales)``.

        The function ``hide`` redacts secrets in the statement or command. Long texts are
        shortened.
        """
        if self.sql is None:
            text = hide(shlex.join(map(hide, self.command)))
        else:
            text = " ".join(hide(self.sql).split())
        if len(text) > _LONGEST_LABEL:
            text = f"{text[:_LONGEST_LABEL]}…"
        return f"{self.setting} ({text})"


@dataclass(frozen=True, slots=True)
class LoadedTables:
    """The tables that a run loaded, and the Spark process for SQL statements on them.

    Attributes:
        engine: The Spark process of the run. It is started if a statement needs it.
        format: The table format, such as ``delta``.
        tables: The tables of the run's streams, by stream name.
    """

    engine: SparkProvider
    format: str
    tables: Mapping[str, Table]


def parse_actions(config: Mapping[str, Any]) -> tuple[Action, ...]:
    """Return the SQL statements and programs of the setting ``after_load``, which run after a load.

    They are in the order of the setting. ``config`` are the validated settings of the target. For a
    dry run, the result is empty.
    """
    entries = () if config.get("dry_run") else config.get("after_load") or ()
    return tuple(
        Action(
            f"after_load.{number}",
            entry.get("on", COMPLETE),
            entry.get("sql"),
            tuple(entry.get("command", ())),
            entry.get("timeout_seconds"),
        )
        for number, entry in enumerate(entries)
    )


def run_actions(
    actions: Sequence[Action],
    report: Report,
    loaded: LoadedTables | None,
    hide: Callable[[str], str],
    interrupted: threading.Event,
) -> list[AfterLoadError]:
    """Run the actions for the outcome of a load in order, and return the errors.

    After a failed action, only actions with ``"on": "always"`` run. Each action is added to the
    report with its duration and error; a failure is also added to the report's notes for the user.

    Args:
        actions: The actions.
        report: The report of the run, which has the outcome of the load.
        loaded: The tables and Spark of the run; None if the run could not begin.
        hide: A function that redacts secrets in a text.
        interrupted: Event that is set by a signal. It ends the running program and skips the rest.
    """
    outcome, error = split_outcome(report.as_dict()["outcome"])
    kind = outcome if error is None else "failed"
    results: list[dict[str, Any]] = []
    errors: list[AfterLoadError] = []
    for action in actions:
        if action.on not in {kind, "always"}:
            continue
        started = time.monotonic()
        label = action.label(hide)
        failure: str | None
        if interrupted.is_set():
            failure = "was not run, because a signal ended the actions"
        elif errors and action.on != "always":
            failure = "was not run, because an earlier action failed"
        else:
            logger.info("%s: begins.", label)
            failure = _run_action(action, report, loaded, hide, interrupted)
        if failure is not None:
            text = hide(f"{label} {failure}.")
            report.add_remark(text)
            errors.append(AfterLoadError(text))
        seconds = round(time.monotonic() - started, 3)
        results.append({"action": label, "seconds": seconds, "error": failure})
        report.add_facts(after_load=list(results))
    return errors


def _run_action(
    action: Action,
    report: Report,
    loaded: LoadedTables | None,
    hide: Callable[[str], str],
    interrupted: threading.Event,
) -> str | None:
    """Run one SQL statement or program after a load; return None on success, else an error text.

    An error text is, for example, ``failed: exit code 1``. The function ``hide`` redacts secrets in
    it. A signal sets ``interrupted``, which ends a program early.
    """
    try:
        if action.sql is None:
            return _run_command(action, report, hide, interrupted)
        _run_statement(action.sql, loaded)
    except Exception as error:  # noqa: BLE001  the load itself is not affected
        return hide(f"failed: {first_error_line(error)}").rstrip(".")
    return None


# SQL statements


def _run_statement(sql: str, loaded: LoadedTables | None) -> None:
    """Run a SQL statement of the setting ``after_load``. The rows of a query are discarded.

    Names of streams in the statement, such as ``{table:orders}``, are replaced by their tables.
    ``loaded`` has the tables and Spark of the run; None if the run could not begin.

    Raises:
        AfterLoadError: The run ended before it could use Spark, or the statement names a stream
            that the run did not load.
    """
    if loaded is None:
        raise AfterLoadError("the run ended before Spark started")
    unknown = sorted({name for name in _TABLE.findall(sql) if name not in loaded.tables})
    if unknown:
        known = ", ".join(loaded.tables) or "none"
        raise AfterLoadError(f"{unknown[0]} is not a stream of this run; its streams: {known}")
    load_libraries()
    loaded.engine.begin()
    spark = loaded.engine.spark()
    frame = spark.sql(
        _TABLE.sub(lambda match: _get_sql_name(spark, loaded.tables[match[1]], loaded.format), sql)
    )
    if frame.columns:  # a query is lazy, and may be a check such as assert_true
        frame.write.format("noop").mode("overwrite").save()


def _get_sql_name(spark: SparkSession, table: Table, table_format: str) -> str:
    """Return the name of a table for SQL statements, such as ``delta.`file:/data/users```."""
    if table_format == "iceberg":
        from target_spark.writers.iceberg.catalog import resolve_table

        return resolve_table(spark, table).ref
    if table.identifier:
        return quote(*table.identifier)
    return f"{table_format}.{quote(to_spark_uri(table.path))}"


# Programs


def _run_command(
    action: Action, report: Report, hide: Callable[[str], str], interrupted: threading.Event
) -> str | None:
    """Run a program with the report as JSON on its standard input, and log its output.

    Return None on success, else a text such as ``failed: exit code 1``. ``hide`` redacts secrets in
    the output. Setting ``interrupted`` ends the program early.
    """
    with tempfile.TemporaryFile() as document:
        document.write(json.dumps(report.as_dict()).encode() + b"\n")
        document.seek(0)
        process = subprocess.Popen(  # noqa: S603  (a program that the operator names; no shell)
            action.command,
            stdin=document,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={k: v for k, v in os.environ.items() if not k.upper().startswith(_VARIABLES)},
            start_new_session=True,  # so that all of its processes can be ended
        )
    last_errors: deque[str] = deque(maxlen=_KEPT_LINES)
    readers = [
        threading.Thread(target=_log_output, args=(pipe, action.setting, hide, kept), daemon=True)
        for pipe, kept in ((process.stdout, None), (process.stderr, last_errors))
    ]
    for reader in readers:
        reader.start()
    cut_short = _wait(process, action.timeout_seconds, interrupted)
    for reader in readers:
        reader.join(_GRACE_SECONDS)
    end = hide(" ".join(last_errors))[-_LONGEST_END:].strip()
    if cut_short is None and process.returncode == 0:
        return None
    reason = cut_short or f"failed: {_describe_end(process.returncode)}"
    return f"{reason}; its standard error ends: {end}".rstrip(".") if end else reason


def _wait(
    process: subprocess.Popen[bytes], seconds: float | None, interrupted: threading.Event
) -> str | None:
    """Wait until a program ends. Return None, or the reason why it was ended early.

    The program is ended after ``seconds`` (None for no limit), or when ``interrupted`` is set.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    while process.poll() is None:
        if interrupted.is_set():
            _end_processes(process)
            return "was ended by a signal"
        if deadline is not None and time.monotonic() >= deadline:
            _end_processes(process)
            return f"was ended after its timeout_seconds of {seconds:g} s"
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_SECONDS)
    return None


def _end_processes(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to a program and to the processes that it started, and then SIGKILL.

    SIGKILL is sent when the program has ended, or after 5 seconds.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _log_output(
    pipe: IO[bytes], setting: str, hide: Callable[[str], str], kept: deque[str] | None
) -> None:
    """Log each line of a program's output, with secrets redacted by the function ``hide``.

    Log messages begin with ``setting``, the path of the action in the settings. If ``kept`` is not
    None, the redacted lines are also appended to it.
    """
    with pipe:
        for text in _read_lines(pipe, hide):
            logger.info("%s: %s", setting, text)
            if kept is not None:
                kept.append(text)


def _read_lines(pipe: IO[bytes], hide: Callable[[str], str]) -> Iterator[str]:
    """Yield the non-blank lines of a pipe, with secrets redacted by the function ``hide``.

    A line of more than 8,192 characters is yielded in pieces of this length. A line of more than 1
    MiB is cut off after about 1 MiB.
    """
    while line := pipe.readline(_LONGEST_LINE):
        text = hide(line.decode("utf-8", "replace").rstrip())
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            text = text[:-_LONGEST_PIECE]  # its end may be the beginning of a secret
            while (rest := pipe.readline(_LONGEST_LINE)) and not rest.endswith(b"\n"):
                pass
        for start in range(0, len(text), _LONGEST_PIECE):
            yield text[start : start + _LONGEST_PIECE]


def _describe_end(code: int) -> str:
    """Return a program's exit code as text: ``exit code 1``, or ``ended by signal 9`` for -9."""
    return f"exit code {code}" if code > 0 else f"ended by signal {-code}"
