"""Content of Airbyte's ERROR trace messages.

It consists of a message for the user, details for an engineer, the failure type, and the stream
that failed. Secrets are redacted in every text.
Source: the Airbyte protocol, section "AirbyteErrorTraceMessage".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tap_core.events import StreamId
from tap_core.protocols.airbyte.messages import descriptor
from tap_core.protocols.error_classification import failure_type, summarize_error
from tap_core.redaction import redact, redact_line
from tap_core.redaction.log_records import format_error

__all__ = ["error_body"]


def error_body(
    error: BaseException, hide: Callable[[str], str], stream: StreamId | None = None
) -> dict[str, Any]:
    """Return the field ``error`` of the Airbyte ERROR trace that reports an exception.

    Args:
        error: The exception.
        hide: Function that returns a text with its secrets redacted.
        stream: Stream that failed; None if the error concerns the whole command.
    """
    return {
        "message": redact_line(hide(summarize_error(error))),
        "internal_message": redact_line(hide(f"{type(error).__qualname__}: {error}")),
        "stack_trace": f"{hide(format_error(error, redact))}\n",
        "failure_type": failure_type(error),
        **({} if stream is None else {"stream_descriptor": descriptor(stream)}),
    }
