"""Names that once stood elsewhere: found where they are now, with a word about it.

Rules of the room: the new place is imported only when somebody asks for the name by its
old one. Which places are old is singer_sdk's history.
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
    """Return ``name``, asked of module ``old``, from ``new``, and warn of its place ``now``.

    Raises:
        AttributeError: it is none of the ``known`` names.
    """
    if name not in known:
        raise AttributeError(f"module {old!r} has no attribute {name!r}")
    warnings.warn(
        f"Importing {name} from {old} is deprecated. Please import from {now} instead.",
        SingerSDKDeprecationWarning,
        stacklevel=3,
    )
    return getattr(import_module(new), name)
