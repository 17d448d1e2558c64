"""Compatibility import path of singer_sdk for datetime functions."""

from __future__ import annotations

from tap_core.parsing.datetimes import NonUTCDatetimeError as NonUTCDatetimeError
from tap_core.parsing.datetimes import strftime as strftime
from tap_core.parsing.datetimes import strptime_to_utc as strptime_to_utc
