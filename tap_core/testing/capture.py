"""Capture of the output of a tap or target, and parsing of the captured messages."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, TypeAlias

__all__ = ["TextBuffer", "capture_output", "parse_messages"]

TextBuffer: TypeAlias = "io.TextIOWrapper[io.BytesIO]"
"""In-memory text stream; like standard output, it has a binary stream ``buffer``."""

_EXCERPT = 200


def capture_output(action: Callable[[], object]) -> tuple[TextBuffer, TextBuffer]:
    """Call ``action``, and return its standard output and its standard error.

    Both are in-memory text streams, positioned at the start. If ``action`` raises an exception,
    print the captured standard error and raise the exception again.
    """
    out, err = _make_buffer(), _make_buffer()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            action()
    except BaseException:
        err.seek(0)
        sys.stderr.write(err.read())
        raise
    out.seek(0)
    err.seek(0)
    return out, err


def parse_messages(text: str) -> list[dict[str, Any]]:
    """Parse captured output, one JSON message per line; empty lines are skipped.

    Raises:
        ValueError: A line is not JSON.
    """
    return [_parse_message(line, number) for number, line in enumerate(text.split("\n"), 1) if line]


def _parse_message(line: str, number: int) -> dict[str, Any]:
    """Parse one line of standard output as a JSON message; ``number`` is the line number.

    Raises:
        ValueError: The line is not JSON.
    """
    try:
        message: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise ValueError(
            f"Line {number} of standard output is not a message: {line[:_EXCERPT]!r}. Only messages"
            " may go there: use the logger, or print to sys.stderr."
        ) from error
    return message


def _make_buffer() -> TextBuffer:
    """Return an empty in-memory text stream, encoded as UTF-8."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
