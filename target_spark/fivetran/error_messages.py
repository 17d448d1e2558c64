"""Error messages for Fivetran's users, without row values, keys or credentials.

Errors of target-spark are reported in full. For errors of Spark, a storage or a catalog, only their
type is reported, because their text may contain row values. Source: Fivetran's Partner SDK
development guide, "Error handling" and "Security".
"""

from __future__ import annotations

import re
from typing import Final

from tap_core.exceptions import ConfigurationError
from tap_core.protocols.error_classification import iterate_causes
from tap_core.protocols.fivetran.error_messages import format_error
from target_spark.errors import TargetSparkError
from target_spark.storage.commit_retry import FailureKind, classify_failure

__all__ = ["explain_error"]

_PERMISSION_ERROR: Final = re.compile(
    r"AccessControlException|AccessDenied|Access Denied|Permission denied|PermissionDenied"
    r"|AuthorizationException|NotAuthorized|ForbiddenException|HiveAccessControl"
    r"|INSUFFICIENT_PRIVILEGES|INSUFFICIENT_PERMISSIONS|Status Code: 40[13]|\b40[13] Forbidden"
    r"|Read-only file system"
)
"""Regular expression for error texts of storages and catalogs about a missing permission."""

_LOCATION_ERROR: Final = re.compile(
    r"DELTA_CANNOT_CREATE_LOG_PATH|Mkdirs failed|No such file or directory|FileNotFoundException"
    r"|NoSuchBucket|bucket does not exist|No FileSystem for scheme|Not a directory|Is a directory"
    r"|File name too long|Too many levels of symbolic links"
)
"""Regular expression for error texts about a location or a table file that does not exist."""

_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]{5,}(?:\.[A-Z0-9_]+)*)\]")
"""Regular expression for a Spark error condition, such as ``[TABLE_OR_VIEW_NOT_FOUND]``."""

_MESSAGES: Final = {
    FailureKind.TRANSIENT: "The storage or the catalog does not respond correctly. Try again; if"
    " the failure persists, check that both can be reached from here.",
    FailureKind.CONFLICT: "Another writer changes the table continuously. Stop it, or try again"
    " later.",
    FailureKind.DISK_FULL: "No space is left on the disk or in the storage. Free some space, and"
    " try again.",
    FailureKind.JVM_LOST: "Spark ended during the call. Try again; if the failure persists, give"
    " Spark more memory (spark.driver.memory in the setting spark).",
}


def explain_error(error: BaseException) -> str:
    """Return the message that Fivetran shows to the user for an exception.

    The message states the cause and a remedy, in less than 8 kB.
    """
    if any(map(_is_permission_error, iterate_causes(error))):
        return format_error(TargetSparkError(_explain_missing_permission(error)))
    if isinstance(error, TargetSparkError | ConfigurationError):
        return format_error(error)
    return format_error(TargetSparkError(_explain_foreign_error(error)))


def _explain_missing_permission(error: BaseException) -> str:
    details = f" ({error})" if isinstance(error, TargetSparkError) else ""
    return (
        "A permission is missing: the storage or the catalog does not allow this destination to"
        f" list, read, write and delete in the location of its tables{details}. Give the user or"
        " the keys in the settings that permission on the path, and on the catalog the"
        " permission to create schemas and tables."
    )


def _explain_foreign_error(error: BaseException) -> str:
    """Return the message about an error that Spark, a storage or a catalog raised.

    The message does not quote the error, because its text may contain secrets.
    """
    if any(_LOCATION_ERROR.search(str(cause)) for cause in iterate_causes(error)):
        return (
            "The location of the tables does not exist and cannot be created, or a file of a table"
            " was removed. Set path to a folder, or to an address that Spark can write to with the"
            " settings in spark. If path is right, restore the table to a version whose files"
            " exist."
        )
    message = _MESSAGES.get(classify_failure(error))
    if message is not None:
        return message
    if isinstance(error, MemoryError):
        return "The server has no memory left. Give it more memory."
    condition = getattr(error, "getCondition", lambda: None)()
    in_text = _CONDITION.search(str(error))
    kind = condition or (in_text and in_text[1]) or type(error).__name__
    return (
        f"Spark refused an operation ({kind}). If the same call fails again, this is a bug of the"
        " destination: report it."
    )


def _is_permission_error(error: BaseException) -> bool:
    return isinstance(error, PermissionError) or _PERMISSION_ERROR.search(str(error)) is not None
