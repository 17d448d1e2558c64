"""The import path of earlier versions of singer_sdk for what is in `tap_core.sql` now.

Rules of the room: the name is found when it is asked for, with a warning.
"""

from __future__ import annotations

from typing import Any

from tap_core.compat.deprecation import deprecated_import


def __getattr__(name: str) -> Any:
    """Find the name where it is now, and say so."""
    return deprecated_import(name, old=__name__, known=("SQLStream",), new="tap_core.sql")
