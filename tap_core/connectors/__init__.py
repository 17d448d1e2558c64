"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.sql`. Each access emits a deprecation warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tap_core.sql import SQLConnector

__all__ = ["SQLConnector"]


def __getattr__(name: str) -> Any:
    """Return a name from its current module and emit a deprecation warning."""
    from tap_core.compat.deprecation import deprecated_import

    return deprecated_import(name, old=__name__, known=("SQLConnector",), new="tap_core.sql")
