"""Compatibility module for plugins that import ``singer_sdk.helpers._compat``.

It only re-exports names of `tap_core.exceptions` and `tap_core.parsing.datetimes`.
"""

from __future__ import annotations

from tap_core.exceptions import SingerSDKDeprecationWarning as SingerSDKDeprecationWarning
from tap_core.exceptions import (
    SingerSDKPendingDeprecationWarning as SingerSDKPendingDeprecationWarning,
)
from tap_core.exceptions import SingerSDKPythonEOLWarning as SingerSDKPythonEOLWarning
from tap_core.parsing.datetimes import date_fromisoformat as date_fromisoformat
from tap_core.parsing.datetimes import datetime_fromisoformat as datetime_fromisoformat
from tap_core.parsing.datetimes import time_fromisoformat as time_fromisoformat
