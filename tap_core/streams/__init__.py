"""What an author subclasses."""

from __future__ import annotations

from tap_core.streams.core import Stream

__all__ = ["Stream"]
