"""What went wrong, as an ERROR trace: for a person, for an engineer, and whose fault it is.

Rules of the room: every text passes a function that takes secrets out. Source: the Airbyte
protocol, section "AirbyteErrorTraceMessage".
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from tap_core.protocols.verdicts import failure_type, sentence

__all__ = ["error_body"]


def error_body(error: BaseException, hide: Callable[[str], str]) -> dict[str, Any]:
    """Return the body of an ERROR trace; ``hide`` takes the secrets out of a text."""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {
        "message": hide(sentence(error)),
        "internal_message": hide(f"{type(error).__qualname__}: {error}"),
        "stack_trace": hide(trace),
        "failure_type": failure_type(error),
    }
