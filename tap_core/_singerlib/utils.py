"""Instants as text, by an older path of singer_sdk."""

# ruff: noqa: I001  one list reads better than one statement per name

from __future__ import annotations

from tap_core.singerlib.utils import (
    NonUTCDatetimeError as NonUTCDatetimeError,
    strftime as strftime,
    strptime_to_utc as strptime_to_utc,
)
