"""Faster import of large packages by pausing the garbage collector.

An import creates many objects but little garbage, so garbage collections only slow it down.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without_collections"]


@contextmanager
def without_collections() -> Iterator[None]:
    """Context manager: pause Python's garbage collector during the block, if it is enabled."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()
