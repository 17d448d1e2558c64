"""Lengths of ISO 8601 durations, such as ``P1M``, in options of a manifest."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

from tap_core.incremental.durations import parse_duration
from tap_core.manifest.errors import ManifestError

__all__ = ["parse_length"]

_JANUARY: Final = datetime(2001, 1, 1, tzinfo=timezone.utc)


def parse_length(duration: str) -> timedelta:
    """Return the length of an ISO 8601 duration, such as ``P1M``.

    A month counts as 31 days and a year as 365 days.

    Raises:
        ManifestError: The text is not a duration.
    """
    try:
        return parse_duration(duration).after(_JANUARY) - _JANUARY
    except ValueError as error:
        raise ManifestError(str(error)) from None
