"""Runs something and keeps what it writes to standard output and standard error.

Rules of the room: what was kept of standard error is shown when the run fails, because it
says why. Output that is no message is an error that names the line.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, TypeAlias

__all__ = ["TextBuffer", "capture_output", "parse_messages"]

TextBuffer: TypeAlias = "io.TextIOWrapper[io.BytesIO]"
"""Text in memory that has a ``buffer`` of bytes below, as standard output has."""

_EXCERPT = 200


def capture_output(action: Callable[[], object]) -> tuple[TextBuffer, TextBuffer]:
    """Run something; return what it wrote to standard output and error, both from the start."""
    out, err = _buffer(), _buffer()
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
    """Read the lines that a tap or a target wrote; empty ones are left out.

    Raises:
        ValueError: a line is no JSON.
    """
    return [_message(line, number) for number, line in enumerate(text.split("\n"), 1) if line]


def _message(line: str, number: int) -> dict[str, Any]:
    try:
        message: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise ValueError(
            f"Line {number} of standard output is no message: {line[:_EXCERPT]!r}. Only messages"
            " may go there: use the logger, or print to sys.stderr."
        ) from error
    return message


def _buffer() -> TextBuffer:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
