"""Which failures of a commit pass by themselves, and how long that is waited for.

Rules of the room: this is the only place where anything is tried again. What fails is
known by the names of its exceptions, anywhere in their chain, since the storage, the
catalog and the table format each have their own:

    passing     the storage or the catalog cannot be reached, is busy or throttles: five
                tries within a minute
    conflict    another writer changed the table in between: five tries, sooner
    stale       the table is not any more what it was when it was read: once, at once
    full        no room on a disk: not tried again
    cut         Spark does not answer, or is ending: not tried again
    away        a Spark Connect server does not answer, or has forgotten us, as one does
                that was started anew: seven tries within three minutes, for that takes long
    lasting     everything else: not tried again

Whatever is tried again must be the same commit under the same number, for the first
try may have reached the table though its answer did not reach us.
"""

from __future__ import annotations

import errno
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar

from target_spark.errors import DiskFullError, StorageError, TargetSparkError
from target_spark.storage.errors import find_storage_error
from target_spark.tables.constraints import is_not_null_violation

__all__ = [
    "BACKOFF_SECONDS",
    "FailureKind",
    "classify_failure",
    "disk_full_context",
    "first_error_line",
    "retry_transient",
    "translate_disk_full",
]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_Names: TypeAlias = Sequence[tuple[str, str]]
"""Packages (with a dot at their end) and names of exceptions."""


class FailureKind(Enum):
    """What kind of failure it is."""

    PASSING = "passing"
    CONFLICT = "conflict"
    STALE = "stale"
    FULL = "full"
    CUT = "cut"
    AWAY = "away"
    LASTING = "lasting"


BACKOFF_SECONDS: Final[dict[FailureKind, tuple[float, ...]]] = {
    FailureKind.PASSING: (1, 4, 15, 40),
    FailureKind.AWAY: (1, 4, 15, 40, 60, 60),
    FailureKind.CONFLICT: (0.2, 1, 3, 9),
    FailureKind.STALE: (0,),
}
"""The seconds between two tries."""

_LONGEST: Final = 1000
_STEP: Final = 0.2
"""Seconds after which a pause looks whether a signal came."""

_CLASS_NAMES: Final = re.compile(
    r"^(?:: |\t*(?:Caused by|Suppressed): )?((?:[a-z_]\w*\.)+)([A-Z][\w$]*)(?::|$)", re.MULTILINE
)
"""The lines of a Java stack trace that name an exception: its package and its name."""

_PASSING: Final = re.compile(
    r"(Connect|ConnectTimeout|SocketTimeout|UnknownHost|NoRouteToHost|NoHttpResponse"
    r"|HttpHostConnect|HttpTimeout|HttpConnectTimeout|Timeout|ConnectionClosed"
    r"|ApiCallTimeout|ApiCallAttemptTimeout|ServiceUnavailable|ServiceFailure"
    r"|CommitStateUnknown|Retriable|RetryableCommit|Standby|SafeMode|SQLTransient\w*"
    r"|SQLRecoverable|SQLNonTransientConnection|UncheckedSQL|CommunicationsException"
    r"|AWSServiceThrottled|AWSStatus500|AWSNoResponse|AWSApiCallTimeout|TTransport"
    r"|ChecksumTransient)(Exception)?"
)
_PASSING_IN: Final = {"java.net.": {"SocketException"}, "java.io.": {"IOException", "EOFException"}}
"""Names that mean little without their package."""

_CONFLICT: Final = re.compile(
    r"(DeltaConcurrentModification|Concurrent\w+|MetadataChanged|ProtocolChanged"
    r"|CommitFailed|Validation)Exception"
)
_CONFLICT_IN: Final = ("io.delta.", "org.apache.spark.sql.delta.", "org.apache.iceberg.")

_OUR_CONFLICT: Final = ("target_spark.errors.", "ConflictError")
_DELTALAKE: Final = "_internal."
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")
"""The number of the system's error in a message of deltalake's."""

_CUT: Final = {"Py4JNetworkError", "ConnectionError", "ConnectionRefusedError", "EOFError"}
_WITHOUT_ANSWER: Final = ("py4j.protocol.", "Py4JError")
"""The error itself, not one of its kinds: the bridge to the JVM found nobody."""
_CUT_WORDS: Final = (
    "Answer from Java side is empty",
    "SparkContext was shut down",
    "stopped SparkContext",
    "Py4JNetworkError",
)
_PYTHONS_OWN: Final = {"builtins.", "py4j.protocol."}
_STALE: Final = {"AnalysisException", "ExtendedAnalysisException", "DeltaAnalysisException"}

