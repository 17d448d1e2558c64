"""Compatibility import path of the Meltano Singer SDK for names of `tap_core.sql`.

Accessing a name emits a deprecation warning.
"""

from __future__ import annotations

from typing import Any

from tap_core.compat.deprecation import deprecated_import


def __getattr__(name: str) -> Any:
    """Return an object of `tap_core.sql`, such as ``SQLStream``, and emit a deprecation warning."""
    return deprecated_import(name, old=__name__, known=("SQLStream",), new="tap_core.sql")
