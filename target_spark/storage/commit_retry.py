"""Classification of commit failures, and retries of transient failures.

A failure is classified by the class names of its Python and Java exceptions (see `FailureKind`). A
retry must use the same commit number, because the failed attempt may in fact have succeeded.
"""

from __future__ import annotations

import errno
import logging
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar

from tap_core.redaction import redact
from tap_core.telemetry import count_retry
from target_spark.errors import DiskFullError, EngineLostError, StorageError, TargetSparkError
from target_spark.storage.error_explanations import find_storage_error
from target_spark.tables.constraint_violations import is_not_null_violation

__all__ = [
    "BACKOFF_SECONDS",
    "FailureKind",
    "classify_failure",
    "disk_full_context",
    "first_error_line",
    "raise_translated_error",
    "retry_transient",
    "translate_disk_full",
]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_ClassNames: TypeAlias = Sequence[tuple[str, str]]
"""Pairs of package and class name of exceptions, such as ``("java.io.", "EOFException")``."""


class FailureKind(Enum):
    """Kinds of commit failures, which determine the number of retries.

    Attributes:
        TRANSIENT: The storage or the catalog is unreachable, busy or throttling; 4 retries within
            a minute.
        CONFLICT: Another writer changed the table; 4 retries with shorter pauses.
        STALE: The table changed after it was read; 1 immediate retry.
        DISK_FULL: A disk is full; no retry.
        JVM_LOST: The connection to the JVM broke; no retry.
        SERVER_LOST: The Spark Connect server does not respond or was restarted; 6 retries within
            three minutes.
        ENGINE_LOST: The background Spark process that the run shared has ended; 1 immediate retry
            with a new Spark process.
        PERMANENT: Any other failure; no retry.
    """

    TRANSIENT = "transient"
    CONFLICT = "conflict"
    STALE = "stale"
    DISK_FULL = "disk_full"
    JVM_LOST = "jvm_lost"
    SERVER_LOST = "server_lost"
    ENGINE_LOST = "engine_lost"
    PERMANENT = "permanent"


BACKOFF_SECONDS: Final[dict[FailureKind, tuple[float, ...]]] = {
    FailureKind.TRANSIENT: (1, 4, 15, 40),
    FailureKind.SERVER_LOST: (1, 4, 15, 40, 60, 60),
    FailureKind.CONFLICT: (0.2, 1, 3, 9),
    FailureKind.STALE: (0,),
    FailureKind.ENGINE_LOST: (0,),
}
"""The seconds to wait before each retry, by kind of failure. After a conflict, the waits vary at
random by up to a half."""

_LONGEST_LINE: Final = 1000
_POLL_SECONDS: Final = 0.2
"""Seconds between two checks for a signal during a pause."""

_CLASS_NAMES: Final = re.compile(
    r"^(?:: |\t*(?:Caused by|Suppressed): )?((?:[a-z_]\w*\.)+)([A-Z][\w$]*)(?::|$)", re.MULTILINE
)
"""Pattern of a line of a Java stack trace that names an exception: its package and its name."""

_TRANSIENT: Final = re.compile(
    r"(Connect|ConnectTimeout|SocketTimeout|UnknownHost|NoRouteToHost|NoHttpResponse"
    r"|HttpHostConnect|HttpTimeout|HttpConnectTimeout|Timeout|ConnectionClosed"
    r"|ApiCallTimeout|ApiCallAttemptTimeout|ServiceUnavailable|ServiceFailure"
    r"|CommitStateUnknown|Retriable|RetryableCommit|Standby|SafeMode|SQLTransient\w*"
    r"|SQLRecoverable|SQLNonTransientConnection|UncheckedSQL|CommunicationsException"
    r"|AWSServiceThrottled|AWSStatus500|AWSNoResponse|AWSApiCallTimeout|TTransport"
    r"|ChecksumTransient)(Exception)?"
)
_TRANSIENT_BY_PACKAGE: Final = {
    "java.net.": {"SocketException"},
    "java.io.": {"IOException", "EOFException"},
}
"""Names of exceptions, by Java package, that are transient failures only if they are in this
package."""

_CONFLICT: Final = re.compile(
    r"(DeltaConcurrentModification|Concurrent\w+|MetadataChanged|ProtocolChanged"
    r"|CommitFailed|Validation)Exception"
)
_CONFLICT_PACKAGES: Final = ("io.delta.", "org.apache.spark.sql.delta.", "org.apache.iceberg.")

_OUR_CONFLICT: Final = ("target_spark.errors.", "ConflictError")
_DELTALAKE_PACKAGE: Final = "_internal."
"""Package of the exceptions that the library deltalake raises in its Rust code."""

