"""Parsing of the dates, times and date-times in records.

The date and time properties are found once per schema. Only top-level properties are parsed; nested
properties remain text. `Sink.datetime_error_treatment` defines the result for a text that cannot be
parsed.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, Final, TypeAlias

from tap_core.parsing.datetimes import datetime_fromisoformat, time_fromisoformat
from tap_core.types import JsonSchema, Record
from tap_core.typing.inspect import get_datelike_property_type
from tap_core.typing.values import (
    DatetimeErrorTreatmentEnum,
    handle_invalid_timestamp_in_record,
)

__all__ = ["DatetimeField", "date_fields", "parse_datetimes", "parse_datetimes_lenient"]

_Reader: TypeAlias = Callable[[str], date | time]


@dataclass(frozen=True)
class DatetimeField:
    """Property of a stream whose text is a date or a time.

    Attributes:
        name: Name of the property.
        kind: Format of the text: ``date-time``, ``date`` or ``time``.
        read: Parses the text, or raises a ValueError.
    """

    name: str
    kind: str
    read: _Reader


def date_fields(schema: JsonSchema) -> tuple[DatetimeField, ...]:
    """Return the top-level properties of a schema that are dates, times or date-times."""
    kinds = (
        (name, get_datelike_property_type(known) if isinstance(known, dict) else None)
        for name, known in schema["properties"].items()
    )
    return tuple(DatetimeField(name, kind, _READERS[kind]) for name, kind in kinds if kind)


def parse_datetimes(record: Record, fields: tuple[tuple[str, _Reader], ...]) -> None:
    """Replace the date and time texts of a record by parsed values, in place.

    ``fields`` has the name of each date or time field, and the function that parses its text.

    Raises:
        ValueError: A text cannot be parsed. Earlier fields are already replaced.
        TypeError: A value is not text.
    """
    for name, read in fields:
        text = record.get(name)
        if text is not None:
            record[name] = read(text)


def parse_datetimes_lenient(
    record: Record,
    fields: tuple[DatetimeField, ...],
    treatment: DatetimeErrorTreatmentEnum,
    logger: logging.Logger,
) -> None:
    """Replace the date and time texts of a record by parsed values, in place.

    Args:
        record: Record to change.
        fields: Properties to parse.
        treatment: Result for a text that cannot be parsed: an error, null or the maximum date.
        logger: Logger for the warnings.

    Raises:
        ValueError: A text cannot be parsed, and ``treatment`` is to raise an error.
    """
    by_name = {field.name: field for field in fields}
    for name, value in list(record.items()):
        field = by_name.get(name)
        if field is None or value is None or isinstance(value, (date, time)):
            continue
        record[name] = _parse_field(record, field, value, treatment, logger)


def _parse_field(
    record: Record,
    field: DatetimeField,
    value: Any,
    treatment: DatetimeErrorTreatmentEnum,
    logger: logging.Logger,
) -> Any:
    try:
        return field.read(value)
    except ValueError as error:
        return handle_invalid_timestamp_in_record(
            record, [field.name], value, field.kind, error, treatment, logger
        )


_IS_PYTHON_3_10: Final = sys.version_info < (3, 11)
_READERS: Final[dict[str, _Reader]] = {
    "date-time": datetime_fromisoformat if _IS_PYTHON_3_10 else datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time_fromisoformat if _IS_PYTHON_3_10 else time.fromisoformat,
}
