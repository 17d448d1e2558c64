"""Conversion of datetimes and UUIDs to JSON values, and replacement of invalid datetimes.

A datetime without a timezone is interpreted as UTC. The text of a datetime always has six fraction
digits, so texts with the same UTC offset sort chronologically.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final

from tap_core.exceptions import InvalidDateTimeError
from tap_core.parsing.datetimes import format_iso
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
    """Depth to which the values of a record are converted to the types in the schema."""

    RECURSIVE = 1
    """Convert all values, including those in nested objects and lists."""

    ROOT_ONLY = 2
    """Convert top-level values; leave values in nested objects and lists unchanged."""

    NONE = 3
    """Convert nothing. For taps whose records already have values of JSON types."""


class DatetimeErrorTreatmentEnum(Enum):
    """Action for a date, time or datetime that a target cannot parse."""

    ERROR = "error"
    """Raise an error."""

    MAX = "max"
    """Replace the value by the maximum, such as ``9999-12-31 23:59:59.999999``."""

    NULL = "null"
    """Replace the value by null."""


def to_json_compatible(val: Any) -> Any:
    """Return a datetime as ISO 8601 text, a UUID as text, and any other value unchanged."""
    if isinstance(val, datetime):
        return format_iso(val)
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
    """Return the replacement for a date, time or datetime that cannot be parsed; may be None.

    Args:
        record: Not used; kept for compatibility with singer_sdk.
        key_breadcrumb: Path of the property, for log and error messages.
        invalid_value: The text that cannot be parsed.
        datelike_typename: ``date``, ``time`` or ``date-time``.
        ex: Error of the parser.
        treatment: Action for the value; None means ERROR.
        logger: Logger for the warning about a replaced value.

    Raises:
        InvalidDateTimeError: The treatment is ERROR or None. The error is also a ValueError.
    """
    field = ":".join(key_breadcrumb)
    value_text, reason = show_value(invalid_value), show_value(ex, ex)
    if treatment == DatetimeErrorTreatmentEnum.MAX:
        logger.warning("'%s' in '%s': %s. Replacing with MAX value.", value_text, field, reason)
        return _MAX_TIME if datelike_typename == "time" else _MAX_TIMESTAMP
    if treatment == DatetimeErrorTreatmentEnum.NULL:
        logger.warning("'%s' in '%s': %s. Replacing with NULL.", value_text, field, reason)
        return None
    msg = f"Could not parse value '{value_text}' of property '{field}' as {datelike_typename}"
    raise InvalidDateTimeError(msg) from (ex if are_rows_shown() else None)
