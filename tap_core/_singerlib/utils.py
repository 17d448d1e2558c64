"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.singerlib.utils`.
"""

# ruff: noqa: I001  one list is easier to read than one statement per name

from __future__ import annotations

from tap_core.singerlib.utils import (
    NonUTCDatetimeError as NonUTCDatetimeError,
    strftime as strftime,
    strptime_to_utc as strptime_to_utc,
)