_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")
"""Pattern of the operating system's error number in a message of the library deltalake."""

_LOST_NAMES: Final = {"Py4JNetworkError", "ConnectionError", "ConnectionRefusedError", "EOFError"}
_NO_RESPONSE: Final = ("py4j.protocol.", "Py4JError")
"""Package and name of py4j's error for a JVM that did not respond. Subclasses of this error have
other causes."""
_LOST_TEXTS: Final = (
    "Answer from Java side is empty",
    "SparkContext was shut down",
    "stopped SparkContext",
    "Py4JNetworkError",
)
_PYTHON_PACKAGES: Final = {"builtins.", "py4j.protocol."}
_STALE_NAMES: Final = {"AnalysisException", "ExtendedAnalysisException", "DeltaAnalysisException"}

_JAVA_ERROR: Final = "Py4JJavaError"
_TRANSLATED_MODULE: Final = "pyspark.errors.exceptions.captured"
"""The module of the Python exceptions into which PySpark translates Java exceptions."""

_GENERIC_MESSAGE: Final = "Cannot find main error class"
"""PySpark's generic message, which replaces the messages of some Delta Lake errors."""

_NO_SERVER_CODES: Final = {"UNAVAILABLE", "DEADLINE_EXCEEDED"}
"""gRPC status codes for a Spark Connect server that does not respond."""
_CONNECT_MODULES: Final = {"pyspark.errors.exceptions.connect", "pyspark.errors.exceptions.base"}
_UNKNOWN_TO_SERVER: Final = re.compile(
    r"INVALID_HANDLE\..*|NO_ACTIVE_SESSION|RESPONSE_ALREADY_RECEIVED"
)
"""Pattern of the names of Spark Connect errors for a session or call that no longer exists on the
server."""
_GRPC_ERROR: Final = re.compile(
    r'(?s)<_\w+ of RPC .*?status = StatusCode\.(\w+).*?details = "(.*?)"'
)
_DELTALAKE_CAUSE: Final = re.compile(r"\n\s*(?:\x1b\[\d+m)?↳(?:\x1b\[0m)?\s*")
"""Pattern of the arrow, with or without terminal colors, before each cause in an error of
deltalake."""

_DISK_FULL_TEXTS: Final = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "not enough space on the disk",
)
_KINDS_BY_ERRNO: Final = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), FailureKind.DISK_FULL),
    **dict.fromkeys(
        (errno.EAGAIN, errno.EBUSY, errno.EIO, errno.ESTALE, errno.ETIMEDOUT), FailureKind.TRANSIENT
    ),
}
"""Failure kinds by error number (errno) of the operating system."""

_BUSY_TEXTS: Final = ("database is locked", "SQLITE_BUSY", "[DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS]")
_REFUSAL_TEXTS: Final = ("Permission denied", "Read-only file system", "Is a directory")

_EXPLANATIONS: Final = {
    FailureKind.TRANSIENT: "The storage or the catalog did not respond properly",
    FailureKind.SERVER_LOST: (
        "The Spark Connect server (the setting remote) did not respond properly"
    ),
    FailureKind.CONFLICT: "Another writer repeatedly changed the table at the same time",
    FailureKind.STALE: "Spark refused the write",
}


def classify_failure(error: BaseException) -> FailureKind:
    """Return the kind of failure that an exception indicates, which determines the retries.

    The result depends on the class names, error numbers and messages of the exception and its Java
    causes.
    """
    if isinstance(error, EngineLostError):
        return FailureKind.ENGINE_LOST
    if _is_server_unavailable(error):
        return FailureKind.SERVER_LOST
    python_names = [
        (f"{error_class.__module__}.", error_class.__name__) for error_class in type(error).__mro__
    ]
    is_jvm_lost = _is_jvm_lost("", python_names)  # such an error may have a number too
    if isinstance(error, OSError) and error.errno is not None and not is_jvm_lost:
        return _KINDS_BY_ERRNO.get(error.errno, FailureKind.PERMANENT)
    text = "" if isinstance(error, TargetSparkError) else _format_error(error)
    if _is_deltalake_error(error) and (number := _OS_ERROR.search(text)):
        return _KINDS_BY_ERRNO.get(int(number[1]), FailureKind.PERMANENT)
    names = python_names + _CLASS_NAMES.findall(text)
    return next(
        (kind for kind, matches in _RECOGNIZERS if matches(text, names)), FailureKind.PERMANENT
    )


