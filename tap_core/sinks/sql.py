"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.sql`. Each access emits a deprecation warning.
"""

from __future__ import annotations

from typing import Any

from tap_core.compat.deprecation import deprecated_import


def __getattr__(name: str) -> Any:
    """Return an object that was moved to another module, such as ``SQLSink``, with a warning."""
    return deprecated_import(name, old=__name__, known=("SQLSink",), new="tap_core.sql")
