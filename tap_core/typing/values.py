"""What becomes of Python values on their way to JSON.

Rules of the room: a date-time without an offset is UTC; text that comes out keeps all
six digits of the microseconds, so that texts of one offset sort as their instants do.
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
    """How deep the values of a record are conformed to what JSON can hold."""

    RECURSIVE = 1
    """Everything, nested objects and the elements of lists included."""

    ROOT_ONLY = 2
    """The properties of the record itself; what they contain is left alone."""

    NONE = 3
    """Nothing: the tap yields JSON values already."""


class DatetimeErrorTreatmentEnum(Enum):
    """What a target does with a date, time or date-time that cannot be read."""

    ERROR = "error"
    """Stop with an error."""

    MAX = "max"
    """Put the greatest value in its place."""

    NULL = "null"
    """Put null in its place."""


def to_json_compatible(val: Any) -> Any:
    """Return a date-time as ISO 8601 text, a UUID as text, all else as it is."""
    if isinstance(val, datetime):
        aware = val if val.tzinfo is not None else val.replace(tzinfo=timezone.utc)
        return aware.isoformat("T", timespec="microseconds")
    uuids = sys.modules.get("uuid")  # whoever has a UUID has imported it; it is slow to import
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
    """Return what replaces a date or time that cannot be read.

    Raises InvalidDateTimeError, which is a ValueError, where the treatment is ERROR, or None.
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
