"""Conversion of an exception to the body of an Airbyte ERROR trace message.

The failure type is ``config_error`` for errors that the user can correct in settings or catalog,
``transient_error`` for errors that may not occur in the next attempt, such as a failed storage, and
``system_error`` for all others. Secrets are removed from all texts.

Source: the Airbyte protocol, section "AirbyteErrorTraceMessage".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tap_core.exceptions import RecordsWithoutSchemaException
from tap_core.protocols.error_classification import CONFIG, SYSTEM, TRANSIENT, failure_type
from tap_core.redaction import redact, redact_line
from tap_core.redaction.log_records import format_error
from target_spark.errors import (
    JobLockError,
    QuarantineError,
    SchemaChangeError,
    SparkDiedError,
    StorageError,
    TableError,
    TableOwnerError,
    TargetSparkError,
    UnsupportedError,
)

__all__ = ["error_body"]

_CONFIG_ERRORS: Final = (
    TableOwnerError,
    QuarantineError,
    RecordsWithoutSchemaException,
    SchemaChangeError,
    TableError,
    UnsupportedError,
)
_TRANSIENT_ERRORS: Final = (JobLockError, SparkDiedError, StorageError)


def error_body(fault: BaseException, hide: Callable[[str], str]) -> dict[str, Any]:
    """Return the body of an Airbyte ERROR trace message for an exception.

    It has the keys ``message``, ``internal_message``, ``stack_trace`` and ``failure_type``.

    Args:
        fault: The exception.
        hide: Function that redacts the secrets of the settings in a text.
    """
    name = type(fault).__qualname__
    return {
        "message": redact_line(hide(str(fault).strip())) or name,
        "internal_message": redact_line(hide(f"{name}: {fault}")),
        "stack_trace": f"{hide(format_error(fault, redact))}\n",
        "failure_type": _failure_type(fault),
    }


def _failure_type(fault: BaseException) -> str:
    if isinstance(fault, _CONFIG_ERRORS):
        return CONFIG
    if isinstance(fault, _TRANSIENT_ERRORS):
        return TRANSIENT
    return SYSTEM if isinstance(fault, TargetSparkError) else failure_type(fault)
