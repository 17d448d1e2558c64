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
    """Return a name from the module it has moved to, and emit a deprecation warning.

    Args:
        name: The name.
        old: Module from which the name was imported.
        known: Names that have moved from the old module.
        new: Module that defines the name now.
        now: Module that the warning recommends.

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
