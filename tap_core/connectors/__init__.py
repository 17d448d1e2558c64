"""Compatibility module for plugins that import ``singer_sdk.connectors``.

It only re-exports names of `tap_core.sql`. Each access emits a deprecation warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tap_core.sql import SQLConnector

__all__ = ["SQLConnector"]


def __getattr__(name: str) -> Any:
    """Import ``SQLConnector`` from `tap_core.sql` on access, and emit a deprecation warning."""
    from tap_core.compat.deprecation import deprecated_import

    return deprecated_import(name, old=__name__, known=("SQLConnector",), new="tap_core.sql")
