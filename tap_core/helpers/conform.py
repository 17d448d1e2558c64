"""Compatibility import path of singer_sdk; nothing is defined here.

The names are defined in `tap_core.typing.values`.
"""

from __future__ import annotations

from tap_core.typing.values import DatetimeErrorTreatmentEnum as DatetimeErrorTreatmentEnum
from tap_core.typing.values import TypeConformanceLevel as TypeConformanceLevel
