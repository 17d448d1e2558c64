"""The import path of earlier versions of singer_sdk for what is in `tap_core.sql` now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tap_core.sql import SQLConnector

__all__ = ["SQLConnector"]


def __getattr__(name: str) -> Any:
    """Find the name where it is now, and say so."""
    from tap_core.compat.deprecation import deprecated_import

    return deprecated_import(name, old=__name__, known=("SQLConnector",), new="tap_core.sql")
