"""Faster start of programs that import large packages: less garbage collection.

An import creates many objects but little garbage, so garbage collections only slow it down.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["exempt_imported_objects", "without_collections"]


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


def exempt_imported_objects() -> None:
    """Exempt all objects that exist now from garbage collection, until the process ends.

    A program calls it once, after its imports. Python then skips these objects in each collection,
    including the one at exit.
    """
    gc.freeze()
