"""Deprecated import paths: names that singer_sdk has moved to another module.

Importing a name from its old module emits a warning and imports it from the new module.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from importlib import import_module
from typing import Any

from tap_core.exceptions import SingerSDKDeprecationWarning

__all__ = ["deprecated_import"]


def deprecated_import(name: str, *, old: str, known: Collection[str], new: str) -> Any:
    """Import a class or function from its new module, and emit a deprecation warning.

    The function ``__getattr__`` of the old module calls this function.

    Args:
        name: Name of the class or function.
        old: Old module, from which the name is imported.
        known: Names that have moved from the old module.
        new: Module that defines the name now.

    Raises:
        AttributeError: The name is not in ``known``.
    """
    if name not in known:
        raise AttributeError(f"module {old!r} has no attribute {name!r}")
    warnings.warn(
        f"Importing {name} from {old} is deprecated. Please import from tap_core.sql instead.",
        SingerSDKDeprecationWarning,
        stacklevel=3,
    )
    return getattr(import_module(new), name)
