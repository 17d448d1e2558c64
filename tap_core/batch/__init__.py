"""Batch files, which Singer taps list in BATCH messages: encoding, storage, reading, writing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tap_core.batch.base import BaseBatcher, lazy_chunked_generator

if TYPE_CHECKING:
    from tap_core.batch.batchers import Batcher, JSONLinesBatcher

__all__ = ["BaseBatcher", "Batcher", "JSONLinesBatcher", "lazy_chunked_generator"]


def __getattr__(name: str) -> Any:
    """Import the module of the class `Batcher` or `JSONLinesBatcher`, and return the class.

    Raises:
        AttributeError: The package has no attribute ``name``.
    """
    if name in {"Batcher", "JSONLinesBatcher"}:
        from tap_core.batch import batchers

        return getattr(batchers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
