"""Pause of the garbage collector during large imports, so that programs start faster.

An import creates many objects but little garbage, so garbage collections only slow it down.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without_collections"]


@contextmanager
def without_collections() -> Iterator[None]:
    """Pause Python's garbage collector during the ``with`` block, if it is enabled."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()
