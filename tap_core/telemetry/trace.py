"""Wrapper of an OpenTelemetry span. Traced code uses it whether tracing is on or off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tap_core.redaction import redact_line

if TYPE_CHECKING:
    from opentelemetry.trace import Span

__all__ = ["Trace", "name_error_type"]


class Trace:
    """Wrapper of an OpenTelemetry span. If tracing is off, its methods do nothing."""

    __slots__ = ("_span",)

    def __init__(self, span: Span | None = None) -> None:
        self._span = span

    def describe(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes to the span, except those whose value is None."""
        if self._span is not None:
            present = {name: value for name, value in attributes.items() if value is not None}
            self._span.set_attributes(present)

    def fail(self, error: BaseException) -> None:
        """Mark the span as failed, with the error's type and its message without secrets."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_attribute("error.type", name_error_type(error))
            self._span.set_status(StatusCode.ERROR, redact_line(str(error)))


def name_error_type(error: BaseException) -> str:
    """Return an error's class name for OpenTelemetry's ``error.type``, such as ``ValueError``."""
    kind = type(error)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
