"""Base classes for SQL taps and targets. Each class is imported on first access."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from tap_core.sql.connector import SQLConnector

if TYPE_CHECKING:
    from tap_core.sql.sink import SQLSink
    from tap_core.sql.stream import SQLStream
    from tap_core.sql.tap import SQLTap
    from tap_core.sql.target import SQLTarget

__all__ = ["SQLConnector", "SQLSink", "SQLStream", "SQLTap", "SQLTarget"]


def __getattr__(name: str) -> Any:
    """Import and return a class in `__all__`, such as `SQLTap`, when it is first accessed."""
    if name in __all__:
        module = _import_module(f"{__name__}.{name.removeprefix('SQL').lower()}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
