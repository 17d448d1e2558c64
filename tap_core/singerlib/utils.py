"""Re-exports of datetime functions, for compatibility with imports from singer_sdk."""

from __future__ import annotations

from tap_core.parsing.datetimes import NonUTCDatetimeError as NonUTCDatetimeError
from tap_core.parsing.datetimes import strftime as strftime
from tap_core.parsing.datetimes import strptime_to_utc as strptime_to_utc