_OF_JVM: Final = "Py4JJavaError"

_WORDLESS: Final = "Cannot find main error class"
"""What PySpark says of some errors of Delta Lake, instead of what they say."""

_AWAY: Final = {"UNAVAILABLE", "DEADLINE_EXCEEDED"}
"""Of gRPC, where nobody answers."""
_CLIENT: Final = {"pyspark.errors.exceptions.connect", "pyspark.errors.exceptions.base"}
_FORGOTTEN: Final = re.compile(r"INVALID_HANDLE\..*|NO_ACTIVE_SESSION|RESPONSE_ALREADY_RECEIVED")
"""The names of Spark's errors for a session, or a call, that the server does not know."""
_IN_WORDS: Final = re.compile(r'(?s)<_\w+ of RPC .*?status = StatusCode\.(\w+).*?details = "(.*?)"')

_FULL: Final = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "not enough space on the disk",
)
_NUMBERS: Final = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), FailureKind.FULL),
    **dict.fromkeys(
        (errno.EAGAIN, errno.EBUSY, errno.EIO, errno.ESTALE, errno.ETIMEDOUT), FailureKind.PASSING
    ),
}
"""What the system itself says of Python's own files."""

_BUSY: Final = ("database is locked", "SQLITE_BUSY", "[DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS]")
_NOT_ALLOWED: Final = ("Permission denied", "Read-only file system", "Is a directory")

_WORDS: Final = {
    FailureKind.PASSING: "The storage or the catalog did not answer as it should",
    FailureKind.AWAY: "The Spark Connect server (the setting remote) did not answer as it should",
    FailureKind.CONFLICT: "Another writer changed the table at the same time, again and again",
    FailureKind.STALE: "Spark refused the write",
}


def classify_failure(error: BaseException) -> FailureKind:
    """Return what kind of failure an exception is."""
    if _is_away(error):
        return FailureKind.AWAY
    own = [(f"{kind.__module__}.", kind.__name__) for kind in type(error).__mro__]
    if isinstance(error, OSError) and error.errno is not None and not _is_cut("", own):
        return _NUMBERS.get(error.errno, FailureKind.LASTING)
    text = "" if isinstance(error, TargetSparkError) else _format_error(error)
    if own[0][0] == _DELTALAKE and (number := _OS_ERROR.search(text)):
        return _NUMBERS.get(int(number[1]), FailureKind.LASTING)
    names = own + _CLASS_NAMES.findall(text)
    return next((fault for fault, is_it in _SIGNS if is_it(text, names)), FailureKind.LASTING)


def retry_transient(
    step: Callable[[], _T],
    what: str,
    before_again: Callable[[BaseException], None],
    stopping: Callable[[], bool] = bool,
) -> _T:
    """Do a step, and do it again where its failure passes; ``what`` is written, in words.

    ``before_again`` is called with the failure before each further try; what it raises
    ends the trying. After a signal nothing is waited for any more.

    Raises:
        StorageError: the failure did not pass.
    """
    failures: list[FailureKind] = []
    while True:
        try:
            return step()
        except Exception as error:  # noqa: PERF203  (what is tried takes seconds)
            before_again(error)
            fault = classify_failure(error)
            pauses = BACKOFF_SECONDS.get(fault, ())[failures.count(fault) :]
            failures.append(fault)
            if fault in _WORDS and (not pauses or stopping()):
                raise _gave_up(what, fault, len(failures), error) from error
            if not pauses:
                _raise_in_words(what, fault, error)
                raise
            words = "%s: try %d failed and is repeated in %g s: %s"
            logger.warning(words, what, len(failures), pauses[0], first_error_line(error))
            _sleep(pauses[0], stopping)


@contextmanager
def disk_full_context(place: str, way_out: str) -> Iterator[None]:
    """Name the place where there is no room.

    Raises:
        DiskFullError: what is done here found a disk full.
    """
    try:
        yield
    except Exception as error:
        full = translate_disk_full(place, way_out, error)
        if full is None:
            raise
        raise full from error


