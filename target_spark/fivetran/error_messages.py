"""What went wrong in a call, in words that hold no row, no key and no credential.

Rules of the room: an error of ours is whole and is told as it is. Of one of Spark, of a storage
or of a catalog only its kind is told, never its text, which may repeat what stands in a row; a
missing permission is named with the place where it is missing, as far as that is known. Source:
Fivetran's Partner SDK development guide, "Error handling" and "Security".
"""

from __future__ import annotations

import re
from typing import Final

from tap_core.exceptions import ConfigurationError
from tap_core.protocols.error_classification import iterate_causes
from tap_core.protocols.fivetran.error_messages import format_error
from target_spark.errors import TargetSparkError
from target_spark.storage.retry import FailureKind, classify_failure

__all__ = ["explain_error", "find_refusal"]

_REFUSED: Final = re.compile(
    r"AccessControlException|AccessDenied|Access Denied|Permission denied|PermissionDenied"
    r"|AuthorizationException|NotAuthorized|ForbiddenException|HiveAccessControl"
    r"|INSUFFICIENT_PRIVILEGES|INSUFFICIENT_PERMISSIONS|Status Code: 40[13]|\b40[13] Forbidden"
    r"|Read-only file system"
)
"""How storages and catalogs say that somebody may not."""

_NOWHERE: Final = re.compile(
    r"DELTA_CANNOT_CREATE_LOG_PATH|Mkdirs failed|No such file or directory|FileNotFoundException"
    r"|NoSuchBucket|bucket does not exist|No FileSystem for scheme|Not a directory|Is a directory"
)
"""How they say that the place for the tables is none."""

_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]{5,}(?:\.[A-Z0-9_]+)*)\]")
"""How Spark names the kind of an error in its text."""

_WORDS: Final = {
    FailureKind.PASSING: "The storage or the catalog does not answer as it should. The call can be"
    " made again; if it goes on, look whether they can be reached from here.",
    FailureKind.CONFLICT: "Another writer changes the table all the time. End it, or try again"
    " later.",
    FailureKind.FULL: "No room is left on the disk or in the storage. Make room, and try again.",
    FailureKind.CUT: "Spark ended in the middle of the call. Try again; if it goes on, give it more"
    " memory (spark.driver.memory in the setting spark).",
}


def explain_error(error: BaseException) -> str:
    """Return what to tell of an error: whole sentences below 8 kB, with a way out."""
    refused = find_refusal(error)
    if refused is not None:
        return format_error(refused)
    if isinstance(error, TargetSparkError | ConfigurationError):
        return format_error(error)
    return format_error(TargetSparkError(_get_message(error)))


def find_refusal(error: BaseException) -> TargetSparkError | None:
    """Return the words for a missing permission, if that is what an error is about."""
    if not any(map(_is_refusal, iterate_causes(error))):
        return None
    said = f" ({error})" if isinstance(error, TargetSparkError) else ""
    return TargetSparkError(
        "A permission is missing: the storage or the catalog does not let this destination list,"
        f" read, write and delete where its tables lie{said}. Give the user or the keys of the"
        " settings that permission on the path, and on the catalog the right to create schemas"
        " and tables."
    )


def _get_message(error: BaseException) -> str:
    if any(_NOWHERE.search(str(each)) for each in iterate_causes(error)):
        return (
            "The place of the tables is not there and cannot be made. Set path to a folder, or to"
            " an address that Spark can write with the settings in spark."
        )
    known = _WORDS.get(classify_failure(error))
    if known is not None:
        return known
    if isinstance(error, MemoryError):
        return "No memory is left. Give the server more."
    condition = getattr(error, "getCondition", lambda: None)()
    in_text = _CONDITION.search(str(error))
    kind = condition or (in_text and in_text[1]) or type(error).__name__
    return (
        f"Spark refused what was asked of it ({kind}). Nothing of the call is in the table. If"
        " the same call fails again, this is a fault of the destination: report it."
    )


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, PermissionError) or _REFUSED.search(str(error)) is not None
