"""Deprecated import paths: names that moved are imported from their new module, with a warning.

The new module is imported only when a name is accessed by its old path. The old paths are those of
singer_sdk.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from importlib import import_module
from typing import Any

from tap_core.exceptions import SingerSDKDeprecationWarning

__all__ = ["deprecated_import"]


def deprecated_import(
    name: str, *, old: str, known: Collection[str], new: str, now: str = "tap_core.sql"
) -> Any:
    """Return a class or function that has moved to another module, with a deprecation warning.

    Args:
        name: Name of the class or function.
        old: Module from which it was imported.
        known: Names that have moved from the old module.
        new: Module that defines it now.
        now: Module from which it should be imported, for the warning.

    Raises:
        AttributeError: The name is not in ``known``.
    """
    if name not in known:
        raise AttributeError(f"module {old!r} has no attribute {name!r}")
    warnings.warn(
        f"Importing {name} from {old} is deprecated. Please import from {now} instead.",
        SingerSDKDeprecationWarning,
        stacklevel=3,
    )
    return getattr(import_module(new), name)
