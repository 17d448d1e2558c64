"""The import path of singer_sdk for its categories of warnings."""

from __future__ import annotations

from tap_core.exceptions import SingerSDKDeprecationWarning as SingerSDKDeprecationWarning
from tap_core.exceptions import (
    SingerSDKPendingDeprecationWarning as SingerSDKPendingDeprecationWarning,
)
from tap_core.exceptions import SingerSDKPythonEOLWarning as SingerSDKPythonEOLWarning