def translate_disk_full(place: str, way_out: str, error: BaseException) -> DiskFullError | None:
    """Return the error that names the place, if the disk was full."""
    if classify_failure(error) is not FailureKind.FULL:
        return None
    return DiskFullError(
        f"No room is left for {place}: {_words_of_full(error)}. Nothing of this batch"
        f" counts, and no state that covers it leaves. {way_out}, and start again."
    )


def first_error_line(error: BaseException) -> str:
    """Return what an exception says, and its last cause, without the stacks of the JVM."""
    lines = [line for line in _format_error(error).splitlines() if line.strip(": ")]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        del lines[0]
    head = lines[0].strip(": ") if lines else type(error).__name__
    causes = [line for line in lines if line.startswith("Caused by: ")]
    cause = causes[-1].removeprefix("Caused by: ") if causes else head
    return (head if cause in head else f"{head} ({cause})")[:_LONGEST]


def _is_away(error: BaseException) -> bool:
    """Tell whether it is Spark Connect's word, or gRPC's, for a server that is not there for us."""
    known: Any = error
    if type(error).__module__ in _CLIENT:  # one of the bridge would ask its JVM for its name
        status = known.getGrpcStatusCode() if hasattr(error, "getGrpcStatusCode") else None
        return getattr(status, "name", None) in _AWAY or bool(
            _FORGOTTEN.fullmatch(known.getCondition() or "")
        )
    return type(error).__module__.startswith("grpc.") and known.code().name in _AWAY


def _is_cut(text: str, names: _Names) -> bool:
    if names[0] == _WITHOUT_ANSWER:
        return True
    return any(name in _CUT for _, name in names) or any(words in text for words in _CUT_WORDS)


def _is_full(text: str, _names: _Names) -> bool:
    return any(words in text for words in _FULL)


def _is_conflict(_text: str, names: _Names) -> bool:
    return names[0] == _OUR_CONFLICT or any(
        package.startswith(_CONFLICT_IN) and _CONFLICT.fullmatch(name) for package, name in names
    )


def _is_passing(text: str, names: _Names) -> bool:
    if any(words in text for words in _BUSY):
        return True
    if any(words in text for words in _NOT_ALLOWED):
        return False
    return any(
        name in _PASSING_IN.get(package, ())
        or (package not in _PYTHONS_OWN and _PASSING.fullmatch(name))
        for package, name in names
    )


def _format_error(error: BaseException) -> str:
    """Return what an exception says, also where PySpark has no words for what it met."""
    text = _IN_WORDS.sub(r"Spark Connect: \1: \2", str(error))
    met = error.__context__
    return text if met is None or _WORDLESS not in text else str(met)


def _is_stale(text: str, names: _Names) -> bool:
    return is_not_null_violation(text) or any(name in _STALE for _, name in names)


_SIGNS: Final = (
    (FailureKind.CUT, _is_cut),
    (FailureKind.FULL, _is_full),
    (FailureKind.CONFLICT, _is_conflict),
    (FailureKind.PASSING, _is_passing),
    (FailureKind.STALE, _is_stale),
)
"""The first that fits decides."""


def _words_of_full(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error)
    return next(words for words in _FULL if words in text)


def _gave_up(what: str, fault: FailureKind, tries: int, error: BaseException) -> StorageError:
    return StorageError(
        f"{what}: {_WORDS[fault]}. Tried {tries} times; at last: {first_error_line(error)}. Nothing"
        " of this batch counts and no state that covers it leaves; what was committed before"
        " stands. Start again when this is mended."
    )


def _raise_in_words(what: str, fault: FailureKind, error: BaseException) -> None:
    """Raise what lasts so that it can be told when the JVM is gone, which keeps its errors' texts.

    Raises:
        StorageError: a storage refused what was asked, or the error is one of the JVM.
    """
    if fault is not FailureKind.LASTING or isinstance(error, TargetSparkError):
        return
    refusal = find_storage_error(_format_error(error))
    if refusal is None and type(error).__name__ != _OF_JVM:
        return
    shown = f"{refusal}. It says: {first_error_line(error)}" if refusal else first_error_line(error)
    raise StorageError(
        f"{what}: {shown}. Nothing of this batch counts and no state that covers it leaves; what"
        " was committed before stands. Start again when this is mended."
    ) from error


def _sleep(seconds: float, stopping: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not stopping():
        time.sleep(min(left, _STEP))
