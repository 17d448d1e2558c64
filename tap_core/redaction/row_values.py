"""Row values in messages, and the environment variable that suppresses them.

With ``TAP_CORE_LOG_ROWS=false`` no message of the SDK shows values of rows; their type and length
are shown instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["LOG_ROWS", "are_rows_shown", "describe_value", "show_value"]

LOG_ROWS: Final = "TAP_CORE_LOG_ROWS"
"""Environment variable; ``false``, ``0``, ``no`` or ``off`` suppress row values."""

_OFF: Final = frozenset({"false", "0", "no", "off"})
_TYPES: Final = {bool: "boolean", int: "integer", float: "number", type(None): "null"}


def are_rows_shown() -> bool:
    """Return True if messages may show row values."""
    return os.environ.get(LOG_ROWS, "").strip().lower() not in _OFF


def show_value(value: Any, shown: Any = None) -> str:
    """Return the text that represents a row's value in a message.

    If messages may show row values, it is ``shown`` or, if that is None, the value as text.
    Otherwise it is only the type and length of the value.
    """
    if are_rows_shown():
        return str(value if shown is None else shown)
    return describe_value(value)


def describe_value(value: Any) -> str:
    """Return a text with the type and length of a value, such as ``<text of 12 characters>``."""
    if isinstance(value, str):
        return f"<text of {len(value):,} characters>"
    if isinstance(value, (bytes, bytearray)):
        return f"<{len(value):,} bytes>"
    if isinstance(value, Mapping):
        return f"<object of {len(value):,} fields>"
    if isinstance(value, (list, tuple)):
        return f"<array of {len(value):,} items>"
    return f"<{_TYPES.get(type(value), type(value).__name__)}>"
