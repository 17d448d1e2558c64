"""Which failures are tried again, how often, and what is said in the end."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable

import pytest
from py4j.protocol import Py4JError

from target_spark import retries
from target_spark.errors import CommitLostError, DiskFullError, StorageError
from target_spark.retries import PAUSES, Fault, fault_of, first_line, patiently, writing_to

TIMEOUT = (
    "An error occurred while calling o1.save.\n: java.net.SocketTimeoutException: Read timed out"
    "\n\tat java.base/x"
)


class SparkSaysError(Exception):
    """What Spark raises, in its words."""


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Note how long it would be waited, instead of waiting."""
    noted: list[float] = []
    monkeypatch.setattr(retries, "_sleep", lambda seconds, _stopping: noted.append(seconds))
    return noted


def failing(*errors: Exception) -> Callable[[], str]:
    left = list(errors)

    def step() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return step


def nothing(_error: BaseException) -> None:
    pass


@pytest.mark.parametrize(
    "error, fault",
    [
        (SparkSaysError(TIMEOUT), Fault.PASSING),
        (SparkSaysError("x\nCaused by: java.net.ConnectException: refused"), Fault.PASSING),
        (SparkSaysError("java.net.UnknownHostException: s3"), Fault.PASSING),
        (SparkSaysError("java.io.IOException: reset by peer"), Fault.PASSING),
        (SparkSaysError("java.io.IOException: Permission denied"), Fault.LASTING),
        (SparkSaysError("java.io.FileNotFoundException: /x"), Fault.LASTING),
        (SparkSaysError("a.b.ServiceUnavailableException: 503"), Fault.PASSING),
        (SparkSaysError("java.sql.SQLTransientConnectionException: x"), Fault.PASSING),
        (SparkSaysError("org.sqlite.SQLiteException: [SQLITE_BUSY] x"), Fault.PASSING),
        (
            SparkSaysError("org.apache.iceberg.exceptions.CommitStateUnknownException: x"),
            Fault.PASSING,
        ),
        (
            SparkSaysError("org.apache.iceberg.exceptions.CommitFailedException: x"),
            Fault.CONFLICT,
        ),
        (SparkSaysError("io.delta.exceptions.ConcurrentAppendException: [D] x"), Fault.CONFLICT),
        (SparkSaysError("io.delta.exceptions.MetadataChangedException: x"), Fault.CONFLICT),
        (SparkSaysError("java.util.ConcurrentModificationException"), Fault.LASTING),
        (SparkSaysError("java.io.IOException: No space left on device"), Fault.FULL),
        (OSError(errno.ENOSPC, "No space left on device"), Fault.FULL),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), Fault.FULL),
        (OSError(errno.EIO, "Input/output error"), Fault.PASSING),
        (OSError(errno.EACCES, "Permission denied"), Fault.LASTING),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), Fault.CUT),
        (SparkSaysError("Job 1 cancelled because SparkContext was shut down"), Fault.CUT),
        (Py4JError("An error occurred while calling o1.append"), Fault.CUT),
        (CommitLostError("java.net.ConnectException: x"), Fault.LASTING),
        (TimeoutError("x"), Fault.LASTING),
        (ValueError("Connect"), Fault.LASTING),
    ],
)
def test_failures_are_known_by_the_names_in_their_chain(error: Exception, fault: Fault) -> None:
    assert fault_of(error) is fault


def test_what_passes_is_tried_five_times_within_a_minute(
    pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    errors = [SparkSaysError(TIMEOUT)] * 4
    assert patiently(failing(*errors), "Table a", nothing) == "done"
    assert pauses == [*PAUSES[Fault.PASSING]]
    assert sum(pauses) == 60
    assert caplog.messages[1] == (
        "Table a: try 2 failed and is repeated in 4 s:"
        " java.net.SocketTimeoutException: Read timed out"
    )
    with pytest.raises(StorageError, match=r"Table a: The storage.*Tried 5 times.*Read timed out"):
        patiently(failing(*errors, *errors), "Table a", nothing)


def test_failures_of_another_kind_have_tries_of_their_own(pauses: list[float]) -> None:
    conflict = SparkSaysError("io.delta.exceptions.ConcurrentAppendException: x")
    stale = SparkSaysError("org.apache.spark.sql.AnalysisException: x")
    step = failing(conflict, SparkSaysError(TIMEOUT), conflict, stale)
    assert patiently(step, "a", nothing) == "done"
    assert pauses == [0.2, 1, 1, 0]
    with pytest.raises(StorageError, match=r"Spark refused the write. Tried 2 times"):
        patiently(failing(stale, stale), "a", nothing)


def test_nothing_is_waited_for_after_a_signal(pauses: list[float]) -> None:
    with pytest.raises(StorageError, match="Tried 1 times"):
        patiently(failing(SparkSaysError(TIMEOUT)), "a", nothing, lambda: True)
    assert pauses == []


def test_a_pause_ends_with_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    looks: list[int] = []

    def stopping() -> bool:
        looks.append(1)
        return len(looks) > 2

    retries._sleep(600, stopping)
    assert len(looks) == 3
    retries._sleep(0.01, lambda: False)


def test_who_looks_first_may_end_the_trying() -> None:
    def refuse(error: BaseException) -> None:
        raise CommitLostError("no") from error

    with pytest.raises(CommitLostError):
        patiently(failing(SparkSaysError(TIMEOUT)), "a", refuse)
    with pytest.raises(ValueError, match="own"):
        patiently(failing(ValueError("own")), "a", nothing)


@pytest.mark.parametrize(
    "error, words",
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (SparkSaysError("x\nCaused by: java.io.IOException: File too large"), "File too large"),
    ],
)
def test_a_full_disk_is_named(error: Exception, words: str) -> None:
    with (
        pytest.raises(DiskFullError, match=rf"table a \(/x\): {words}\..* Make room, and start"),
        writing_to("table a (/x)", "Make room"),
    ):
        raise error


def test_what_is_no_full_disk_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="own"), writing_to("a", "b"):
        raise ValueError("own")


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "SparkSaysError"),
        ("one\ntwo", "one"),
        (TIMEOUT, "java.net.SocketTimeoutException: Read timed out"),
        ("a.B: x\n\tat y\nCaused by: c.D: z\n\tat w", "a.B: x (c.D: z)"),
        ("An error occurred while calling o1.x", "An error occurred while calling o1.x"),
    ],
)
def test_an_exception_is_told_in_one_line(text: str, said: str) -> None:
    assert first_line(SparkSaysError(text)) == said
