"""Sync engine: reads the records of each stream, and writes events such as schemas and rows.

`Stream` and `Tap` use the modules below as attributes of this package. They are imported at first
use, because ``--discover`` and ``--help`` do not need them.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tap_core.sync import (
        batch_messages,
        child_streams,
        concurrency,
        engine,
        estimates,
        messages,
        overridable_loop,
        plan,
        stream_scheduler,
        sync_run,
    )

__all__ = [
    "batch_messages",
    "child_streams",
    "concurrency",
    "engine",
    "estimates",
    "messages",
    "overridable_loop",
    "plan",
    "stream_scheduler",
    "sync_run",
]


def __getattr__(name: str) -> Any:
    """Import and return the module ``name`` of this package when it is first accessed.

    Raises:
        AttributeError: The package has no module of this name.
    """
    if name in __all__:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
