"""Conversion of Python values to JSON values.

A naive date-time is treated as UTC. The text of a date-time always has six fraction digits,
so that texts with the same offset sort chronologically.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from enum import Enum
from typing import Any, Final

from tap_core.exceptions import InvalidDateTimeError
from tap_core.redaction.row_values import are_rows_shown, show_value
from tap_core.types import Record

__all__ = [
    "DatetimeErrorTreatmentEnum",
    "TypeConformanceLevel",
    "handle_invalid_timestamp_in_record",
    "to_json_compatible",
]

_MAX_TIMESTAMP: Final = "9999-12-31 23:59:59.999999"
_MAX_TIME: Final = "23:59:59.999999"


class TypeConformanceLevel(Enum):
    """Depth to which the values of a record are converted to JSON values."""

    RECURSIVE = 1
    """All values, including nested objects and list items."""

    ROOT_ONLY = 2
    """Only top-level values; nested values stay unchanged."""

    NONE = 3
    """No values: the tap already yields JSON values."""


class DatetimeErrorTreatmentEnum(Enum):
    """Treatment of a date, time or date-time that a target cannot parse."""

    ERROR = "error"
    """Raise an error."""

    MAX = "max"
    """Replace it by the greatest value."""

    NULL = "null"
    """Replace it by null."""


def to_json_compatible(val: Any) -> Any:
    """Return a date-time as ISO 8601 text, a UUID as text, and other values unchanged."""
    if isinstance(val, datetime):
        aware = val if val.tzinfo is not None else val.replace(tzinfo=timezone.utc)
        return aware.isoformat("T", timespec="microseconds")
    uuids = sys.modules.get("uuid")  # importing is slow; without it no UUID exists
    return str(val) if uuids is not None and isinstance(val, uuids.UUID) else val


def handle_invalid_timestamp_in_record(
    record: Record,  # noqa: ARG001
    key_breadcrumb: Sequence[str],
    invalid_value: str,
    datelike_typename: str,
    ex: Exception,
    treatment: DatetimeErrorTreatmentEnum | None,
    logger: logging.Logger,
) -> str | None:
    """Return the replacement of a date or time that cannot be parsed.

    Raises InvalidDateTimeError (a ValueError) if the treatment is ERROR or not set.
    """
    field = ":".join(key_breadcrumb)
    shown, why = show_value(invalid_value), show_value(ex, ex)
    if treatment == DatetimeErrorTreatmentEnum.MAX:
        logger.warning("'%s' in '%s': %s. Replacing with MAX value.", shown, field, why)
        return _MAX_TIME if datelike_typename == "time" else _MAX_TIMESTAMP
    if treatment == DatetimeErrorTreatmentEnum.NULL:
        logger.warning("'%s' in '%s': %s. Replacing with NULL.", shown, field, why)
        return None
    msg = f"Could not parse value '{shown}' of property '{field}' as {datelike_typename}"
    raise InvalidDateTimeError(msg) from (ex if are_rows_shown() else None)
