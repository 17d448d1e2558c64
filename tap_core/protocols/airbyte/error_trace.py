"""Content of Airbyte's ERROR trace messages.

It consists of a message for the user, details for an engineer, and the failure type. Secrets are
redacted in every text.
Source: the Airbyte protocol, section "AirbyteErrorTraceMessage".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tap_core.protocols.error_classification import failure_type, summarize_error
from tap_core.redaction import redact, redact_line
from tap_core.redaction.log_records import format_error

__all__ = ["error_body"]


def error_body(error: BaseException, hide: Callable[[str], str]) -> dict[str, Any]:
    """Return the field ``error`` of the Airbyte ERROR trace that reports an exception.

    ``hide`` returns a text with its secrets redacted.
    """
    return {
        "message": redact_line(hide(summarize_error(error))),
        "internal_message": redact_line(hide(f"{type(error).__qualname__}: {error}")),
        "stack_trace": f"{hide(format_error(error, redact))}\n",
        "failure_type": failure_type(error),
    }
