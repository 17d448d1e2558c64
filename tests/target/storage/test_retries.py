"""The classification of storage failures, the retries, and the final error."""

from __future__ import annotations

import errno
import logging
import re
import threading
from collections.abc import Callable

import pytest
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError

from tap_core.redaction import Secrets, register_secrets
from target_spark.errors import CommitLostError, DiskFullError, EngineLostError, StorageError
from target_spark.storage import commit_retry
from target_spark.storage.commit_retry import (
    BACKOFF_SECONDS,
    FailureKind,
    classify_failure,
    disk_full_context,
    first_error_line,
    retry_transient,
)

TIMEOUT = (
    "An error occurred while calling o1.save.\n: java.net.SocketTimeoutException: Read timed out"
    "\n\tat java.base/x"
)


class SparkSaysError(Exception):
    """An error with a message as Spark's."""


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the pauses between retries instead of waiting."""
    pauses_made: list[float] = []
    monkeypatch.setattr(
        commit_retry, "_sleep", lambda seconds, _stopping: pauses_made.append(seconds)
    )
    return pauses_made


def make_failing_commit(*errors: Exception) -> Callable[[], str]:
    remaining = list(errors)

    def step() -> str:
        if remaining:
            raise remaining.pop(0)
        return "done"

    return step


@pytest.mark.parametrize(
    "error, fault",
    [
        (SparkSaysError(TIMEOUT), FailureKind.TRANSIENT),
        (SparkSaysError("x\nCaused by: java.net.ConnectException: refused"), FailureKind.TRANSIENT),
        (SparkSaysError("java.net.UnknownHostException: s3"), FailureKind.TRANSIENT),
        (SparkSaysError("java.io.IOException: reset by peer"), FailureKind.TRANSIENT),
        (SparkSaysError("java.io.IOException: Permission denied"), FailureKind.PERMANENT),
        (SparkSaysError("java.io.FileNotFoundException: /x"), FailureKind.PERMANENT),
        (SparkSaysError("a.b.ServiceUnavailableException: 503"), FailureKind.TRANSIENT),
        (SparkSaysError("java.sql.SQLTransientConnectionException: x"), FailureKind.TRANSIENT),
        (SparkSaysError("org.sqlite.SQLiteException: [SQLITE_BUSY] x"), FailureKind.TRANSIENT),
        (
            SparkSaysError("org.apache.iceberg.exceptions.CommitStateUnknownException: x"),
            FailureKind.TRANSIENT,
        ),
        (
            SparkSaysError("org.apache.iceberg.exceptions.CommitFailedException: x"),
            FailureKind.CONFLICT,
        ),
        (
            SparkSaysError("io.delta.exceptions.ConcurrentAppendException: [D] x"),
            FailureKind.CONFLICT,
        ),
        (SparkSaysError("io.delta.exceptions.MetadataChangedException: x"), FailureKind.CONFLICT),
        (SparkSaysError("java.util.ConcurrentModificationException"), FailureKind.PERMANENT),
        (SparkSaysError("java.io.IOException: No space left on device"), FailureKind.DISK_FULL),
        (OSError(errno.ENOSPC, "No space left on device"), FailureKind.DISK_FULL),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), FailureKind.DISK_FULL),
        (OSError(errno.EIO, "Input/output error"), FailureKind.TRANSIENT),
        (OSError(errno.EACCES, "Permission denied"), FailureKind.PERMANENT),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), FailureKind.JVM_LOST),
        (
            SparkSaysError("Job 1 cancelled because SparkContext was shut down"),
            FailureKind.JVM_LOST,
        ),
        (Py4JError("An error occurred while calling o1.append"), FailureKind.JVM_LOST),
        (CommitLostError("java.net.ConnectException: x"), FailureKind.PERMANENT),
        (TimeoutError("x"), FailureKind.PERMANENT),
        (ValueError("Connect"), FailureKind.PERMANENT),
    ],
)
def test_failures_are_classified_by_the_exceptions_in_their_text(
    error: Exception, fault: FailureKind
) -> None:
    assert classify_failure(error) is fault


def test_transient_failure_is_tried_five_times_within_a_minute(
    pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    errors = [SparkSaysError(TIMEOUT)] * 4
    assert retry_transient(make_failing_commit(*errors), "Table a") == "done"
    assert pauses == [*BACKOFF_SECONDS[FailureKind.TRANSIENT]]
    assert sum(pauses) == 60
    assert caplog.messages[1] == (
        "Table a: attempt 2 failed and is repeated in 4 s:"
        " java.net.SocketTimeoutException: Read timed out"
    )
    with pytest.raises(StorageError, match=r"Table a: The storage.*Tried 5 times.*Read timed out"):
        retry_transient(make_failing_commit(*errors, *errors), "Table a")


def test_error_that_ends_with_a_full_stop_is_reported_with_one(pauses: list[float]) -> None:
    text = "java.net.SocketTimeoutException: It timed out."
    with pytest.raises(StorageError, match=r"last error: .* timed out\. The commit"):
        retry_transient(make_failing_commit(*[SparkSaysError(text)] * 5), "Table a")
    java_error = type("Py4JJavaError", (Exception,), {})("It refused the write.")
    with pytest.raises(StorageError, match=r"refused the write\. The commit"):
        retry_transient(make_failing_commit(java_error), "Table a")


def test_each_kind_of_failure_has_its_own_number_of_tries(pauses: list[float]) -> None:
    conflict = SparkSaysError("io.delta.exceptions.ConcurrentAppendException: x")
    stale = SparkSaysError("org.apache.spark.sql.AnalysisException: x")
    step = make_failing_commit(conflict, SparkSaysError(TIMEOUT), conflict, stale)
    assert retry_transient(step, "a") == "done"
    assert pauses == [pytest.approx(0.2, rel=0.5), 1, pytest.approx(1, rel=0.5), 0]
    with pytest.raises(StorageError, match=r"Spark refused the write. Tried 2 times"):
        retry_transient(make_failing_commit(stale, stale), "a")


def test_work_is_repeated_once_at_once_after_the_engine_ended(pauses: list[float]) -> None:
    lost = EngineLostError("The engine ended.")
    assert retry_transient(make_failing_commit(lost), "a") == "done"
    assert pauses == [0]
    with pytest.raises(EngineLostError):
        retry_transient(make_failing_commit(lost, lost), "a")


def test_failure_after_a_signal_is_not_retried(pauses: list[float]) -> None:
    signalled = threading.Event()
    signalled.set()
    with pytest.raises(StorageError, match="Tried once"):
        retry_transient(make_failing_commit(SparkSaysError(TIMEOUT)), "a", stopping=signalled)
    assert pauses == []


def test_signal_ends_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    signalled = threading.Event()
    threading.Timer(0.05, signalled.set).start()
    commit_retry._sleep(600, signalled)
    assert signalled.is_set()
    commit_retry._sleep(0.01, threading.Event())


def test_check_before_a_retry_can_raise_another_error() -> None:
    def refuse(error: BaseException) -> None:
        raise CommitLostError("no") from error

    with pytest.raises(CommitLostError):
        retry_transient(make_failing_commit(SparkSaysError(TIMEOUT)), "a", refuse)
    with pytest.raises(ValueError, match="own"):
        retry_transient(make_failing_commit(ValueError("own")), "a")


@pytest.mark.parametrize(
    "error, message",
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (SparkSaysError("x\nCaused by: java.io.IOException: File too large"), "File too large"),
    ],
)
def test_full_disk_error_names_the_file(error: Exception, message: str) -> None:
    with (
        pytest.raises(DiskFullError, match=rf"table a \(/x\): {message}\..* Make room, and start"),
        disk_full_context("table a (/x)", "Make room"),
    ):
        raise error


def test_other_errors_pass_through_the_full_disk_context() -> None:
    with pytest.raises(ValueError, match="own"), disk_full_context("a", "b"):
        raise ValueError("own")


def test_file_that_deltalake_may_not_write_is_an_error_with_the_operation() -> None:
    denied = DeltaError("Unable to open file /t/1.parquet: Permission denied (os error 13)")
    with pytest.raises(StorageError, match=r"Table t: .* denied \(os error 13\)\. The commit of"):
        retry_transient(make_failing_commit(denied), "Table t")


@pytest.mark.parametrize(
    "error", [DeltaError("Invalid table version: 0"), FileExistsError(errno.EEXIST, "File exists")]
)
def test_error_of_the_storage_names_the_operation(error: Exception) -> None:
    with pytest.raises(
        StorageError, match=f"Table t: {re.escape(str(error))}. The commit of"
    ) as raised:
        retry_transient(make_failing_commit(error), "Table t")
    assert raised.value.__cause__ is error


def test_file_that_deltalake_cannot_read_is_an_error_of_one_line() -> None:
    """The library raises an OSError without a number for such a file."""
    unread = (
        "Kernel error -> Generic LocalFileSystem error\n          \x1b[31m↳\x1b[0m Unable to open"
        " file /t/0.json\n           \x1b[31m↳\x1b[0m {} (os error {})\n"
    )
    stale = OSError(unread.format("Stale file handle", errno.ESTALE))
    assert retry_transient(make_failing_commit(stale), "Table t") == "done"
    denied = OSError(unread.format("Permission denied", errno.EACCES))
    with pytest.raises(StorageError) as raised:
        retry_transient(make_failing_commit(denied), "Table t")
    assert "(Unable to open file /t/0.json: Permission denied (os error 13)). The commit" in str(
        raised.value
    )


@pytest.mark.parametrize(
    "text, summary",
    [
        ("", "SparkSaysError"),
        ("one\ntwo", "one"),
        (TIMEOUT, "java.net.SocketTimeoutException: Read timed out"),
        ("a.B: x\n\tat y\nCaused by: c.D: z\n\tat w", "a.B: x (c.D: z)"),
        (
            "Store\n  \x1b[31m↳\x1b[0m Copy\n   \x1b[31m↳\x1b[0m No space\n",
            "Store (Copy: No space)",
        ),
        ("An error occurred while calling o1.x", "An error occurred while calling o1.x"),
    ],
)
def test_first_error_line_summarizes_an_exception(text: str, summary: str) -> None:
    assert first_error_line(SparkSaysError(text)) == summary


def test_first_error_line_ends_with_no_part_of_a_secret() -> None:
    """SEC5: the line is shortened after the secrets in it are removed."""
    secrets = Secrets.from_values(["hunter2-0123456789"])
    register_secrets(secrets, secrets)
    line = first_error_line(SparkSaysError(f"{'x' * 990} hunter2-0123456789 {'y' * 99}"))
    assert line.startswith(f"{'x' * 990} *** y")
    assert len(line) == 1000