def retry_transient(
    step: Callable[[], _T],
    operation: str,
    before_retry: Callable[[BaseException], None] | None = None,
    stopping: threading.Event | None = None,
) -> _T:
    """Call a function; repeat the call after transient failures, as `FailureKind` describes.

    Args:
        step: The function to call.
        operation: A description of the operation; log and error messages begin with it.
        before_retry: A function that is called with the exception after each failure. If it raises
            an exception, that exception is raised instead of a retry. None for no function.
        stopping: An event that is set to stop the run. Once it is set, failures are not retried.

    Returns:
        The result of ``step``.

    Raises:
        StorageError: All retries failed, or the storage or the JVM failed permanently.
    """
    failures: list[FailureKind] = []
    stopping = stopping or threading.Event()
    while True:
        try:
            return step()
        except Exception as error:  # noqa: PERF203  (each attempt takes seconds)
            if before_retry is not None:
                before_retry(error)
            kind = classify_failure(error)
            pauses = BACKOFF_SECONDS.get(kind, ())[failures.count(kind) :]
            failures.append(kind)
            if kind in _EXPLANATIONS and (not pauses or stopping.is_set()):
                raise _retries_exhausted_error(operation, kind, len(failures), error) from error
            if not pauses:
                _raise_permanent_error(operation, kind, error)
                raise
            pause = pauses[0]
            if kind is FailureKind.CONFLICT:  # at random, so that the writers do not meet again
                pause *= random.uniform(0.5, 1.5)  # noqa: S311
            message = "%s: attempt %d failed and is repeated in %.2g s: %s"
            logger.warning(message, operation, len(failures), pause, first_error_line(error))
            count_retry("storage")
            _sleep(pause, stopping)


def raise_translated_error(operation: str, error: BaseException) -> None:
    """Raise a `StorageError` for a Java exception that PySpark has translated to Python.

    The `StorageError` has a copy of the exception's message, because the message cannot be read
    after the JVM has ended. Any other exception is ignored.

    Args:
        operation: A description of the operation; the message begins with it.
        error: The exception.

    Raises:
        StorageError: ``error`` is a translated Java exception.
    """
    if type(error).__module__ == _TRANSLATED_MODULE:
        raise _make_commit_error(operation, first_error_line(error)) from error


@contextmanager
def disk_full_context(
    location: str, remedy: str, *, may_be_committed: bool = False
) -> Iterator[None]:
    """Context manager: convert a disk-full error to a `DiskFullError` with location and remedy.

    Args:
        location: The data that did not fit and its folder, for the message, such as "uncommitted
            rows (/tmp)".
        remedy: An instruction for the message, such as "Free space there".
        may_be_committed: True if the block makes commits, some of which may have succeeded before
            the disk was full.

    Raises:
        DiskFullError: The block failed because a disk is full.
    """
    try:
        yield
    except Exception as error:
        full = translate_disk_full(location, remedy, error, may_be_committed=may_be_committed)
        if full is None:
            raise
        raise full from error


def translate_disk_full(
    location: str, remedy: str, error: BaseException, *, may_be_committed: bool = False
) -> DiskFullError | None:
    """Return a `DiskFullError` if ``error`` reports a full disk, else None.

    The message of the error contains ``location`` (the data and its folder) and ``remedy`` (an
    instruction), as in `disk_full_context`.
    """
    if classify_failure(error) is not FailureKind.DISK_FULL:
        return None
    effect = (
        "The commit of this batch is not confirmed"
        if may_be_committed
        else "Nothing of this batch is committed"
    )
    return DiskFullError(
        f"No space is left for {location}: {_describe_full_disk(error)}. {effect}, and no state"
        f" that covers it is emitted. {remedy}, and start again."
    )


def first_error_line(error: BaseException) -> str:
    """Return a one-line message of an exception, without its Java stack trace.

    The message of the root cause follows in parentheses. Registered secrets are removed first, and
    then the text is cut after 1,000 characters, so that no part of a secret is left.
    """
    lines = [line for line in _format_error(error).splitlines() if line.strip(": ")]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        del lines[0]
    head = lines[0].strip(": ") if lines else type(error).__name__
    causes = [line for line in lines if line.startswith("Caused by: ")]
    cause = causes[-1].removeprefix("Caused by: ") if causes else head
    return redact(head if cause in head else f"{head} ({cause})")[:_LONGEST_LINE]


def _is_server_unavailable(error: BaseException) -> bool:
    """Return True if an error means that the Spark Connect server or the session is gone."""
    exception: Any = error
    if type(error).__module__ in _CONNECT_MODULES:  # a py4j error would call the JVM
        status = exception.getGrpcStatusCode() if hasattr(error, "getGrpcStatusCode") else None
        return getattr(status, "name", None) in _NO_SERVER_CODES or bool(
            _UNKNOWN_TO_SERVER.fullmatch(exception.getCondition() or "")
        )
    return type(error).__module__.startswith("grpc.") and exception.code().name in _NO_SERVER_CODES


