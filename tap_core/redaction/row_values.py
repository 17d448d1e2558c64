"""Values of records in log and error messages, which an environment variable suppresses.

With ``TAP_CORE_LOG_ROWS=false``, messages of the SDK show the type and length of a value instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["LOG_ROWS", "are_rows_shown", "describe_value", "show_value"]

LOG_ROWS: Final = "TAP_CORE_LOG_ROWS"
"""Environment variable; ``false``, ``0``, ``no`` or ``off`` suppress record values."""

_OFF: Final = frozenset({"false", "0", "no", "off"})
_TYPES: Final = {bool: "boolean", int: "integer", float: "number", type(None): "null"}


def are_rows_shown() -> bool:
    """Return True unless the environment variable ``TAP_CORE_LOG_ROWS`` hides record values."""
    return os.environ.get(LOG_ROWS, "").strip().lower() not in _OFF


def show_value(value: Any, replacement: Any = None) -> str:
    """Return the text that represents a record's value in a log or error message.

    Args:
        value: The value.
        replacement: Text or value to show instead of ``value``. It is ignored if messages must not
            show record values; they then contain the result of `describe_value`.
    """
    if are_rows_shown():
        return str(value if replacement is None else replacement)
    return describe_value(value)


def describe_value(value: Any) -> str:
    """Return the type and length of a value, such as ``<text of 12 characters>``."""
    if isinstance(value, str):
        return f"<text of {len(value):,} characters>"
    if isinstance(value, (bytes, bytearray)):
        return f"<{len(value):,} bytes>"
    if isinstance(value, Mapping):
        return f"<object of {len(value):,} fields>"
    if isinstance(value, (list, tuple)):
        return f"<array of {len(value):,} items>"
    return f"<{_TYPES.get(type(value), type(value).__name__)}>"
