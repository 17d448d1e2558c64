"""How values are conformed, by singer_sdk's path."""

from __future__ import annotations

from tap_core.typing.values import DatetimeErrorTreatmentEnum as DatetimeErrorTreatmentEnum
from tap_core.typing.values import TypeConformanceLevel as TypeConformanceLevel