def _is_deltalake_error(error: BaseException) -> bool:
    """Return True for an error of the library deltalake.

    It raises its own exceptions, or an `OSError` without a number if it cannot read a file.
    """
    if isinstance(error, OSError):
        return error.errno is None
    return f"{type(error).__module__}." == _DELTALAKE_PACKAGE


def _is_jvm_lost(text: str, names: _ClassNames) -> bool:
    if names[0] == _NO_RESPONSE:
        return True
    return any(name in _LOST_NAMES for _, name in names) or any(
        text_part in text for text_part in _LOST_TEXTS
    )


def _is_disk_full(text: str, _names: _ClassNames) -> bool:
    return any(words in text for words in _DISK_FULL_TEXTS)


def _is_conflict(_text: str, names: _ClassNames) -> bool:
    return names[0] == _OUR_CONFLICT or any(
        package.startswith(_CONFLICT_PACKAGES) and _CONFLICT.fullmatch(name)
        for package, name in names
    )


def _is_transient(text: str, names: _ClassNames) -> bool:
    if any(words in text for words in _BUSY_TEXTS):
        return True
    if any(words in text for words in _REFUSAL_TEXTS):
        return False
    return any(
        name in _TRANSIENT_BY_PACKAGE.get(package, ())
        or (package not in _PYTHON_PACKAGES and _TRANSIENT.fullmatch(name))
        for package, name in names
    )


def _is_stale(text: str, names: _ClassNames) -> bool:
    return is_not_null_violation(text) or any(name in _STALE_NAMES for _, name in names)


def _format_error(error: BaseException) -> str:
    """Return the message of a Spark or Python exception.

    PySpark replaces some errors of Delta Lake by an error with a generic message. In this case,
    return the message of the original error. The causes in a message of deltalake, such as a file
    and its problem, become one line.
    """
    text = _GRPC_ERROR.sub(r"Spark Connect: \1: \2", str(error))
    context = error.__context__
    text = text if context is None or _GENERIC_MESSAGE not in text else str(context)
    head, *causes = _DELTALAKE_CAUSE.split(text)
    return f"{head}\nCaused by: {': '.join(causes)}" if causes else head


def _describe_full_disk(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error)
    return next(words for words in _DISK_FULL_TEXTS if words in text)


def _retries_exhausted_error(
    operation: str, kind: FailureKind, tries: int, error: BaseException
) -> StorageError:
    tried = "once" if tries == 1 else f"{tries} times"
    cause = f"{_EXPLANATIONS[kind]}. Tried {tried}; last error: {first_error_line(error)}"
    return _make_commit_error(operation, cause)


def _raise_permanent_error(operation: str, kind: FailureKind, error: BaseException) -> None:
    """Raise a `StorageError` for a permanent storage or JVM error; ignore other errors.

    Raises:
        StorageError: The storage or the operating system rejected the request, or the exception is
            a Py4JJavaError or an error of the library deltalake.
    """
    if kind is not FailureKind.PERMANENT or isinstance(error, TargetSparkError):
        return
    text = _format_error(error)
    refusal = find_storage_error(text)
    is_of_storage = isinstance(error, OSError) or _is_deltalake_error(error)
    if refusal is None and not is_of_storage and type(error).__name__ != _JAVA_ERROR:
        return
    # The text of a Py4JJavaError cannot be read after the JVM has ended, so it is copied now.
    shown = f"{refusal}. Error: {first_error_line(error)}" if refusal else first_error_line(error)
    raise _make_commit_error(operation, shown) from error


def _make_commit_error(operation: str, cause: str) -> StorageError:
    # A commit whose response was lost may be in the table, and so may quarantined rows.
    return StorageError(
        f"{operation}: {cause.removesuffix('.')}. The commit of this batch is not confirmed, and no"
        " state that covers it is emitted; earlier commits are safe. Start again when the cause is"
        " fixed."
    )


def _sleep(seconds: float, stopping: threading.Event) -> None:
    # The event is polled, because a signal handler in the same thread may set it.
    end = time.monotonic() + seconds
    while (remaining := end - time.monotonic()) > 0 and not stopping.is_set():
        time.sleep(min(remaining, _POLL_SECONDS))


_RECOGNIZERS: Final = (
    (FailureKind.JVM_LOST, _is_jvm_lost),
    (FailureKind.DISK_FULL, _is_disk_full),
    (FailureKind.CONFLICT, _is_conflict),
    (FailureKind.TRANSIENT, _is_transient),
    (FailureKind.STALE, _is_stale),
)
"""For each failure kind, the function that recognizes it. The first one that returns True
decides."""
