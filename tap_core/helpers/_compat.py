"""The import path of singer_sdk for its categories of warnings, and for date-times."""

from __future__ import annotations

from tap_core.clock import date_fromisoformat as date_fromisoformat
from tap_core.clock import datetime_fromisoformat as datetime_fromisoformat
from tap_core.clock import time_fromisoformat as time_fromisoformat
from tap_core.exceptions import SingerSDKDeprecationWarning as SingerSDKDeprecationWarning
from tap_core.exceptions import (
    SingerSDKPendingDeprecationWarning as SingerSDKPendingDeprecationWarning,
)
from tap_core.exceptions import SingerSDKPythonEOLWarning as SingerSDKPythonEOLWarning
