"""Compatibility module for plugins that import ``singer_sdk.helpers.conform``.

It only re-exports names of `tap_core.typing.values`.
"""

from __future__ import annotations

from tap_core.typing.values import DatetimeErrorTreatmentEnum as DatetimeErrorTreatmentEnum
from tap_core.typing.values import TypeConformanceLevel as TypeConformanceLevel
